"""The request that a submit carries: its envelope read, and refused where the profile has it refused.

What belongs here: members of the envelope, hints, and the one rule that the profile has for a body
(missing_messages). What doesn't: the rest of a body, which the server judges; packets (server.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from teeline.proxy.nnrp.documents import refused
from teeline.validators.fields.nnrp import ENVELOPE, OPERATIONS, SCHEMA_VERSION, is_count
from teeline.validators.wire.json import JsonFaultKind, decode
from teeline.validators.wire.jsonraw import members_of

CHAT: Final = "chat.completions.create"
MAX_TIMEOUT_MS: Final = 24 * 3600 * 1000

_FATAL: Final = frozenset(
    {JsonFaultKind.INVALID, JsonFaultKind.TRAILING, JsonFaultKind.BOM, JsonFaultKind.NONFINITE}
    | {JsonFaultKind.UTF8, JsonFaultKind.DEPTH, JsonFaultKind.EMPTY}
)
_MEMBERS: Final = frozenset(f"/{name}" for name in ENVELOPE)
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]{1,256}\Z")


class Request(NamedTuple):
    """What is asked. ``body`` is the JSON text as the client wrote it, ``document`` its value.

    ``timeout`` is in seconds, None for none; ``cancel_after`` the number of events after which the
    client wants the operation cancelled, None for never. ``request_id`` is empty where none was given
    or where it can't stand in a header field.
    """

    operation: str
    body: bytes
    document: Mapping[str, Any]
    request_id: str = ""
    timeout: float | None = None
    cancel_after: int | None = None

    @property
    def stream(self) -> bool:
        return self.document.get("stream") is True


def read_request(payload: bytes, offered: frozenset[str]) -> Request:
    """The request in a submit's payload; ``offered`` are the operations. FailedError for a refusal."""
    read = decode(payload)
    fault = next((f for f in read.faults if f.kind in _FATAL), None)
    if fault is not None:
        raise refused("invalid_json", f"The payload is no JSON document: {fault.kind.value}.")
    envelope = read.value
    if not isinstance(envelope, dict):
        raise refused("invalid_envelope", "The payload is no JSON object.")
    operation = _operation(envelope, offered)
    body = envelope.get("body")
    if not isinstance(body, dict):
        raise refused("invalid_envelope", "body must be an object.")
    if operation == CHAT and not body.get("messages"):
        raise refused("missing_messages", "messages is required.")
    if "nnrp" in body:
        raise refused("invalid_body", "nnrp belongs in the envelope, not in its body.")
    if any(f.kind is JsonFaultKind.DUPLICATE_KEY and f.pointer in _MEMBERS for f in read.faults):
        # Two readers could take it two ways.
        raise refused("invalid_envelope", "The envelope has a member twice.")
    return Request(
        operation,
        members_of(payload)["body"],
        body,
        _header_value(envelope.get("request_id")),
        *_hints(envelope.get("nnrp")),
    )


def _operation(envelope: Mapping[str, Any], offered: frozenset[str]) -> str:
    if envelope.get("schema_version") != SCHEMA_VERSION:
        raise refused("unsupported_schema_version", f"schema_version must be {SCHEMA_VERSION}.")
    operation = envelope.get("operation")
    if not isinstance(operation, str) or not operation:
        raise refused("invalid_envelope", "operation must be a string.")
    if operation not in OPERATIONS or operation not in offered:
        raise refused("unsupported_operation", "Unsupported profile operation.", 404)
    return operation


def _header_value(request_id: Any) -> str:
    fits = isinstance(request_id, str) and _HEADER_VALUE.match(request_id)
    return request_id if fits else ""


def _hints(hints: Any) -> tuple[float | None, int | None]:
    """The timeout in seconds and the events to cancel after; what is no number is no hint."""
    if hints is None:
        return None, None
    if not isinstance(hints, dict):
        raise refused("invalid_envelope", "nnrp must be an object.")
    timeout, after = hints.get("timeout_ms"), hints.get("cancel_after_events")
    seconds = min(float(timeout), MAX_TIMEOUT_MS) / 1000 if is_count(timeout) and timeout else None
    return seconds, int(after) if is_count(after) and after else None
