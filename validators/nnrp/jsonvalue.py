"""JSON values as such: whether two documents say the same, whatever their white space and key order.

What belongs here: values with exact numbers, and fingerprints of them. What doesn't: faults of documents
(wire/json.py).
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from teeline.validators.wire.json import decode

_NUMBER: Final = re.compile(r"(-?)([0-9]++)(?:\.([0-9]++))?(?:[eE]([+-]?[0-9]++))?\Z")
_LONGEST_EXPONENT: Final = 18
"""Characters of an exponent that is calculated with; longer ones are compared as they are spelled."""


class Number(str):
    """A number in the one spelling of its value: 1, 1.0 and 10e-1 are one number (RFC 8259 section 6)."""

    __slots__ = ()


def value_of(data: bytes, depth: int) -> Any:
    """The value of a document, its numbers exact; None for null, and where there is no document.

    ``depth`` is the number of levels allowed.
    """
    if not decode(data, depth).ok:
        return None
    try:
        return _DECODER.decode(data.decode("utf-8-sig"))
    except ValueError:
        return None  # bytes that are no UTF-8, or something behind the document


def fingerprint(value: Any) -> bytes:
    """16 bytes that two values of ``value_of`` share where they are the same value."""
    text = json.dumps(_marked(value), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def _number(text: str) -> Number:
    match = _NUMBER.match(text)
    if match is None:
        return Number(text)
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4] or "0"
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return Number("0")
    if len(exponent) > _LONGEST_EXPONENT:
        return Number(text)
    power = int(exponent) - len(fraction) + len(digits) - len(kept)
    return Number(f"{sign}{kept}e{power}")


_DECODER: Final = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=Number)


def _marked(value: Any) -> Any:
    """The value with its numbers told from its strings."""
    if isinstance(value, str):
        return f"n{value}" if isinstance(value, Number) else f"s{value}"
    if isinstance(value, list):
        return [_marked(element) for element in value]
    if isinstance(value, dict):
        return {name: _marked(member) for name, member in value.items()}
    return value
