"""One thing broken in an answer of the Responses API, and the rules of which one must say so.

What belongs here: events lost, repeated and moved, texts that one telling has differently, items of the
terminal output. What doesn't: members by their tables (faults_tables.py), valid answers
(generate_responses.py).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.validators.faults import Fault, Path
from tests.validators.faults_tables import (
    Expected,
    Spot,
    found_by,
    invisible,
    member_fault,
    name_twice,
    truncated,
    unshared,
)
from tests.validators.generate import Answer, Json
from tests.validators.respscript import numbered

TERMINAL = ("completed", "incomplete", "failed")


def kind_of(event: Json) -> str:
    return str(event.get("type")).removeprefix("response.")


def how(answer: Answer) -> str:
    """How a stream ends."""
    return kind_of(answer.events[-1])


def special(answer: Answer, spot: Spot, action: str, before: Any) -> Expected | None:
    """Members of which more is due than their type."""
    gone = action in ("drop", "rename", "null")
    name = (spot.of, spot.field.name)
    if name == ("details", "reason") and gone:
        return found_by("responses.incomplete-reason-unknown")
    if action != "null":
        return None
    if name == ("response", "error"):
        return found_by("responses.failed-without-error")
    if name == ("response", "incomplete_details"):
        return found_by("responses.incomplete-reason-unknown")
    return None


# -- the texts -------------------------------------------------------------------------------------

TEXT_EVENTS = {
    "output_text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "reasoning_summary_text": ("summary", "text"),
    "function_call_arguments": ("args", "arguments"),
    "custom_tool_call_input": ("custom", "input"),
    "mcp_call_arguments": ("mcp", "arguments"),
    "code_interpreter_call_code": ("code", "code"),
}
"""A pair of delta and done events -> the kind of text, and the member that has it whole."""
PART_TEXTS = {
    "output_text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "summary_text": ("summary", "text"),
}
ITEM_TEXTS = {
    "function_call": ("args", "arguments"),
    "custom_tool_call": ("custom", "input"),
    "mcp_call": ("mcp", "arguments"),
    "code_interpreter_call": ("code", "code"),
}
MISMATCH = {
    "text": "respstream.text-mismatch",
    "refusal": "respstream.refusal-mismatch",
    "reasoning": "respstream.reasoning-mismatch",
    "summary": "respstream.summary-mismatch",
    "args": "respstream.args-mismatch",
    "custom": "respstream.custom-input-mismatch",
    "mcp": "respstream.mcp-args-mismatch",
    "code": "respstream.code-mismatch",
}


class Telling(NamedTuple):
    """A place where a text stands whole or in part."""

    text: tuple[int, str, int]
    """Output index, kind, index of the part."""
    path: Path
    whole: bool


def tellings(events: list[Json]) -> Iterator[Telling]:
    """Every telling of every text of a stream, in order."""
    for n, event in enumerate(events):
        kind = kind_of(event)
        stem, _, last = kind.rpartition(".")
        index = event.get("output_index", -1)
        if stem in TEXT_EVENTS:
            name, member = TEXT_EVENTS[stem]
            path: Path = (n, member if last == "done" else "delta")
            yield Telling((index, name, _part_index(event)), path, last == "done")
        elif kind in ("content_part.done", "reasoning_summary_part.done"):
            yield from _of_part(event["part"], index, _part_index(event), (n, "part"))
        elif kind == "output_item.done":
            yield from _of_item(event["item"], index, (n, "item"))
        elif kind in TERMINAL:
            for at, item in enumerate(event["response"]["output"]):
                yield from _of_item(item, at, (n, "response", "output", at))


def _part_index(event: Json) -> int:
    name = "content_index" if "content_index" in event else "summary_index"
    return int(event.get(name, 0))


def _of_item(item: Json, index: int, path: Path) -> Iterator[Telling]:
    if item["type"] in ITEM_TEXTS:
        kind, member = ITEM_TEXTS[item["type"]]
        if isinstance(item.get(member), str):
            yield Telling((index, kind, 0), (*path, member), whole=True)
    for name in ("content", "summary"):
        for n, part in enumerate(item.get(name) or ()):
            yield from _of_part(part, index, n, (*path, name, n))


def _of_part(part: Json, index: int, at: int, path: Path) -> Iterator[Telling]:
    if part["type"] in PART_TEXTS:
        kind, member = PART_TEXTS[part["type"]]
        yield Telling((index, kind, at), (*path, member), whole=True)


def text_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """One telling of a text says something else than the others."""
    every = [
        t for t in tellings(answer.events) if how(answer) != "failed" or t.path[1] != "response"
    ]
    if not every:
        return None
    telling = chance.choice(every)
    others = [t for t in every if t.text == telling.text and t is not telling]
    broken = unshared(answer)
    holder: Any = broken.events
    for token in telling.path[:-1]:
        holder = holder[token]
    holder[telling.path[-1]] += "!"
    kind = telling.text[1]
    what = f"text of {kind} in {kind_of(answer.events[int(telling.path[0])])}"
    if not any(other.whole for other in others):
        return Fault(what, broken.body(), *invisible("it is told once"))
    return Fault(what, broken.body(), *found_by(MISMATCH[kind]))


# -- one event lost, repeated or moved -------------------------------------------------------------

OF_PARTS = "what belongs to a text that nobody else tells is not missed"
NO_RULE = "no rule says how often it comes: the item that is done says the same again"
FREE = "items interleave freely"


def event_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """One event dropped, repeated, or exchanged with the next one; numbered anew, or as it was."""
    action = chance.choice(("drop", "duplicate", "reorder"))
    at = chance.randrange(len(answer.events))
    if action == "reorder" and at + 1 == len(answer.events):
        return None
    broken = unshared(answer)
    events = broken.events
    if action == "drop":
        expected, what = lost(answer, at), kind_of(events.pop(at))
    elif action == "duplicate":
        expected, what = repeated(answer, at), kind_of(events[at])
        events.insert(at, copy.deepcopy(events[at]))
    else:
        expected, what = exchanged(answer, at), f"{kind_of(events[at])}, {kind_of(events[at + 1])}"
        events[at], events[at + 1] = events[at + 1], events[at]
    if chance.random() < 0.3:
        expected = _as_numbered(action, at, len(events), expected)
    else:
        renumber(events, answer.events[0]["sequence_number"])
    return Fault(f"{action} {what}", broken.body(), *expected)


def renumber(events: list[Json], start: int) -> None:
    for event in events:
        del event["sequence_number"]
    events[:] = numbered(events, start)


def _as_numbered(action: str, at: int, count: int, expected: Expected) -> Expected:
    """Where the numbers stay, they tell: but for an event lost at either end."""
    if action == "drop":
        return expected if at in (0, count) else found_by("respstream.seq-gap")
    return found_by("respstream.seq-order")


def _has_deltas(answer: Answer, event: Json) -> bool:
    """Whether the text of an event is told in fragments at all."""
    mine = next(t.text for t in tellings([event]))
    return any(t.text == mine and not t.whole for t in tellings(answer.events))


def _of_message(answer: Answer, event: Json) -> bool:
    index = event["output_index"]
    added = next(
        e for e in answer.events if kind_of(e) == "output_item.added" and e["output_index"] == index
    )
    return bool(added["item"]["type"] == "message")


def lost(answer: Answer, at: int) -> Expected:
    """What breaks where an event is not sent at all."""
    event = answer.events[at]
    kind = kind_of(event)
    if kind in TERMINAL:
        return found_by("respstream.terminal-missing")
    if kind.endswith(".delta") and kind.removesuffix(".delta") in TEXT_EVENTS:
        return _lost_delta(answer, at)
    if kind == "output_item.done":
        return _lost_item(answer)
    if kind == "content_part.added":
        rules = ("respstream.part-added-missing", "respstream.content-index-wrong")
        return found_by(*rules) if _of_message(answer, event) else invisible(OF_PARTS)
    if kind == "content_part.done":
        rule = "respstream.part-done-missing"
        return found_by(rule) if _of_message(answer, event) else invisible(OF_PARTS)
    if kind == "output_text.done":
        rule = "respstream.text-done-missing"
        return found_by(rule) if _has_deltas(answer, event) else invisible(OF_PARTS)
    return LOST.get(kind, invisible(NO_RULE))


LOST = {
    "created": found_by("respstream.created-not-first"),
    "in_progress": found_by("respstream.in-progress-missing"),
    "queued": invisible("a queue is optional"),
    "output_item.added": found_by("respstream.item-added-missing"),
    "reasoning_summary_part.added": found_by("respstream.summary-part-added-missing"),
}


def _lost_delta(answer: Answer, at: int) -> Expected:
    event = answer.events[at]
    text = next(t.text for t in tellings([event]))
    fragments = [
        answer.events[int(t.path[0])]["delta"]
        for t in tellings(answer.events)
        if t.text == text and not t.whole
    ]
    if not event["delta"] or len(fragments) == 1:
        return invisible("a text may be told without deltas, and in empty ones")
    return found_by(MISMATCH[text[1]])


def _lost_item(answer: Answer) -> Expected:
    if how(answer) == "failed":
        return invisible("a failed response leaves items undone")
    return found_by("respstream.item-done-missing", "respstream.final-output-differs")


def repeated(answer: Answer, at: int) -> Expected:
    """What breaks where an event comes twice."""
    event = answer.events[at]
    kind = kind_of(event)
    if kind in TERMINAL:
        return found_by("respstream.terminal-repeated")
    if kind.endswith(".delta") and kind.removesuffix(".delta") in TEXT_EVENTS:
        text = next(t.text for t in tellings([event]))
        return found_by(MISMATCH[text[1]]) if event["delta"] else invisible("nothing twice")
    return REPEATED.get(kind, invisible(NO_RULE))


REPEATED = {
    "created": found_by("respstream.created-repeated"),
    "output_item.added": found_by("respstream.output-index-reused"),
    "content_part.added": found_by("respstream.content-index-wrong"),
}


# -- two events exchanged --------------------------------------------------------------------------


def exchanged(answer: Answer, at: int) -> Expected:
    """What breaks where an event comes after the one that follows it."""
    first, second = answer.events[at], answer.events[at + 1]
    a, b = kind_of(first), kind_of(second)
    if a == "created" and "response" in second:
        return found_by("respstream.created-not-first")
    if b in TERMINAL:
        return _before_the_end(answer, first)
    if "output_index" not in first or "output_index" not in second or _beside(first, second):
        return invisible(FREE)
    if a == "output_item.added":
        if b == a:
            return found_by("respstream.output-index-gap")
        same = first["output_index"] == second["output_index"]
        return found_by("respstream.item-added-missing") if same else invisible(FREE)
    if first["output_index"] != second["output_index"]:
        return invisible(FREE)
    if b == "output_item.done":
        return _behind_the_item(answer, first)
    return _inside(answer, first, second)


def _beside(*events: Json) -> bool:
    return any(kind_of(event) == "newer" for event in events)


def _before_the_end(answer: Answer, event: Json) -> Expected:
    if event["type"] == "keepalive":
        return invisible("a keepalive may come anywhere")
    return found_by("respstream.event-after-terminal")


def _behind_the_item(answer: Answer, event: Json) -> Expected:
    """An inner event that comes after its item was done."""
    kind = kind_of(event)
    if kind.endswith(".delta") and kind.removesuffix(".delta") in TEXT_EVENTS:
        return found_by("respstream.delta-after-done")
    if kind == "content_part.done" and _of_message(answer, event):
        return found_by("respstream.part-done-missing")
    return invisible(NO_RULE)


PHASES = ("in_progress", "searching", "interpreting", "generating", "partial_image", "completed")


def _inside(answer: Answer, first: Json, second: Json) -> Expected:
    """Two events of one item."""
    a, b = kind_of(first), kind_of(second)
    stem = a.removesuffix(".delta")
    if a == "content_part.added" and b.rpartition(".")[0] in TEXT_EVENTS:
        rules = ("respstream.part-added-missing", "respstream.content-index-wrong")
        return found_by(*rules)
    if a == "reasoning_summary_part.added":
        return found_by("respstream.summary-part-added-missing")
    if a.endswith(".delta") and stem in TEXT_EVENTS:
        return _delta_moved(first, second)
    last, then = a.rpartition(".")[2], b.rpartition(".")[2]
    if last in PHASES and then in (*PHASES, "failed") and last != then:
        return found_by("respstream.tool-phase-order")
    if "partial_image" in last and last == then:
        return found_by("respstream.partial-image-index")
    return invisible(NO_RULE)


def _delta_moved(first: Json, second: Json) -> Expected:
    kind = next(tellings([first])).text[1]
    if second["type"] != first["type"]:
        rules = ("respstream.delta-after-done", MISMATCH[kind])
        return found_by(*rules) if first["delta"] else found_by("respstream.delta-after-done")
    a, b = first["delta"], second["delta"]
    same = a + b == b + a
    return invisible("the fragments are the same") if same else found_by(MISMATCH[kind])


# -- the terminal output ---------------------------------------------------------------------------


def output_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """An item of the last response lost, repeated or moved."""
    broken = unshared(answer)
    body = broken.events[-1]
    response = body["response"] if answer.streamed else body
    output = response["output"]
    if not output:
        return None
    action = chance.choice(("lose", "repeat", "empty"))
    at = chance.randrange(len(output))
    if action == "lose":
        del output[at]
    elif action == "repeat":
        output.insert(at, output[at])
    else:
        output.clear()
    return Fault(f"{action} item", broken.body(), *_of_output(answer, response, action, at))


def _of_output(answer: Answer, response: Json, action: str, at: int) -> Expected:
    if not answer.streamed:
        if action == "repeat":
            call = "call_id" in response["output"][at] and response["output"][at]["type"] in (
                "function_call",
                "custom_tool_call",
            )
            return found_by("tools.id-duplicate") if call else invisible("items may be alike")
        whole = response["output"] == [] and response["status"] == "completed"
        return found_by("responses.output-empty") if whole else invisible("nobody counts items")
    if how(answer) == "failed":
        return invisible("a failed response need not have all its items")
    return found_by("respstream.final-output-differs", "respstream.final-output-empty")


def fault(answer: Answer, chance: random.Random) -> Fault:
    """One fault, of whatever sort fits the answer."""
    while True:
        sort = chance.choice("mmmeeetttobn" if answer.streamed else "mmmmobn")
        if sort == "m":
            made = member_fault(answer, chance, special)
        else:
            sorts = {"e": event_fault, "t": text_fault, "o": output_fault}
            made = {**sorts, "b": truncated, "n": name_twice}[sort](answer, chance)
        if made is not None:
            return made
