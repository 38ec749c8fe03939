"""One HTTP request as an envelope of the profile: which operation it is, and its body byte for byte.

What belongs here: paths, what of a request the bridge must understand, hints from header fields, the
envelope. What doesn't: HTTP itself (server.py), whether the body is right by OpenAI: the server says that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from teeline.proxy.nnrp.bridge.failure import FailureError, refused
from teeline.validators.fields.nnrp import SCHEMA_VERSION
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from teeline.validators.wire.json import JsonFaultKind, decode

CHAT: Final = "chat.completions.create"
RESPONSES: Final = "responses.create"
MODELS: Final = "models.list"
EMBEDDINGS: Final = "embeddings.create"

ROUTES: Final[Mapping[str, tuple[str, str]]] = {
    "/v1/chat/completions": ("POST", CHAT),
    "/v1/responses": ("POST", RESPONSES),
    "/v1/models": ("GET", MODELS),
    "/v1/embeddings": ("POST", EMBEDDINGS),
}
"""Paths, and the method and operation of each."""
BASELINE: Final = Capabilities({CHAT: Declared()})
"""What is offered where no capability document is at hand: level 1."""

_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_SECRET: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "api-key", "x-api-key"}
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_MAX_HINT: Final = 256
_REFUSED: Final[Mapping[JsonFaultKind, str]] = {
    JsonFaultKind.INVALID: "is no JSON",
    JsonFaultKind.TRAILING: "goes on behind its JSON document",
    JsonFaultKind.EMPTY: "is empty",
    JsonFaultKind.UTF8: "is not UTF-8",
    JsonFaultKind.BOM: "begins with a byte order mark",
    JsonFaultKind.DEPTH: "is nested too deeply",
    JsonFaultKind.NONFINITE: "holds NaN, Infinity or a number beyond a double",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be submitted. ``envelope`` are its bytes."""

    operation: str
    request_id: str
    stream: bool
    include_usage: bool
    model: str
    envelope: bytes
    timeout_ms: int | None
    body: Mapping[str, Any] = field(repr=False)


def hint_fields(texts: Iterable[str]) -> dict[str, str]:
    """``FIELD=HINT`` each: which header field gives which hint. Raises ValueError.

    Fields that carry credentials are refused: a hint goes to the server as it is.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, mark, hint = text.partition("=")
        if not mark or not _FIELD.fullmatch(name) or not _NAME.fullmatch(hint):
            raise ValueError("a hint is FIELD=NAME, a header field and a member of nnrp")
        if name.lower() in _SECRET:
            raise ValueError(f"{name} carries credentials and can't be a hint")
        found[name.lower()] = hint
    return found


def request_id(given: str | None, made: str) -> str:
    """The client's X-Request-Id where it is fit to be repeated, else the one that was made."""
    return given if given is not None and _REQUEST_ID.fullmatch(given) else made


def hints_of(fields: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, Any]:
    """The hints that a request's header fields give; names in lower case. Raises FailureError."""
    hints: dict[str, Any] = {}
    for name, hint in wanted.items():
        text = fields.get(name)
        if text is None:
            continue
        if len(text) > _MAX_HINT:
            raise refused(400, "invalid_hint", f"The header field {name} is too long for a hint.")
        hints[hint] = _hint(text)
    timeout = hints.get("timeout_ms", 0)
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 0:
        raise refused(400, "invalid_hint", "timeout_ms must be a whole number of milliseconds.")
    if not isinstance(hints.get("diagnostics", True), bool):
        raise refused(400, "invalid_hint", "diagnostics must be true or false.")
    return hints


def _hint(text: str) -> Any:
    """A number, true, false or null where the text is one, else the text."""
    value = decode(text.encode("utf-8", "replace"))
    plain = value.ok and not value.faults and not isinstance(value.value, dict | list)
    return value.value if plain else text


def asked_of(
    operation: str,
    data: bytes,
    request_id: str,
    hints: Mapping[str, Any],
    capabilities: Capabilities,
) -> Asked:
    """The request whose body is ``data`` (empty for models.list). Raises FailureError."""
    declared = capabilities.operations.get(operation)
    if declared is None:
        raise refused(404, "unsupported_operation", f"The NNRP server does not offer {operation}.")
    raw = b"{}" if operation == MODELS else data.strip(b" \t\r\n")
    body = {} if operation == MODELS else _body(raw)
    stream = body.get("stream") is True
    _check_declared(operation, body, declared, capabilities, stream=stream)
    options = body.get("stream_options")
    model = body.get("model")
    envelope = b'{"schema_version":%s,"operation":%s,"request_id":%s,"body":%s%s}' % (
        _text(SCHEMA_VERSION),
        _text(operation),
        _text(request_id),
        raw,
        b',"nnrp":' + json.dumps(hints, separators=(",", ":")).encode() if hints else b"",
    )
    return Asked(
        operation,
        request_id,
        stream,
        isinstance(options, dict) and options.get("include_usage") is True,
        model if isinstance(model, str) else "",
        envelope,
        hints.get("timeout_ms") or None,
        body,
    )


def _text(text: str) -> bytes:
    return json.dumps(text).encode()


def _body(raw: bytes) -> dict[str, Any]:
    """The body as a value; what the profile's encoding or the bridge itself can't take is refused."""
    document = decode(raw)
    for fault in document.faults:
        if fault.kind in _REFUSED:
            what = _REFUSED[fault.kind]
            raise refused(400, "invalid_json", f"The request body {what} (byte {fault.byte}).")
    body = document.value
    if not isinstance(body, dict):
        raise refused(400, "invalid_json", "The request body is no JSON object.")
    if "nnrp" in body:
        raise refused(400, "unknown_parameter", "nnrp is no member of a request body.", "nnrp")
    if not isinstance(body.get("stream"), bool | None):
        raise refused(400, "invalid_type", "stream must be true or false.", "stream")
    return body


def _check_declared(
    operation: str,
    body: Mapping[str, Any],
    declared: Declared,
    capabilities: Capabilities,
    *,
    stream: bool,
) -> None:
    """Refuses what the capability document says the server can't do."""
    mode = declared.streaming if stream else declared.non_streaming
    if mode is False:
        words = "stream" if stream else "answer without streaming"
        raise _unsupported(f"The NNRP server does not {words} for {operation}.", "stream")
    if body.get("tools") and declared.tool_calls is False:
        raise _unsupported(f"The NNRP server has no tool calls for {operation}.", "tools")
    model = body.get("model")
    if capabilities.models and isinstance(model, str) and model not in capabilities.models:
        raise refused(404, "model_not_found", "The NNRP server does not offer this model.", "model")


def _unsupported(message: str, param: str) -> FailureError:
    return refused(400, "unsupported_parameter", message, param)
