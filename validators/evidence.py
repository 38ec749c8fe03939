"""Excerpts that show a fault without showing a conversation.

An allow-list: field names, numbers, booleans, null and words of the protocol as they are; any other string
as its type and length. Nothing here ever holds a key, a prompt or an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

MAX_LENGTH = 200
"""Characters of an excerpt at most."""

_TOKEN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,47}\Z")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$\-]{0,63}\Z")
_KEY = re.compile(r"sk-|(?:[A-Za-z0-9_]*[A-Za-z][0-9]|[0-9][A-Za-z])[A-Za-z0-9_-]{30,}")
"""What may be a key, however much it looks like a word."""
_WORD_MEMBERS = frozenset({"object", "type", "role", "status", "finish_reason", "stop_reason"})
"""Members in which a fixed word stands, wherever they are."""
_MEMBERS = 6


class _Absent:
    """The value of a member that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()


def word(text: str) -> str:
    """A string that stands where the protocol has a fixed word, shown if it looks like one."""
    shown = text == "" or (_TOKEN.match(text) and not _KEY.match(text))
    return f'"{text}"' if shown else f'"<str {len(text)}>"'


def name(text: str) -> str:
    """A member's name, shown if it looks like an identifier."""
    return text if _NAME.match(text) and not _KEY.match(text) else f"<name of {len(text)}>"


def shape(value: Any, *, words: bool = False, depth: int = 2) -> str:
    """A JSON value with its strings replaced by their length.

    ``words``: a string that stands for itself is a protocol word, and so are the members of an object
    that always hold one; other strings of an object are text, be it a single word.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return word(value) if words else f'"<str {len(value)}>"'
    if isinstance(value, int | float):
        text = (
            repr(value)
            if not isinstance(value, int) or value.bit_length() < 128
            else "<huge integer>"
        )
        return text[:40]
    if isinstance(value, Mapping):
        if depth == 0:
            return f"{{{len(value)} members}}" if value else "{}"
        members = [
            f'"{name(str(k))}": {shape(v, words=words and k in _WORD_MEMBERS, depth=depth - 1)}'
            for k, v, _ in zip(value.keys(), value.values(), range(_MEMBERS), strict=False)
        ]
        return "{" + ", ".join(members) + (", ..." if len(value) > _MEMBERS else "") + "}"
    if isinstance(value, list):
        if depth == 0:
            return f"[{len(value)} elements]" if value else "[]"
        shown = [shape(v, depth=depth - 1) for v in value[:3]]
        return (
            "[" + ", ".join(shown) + (f", ... {len(value)} in all" if len(value) > 3 else "") + "]"
        )
    return repr(value)[:40]


def member(pointer: str, value: Any, *, words: bool = False) -> str:
    """``"name": value`` for the member that a JSON Pointer ends in."""
    if value is ABSENT:
        last = _last_name(pointer)
        return f'"{last}" absent' if last else "absent"
    last = _last_name(pointer)
    text = f'"{last}": {shape(value, words=words)}' if last else shape(value, words=words)
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 3] + "..."


def token(text: str) -> str:
    """A member's name as a token of a JSON Pointer (RFC 6901); one that can't be a name by its length."""
    if len(text) > 64 or not (text.isascii() and text.isprintable()) or _KEY.match(text):
        return f"<name of {len(text)}>"
    return text.replace("~", "~0").replace("/", "~1")


def pointer_of(raw: str) -> str:
    """A JSON Pointer made of a peer's own names, with those that can't be names by their length."""
    tokens = raw.split("/")[1:]
    return "".join("/" + token(t.replace("~1", "/").replace("~0", "~")) for t in tokens[:32])


def path(pointer: str) -> str:
    """A JSON Pointer into a document of the peer's own: names that look like names, the rest by length."""
    tokens = pointer.split("/")[1:][:8]
    return "/" + "/".join(t if t.isdigit() else name(t) for t in tokens) if tokens else "/"


def _last_name(pointer: str) -> str:
    for token in reversed(pointer.split("/")[1:]):
        if not token.isdigit():
            return name(token.replace("~1", "/").replace("~0", "~"))
    return ""
