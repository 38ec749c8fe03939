"""The members of a JSON object as the bytes that they came as, for those who pass values on unread.

What belongs here: cutting. What doesn't: whether it is JSON at all (json.py), what the members mean. A
number that is decoded and written again is another one where it is too large or too exact, and an object
may have lost the order of its members.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_BLANK: Final = re.compile(r"[ \t\r\n]*")
# Numbers are not read: Python limits the digits of an integer, and nobody asks for the values.
_READER: Final = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
_LINES: Final = bytes.maketrans(b"\r\n", b"  ")


def members_of(data: bytes) -> dict[str, bytes]:
    """The raw values of an object's members; of a name that comes twice the last one.

    ``data`` must be a JSON object that ``json.decode`` takes without INVALID, UTF8, BOM, TRAILING or
    DEPTH; anything else is ValueError. Time and memory are linear.
    """
    text = data.decode()
    found: dict[str, bytes] = {}
    at = _after_blank(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not an object")
    at = _after_blank(text, at + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise ValueError("not a name")
        name, at = _value(text, at)
        at = _after_blank(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("not a member")
        start = _after_blank(text, at + 1)
        _, at = _value(text, start)
        found[name] = text[start:at].encode()
        at = _after_blank(text, at)
        if text[at : at + 1] == ",":
            at = _after_blank(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError("not an object")
    return found


def on_one_line(data: bytes) -> bytes:
    """A JSON document without line ends: they can only stand between its tokens."""
    return data.translate(_LINES) if b"\n" in data or b"\r" in data else data


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _READER.raw_decode(text, at)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(str(type(error).__name__)) from None
