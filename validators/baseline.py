"""Baselines: a server's answers to the probes, and how two of them differ in structure.

What belongs here: the document's form (version 1), its features, the comparison. What doesn't: sending
(proxy/probe), files (proxy/cli/baseline.py), the structure of single answers (structure.py).

A baseline holds answers in full, for they are answers to questions of our own; it never holds a key. Values
that may differ from call to call (ids, times, counts, texts) don't count as differences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from teeline.validators.detectors.observations import has_call, text_of
from teeline.validators.detectors.probes import PROBES
from teeline.validators.model import Headers
from teeline.validators.structure import (
    ABSENT,
    Difference,
    StreamStructure,
    Structure,
    differences,
    stream_differences,
)

VERSION: Final = 1
KIND: Final = "teeline-baseline"
MAX_BYTES: Final = 64 * 1024 * 1024
_HEADERS: Final = re.compile(r"x-request-id\Z|openai-processing-ms\Z|x-ratelimit-[a-z0-9-]{1,48}\Z")
_PREFIX: Final = re.compile(r"([A-Za-z]{1,16}[-_])")
_IDS: Final = frozenset({"id", "call_id", "item_id"})
_MEMBERS: Final = ("request", "response", "headers", "validation", "features")


class BaselineError(ValueError):
    """Not a baseline; the text is one line that says what is wrong with it."""


class Changed(NamedTuple):
    """A difference in the answer to one probe."""

    probe: str
    difference: Difference


def told(changed: Iterable[Changed]) -> list[str]:
    """The differences in words, each once with the probes that show it."""
    probes: dict[Difference, list[str]] = {}
    for probe, difference in changed:
        probes.setdefault(difference, []).append(probe)
    return [f"{_words(difference)}  ({', '.join(names)})" for difference, names in probes.items()]


def _words(difference: Difference) -> str:
    kind, path, first, second = difference
    place = f" {path}" if path else ""
    return f"{kind}{place}: {first} -> {second}"


def kept_headers(headers: Headers) -> dict[str, str]:
    """The diagnostic header fields that a baseline keeps; no others."""
    return {n.lower(): v[:256] for n, v in headers if _HEADERS.match(n.lower())}


def whole_answer(document: Any, text: str) -> dict[str, Any]:
    """A whole answer as a baseline has it: its JSON value, or its text where it is none."""
    return {"json": document} if document is not None else {"text": text}


def streamed_answer(events: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """A stream as a baseline has it: of each event its name, and its JSON value or its text."""
    return {
        "events": [
            {"event": name, "data": value if value is not None else data}
            for name, data, value in events
        ]
    }


def features(family: Any, response: Mapping[str, Any], asked_json: bool) -> dict[str, Any]:
    """What tells one server's answers from another's at a glance."""
    documents = _documents(response)
    prefixes: dict[str, str] = {}
    usage: set[str] = set()
    for document in documents:
        _gather(document, "", prefixes, usage, 0)
    found: dict[str, Any] = {
        "id_prefixes": dict(sorted(prefixes.items())),
        "usage_fields": sorted(usage),
        "tool_call": any(has_call(document) or _streams_call(document) for document in documents),
    }
    if asked_json and family is not None and "json" in response:
        found["structured_object"] = _is_object(text_of(family, response["json"]))
    if "events" in response:
        found["events"] = StreamStructure.of(documents).order
    return found


def _documents(response: Mapping[str, Any]) -> list[Any]:
    events = response.get("events")
    if isinstance(events, list):
        return [event.get("data") for event in events if isinstance(event, dict)]
    return [response["json"]] if "json" in response else []


def _gather(value: Any, path: str, prefixes: dict[str, str], usage: set[str], depth: int) -> None:
    """Finds the prefixes of ids and the members of usage objects; the first ones of each place."""
    if depth > 16 or len(prefixes) > 256:
        return
    if isinstance(value, list):
        for element in value[:256]:
            _gather(element, f"{path}[]", prefixes, usage, depth + 1)
    elif isinstance(value, dict):
        for name, member in value.items():
            below = f"{path}/{str(name)[:64]}"
            if name in _IDS and isinstance(member, str) and not _is_model(path):
                found = _PREFIX.match(member)
                prefixes.setdefault(below, found[1] if found else "")
            elif name == "usage" and isinstance(member, dict):
                usage.update(_flat(member))
            _gather(member, below, prefixes, usage, depth + 1)


def _is_model(path: str) -> bool:
    """The ids in a list of models are names, and those of events depend on their items."""
    return path == "/data[]"


def _flat(usage: Mapping[str, Any]) -> Iterator[str]:
    for name, member in usage.items():
        yield str(name)[:64]
        if isinstance(member, dict):
            yield from (f"{name}.{inner}"[:128] for inner in member)


def _streams_call(document: Any) -> bool:
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "response.function_call_arguments.done":
        return True
    choices = document.get("choices") if isinstance(document, dict) else None
    deltas = (
        [c.get("delta") for c in choices if isinstance(c, dict)]
        if isinstance(choices, list)
        else []
    )
    return any(isinstance(delta, dict) and delta.get("tool_calls") for delta in deltas)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


# -- documents ------------------------------------------------------------------------------------------


def loads(data: bytes) -> dict[str, Any]:
    """A baseline out of a file's bytes; raises BaselineError, whatever the bytes are."""
    if len(data) > MAX_BYTES:
        raise BaselineError(f"larger than {MAX_BYTES} bytes")
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise BaselineError("not JSON") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BaselineError(f"not a baseline: no kind {KIND}")
    if document.get("v") != VERSION or isinstance(document.get("v"), bool):
        raise BaselineError(f"a baseline of another version than {VERSION}")
    probes = document.get("probes")
    if not isinstance(probes, dict):
        raise BaselineError("not a baseline: probes must be an object")
    for name, entry in probes.items():
        _check_entry(str(name)[:64], entry)
    return document


def _check_entry(name: str, entry: Any) -> None:
    if not isinstance(entry, dict):
        raise BaselineError(f"probe {name} must be an object")
    missing = [member for member in _MEMBERS if member not in entry]
    if missing:
        raise BaselineError(f"probe {name} lacks {', '.join(missing)}")
    for member in ("response", "headers", "validation", "features"):
        if not isinstance(entry[member], dict):
            raise BaselineError(f"probe {name}: {member} must be an object")


class Comparison(NamedTuple):
    """What comparing two baselines gave. ``only_first`` and ``only_second`` are probes of one alone."""

    changed: tuple[Changed, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    compared: int


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """The differences in structure between two baselines as ``loads`` gives them."""
    ours, theirs = first["probes"], second["probes"]
    both = [name for name in _ordered(ours) if name in theirs]
    changed = [Changed(n, found) for n in both for found in _entry(ours[n], theirs[n])]
    return Comparison(
        tuple(changed),
        tuple(name for name in _ordered(ours) if name not in theirs),
        tuple(name for name in _ordered(theirs) if name not in ours),
        len(both),
    )


def _ordered(probes: Mapping[str, Any]) -> list[str]:
    order = {probe.name: number for number, probe in enumerate(PROBES)}
    return sorted(probes, key=lambda name: (order.get(name, len(order)), name))


def _entry(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    if first.get("status") != second.get("status"):
        # Answers of different fortune have nothing in common that could be compared.
        yield Difference("status", "", str(first.get("status")), str(second.get("status")))
        return
    yield from _header_differences(first["headers"], second["headers"])
    form, other = _form(first["response"]), _form(second["response"])
    if form != other:
        yield Difference("form", "", form, other)
        return
    if cause := _cause(first["features"], second["features"]):
        yield cause
        return
    yield from _response_differences(first["response"], second["response"])
    yield from _prefix_differences(first["features"], second["features"])


def _header_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[Difference]:
    for name in sorted(first.keys() ^ second.keys()):
        here = "present" if name in first else ABSENT
        yield Difference("header", name, here, "present" if here is ABSENT else ABSENT)


def _form(response: Mapping[str, Any]) -> str:
    return next((form for form in ("events", "json", "text") if form in response), "nothing")


def _cause(first: Mapping[str, Any], second: Mapping[str, Any]) -> Difference | None:
    """What makes all the rest different: a model that called a tool, or did not."""
    for name in ("tool_call", "structured_object"):
        ours, theirs = first.get(name), second.get(name)
        if isinstance(ours, bool) and isinstance(theirs, bool) and ours is not theirs:
            return Difference("feature", name, str(ours).lower(), str(theirs).lower())
    return None


def _response_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[Difference]:
    if "events" in first:
        ours, theirs = (StreamStructure.of(_documents(side)) for side in (first, second))
        yield from stream_differences(ours, theirs)
        if (named := _named(first)) != (renamed := _named(second)):
            yield Difference("event lines", "", named, renamed)
    elif "json" in first:
        one, other = Structure(), Structure()
        one.add(first["json"])
        other.add(second["json"])
        yield from differences(one, other)


def _named(response: Mapping[str, Any]) -> str:
    """Whether the events have names of their own, which clients may dispatch on."""
    events = response["events"] if isinstance(response["events"], list) else []
    events = [event for event in events if isinstance(event, dict)]
    named = sum(bool(event.get("event")) for event in events)
    return ABSENT if not named else "present" if named == len(events) else "on some events"


def _prefix_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[Difference]:
    ours, theirs = first.get("id_prefixes"), second.get("id_prefixes")
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return
    for path in sorted(ours.keys() & theirs.keys()):
        if ours[path] != theirs[path]:
            yield Difference("id prefix", path, _quoted(ours[path]), _quoted(theirs[path]))


def _quoted(prefix: Any) -> str:
    return json.dumps(prefix)[:40] if isinstance(prefix, str) and prefix else "none"
