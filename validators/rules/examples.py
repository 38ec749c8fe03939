"""The examples of a rule, turned into exchanges: what the docs show and what the tests run.

An example names a legal exchange (``on``, one of ``_bases.toml``) and what is changed in it:

====================  ===================================================================================
``method`` ``endpoint`` ``status`` ``connection``   as in an exchange file
``headers``           header fields of the answer to add or change; an empty value takes the field away
``request_headers``   header fields of the request
``request``           JSON Pointer -> JSON text, set in the request (pointer ``""``: the whole of it)
``request_remove``    JSON Pointers taken out of the request
``request_body``      the whole body of the request as text
``set``               JSON Pointer -> JSON text, set in the answer; in a stream the first token is the
                      1-based number of the event
``remove``            JSON Pointers taken out of the answer (``/2``: the second event)
``insert``            event number -> JSON text of an event put before it, or a list of such texts
``done``              whether the stream ends with ``data: [DONE]`` (else: unless its events are named)
``renumber``          whether ``sequence_number`` of the events is set to 0, 1, 2, ... (else: as the base
                      says, or if its events are named)
``replace``           pairs of texts, replaced in the rendered body; each must occur
``append``            text put behind the rendered body
``cut``               text; the body ends before its first occurrence
``body``              the whole body as text (``body_base64`` for bytes)
``times``             seconds after the request: of the answer's head, then of its reads, each of one event
                      of a stream (the last read takes what is left)
``limits``            limits (limits.py) other than the default ones
``before``            examples that the same upstream answered before
``also``              other rules of severity warn or fail that the change cannot but break, too
====================  ===================================================================================

In a base with ``named`` each event gets an ``event:`` line with its ``type``, where that is a string.
Order: set, remove, insert, renumber, render, replace, append, cut. Our own declarations are the only
input: a mistake in one raises ``ExampleError``.
"""

from __future__ import annotations

import base64
import functools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Rule

_HEAD_KEYS = {"method", "endpoint", "status", "connection", "headers", "request_headers"}
_DOCUMENT_KEYS = {"on", "request", "request_remove", "set", "remove", "insert", "done", "renumber"}
_TEXT_KEYS = {"request_body", "replace", "append", "cut", "body", "body_base64", "also"}
_KEYS = _HEAD_KEYS | _DOCUMENT_KEYS | _TEXT_KEYS | {"times", "limits", "before"}


class ExampleError(ValueError):
    """An example cannot be rendered: a mistake in a declaration."""


def over_http(rule: Rule) -> bool:
    """Whether a rule's examples are HTTP exchanges; those of NNRP have a language of their own."""
    return rule.family != "nnrp"


@functools.cache
def bases() -> Mapping[str, Mapping[str, Any]]:
    """The legal exchanges by name."""
    text = resources.files(__package__).joinpath("_bases.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def exchange(example: Mapping[str, Any]) -> dict[str, Any]:
    """An example as an exchange file's object (design: one HTTP exchange)."""
    unknown = example.keys() - _KEYS
    if unknown:
        raise ExampleError(f"unknown keys {sorted(unknown)}")
    base = bases().get(example.get("on", ""))
    if base is None:
        raise ExampleError(f"unknown base {example.get('on')!r}")
    response: dict[str, Any] = {
        "status": example.get("status", base.get("status", 200)),
        "headers": _headers(base, example),
        "connection": example.get("connection", "closed"),
    }
    if "body_base64" in example:
        response["body_base64"] = example["body_base64"]
    else:
        response["body_base64"] = _base64(_body(base, example))
    if "times" in example:
        response |= _timed(_body(base, example), example["times"])
    document = {
        "v": 1,
        "method": example.get("method", base.get("method", "POST")),
        "endpoint": example.get("endpoint", base.get("endpoint", "/v1/chat/completions")),
        "request": _request(base, example),
        "request_headers": example.get(
            "request_headers", {"content-type": "application/json", "authorization": "Bearer x"}
        ),
        "response": response,
    }
    if "request_body" in example:
        document |= {"request": None, "request_base64": _base64(example["request_body"])}
    return document


def before(example: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The exchanges that the same upstream had before an example's."""
    return [exchange(earlier) for earlier in example.get("before", ())]


def limits(example: Mapping[str, Any]) -> Limits:
    """The limits that an example is inspected with."""
    return replace(DEFAULT_LIMITS, **example.get("limits", {}))


def _base64(text: str) -> str:
    # Surrogates stand for themselves so that an example can hold bytes that no text has.
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


def _timed(body: str, times: list[float]) -> dict[str, Any]:
    """A body in one read a time, cut behind its events."""
    events = body.split("\n\n")
    reads = [event + "\n\n" for event in events[: len(times) - 2]]
    reads.append("\n\n".join(events[len(times) - 2 :]))
    return {"chunks_base64": [_base64(read) for read in reads], "times": times}


def _headers(base: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, str]:
    kind = "text/event-stream; charset=utf-8" if "events" in base else "application/json"
    headers = {"content-type": kind, "x-request-id": "req_1"}
    headers |= base.get("headers", {})
    headers |= example.get("headers", {})
    return {name: value for name, value in headers.items() if value}


def _request(base: Mapping[str, Any], example: Mapping[str, Any]) -> Any:
    document = json.loads(base["request"]) if "request" in base else None
    document = changed(document, example.get("request", {}))
    for pointer in example.get("request_remove", ()):
        removed(document, pointer)
    return document


def _body(base: Mapping[str, Any], example: Mapping[str, Any]) -> str:
    text: str = example["body"] if "body" in example else _rendered(base, example)
    for old, new in example.get("replace", ()):
        if old not in text:
            raise ExampleError(f"{old!r} does not occur")
        text = text.replace(old, new)
    text += example.get("append", "")
    if "cut" in example:
        kept, marker, _ = text.partition(str(example["cut"]))
        if not marker:
            raise ExampleError(f"{example['cut']!r} does not occur")
        text = kept
    return text


def _rendered(base: Mapping[str, Any], example: Mapping[str, Any]) -> str:
    if "events" not in base:
        document = changed(json.loads(base["body"]), example.get("set", {}))
        for pointer in example.get("remove", ()):
            removed(document, pointer)
        return _dumps(document)
    named = base.get("named", False)
    events = _events(base, example)
    if example.get("renumber", base.get("renumber", named)):
        _renumber(events)
    blocks = [_block(event, named=named) for event in events]
    return "".join(blocks) + ("data: [DONE]\n\n" if example.get("done", not named) else "")


def _events(base: Mapping[str, Any], example: Mapping[str, Any]) -> list[Any]:
    # A leading hole makes the numbers of events 1-based, as places count them.
    events = changed([None, *map(json.loads, base["events"])], example.get("set", {}))
    for pointer in sorted(example.get("remove", ()), key=_numbers_as_numbers, reverse=True):
        removed(events, pointer)
    inserted = {int(number): texts for number, texts in example.get("insert", {}).items()}
    for number, texts in sorted(inserted.items(), reverse=True):
        events[number:number] = map(json.loads, [texts] if isinstance(texts, str) else texts)
    kept: list[Any] = events[1:]
    return kept


def _numbers_as_numbers(pointer: str) -> list[tuple[int, str]]:
    """Sorts the tenth event behind the second one."""
    return [(int(t) if t.isdecimal() else -1, t) for t in _tokens(pointer)]


def _renumber(events: list[Any]) -> None:
    objects = [event for event in events if isinstance(event, dict)]
    for number, event in enumerate(objects):
        event["sequence_number"] = number


def _block(event: Any, *, named: bool) -> str:
    kind = event.get("type") if named and isinstance(event, dict) else None
    name = f"event: {kind}\n" if isinstance(kind, str) else ""
    return f"{name}data: {_dumps(event)}\n\n"


def _dumps(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _tokens(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ExampleError(f"{pointer!r} is no JSON Pointer")
    return [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]


def _parent(document: Any, tokens: list[str]) -> tuple[Any, Any]:
    for token in tokens[:-1]:
        document = document[int(token) if isinstance(document, list) else token]
    return document, (int(tokens[-1]) if isinstance(document, list) else tokens[-1])


def changed(document: Any, changes: Mapping[str, str]) -> Any:
    """The document with values set at JSON Pointers (``""``: the whole of it)."""
    for pointer, text in changes.items():
        value = json.loads(text)
        if not pointer:
            document = value
            continue
        parent, key = _parent(document, _tokens(pointer))
        if isinstance(parent, list) and key == len(parent):
            parent.append(value)
        else:
            parent[key] = value
    return document


def removed(document: Any, pointer: str) -> None:
    """Takes out what stands at a JSON Pointer."""
    parent, key = _parent(document, _tokens(pointer))
    del parent[key]
