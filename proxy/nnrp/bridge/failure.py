"""What goes wrong behind the bridge, as an OpenAI client has to hear it: a status and an error object.

What belongs here: the mapping of profile errors, drops, ERRORs and losses. What doesn't: when they happen
(handler.py), how an HTTP answer is written (server.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from teeline.proxy.nnrp.clientoperation import Cancelled, Dropped, Ending, Failed, Lost
from teeline.proxy.text import printable
from teeline.validators.wire.nnrpcodes import CancelReason, DropReason, ErrorCode

INVALID: Final = "invalid_request_error"
SERVER: Final = "server_error"
_SHOWN: Final = 300
"""Characters of a server's diagnostic text that go into a message."""
_RETRY_MS: Final = 1000
_LATER: Final = (429, 503)


class FailureError(Exception):
    """An answer that is an error. ``own``: it is the bridge's word and not the server's.

    ``error`` is the object below the body's member ``error``. ``retry_after_ms`` 0 is none, and the usual
    wait where the status says to come again.
    """

    def __init__(self, status: int, error: Mapping[str, Any], *, own: bool = True) -> None:
        super().__init__(f"status {status}, code {error.get('code')}")
        self.status, self.error, self.own = status, error, own
        self.retry_after_ms = _RETRY_MS if status in _LATER else 0

    @property
    def code(self) -> str:
        return str(self.error.get("code"))

    @property
    def body(self) -> bytes:
        """The JSON document of an error answer, which is also the data of an error event."""
        return json.dumps({"error": self.error}, separators=(",", ":")).encode()


def refused(status: int, code: str, message: str, param: str | None = None) -> FailureError:
    """An error of the bridge's own."""
    kind = INVALID if status < 500 else SERVER
    error = {"message": message, "type": kind, "param": param, "code": code}
    return FailureError(status, error)


BROKEN: Final = "The NNRP server broke the protocol: "


def broken(what: str) -> FailureError:
    """The server sent something that can't be passed on."""
    return refused(502, "upstream_invalid", BROKEN + what)


# -- response.error ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mapped:
    status: int
    word: re.Pattern[str]


_BY_CODE: Final = (
    _Mapped(
        404, re.compile(r"unsupported_operation|(?:model|operation)_not_found|unsupported_model")
    ),
    _Mapped(401, re.compile(r"authentication|unauthori[sz]ed|invalid_api_key")),
    _Mapped(403, re.compile(r"permission|forbidden")),
    _Mapped(429, re.compile(r"rate_limit|too_many_requests|insufficient_quota")),
    _Mapped(503, re.compile(r"overload|busy|unavailable|capacity|backpressure|queue_full")),
    _Mapped(504, re.compile(r"timeout|timed_out|deadline")),
    _Mapped(404, re.compile(r"not_?found")),
    _Mapped(400, re.compile(r"invalid_request|bad_?request")),
)
_OPENAI: Final = ("message", "type", "param", "code")


def from_error(document: Mapping[str, Any], result_status: int = 0) -> FailureError:
    """The error of a response.error or a tool_call.error; its members are kept, missing ones made.

    ``result_status`` is that of the RESULT_PUSH, which decides where the words say nothing.
    """
    error = document.get("error")
    given = error if isinstance(error, dict) else {}
    message, kind, code = (given.get(name) for name in ("message", "type", "code"))
    words = " ".join(word[:256].lower() for word in (code, kind) if isinstance(word, str))
    usual = _as_http(result_status)
    status = next((m.status for m in _BY_CODE if m.word.search(words)), usual)
    filled: dict[str, Any] = {
        "message": message if isinstance(message, str) else "The NNRP server reported an error.",
        "type": kind if isinstance(kind, str) and kind else (INVALID if status < 500 else SERVER),
        "param": given.get("param") if isinstance(given.get("param"), str) else None,
        "code": code if isinstance(code, str) and code else None,
    }
    filled |= {name: value for name, value in given.items() if name not in _OPENAI}
    return FailureError(status, filled, own=False)


def _as_http(status: int) -> int:
    """The status of a RESULT_PUSH that is an error, as one of HTTP; 499 is none."""
    return status if 400 <= status < 600 and status != 499 else 500


def from_status(status: int) -> FailureError:
    """A RESULT_PUSH without a document whose status says that it is no success."""
    message = f"The NNRP server ended the operation with status {status} and no document."
    return refused(_as_http(status), "upstream_failed", message)


# -- other ends ----------------------------------------------------------------------------------------

_DROPS: Final[Mapping[int, tuple[int, str, str]]] = {
    DropReason.DEADLINE: (504, "deadline_exceeded", "its deadline passed"),
    DropReason.SUPERSEDED: (500, "superseded", "another operation took its place"),
    DropReason.PEER_CANCELLED: (500, "cancelled", "it was cancelled"),
    DropReason.BACKPRESSURE: (503, "overloaded", "the server has no room for it"),
    DropReason.CAPABILITY: (404, "unsupported_operation", "the server can't do it"),
    DropReason.BUDGET: (429, "budget_exceeded", "its budget is used up"),
    DropReason.TRANSPORT_CLOSED: (502, "upstream_lost", "the server lost its transport"),
}
_ERRORS: Final[Mapping[int, tuple[int, str, str]]] = {
    ErrorCode.LIMIT: (503, "overloaded", "a limit of the server is reached"),
    ErrorCode.SERVER_BUSY: (503, "overloaded", "the server is busy"),
    ErrorCode.FRAME_EXPIRED: (504, "deadline_exceeded", "its deadline passed"),
    ErrorCode.FRAME_CANCELLED: (500, "cancelled", "it was cancelled"),
    ErrorCode.INTERNAL: (500, "upstream_failed", "the server failed"),
    ErrorCode.UNSUPPORTED_CAPABILITY: (404, "unsupported_operation", "the server can't do it"),
}
_OTHER_DROP: Final = (500, "dropped", "the server gave no known reason")
_OTHER_ERROR: Final = (502, "upstream_failed", "the server refused what the bridge sent")
_CANCELS: Final[Mapping[int, tuple[int, str, str]]] = {
    CancelReason.DEADLINE: (504, "timeout", "it took longer than allowed"),
    CancelReason.SHUTDOWN: (503, "shutting_down", "the bridge is shutting down"),
}
_OTHER_CANCEL: Final = (500, "cancelled", "it was cancelled")


def from_ending(ending: Ending) -> FailureError:
    """The error that an end without a document is; ``ending`` is no Result."""
    if isinstance(ending, Lost):
        if ending.protocol:
            return broken(f"{ending.why}.")
        return refused(502, "upstream_lost", f"The operation was not finished: {ending.why}.")
    if isinstance(ending, Cancelled):
        status, code, why = _CANCELS.get(ending.reason, _OTHER_CANCEL)
        return refused(status, code, f"The operation was cancelled: {why}.")
    assert isinstance(ending, Dropped | Failed)
    if isinstance(ending, Dropped):
        status, code, why = _DROPS.get(ending.reason, _OTHER_DROP)
    else:
        status, code, why = _ERRORS.get(ending.code, _OTHER_ERROR)
    said = printable(ending.diagnostic.decode("utf-8", "replace"), _SHOWN)
    message = f"The NNRP server gave the operation up: {why}{f' ({said})' if said else ''}."
    return refused(status, code, message)


def cancelled_by_server(document: Mapping[str, Any]) -> FailureError:
    """A response.cancelled that nobody here asked for."""
    reason = document.get("reason")
    said = f": {printable(reason, _SHOWN)}" if isinstance(reason, str) and reason else ""
    return refused(500, "cancelled", f"The NNRP server cancelled the operation{said}.")
