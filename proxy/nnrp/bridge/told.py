"""Events and documents of the profile as the bridge reads them: typed where it acts on them, else let be.

What belongs here: decoding one event or document of a server. What doesn't: what an OpenAI client gets of it
(chat.py, responses.py). A server is believed in nothing: what is not JSON ends the operation, a member of a
wrong type counts as one that is not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.nnrp.bridge.failure import broken, from_status
from teeline.validators.fields.nnrp import CANCELLED, COMPLETED, ERROR
from teeline.validators.wire.json import JsonFaultKind, decode
from teeline.validators.wire.jsonraw import members_of, on_one_line

_NO_JSON: Final = frozenset(
    {
        JsonFaultKind.INVALID,
        JsonFaultKind.TRAILING,
        JsonFaultKind.EMPTY,
        JsonFaultKind.UTF8,
        JsonFaultKind.BOM,
        JsonFaultKind.DEPTH,
    }
)
_HAS_CHUNK: Final = b'"openai_chunk"'


class Event(NamedTuple):
    """An event, and the bytes of its openai_chunk, on one line (empty: it has none)."""

    kind: str
    members: Mapping[str, Any]
    chunk: bytes = b""

    def text(self, name: str) -> str:
        value = self.members.get(name)
        return value if isinstance(value, str) else ""

    def count(self, name: str) -> int:
        value = self.members.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _object(data: bytes, what: str) -> dict[str, Any]:
    document = decode(data)
    if any(fault.kind in _NO_JSON for fault in document.faults):
        raise broken(f"{what} is no JSON.")
    if not isinstance(document.value, dict) or not isinstance(document.value.get("type"), str):
        raise broken(f"{what} has no type.")
    return document.value


def event_of(data: bytes) -> Event:
    """The event in the body of a PARTIAL_RESULT. Raises FailureError."""
    members = _object(data, "an event")
    chunk = b""
    if _HAS_CHUNK in data and isinstance(members.get("openai_chunk"), dict):
        chunk = on_one_line(members_of(data)["openai_chunk"])
    return Event(members["type"], members, chunk)


class Document(NamedTuple):
    """The document that ends an operation, and the status of its RESULT_PUSH.

    ``body`` are the bytes of a completed body.
    """

    kind: str
    members: Mapping[str, Any]
    body: bytes = b""
    status: int = 0

    @property
    def completed(self) -> Mapping[str, Any]:
        """The completed body as a value, empty where there is none."""
        body = self.members.get("body")
        return body if isinstance(body, dict) else {}


NOTHING: Final = Document("", {})
"""An empty success."""


def document_of(data: bytes | None, status: int = 200) -> Document:
    """The document of a RESULT_PUSH, ``NOTHING`` for None. Raises FailureError."""
    if data is None:
        if status >= 400:
            raise from_status(status)
        return NOTHING
    members = _object(data, "a result")
    kind = members["type"]
    if kind not in (COMPLETED, ERROR, CANCELLED):
        raise broken("a result is no document that ends an operation.")
    if kind != COMPLETED:
        return Document(kind, members, status=status)
    if not isinstance(members.get("body"), dict):
        raise broken("response.completed has no body.")
    return Document(kind, members, members_of(data)["body"])


def dumped(value: Any) -> bytes:
    """A value as JSON on one line; what orjson can't write (lone surrogates, large integers) is escaped."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def objects(value: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects in a member that is an array; none where it isn't."""
    members = value.get(name) if isinstance(value, Mapping) else None
    return [m for m in members if isinstance(m, dict)] if isinstance(members, list) else []
