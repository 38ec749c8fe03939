"""A server's errors as the profile's: type, code, message and status of each.

What belongs here: HTTP answers, errors in streams, and what goes wrong on the way to a server. What
doesn't: noticing it (chat.py, upstream.py), refusing requests (envelope.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from teeline.proxy.nnrp.documents import FailedError, Problem, written
from teeline.validators.wire.json import decode

MAX_MESSAGE: Final = 4096
"""Characters of a server's message that are passed on."""

_INVALID: Final = "invalid_request_error"
_SERVER: Final = "server_error"
_STATUS: Final = re.compile(r"(?:HTTP[/ ]?[0-9.]*\s*)?[1-5][0-9][0-9](?:[ _:-].*)?\Z", re.I)
_BY_STATUS: Final[Mapping[int, tuple[str, str]]] = {
    400: (_INVALID, "invalid_request"),
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    404: (_INVALID, "not_found"),
    408: ("timeout_error", "timeout"),
    413: (_INVALID, "request_too_large"),
    422: (_INVALID, "invalid_request"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: (_SERVER, "overloaded"),
    504: ("timeout_error", "timeout"),
}
_BACKEND: Final = (_SERVER, "backend_error")
_SECONDS: Final = re.compile(r"[0-9]{1,5}\Z")
_NO_PATH: Final = re.compile(r"\A(?:file )?not found\.?\Z|\b(?:path|url|route|endpoint)\b", re.I)
_MEMBERS: Final = frozenset({"type", "code", "message"})


def unusable(message: str) -> FailedError:
    """An answer of the server that can't be passed on."""
    return FailedError(Problem(*_BACKEND, message, 502))


TIMEOUT: Final = Problem("timeout_error", "timeout", "The server did not answer in time.", 504)
UNREACHABLE: Final = Problem(*_BACKEND, "The server can't be reached.", 502)
BROKEN_OFF: Final = Problem(*_BACKEND, "The server broke its answer off.", 502)


def of_answer(status: int, body: bytes, retry_after: str = "") -> Problem:
    """The error that an HTTP answer other than 2xx tells; ``retry_after`` is its header field."""
    document = decode(body).value
    told = document.get("error") if isinstance(document, dict) else None
    if told is None and isinstance(document, dict) and "message" in document:
        told = document  # the bare form of older vLLM
    seconds = int(retry_after) if _SECONDS.match(retry_after) else 0
    return _mapped(told, status)._replace(retry_ms=seconds * 1000)


def path_is_absent(status: int, problem: Problem) -> bool:
    """Whether a server has no such path at all, other than no such model or object."""
    if status in (405, 501):
        return True
    return status == 404 and (
        problem.message == _silent(status) or _NO_PATH.search(problem.message) is not None
    )


def of_event(told: Any) -> Problem:
    """The error that a stream tells in its midst."""
    status = told.get("code") if isinstance(told, dict) else None
    known = isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599
    return _mapped(told, status if known and isinstance(status, int) else 500)


def _mapped(told: Any, status: int) -> Problem:
    """The server's own words where it has any; what failed inside it always has one code."""
    kind, code = _BY_STATUS.get(status, _BY_STATUS[400] if 400 <= status < 500 else _BACKEND)
    message = told if isinstance(told, str) and told else ""
    more: dict[str, Any] = {}
    if isinstance(told, dict):
        more = _more(told)
        if _is_word(told.get("type")):
            kind = told["type"]
        if _is_word(told.get("code")):
            if code == _BACKEND[1]:
                more["backend_code"] = told["code"]
            else:
                code = told["code"]
        if isinstance(told.get("message"), str):
            message = told["message"]
    message = message[:MAX_MESSAGE] or _silent(status)
    return Problem(kind, code, message, status if status >= 400 else 502, more)


def _more(told: Mapping[str, Any]) -> dict[str, Any]:
    """The other members of an error; none of them where one holds a number that JSON can't write."""
    more = {name: value for name, value in told.items() if name not in _MEMBERS}
    try:
        written(more)
    except ValueError:
        return {}
    return more


def _silent(status: int) -> str:
    """What is said for a server that says nothing."""
    return f"The server answered with status {status}."


def _is_word(value: Any) -> bool:
    """Whether a type or code can be kept: a word, and no HTTP status."""
    return isinstance(value, str) and 0 < len(value) <= 256 and not _STATUS.match(value[:64])
