"""JSON (RFC 8259) decoded strictly: what other parsers forgive comes back as faults beside the value.

What belongs here: bytes of one document in; its value, and where it is not JSON as every parser reads
it, out. What doesn't: what the value must look like (fields/), which rule a fault breaks (checks/),
where a document ends in a stream (sse.py).

A clean document costs one ``orjson.loads`` and a comparison or a few counts (``_accepted``). What that
refuses is read
by the standard library's scanner, which makes a value of most faulty documents; where the faults lie is
then found in the value (pointers) and in the bytes (offsets), in passes that leave to C whatever can't
be at fault, so that a hostile document costs little more than ``json.loads``. Depth is measured first.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

import orjson

MAX_FAULTS: Final = 16
"""Faults of one kind that are noted in one document: the first ones."""
MAX_POINTER: Final = 1024
"""Characters of a fault's pointer; a longer one is left out (``""``)."""
MAX_DEPTH: Final = 500
"""Levels that the standard library's scanner, which recurses, is trusted with."""

_ABSENT: Final = object()
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_BACKSLASH: Final = ord("\\")
_COLON_ESCAPE: Final = re.compile(rb"\\u003[aA]")
_LONG_INTEGER: Final = re.compile(rb"[0-9]{19}")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

# The patterns below are possessive and match at the first place they try (or at the end): linear.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+"?)*+(?:([\[\]{}])|\Z)', re.DOTALL
)
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# What a value can end in when the text ends inside it, from where the scanner gave up.
_CUT: Final = re.compile(
    rb'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+(?:\\(?:u[0-9a-fA-F]{0,3})?)?'
    rb"|(?<=\\)u[0-9a-fA-F]{0,4}"
    rb"|(?<=[0-9])(?:\.|[eE][-+]?)|-"
    rb"|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|Na?|-?I(?:n(?:f(?:i(?:n(?:it?)?)?)?)?)?"
    rb"|"
)
# To the next string, word or number, over the numbers that are finite by their look.
_TOKEN: Final = re.compile(
    rb'(?:[^"0-9NI-]++|-?[0-9]{1,299}+(?:\.[0-9]++)?+(?:[eE]-[0-9]++)?+(?![0-9.eE]))*+'
    rb'(?:("(?:[^"\\]++|\\.)*+")([ \t\r\n]*+:)?|(NaN|-?Infinity|-?[0-9][-+.0-9eE]*+)|\Z)'
)
_UNTIL_LONE_SURROGATE: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)


class JsonFaultKind(enum.StrEnum):
    """What can be wrong with a document."""

    INVALID = "invalid"
    """Not JSON: there is no value."""
    TRAILING = "trailing"
    """Something but white space behind the value."""
    BOM = "bom"
    """A byte order mark in front (RFC 8259 section 8.1: MUST NOT be added)."""
    LEADING_SPACE = "leading_space"
    """White space in front: legal, an observation."""
    NONFINITE = "nonfinite"
    """``NaN``, ``Infinity``, ``-Infinity``, or a number beyond a double (``1e999``)."""
    DUPLICATE_KEY = "duplicate_key"
    """A name that its object already has; the last one is in the value."""
    SURROGATE = "surrogate"
    """An escaped surrogate without its other half; it is in the value as it came."""
    UTF8 = "utf8"
    """Bytes that are not UTF-8; U+FFFD stands for them in the value."""
    DEPTH = "depth"
    """More levels than allowed: there is no value."""
    EMPTY = "empty"
    """Nothing, or nothing but white space: there is no value."""


class JsonFault(NamedTuple):
    """One fault of a document.

    ``byte`` is the 0-based offset in the bytes given; of a document that ends inside its value it is the
    end. ``pointer`` is the JSON Pointer (RFC 6901) of the member or element where a NONFINITE,
    DUPLICATE_KEY or SURROGATE lies, with U+FFFD for lone surrogates in names; it is ``""`` for the other
    kinds and where it would pass ``MAX_POINTER``. ``detail`` never holds content: for INVALID it is
    ``truncated``, ``control-character``, ``escape`` or ``""``; for DUPLICATE_KEY the name where it is an
    identifier of at most 40 characters.
    """

    kind: JsonFaultKind
    byte: int
    pointer: str = ""
    detail: str = ""

    @property
    def truncated(self) -> bool:
        """The text ends inside the value."""
        return self.kind is JsonFaultKind.INVALID and self.detail == "truncated"


class Document(NamedTuple):
    """What ``decode`` made of the bytes: ``faults`` in the order of their bytes.

    Where ``ok`` is false there is no value and ``value`` is None. Integers outside -2**63..2**64-1 are
    floats, as orjson has them.
    """

    value: Any
    ok: bool
    faults: tuple[JsonFault, ...]


_FAULTLESS: Final[tuple[JsonFault, ...]] = ()
# Once a chunk: what the class itself would call, without the detour through its keyword arguments.
_new: Final[Callable[[type[Document], tuple[Any, bool, tuple[JsonFault, ...]]], Document]] = (
    tuple.__new__
)


def decode(data: bytes, max_depth: int = 128) -> Document:
    """Decode one document; never raises, in time and memory linear in ``len(data)``.

    ``max_depth`` is the number of levels of nesting allowed (``[[]]`` has two), ``MAX_DEPTH`` at most.
    """
    try:
        value = orjson.loads(data)
        # What is written as orjson writes it has no name twice and no white space.
        if orjson.dumps(value) == data and (
            len(data) < 2 * max_depth or _is_shallow(data, max_depth)
        ):
            return _new(Document, (value, True, _FAULTLESS))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _explained(data, min(max_depth, MAX_DEPTH))
    if not _is_faultless(value, data, max_depth):
        return _explained(data, min(max_depth, MAX_DEPTH))
    if data[0] <= 0x20:
        return Document(value, True, (JsonFault(JsonFaultKind.LEADING_SPACE, 0),))
    return _new(Document, (value, True, ()))


def decode_leniently(data: bytes, max_depth: int = 128) -> Document:
    """The same, but a name that its object already has is no fault."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _explained(data, min(max_depth, MAX_DEPTH))
    if _is_shallow(data, max_depth) and data[0] > 0x20:
        return _new(Document, (value, True, _FAULTLESS))
    return decode(data, max_depth)


def decoded_shallow(data: bytes, max_depth: int) -> Any:
    """The value of a document in which ``decode_leniently`` finds no fault, told at a glance; else None."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if data[0] > 0x20 and _is_shallow(data, max_depth) else None


def _is_shallow(data: bytes, max_depth: int) -> bool:
    """Whether a document can't have too many levels; False may be wrong.

    A level takes two bytes as an array or as the innermost object, and five as another object (``{"":}``):
    documents of a chunk's size need one count.
    """
    levels = data.count(b"[")
    if levels + len(data) // 5 < max_depth:
        return True
    return levels + data.count(b"{") <= max_depth


def _accepted(data: bytes, max_depth: int) -> Any:
    """The value of a document without faults (but for white space in front), else ``_ABSENT``."""
    try:
        value = orjson.loads(data)
        return value if _is_faultless(value, data, max_depth) else _ABSENT
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _ABSENT


def _is_faultless(value: Any, data: bytes, max_depth: int) -> bool:
    """Whether a document that orjson made a value of has no fault (but for white space in front).

    orjson refuses everything that is a fault here save repeated names and depth. A repeated name shows
    in the number of colons: each member has one outside its strings, writing the value out again gives
    back those of every string, and a member that a later one replaced takes its colon away. Only an
    escaped colon could make up for that, so that a document with one is not accepted here.
    """
    if _BACKSLASH in data and _COLON_ESCAPE.search(data):
        return False
    colons = data.count(b":")
    # An object inside another one is behind a colon: nesting is at most this and one more.
    if colons + data.count(b"[") >= max_depth and not _within(value, max_depth):
        return False
    return colons == orjson.dumps(value).count(b":")


def _within(value: Any, max_depth: int) -> bool:
    """Whether a value has at most ``max_depth`` levels."""
    level = [value] if type(value) is dict or type(value) is list else []
    while level and max_depth > 0:
        max_depth -= 1
        below: list[Any] = []
        for node in level:
            children = node.values() if type(node) is dict else node
            below += [child for child in children if type(child) is dict or type(child) is list]
        level = below
    return not level


def _explained(data: bytes, max_depth: int) -> Document:
    faults = []
    start = len(_BOM) if data.startswith(_BOM) else 0
    if start:
        faults.append(JsonFault(JsonFaultKind.BOM, 0))
    begin = _end_of_blank(data, start)
    if begin == len(data):
        return Document(None, False, (*faults, JsonFault(JsonFaultKind.EMPTY, begin)))
    if begin > start:
        faults.append(JsonFault(JsonFaultKind.LEADING_SPACE, start))
    value, found = _read(data[begin:], max_depth)
    faults += sorted((fault._replace(byte=fault.byte + begin) for fault in found), key=_byte)
    ok = value is not _ABSENT
    return Document(value if ok else None, ok, tuple(faults))


def _byte(fault: JsonFault) -> int:
    return fault.byte


def _end_of_blank(data: bytes, start: int) -> int:
    match = _BLANK.match(data, start)
    return match.end() if match else start


# --- the first value in a text, and what is wrong around it ------------------------------------------

# Numbers stay text: this pass is after the end of the value, and no length of digits may stop it.
_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def _read(text: bytes, max_depth: int) -> tuple[Any, list[JsonFault]]:
    """The value that ``text`` begins with (``_ABSENT``: none), and the faults of the whole text."""
    deep = _too_deep(text, max_depth)
    if deep is not None:
        return _ABSENT, [JsonFault(JsonFaultKind.DEPTH, deep)]
    try:
        # One character a byte, so that the scanner's positions are offsets; strings may hold any.
        _, end = _SCANNER.raw_decode(text.decode("latin-1"))
    except json.JSONDecodeError as error:
        invalid = _invalid(text, error.pos)
        return _ABSENT, [invalid, *_not_utf8(text, invalid.truncated)]
    value = _accepted(text[:end], max_depth)
    value, faults = _inspected(text[:end]) if value is _ABSENT else (value, [])
    rest = _end_of_blank(text, end)
    if rest < len(text):
        faults.append(JsonFault(JsonFaultKind.TRAILING, rest))
    return value, faults + _not_utf8(text, cut=False)


def _too_deep(text: bytes, max_depth: int) -> int | None:
    """The offset of the first bracket that opens a level too many."""
    if text.count(b"[") + text.count(b"{") <= max_depth:
        return None
    brackets = _STRING.sub(b"", text).translate(None, _NO_BRACKETS)
    depths = accumulate(map(_STEPS.__getitem__, brackets))
    number = next((n for n, depth in enumerate(depths) if depth > max_depth), None)
    if number is None:
        return None
    return next(islice(_BRACKET.finditer(text), number, None)).start(1)


def _invalid(text: bytes, byte: int) -> JsonFault:
    if _CUT.fullmatch(text, byte):
        return JsonFault(JsonFaultKind.INVALID, len(text), detail="truncated")
    detail = ""
    if text[byte] < 0x20:
        detail = "control-character"
    elif b"\\" in text[max(byte - 1, 0) : byte + 1]:
        detail = "escape"
    return JsonFault(JsonFaultKind.INVALID, byte, detail=detail)


def _not_utf8(text: bytes, cut: bool) -> list[JsonFault]:
    """The places that are not UTF-8; in a ``cut`` text its last character may be incomplete."""
    faults: list[JsonFault] = []
    at = 0
    while len(faults) < MAX_FAULTS:
        try:
            str(memoryview(text)[at:], "utf-8")
            break
        except UnicodeDecodeError as error:
            if cut and error.reason == "unexpected end of data":
                break
            faults.append(JsonFault(JsonFaultKind.UTF8, at + error.start))
            at += error.end
    return faults


# --- the faults inside a value -----------------------------------------------------------------------


class _Finding(NamedTuple):
    """A fault known by its pointer; ``number`` counts its like (names, for a repeated one) from 1."""

    kind: JsonFaultKind
    number: int
    pointer: str
    detail: str


def _inspected(body: bytes) -> tuple[Any, list[JsonFault]]:
    """The value of a document that is whole, and the faults inside it."""
    walk = _Walk()
    value = json.loads(
        body.decode(errors="replace"),
        object_pairs_hook=walk.member,
        parse_int=_integer if _LONG_INTEGER.search(body) else None,
    )
    walk.run(value)
    return value, _placed(body, walk.findings)


def _integer(digits: str) -> int | float:
    """An integer as orjson has it, so that no length of digits is refused."""
    if len(digits) <= 20:
        value = int(digits)
        if -(2**63) <= value < 2**64:
            return value
    return float(digits)


class _Walk:
    """Goes through a value in the order of its text, members that later ones replaced included."""

    def __init__(self) -> None:
        self.findings: list[_Finding] = []
        self._path: list[str | int] = []
        self._names = 0
        self._found: Counter[JsonFaultKind] = Counter()
        # By identity; the object is kept beside its members, lest another one takes its identity.
        self._repeated: dict[int, tuple[dict[str, Any], list[tuple[str, Any]]]] = {}

    def member(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """The object of these members; for ``json.loads``."""
        made = dict(pairs)
        if len(made) != len(pairs):
            self._repeated[id(made)] = (made, pairs)
        return made

    def run(self, root: Any) -> None:
        stack: list[Iterator[tuple[str | int, Any]]] = [enumerate([root])]
        self._path.append(0)
        while stack:
            container = self._next_container(stack[-1])
            if container is None:
                stack.pop()
                self._path.pop()
                continue
            is_list = type(container) is list
            stack.append(enumerate(container) if is_list else self._members(container))
            self._path.append(0)

    def _next_container(self, children: Iterator[tuple[str | int, Any]]) -> Any:
        """The next child that has children itself (None: no more), past the scalars before it."""
        for token, child in children:
            self._path[-1] = token
            kind = type(child)
            if kind is str:
                if not child.isascii() and _LONE_SURROGATE.search(child):
                    self._note(JsonFaultKind.SURROGATE)
            elif kind is float:
                if not math.isfinite(child):
                    self._note(JsonFaultKind.NONFINITE)
            elif kind is dict or kind is list:
                return child
        return None

    def _members(self, made: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        repeated = self._repeated.get(id(made))
        seen: set[str] = set()
        for name, child in repeated[1] if repeated else made.items():
            self._names += 1
            self._path[-1] = name
            if not name.isascii() and _LONE_SURROGATE.search(name):
                self._note(JsonFaultKind.SURROGATE)
            if repeated and name in seen:
                plain = name if _PLAIN_NAME.fullmatch(name) else ""
                self._note(JsonFaultKind.DUPLICATE_KEY, plain)
            elif repeated:
                seen.add(name)
            yield name, child

    def _note(self, kind: JsonFaultKind, detail: str = "") -> None:
        self._found[kind] += 1
        if self._found[kind] <= MAX_FAULTS:
            number = self._names if kind is JsonFaultKind.DUPLICATE_KEY else self._found[kind]
            self.findings.append(_Finding(kind, number, _pointer(self._path[1:]), detail))


def _pointer(tokens: list[str | int]) -> str:
    # Names are a peer's: their length is bounded before anything is joined.
    if sum(len(token) if isinstance(token, str) else 1 for token in tokens) > MAX_POINTER:
        return ""
    escaped = (str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
    pointer = _LONE_SURROGATE.sub("\ufffd", "".join("/" + token for token in escaped))
    return pointer if len(pointer) <= MAX_POINTER else ""


def _placed(body: bytes, findings: list[_Finding]) -> list[JsonFault]:
    """The findings with their offsets: the n-th of a kind in the value is the n-th in the text."""
    waiting = {(finding.kind, finding.number): finding for finding in findings}
    faults = []
    for kind, number, byte in _suspects(body):
        if not waiting:
            break
        finding = waiting.pop((kind, number), None)
        if finding is not None:
            faults.append(JsonFault(kind, byte, finding.pointer, finding.detail))
    return faults


def _suspects(body: bytes) -> Iterator[tuple[JsonFaultKind, int, int]]:
    """Each name, lone surrogate and number beyond a double: its kind, number of that kind, offset."""
    names = lone = nonfinite = 0
    for match in _TOKEN.finditer(body):
        string, colon, word = match.groups()
        if string is None:
            if word and not math.isfinite(float(word)):
                nonfinite += 1
                yield JsonFaultKind.NONFINITE, nonfinite, match.start(3)
            continue
        until = _UNTIL_LONE_SURROGATE.match(string) if b"\\u" in string else None
        if until and until.end() < len(string):
            lone += 1
            yield JsonFaultKind.SURROGATE, lone, match.start(1) + until.end()
        if colon:
            names += 1
            yield JsonFaultKind.DUPLICATE_KEY, names, match.start(1)
