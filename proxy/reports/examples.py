"""A rule's examples for people: a wrong and a right exchange, shortened around what differs.

What belongs here: exchanges as lines of text, and which of them are shown. What doesn't: making an
exchange of an example (validators/rules/examples.py), colours and headings (proxy/cli/rules.py).
"""

from __future__ import annotations

import base64
import difflib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from teeline.proxy.text import printable
from teeline.validators.nnrp import examples as nnrp
from teeline.validators.rules import examples

MAX_LINES: Final = 24
"""Lines shown of one exchange."""

_CONTEXT: Final = 2


class Line(NamedTuple):
    """A line as it is shown. ``differs``: the other example has another line, or none, there."""

    text: str
    differs: bool


class _Change(NamedTuple):
    """Lines from ``start`` up to ``end`` that stand against ``other`` ones; either may be none."""

    start: int
    end: int
    other: Sequence[str]


_DOTS: Final = Line("...", False)
_GAP: Final = Line("(nothing)", True)


def compared(
    bad: Mapping[str, Any], good: Mapping[str, Any], width: int
) -> tuple[Sequence[Line], Sequence[Line]]:
    """What is shown of the two examples, in lines of at most ``width`` characters (>= 20)."""
    wrong, right = lines(bad), lines(good)
    matcher = difflib.SequenceMatcher(None, wrong, right, autojunk=False)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    ours = [_Change(i1, i2, right[j1:j2]) for _, i1, i2, j1, j2 in codes]
    theirs = [_Change(j1, j2, wrong[i1:i2]) for _, i1, i2, j1, j2 in codes]
    return _shown(wrong, ours, width), _shown(right, theirs, width)


def lines(example: Mapping[str, Any]) -> list[str]:
    """The whole exchange of an example; members of a declaration of another kind as they are."""
    if example.get("on") in nnrp.bases():
        return [*_nnrp_lines(example)]
    if example.get("on") in examples.bases():
        return [*_circumstances(example), *_exchange_lines(examples.exchange(example))]
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in example.items()]


def _nnrp_lines(example: Mapping[str, Any]) -> Iterator[str]:
    """A conversation, one packet a line, or a document, one member a line."""
    for name in ("capabilities", "carrier", "raw"):
        if name in example:
            yield f"({name}: {_compact(example[name])})"
    for name, value in example.get("limits", {}).items():
        yield f"(limits: {name} {value})"
    if nnrp.is_document(example):
        yield from _member_lines("", json.loads(nnrp.document(example)[0]))
        return
    http = nnrp.http_side(example)
    if http is not None:
        yield from _member_lines("http ", http)
    for packet in nnrp.packets_of(example):
        side, sender = ("c", "client") if "c" in packet else ("s", "server")
        rest = "".join(f" {name}={_compact(packet[name])}" for name in packet if name != side)
        yield f"{sender} {packet[side]}{rest}"
    if "close" in example:
        yield f"(connection: {example['close']})"


def _member_lines(before: str, value: Mapping[str, Any]) -> Iterator[str]:
    for name, member in value.items():
        if name == "events" and before:
            yield from (f"{before}event: {_compact(event)}" for event in member)
        else:
            yield f"{before}{name if before else json.dumps(name)}: {_compact(member)}"


def _compact(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _circumstances(example: Mapping[str, Any]) -> Iterator[str]:
    """What an example depends on beside its own exchange."""
    for name, value in example.get("limits", {}).items():
        yield f"(limits: {name} {value})"
    for earlier in examples.before(example):
        yield f"(before: {earlier['method']} {earlier['endpoint']})"
        yield from (f"(before: {line})" for line in _request_body(earlier))
        yield f"(before: HTTP {earlier['response']['status']})"
        yield from (
            f"(before: {line})" for line in _text(earlier["response"]["body_base64"]).split("\n")
        )


def _request_body(exchange: Mapping[str, Any]) -> Sequence[str]:
    if "request_base64" in exchange:
        return _text(exchange["request_base64"]).split("\n")
    if exchange["request"] is None:
        return ()
    return (json.dumps(exchange["request"], ensure_ascii=False, separators=(",", ":")),)


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode("utf-8", "backslashreplace").removesuffix("\n")


def _exchange_lines(exchange: Mapping[str, Any]) -> Iterator[str]:
    response = exchange["response"]
    yield f"{exchange['method']} {exchange['endpoint']}"
    yield from _header_lines(exchange["request_headers"])
    yield from _request_body(exchange)
    yield ""
    yield f"HTTP {response['status']}"
    yield from _header_lines(response["headers"])
    if "times" in response:
        head, *reads = response["times"]
        after = ", ".join(f"{read:g}" for read in reads)
        yield f"(head after {head:g} s, reads after {after} s)"
    yield ""
    yield from _text(response["body_base64"]).split("\n")
    if response["connection"] != "closed":
        yield f"(connection: {response['connection']})"


def _header_lines(headers: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}: {value}" for name, value in headers.items())


def _shown(whole: Sequence[str], changes: Sequence[_Change], width: int) -> list[Line]:
    """The lines that differ with their neighbours; dots stand for what is left out."""
    near: set[int] = set()
    marked: dict[int, Line] = {}
    for change in changes:
        near.update(range(max(change.start - _CONTEXT, 0), change.end + _CONTEXT))
        pairs = itertools.zip_longest(whole[change.start : change.end], change.other, fillvalue="")
        for at, (line, other) in enumerate(pairs, change.start):
            if at < change.end:
                marked[at] = Line(_window(line, other, width), True)
    gaps = {change.start for change in changes if change.start == change.end}
    shown: list[Line] = []
    before = -1
    for at in sorted(near or range(len(whole)))[:MAX_LINES]:
        if at > before + 1:
            shown.append(_DOTS)
        before = at
        if at in gaps:
            shown.append(_GAP)
        if at < len(whole):
            shown.append(marked.get(at, Line(_window(whole[at], "", width), False)))
    return shown if before >= len(whole) - 1 else [*shown, _DOTS]


def _window(line: str, other: str, width: int) -> str:
    """At most ``width`` characters of a line, from a little before its first difference on."""
    if len(line) <= width or not other:
        return printable(line, width)
    same = sum(1 for _ in itertools.takewhile(_equal, zip(line, other, strict=False)))
    start = min(same - width // 3, len(line) - width + len(_DOTS.text))
    if start <= 0:
        return printable(line, width)
    return _DOTS.text + printable(line[start:], width - len(_DOTS.text))


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]
