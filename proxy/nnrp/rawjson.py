"""JSON texts as they were written: cutting members out of an object and putting texts into another.

What belongs here: what keeps a peer's bytes (big integers, key order, how a float is written) on their way
from one document into the next. What doesn't: what the members mean.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
_BLANK: Final = re.compile(r"[ \t\r\n]*")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# Numbers stay texts: one of 5,000 digits is JSON, too, and nobody asks for its value.
_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def members(text: str) -> dict[str, str]:
    """The members of an object by name, each as it was written; ValueError where it is none.

    A name that comes twice is refused: two readers could take it two ways.
    """
    found: dict[str, str] = {}
    at = _past_blank(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("no object")
    at = _past_blank(text, at + 1)
    closed = text[at : at + 1] == "}"
    while not closed:
        if text[at : at + 1] != '"':
            raise ValueError("a name is due")
        name, at = _SCANNER.raw_decode(text, at)
        at = _past_blank(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("a colon is due")
        at = _past_blank(text, at + 1)
        end = _value_end(text, at)
        if name in found:
            raise ValueError("a name comes twice")
        found[name] = text[at:end]
        at = _past_blank(text, end)
        closed = text[at : at + 1] == "}"
        if not closed and text[at : at + 1] != ",":
            raise ValueError("a comma is due")
        at = at if closed else _past_blank(text, at + 1)
    if _past_blank(text, at + 1) != len(text):
        raise ValueError("something follows the object")
    return found


def _past_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None  # it matches nothing, too
    return match.end()


def _value_end(text: str, at: int) -> int:
    try:
        _, end = _SCANNER.raw_decode(text, at)
    except RecursionError:
        raise ValueError("too deep") from None
    return int(end)


def written(value: Any) -> bytes:
    """A value as compact UTF-8 JSON. Halves of surrogate pairs become U+FFFD: no UTF-8 has them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _HALF_PAIR.sub("\ufffd", text).encode()


def object_of(**texts: bytes) -> bytes:
    """An object whose members are given as JSON texts, in their order."""
    return b"{" + b",".join(b'"%s":%s' % (n.encode(), t) for n, t in texts.items()) + b"}"
