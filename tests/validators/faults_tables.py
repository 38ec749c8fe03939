"""One documented member broken in an answer, and the rule that must say so, by the field tables.

What belongs here: finding the members of an answer that tables (and judged.py) are about, and breaking one.
What doesn't: events, vectors and texts (faults_responses.py, faults_lists.py).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from teeline.validators.fields.completions import (
    COMPLETION_CHOICE,
    COMPLETION_CHUNK_CHOICE,
    TEXT_COMPLETION,
)
from teeline.validators.fields.items import ITEMS
from teeline.validators.fields.models import LISTED_MODEL, RETRIEVED_MODEL
from teeline.validators.fields.parts import ANNOTATIONS, MESSAGE_PARTS
from teeline.validators.fields.respevents import EVENTS
from teeline.validators.fields.responses import RESPONSE
from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    JsonType,
)
from teeline.validators.fields.usage import CHAT_USAGE, RESPONSES_USAGE
from tests.validators import judged
from tests.validators.faults import Fault, Path
from tests.validators.generate import Answer, Json

ACTIONS = ("drop", "rename", "null", "retype", "word")
SAMPLES: tuple[tuple[JsonType, Any], ...] = (
    (STRING, "x"),
    (INTEGER | NUMBER, 5),
    (BOOLEAN, True),
    (OBJECT, {"a": 1}),
    (ARRAY, [1]),
    (NUMBER, 0.5),
)


class Spot(NamedTuple):
    """A member that is there, and what is declared of it."""

    path: Path
    field: Field
    of: str
    """What it is a member of, in a word."""


# -- what members there are ------------------------------------------------------------------------


def spots(value: Any, fields: judged.Fields, path: Path, of: str) -> Iterator[Spot]:
    """The members of an object that these fields are about, those of nested tables included."""
    for field in fields:
        if not isinstance(value, dict) or field.name not in value:
            continue
        at = (*path, field.name)
        yield Spot(at, field, of)
        inner = value[field.name]
        if field.table is not None:
            yield from spots(inner, field.table.fields, at, field.name)
        elif field.items is not None and isinstance(inner, list):
            for n, element in enumerate(inner):
                yield Spot((*at, n), field.items, f"{field.name}[]")
                if field.items.table is not None:
                    yield from spots(element, field.items.table.fields, (*at, n), field.name)


def of_answer(answer: Answer) -> list[Spot]:
    """All of an answer; the first token of each path is the number of the event, from 0."""
    return [spot for n, event in enumerate(answer.events) for spot in of_event(event, (n,), answer)]


def of_event(event: Json, path: Path, answer: Answer) -> Iterator[Spot]:
    if "/responses" in answer.endpoint:
        if answer.streamed:
            yield from of_stream_event(event, path)
        else:
            yield from of_response(event, path, final=True, streamed=False)
    elif "/completions" in answer.endpoint:
        yield from _of_completion(event, path, streamed=answer.streamed)
    elif "/embeddings" in answer.endpoint:
        yield from spots(event, judged.EMBEDDINGS_LIST, path, "embeddings")
        yield from spots(event["usage"], judged.EMBEDDINGS_USAGE, (*path, "usage"), "usage")
        yield from _elements(event, "data", judged.ONE_EMBEDDING, path)
    elif "data" in event:
        yield from spots(event, judged.MODELS, path, "models")
        yield from _elements(event, "data", LISTED_MODEL.fields, path)
    else:
        yield from spots(event, RETRIEVED_MODEL.fields, path, "model")


def _elements(holder: Json, name: str, fields: judged.Fields, path: Path) -> Iterator[Spot]:
    for n, element in enumerate(holder.get(name) or ()):
        yield from spots(element, fields, (*path, name, n), f"{name}[]")


def _of_completion(event: Json, path: Path, *, streamed: bool) -> Iterator[Spot]:
    yield from spots(event, TEXT_COMPLETION.fields, path, "text_completion")
    table = COMPLETION_CHUNK_CHOICE if streamed else COMPLETION_CHOICE
    yield from _elements(event, "choices", table.fields, path)
    if event.get("usage"):
        usage = judged.usage(CHAT_USAGE)
        yield from spots(event["usage"], usage, (*path, "usage"), "usage")


def of_response(value: Json, path: Path, *, final: bool, streamed: bool) -> Iterator[Spot]:
    """A response object; in a stream the rules of the stream say what becomes of its output."""
    fields = tuple(f for f in RESPONSE.fields if not (streamed and f.name == "output"))
    yield from spots(value, fields, path, "response")
    if not final:
        return
    details = value.get("incomplete_details")
    yield from spots(details, judged.INCOMPLETE_DETAILS, (*path, "incomplete_details"), "details")
    yield from _of_usage(value.get("usage"), (*path, "usage"))
    running = value["status"] in ("queued", "in_progress")
    for n, item in enumerate(value["output"]):
        yield from of_item(item, (*path, "output", n), final=not running)


def _of_usage(usage: Json | None, path: Path) -> Iterator[Spot]:
    if usage is None:
        return
    yield from spots(usage, judged.usage(RESPONSES_USAGE), path, "usage")
    for name, fields in (
        (RESPONSES_USAGE.prompt_details, judged.RESPONSES_INPUT_DETAILS),
        (RESPONSES_USAGE.completion_details, judged.RESPONSES_OUTPUT_DETAILS),
    ):
        yield from spots(usage[name], fields, (*path, name), "usage details")


def of_item(item: Json, path: Path, *, final: bool) -> Iterator[Spot]:
    """An output item of a known type, and its parts once it is over."""
    kind = str(item.get("type"))
    if kind not in ITEMS:
        return
    yield from spots(item, judged.item(kind, final=final), path, kind)
    if kind != "message" or not final:
        return
    for n, part in enumerate(item["content"]):
        at = (*path, "content", n)
        if part["type"] in MESSAGE_PARTS:
            yield from spots(part, judged.part(part["type"]), at, part["type"])
        for m, annotation in enumerate(part.get("annotations") or ()):
            if annotation["type"] in ANNOTATIONS:
                fields = judged.annotation(annotation["type"])
                yield from spots(annotation, fields, (*at, "annotations", m), "annotation")


def of_stream_event(event: Json, path: Path) -> Iterator[Spot]:
    """An event of a known type, and the response or the item in it."""
    kind = event["type"]
    if kind not in EVENTS:
        return
    yield from spots(event, judged.event(kind), path, kind.removeprefix("response."))
    if "response" in event:
        final = kind in ("response.completed", "response.incomplete", "response.failed")
        at = (*path, "response")
        yield from of_response(event["response"], at, final=final, streamed=True)
    if event.get("part", {}).get("type") in MESSAGE_PARTS:
        part = event["part"]
        yield from spots(part, judged.part(part["type"]), (*path, "part"), part["type"])
    if "item" in event:
        done = kind == "response.output_item.done"
        item = event["item"]
        yield from of_item(item, (*path, "item"), final=done)
        if not done and item.get("type") in judged.SKELETONS:
            fields = judged.SKELETONS[item["type"]]
            yield from spots(item, fields, (*path, "item"), "skeleton")


# -- breaking one ----------------------------------------------------------------------------------

Expected = tuple[frozenset[str], str]
"""The rules of which one must be found; where there are none, why."""
Special = Callable[[Answer, Spot, str, Any], Expected | None]
"""What breaks otherwise than the tables say: the answer, the member, the action, the value before."""


def found_by(*rules: str) -> Expected:
    return frozenset(rules), ""


def invisible(why: str) -> Expected:
    return frozenset(), why


def unshared(answer: Answer) -> Answer:
    """A copy whose events have no object in common, so that a change in one is a change in no other."""
    copied = copy.copy(answer)
    copied.events = [json.loads(json.dumps(event)) for event in answer.events]
    return copied


def member_fault(answer: Answer, chance: random.Random, special: Special) -> Fault | None:
    """One member dropped, renamed, nulled, retyped, or set to a word that is no known one."""
    by_field: dict[tuple[str, str], list[Spot]] = {}
    for spot in of_answer(answer):
        by_field.setdefault((spot.of, spot.field.name), []).append(spot)
    spot = chance.choice(by_field[chance.choice(sorted(by_field))])
    action = chance.choice(ACTIONS)
    broken = unshared(answer)
    holder: Any = broken.events
    for token in spot.path[:-1]:
        holder = holder[token]
    name, before = spot.path[-1], holder[spot.path[-1]]
    if not applies(action, spot.field, name, before):
        return None
    change(holder, name, action, spot.field)
    rules, why = special(answer, spot, action, before) or by_table(action, spot.field)
    return Fault(f"{action} {spot.of}.{spot.field.name}", broken.body(), rules, why)


def applies(action: str, field: Field, name: str | int, before: Any) -> bool:
    """Whether an action changes what is said of a member."""
    if action in ("drop", "rename"):
        return isinstance(name, str)
    if action == "null":
        return before is not None
    if action == "word":
        return bool(field.values) and isinstance(before, str)
    return field.type is not ANY


def change(holder: Any, name: str | int, action: str, field: Field) -> None:
    if action == "null":
        holder[name] = None
    elif action == "retype":
        holder[name] = next(value for kind, value in SAMPLES if not kind & field.type)
    elif action == "word":
        holder[name] = "zzz"
    else:
        if action == "rename":
            holder[f"{name}_x"] = holder[name]
        del holder[name]


OPTIONAL = "optional: null and absent are the same (P4)"
UNJUDGED = "no rule is about its type or its words"


def by_table(action: str, field: Field) -> Expected:
    """What a declaration says of a breach."""
    if action in ("drop", "rename"):
        return frozenset({field.absent} - {""}), OPTIONAL
    if action == "null":
        rule = "" if field.nullable else field.absent
        return frozenset({rule} - {""}), OPTIONAL
    rule = field.outside if action == "word" else field.wrong
    return frozenset({rule} - {""}), UNJUDGED


# -- the bytes -------------------------------------------------------------------------------------

TRUNCATED = frozenset(
    {"http.json-invalid", "sse.eof-mid-event", "sse.final-blank-missing", "sse.done-unterminated"}
    | {"sse.no-event-stream", "respstream.terminal-missing", "respstream.item-null"}
    | {"completions.done-missing", "completions.no-chunks"}
)


def truncated(answer: Answer, chance: random.Random) -> Fault:
    """The body ends too early, and of itself."""
    body = answer.body()
    end = chance.randrange(1, len(body))
    if body[end:] == b"\n" and body[end - 1 : end] == b"\r":
        return Fault("truncate", body[:end], *invisible("a carriage return ends a line, too"))
    return Fault("truncate", body[:end], TRUNCATED)


def name_twice(answer: Answer, chance: random.Random) -> Fault:
    """A member's name written twice in a document or in an event."""
    broken = unshared(answer)
    broken.indent = False
    at = chance.randrange(len(broken.events))
    event = broken.events[at]
    name = chance.choice(list(event))
    once = json.dumps(event, ensure_ascii=answer.ascii)
    again = json.dumps({name: event[name]}, ensure_ascii=answer.ascii)[:-1] + ", " + once[1:]
    body = broken.body().replace(once.encode(), again.encode())
    return Fault("duplicate name", body, *found_by("http.json-duplicate-key"))
