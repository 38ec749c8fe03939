"""One thing broken in a valid answer, and the rules of which one must say so.

What belongs here: the mutations (drop, null, retype, rename, reorder, duplicate, truncate), what each must
be found by, and why some break nothing. What doesn't: the valid answers (generate.py), the documented
fields (documented.py), hostile bytes (mutations.py).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.validators.documented import CHUNK, DOCUMENT, ENUMS
from tests.validators.generate import Answer, Json

Path = tuple[str | int, ...]


class Fault(NamedTuple):
    """A broken answer. One of ``rules`` must be found; where there are none, ``invisible`` says why."""

    what: str
    body: bytes
    rules: frozenset[str]
    invisible: str = ""


TRUNCATED = frozenset(
    {
        "http.json-invalid",
        "sse.eof-mid-event",
        "sse.final-blank-missing",
        "sse.done-unterminated",
        "sse.no-event-stream",
    }
    | {"chatstream.done-missing", "chatstream.finish-missing", "chatstream.no-chunks"}
)
_ROWS = {True: {row.path: row for row in CHUNK}, False: {row.path: row for row in DOCUMENT}}


# -- one member changed ----------------------------------------------------------------------------


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    children = (
        enumerate(value)
        if isinstance(value, list)
        else value.items()
        if isinstance(value, dict)
        else ()
    )
    for name, child in children:
        yield (*path, name)
        yield from paths(child, (*path, name))


def pattern(path: Path) -> str:
    return "/".join("*" if isinstance(token, int) else token for token in path)


def member_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """One documented member dropped, renamed, nulled, retyped, or set to a word that is no known one."""
    rows = _ROWS[answer.streamed]
    places: dict[str, list[tuple[int, Path]]] = {}
    for n, event in enumerate(answer.events):
        for path in paths(event):
            if pattern(path) in rows and event.get("id") != "":  # P5: what Azure adds is no chunk
                places.setdefault(pattern(path), []).append((n, path))
    at, path = chance.choice(places[chance.choice(list(places))])
    event = answer.events[at]
    action = chance.choice(("drop", "rename", "null", "retype", "enum"))
    broken = copy.deepcopy(answer)
    holder: Any = broken.events[at]
    for token in path[:-1]:
        holder = holder[token]
    before = holder[path[-1]]
    if not _change(holder, path[-1], action, pattern(path)):
        return None
    row = rows[pattern(path)]
    wrong = {"retype": {row.wrong}, "enum": ENUMS.get(row.path, set())}
    element = isinstance(path[-1], int)  # null is no absence in an array
    rules = wrong.get(action, {row.wrong if element else row.absent})
    if before is None and action == "null":
        return None
    rules, why = _absence(answer, event, path, action, before, rules)
    return Fault(f"{action} {row.path}", broken.body(), frozenset(rules - {""}), why)


def _change(holder: Any, name: str | int, action: str, path: str) -> bool:
    """Makes the change; whether there is such a one."""
    value = holder[name]
    if action == "null":
        holder[name] = None
    elif action == "retype":
        # A counter may be null, and 5 would be one.
        text = isinstance(value, str) or (value is None and not path.endswith("_tokens"))
        holder[name] = 5 if text else "x"
    elif action == "enum":
        if path not in ENUMS or value is None:
            return False
        holder[name] = "zzz"
    elif isinstance(name, int):
        return False
    else:
        if action == "rename":
            holder[f"{name}x"] = value
        del holder[name]
    return True


def _absence(
    answer: Answer, event: Json, path: Path, action: str, before: Any, rules: set[str]
) -> tuple[set[str], str]:
    """What a member's absence breaks depends on what else there is."""
    if action in ("retype", "enum"):
        return rules, ""
    name = path[-1]
    if name in ("content", "refusal") and "message" in path:
        return _said(event, path, action, rules)
    if name == "finish_reason" and answer.streamed:
        if action == "null" or before is not None:
            return rules | {"chatstream.finish-missing"}, ""
        if set(event["choices"][path[1]]["delta"]) == {"audio"}:
            return set(), "audio ends with a delta that owes no finish_reason"
    if name == "content" and "logprobs" in path and action == "null":
        return set(), "nullable in the specification"
    if name == "logprobs":
        return (
            (rules, "several chunks hold logprobs")
            if answer.streamed
            else ({"cross.logprobs-missing"} if before else set(), "they were not asked for")
        )
    if name == "usage" and answer.streamed:
        return (
            {"chatstream.usage-null-missing"}
            if before is None
            else rules | {"chatstream.usage-missing"}
        ), ""
    if name in ("arguments", "input", "tool_calls") and "delta" in path:
        return set(), "a fragment less: see the faults of events"
    return rules, "" if rules - {""} else "optional"


def _said(event: Json, path: Path, action: str, rules: set[str]) -> tuple[set[str], str]:
    choice = event["choices"][path[1]]
    message = choice["message"]
    other = any(
        message.get(m) for m in ("tool_calls", "audio", "function_call", "refusal") if m != path[-1]
    )
    if path[-1] == "refusal" and action != "null":
        return rules, ""
    if (
        other
        or (path[-1] == "refusal" and not message["refusal"])
        or (path[-1] == "content" and message["refusal"])
    ):
        return set(), "something else is said"
    if path[-1] == "content" and action != "null":
        return {"chat.content-key-missing"}, ""
    return (
        {"chat.empty-answer"} if choice["finish_reason"] == "stop" else set()
    ), "null is legal with this end"


# -- one event moved, repeated or lost -------------------------------------------------------------


Kind = tuple[str, int, int]
"""What a chunk is, its choice and its call (-1 for none)."""


def kind_of(event: Json) -> Kind:
    """The kind of a chunk; it has no name if there are several choices in it."""
    if event.get("id") == "":
        return "azure", -1, -1
    if not event["choices"]:
        return ("usage" if event.get("usage") else "moderation"), -1, -1
    if len(event["choices"]) > 1:
        return "", -1, -1
    choice = event["choices"][0]
    delta = choice["delta"]
    call = int(delta["tool_calls"][0]["index"]) if delta.get("tool_calls") else -1
    return _kind_of_delta(delta, choice["finish_reason"]), choice["index"], call


def _kind_of_delta(delta: Json, finish: str | None) -> str:
    if "role" in delta:
        return "opening"
    if finish is not None:
        return "last text" if delta else "finish"
    if delta.get("tool_calls"):
        entry = delta["tool_calls"][0]
        if "id" in entry:
            return "head"
        return "fragment" if "function" in entry else "custom fragment"
    names = {"content": "text", "refusal": "text", "function_call": "function call"}
    return names.get(next(iter(delta)), "extra")


REPEATED = {
    "opening": {"chatstream.role-repeated"},
    "last text": {"chatstream.content-after-finish", "chatstream.finish-repeated"},
    "finish": {"chatstream.finish-repeated"},
    "head": {"chatstream.tool-id-repeated", "chatstream.tool-name-repeated"},
    "fragment": {"tools.args-invalid-json", "chatstream.tool-args-doubled"},
    "usage": {"chatstream.usage-repeated"},
}
LOST = {
    "opening": {"chatstream.role-missing"},
    "last text": {"chatstream.finish-missing"},
    "finish": {"chatstream.finish-missing"},
    "head": {"tools.id-missing", "chatstream.tool-index-gap", "tools.finish-without-calls"},
    "fragment": {"tools.args-invalid-json", "tools.args-empty"},
    "usage": {"chatstream.usage-missing"},
}
INVISIBLE = {
    "text": "text may be any text: nothing documented says how long it is",
    "custom fragment": "the input of a custom tool may be any text",
    "function call": "no rule puts the deprecated function_call of a stream together",
    "extra": "reasoning and audio deltas have no documented order",
    "azure": "P5: the rows of Azure's filter may stand anywhere",
    "moderation": "nothing documented says how often moderation comes",
}


def event_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """One event of a stream dropped, repeated, or exchanged with the next one; ``[DONE]`` is one, too."""
    action = chance.choice(("drop event", "duplicate", "reorder"))
    at = chance.randrange(len(answer.events) + 1)
    broken = copy.deepcopy(answer)
    broken.before = {}
    if at == len(answer.events):
        return _done_fault(broken, action)
    kind = kind_of(answer.events[at])
    if not kind[0]:
        return None
    if action == "reorder":
        return _reordered(broken, at)
    if action == "duplicate":
        broken.events.insert(at, copy.deepcopy(broken.events[at]))
        rules, why = REPEATED.get(kind[0], set()), INVISIBLE.get(kind[0], "")
    else:
        del broken.events[at]
        rules, why = _lost(answer, at, kind)
    if kind[0] == "fragment" and _still_json(broken, kind):
        rules, why = set(), "the arguments are JSON all the same"
    return Fault(f"{action}: {kind[0]}", broken.body(), frozenset(rules), why)


def _lost(answer: Answer, at: int, kind: Kind) -> tuple[set[str], str]:
    if kind[0] == "usage" and "stream_options" not in answer.request:
        return set(), "usage was not asked for"
    if kind[0] == "head":
        calls = {
            k[2] for e in answer.events if (k := kind_of(e))[0] and k[1] == kind[1] and k[2] >= 0
        }
        rest = [e for e in answer.events[at + 1 :] if kind_of(e)[1:] == kind[1:]]
        if not rest and kind[2] == max(calls) > 0:
            return set(), "a call less is a call that was not made"
    return LOST.get(kind[0], set()), INVISIBLE.get(kind[0], "")


def _still_json(answer: Answer, kind: Kind) -> bool:
    """Whether the joined arguments of the call are one JSON object."""
    joined = ""
    for event in answer.events:
        for choice in event["choices"]:
            for entry in choice.get("delta", {}).get("tool_calls", ()):
                if (choice["index"], entry["index"]) == kind[1:]:
                    joined += entry["function"]["arguments"]
    try:
        return isinstance(json.loads(joined, strict=True), dict)
    except ValueError:
        return False


def _done_fault(broken: Answer, action: str) -> Fault:
    last = broken.body()
    done = f"data: [DONE]{broken.line_end * 2}".encode()
    if action == "drop event":
        return Fault(
            "drop event: done", last.removesuffix(done), frozenset({"chatstream.done-missing"})
        )
    if action == "duplicate":
        return Fault("duplicate: done", last + done, frozenset({"chatstream.done-repeated"}))
    early = copy.deepcopy(broken)
    early.events, event, early.done = broken.events[:-1], broken.events[-1], False
    behind = Answer({}, [event], streamed=True, line_end=broken.line_end, done=False)
    body = early.body() + done + behind.body()
    return Fault("reorder: done", body, frozenset({"chatstream.data-after-done"}))


def _reordered(broken: Answer, at: int) -> Fault | None:
    """An event exchanged with the one behind it."""
    if at + 1 >= len(broken.events):
        return None
    first, second = kind_of(broken.events[at]), kind_of(broken.events[at + 1])
    if not (first[0] and second[0]):
        return None
    rules, why = _order(first, second, broken.events[at], start=at == 0)
    events = broken.events
    events[at], events[at + 1] = events[at + 1], events[at]
    if (first[0], second[0]) == ("fragment", "fragment") and _still_json(broken, first):
        rules, why = set(), "the arguments are JSON all the same"
    return Fault(f"reorder: {first[0]}, {second[0]}", broken.body(), frozenset(rules), why)


def _order(first: Kind, second: Kind, event: Json, *, start: bool) -> tuple[set[str], str]:
    """What breaks when the second comes before the first."""
    a, b = first[0], second[0]
    if "azure" in (a, b) or "moderation" in (a, b):
        return set(), INVISIBLE["azure"] if "azure" in (a, b) else INVISIBLE["moderation"]
    if b == "usage":
        return {"chatstream.usage-not-last"}, ""
    if first[1] != second[1]:
        return (
            {"chatstream.first-choice-not-zero"} if start else set()
        ), "choices interleave freely"
    if a == "opening":
        return {"chatstream.role-missing"}, ""
    if b in ("finish", "last text"):
        delta = event["choices"][0]["delta"]
        if a == "extra" or not any(delta.values()):
            return set(), "nothing is lost behind the finish"
        return {"chatstream.content-after-finish"}, ""
    if a in ("head", "fragment", "custom fragment") and first[2] != second[2]:
        return {"chatstream.tool-interleaved", "chatstream.tool-index-gap"}, ""
    if a == "head":
        return {"chatstream.tool-id-or-name-late"}, ""
    if a == "fragment":
        return {"tools.args-invalid-json", "chatstream.tool-args-doubled"}, ""
    return set(), INVISIBLE.get(a, "") or INVISIBLE.get(b, "")


# -- the body cut, a name or an element written twice ----------------------------------------------


def truncated(answer: Answer, chance: random.Random) -> Fault:
    """The body ends too early, and of itself."""
    body = answer.body()
    end = chance.randrange(1, len(body))
    if answer.streamed and body[end:] == b"\n" and body[end - 1 : end] == b"\r":
        return Fault(
            "truncate", body[:end], frozenset(), "a carriage return alone ends a line, too"
        )
    return Fault("truncate", body[:end], TRUNCATED)


def twice(answer: Answer, chance: random.Random) -> Fault | None:
    """A member's name, a choice or a call written twice in a document; two choices exchanged."""
    if answer.streamed:
        return None
    event = copy.deepcopy(answer.events[0])
    broken = copy.deepcopy(answer)
    broken.events = [event]
    choices = event["choices"]
    what = chance.choice(("name", "choice", "call", "choices"))
    if what == "name":
        name = chance.choice(list(event))
        text = json.dumps({name: event[name]})[:-1] + "," + json.dumps(event)[1:]
        return Fault("duplicate name", text.encode(), frozenset({"http.json-duplicate-key"}))
    if what == "choice":
        choices.append(chance.choice(choices))
        return Fault("duplicate choice", broken.body(), frozenset({"chat.choice-index-set"}))
    if what == "choices":
        if len(choices) < 2:
            return None
        choices[0], choices[-1] = choices[-1], choices[0]
        return Fault("reorder choices", broken.body(), frozenset({"chat.choice-index-order"}))
    calls = next(
        (c["message"]["tool_calls"] for c in choices if "tool_calls" in c["message"]), None
    )
    if calls is None:
        return None
    calls.append(calls[0])
    return Fault("duplicate call", broken.body(), frozenset({"tools.id-duplicate"}))


def fault(answer: Answer, chance: random.Random) -> Fault:
    """One fault, of whatever sort fits the answer."""
    while True:
        sorts = (member_fault, member_fault, event_fault if answer.streamed else twice, truncated)
        made = chance.choice(sorts)(answer, chance)
        if made is not None:
            return made
