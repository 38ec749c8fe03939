"""What is kept of an exchange's bytes while it runs, for those exchanges that the user wants to keep.

What belongs here: which exchanges those are, the header fields that may be kept, and bounds. What
doesn't: files (audit/bodies.py). Off by default: without ``capture`` in the configuration nothing of
this is made.

Whether an exchange is wanted may show at its end only (one that fails), so its bytes are held until
then: pieces as they came, by reference, a bounded number of bytes an exchange and in all. Beyond
that a recording is partial. Of header fields those listed here are kept; keys are in none of them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from teeline.config.model import CaptureConfig
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Exchange, Headers, Severity, Side
from teeline.validators.operation import path_of
from teeline.validators.wsresponses import Message

REQUEST_FIELDS: Final = frozenset(
    ("accept", "content-encoding", "content-type", "openai-beta", "transfer-encoding")
)
RESPONSE_FIELDS: Final = frozenset(
    (
        *("cache-control", "content-encoding", "content-length", "content-type"),
        *("openai-processing-ms", "openai-version", "retry-after", "transfer-encoding"),
    )
)
QUERY: Final = frozenset(
    (
        *("after", "api-version", "before", "include_obfuscation"),
        *("limit", "order", "starting_after", "stream"),
    )
)
"""Parameters of a query that are kept; others may hold keys."""

_EVENT = re.compile(r"[A-Za-z0-9._-]{1,256}\Z")
_FIELDS = 32
_VALUE = 256
_TARGET = 2048
_FLAT = 64
"""Bytes that a piece costs beside its own."""


class Budget:
    """Bytes that all recordings of a process may hold together; used from several threads."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class Kept:
    """One body, from its start, as far as there is room."""

    __slots__ = ("headers", "partial", "pieces", "size")

    def __init__(self) -> None:
        self.headers: Headers = ()
        self.pieces: list[bytes] = []
        self.size = 0
        self.partial = False


class Recording:
    """What is held of one exchange. ``release`` gives its room back, and may be called twice."""

    def __init__(self, limit: int, budget: Budget) -> None:
        self.target = ""
        self.on_socket = False
        """It is of a response on a WebSocket; ``message`` says what is kept of that."""
        self.stored: Mapping[str, Any] | None = None
        """What the record says of it, once it was stored: a record may be written twice over."""
        self.request = Kept()
        self.response = Kept()
        self._limit = limit
        self._budget = budget
        self._taken = 0

    def request_head(self, head: RequestHead) -> None:
        self.target = _kept_target(head.target)
        self.request.headers = _kept_fields(head.headers, REQUEST_FIELDS)

    def request_body(self, data: bytes) -> None:
        self._keep(self.request, data)

    def response_head(self, head: ResponseHead) -> None:
        self.response.headers = _kept_fields(head.headers, RESPONSE_FIELDS)

    def response_body(self, data: bytes) -> None:
        self._keep(self.response, data)

    def message(self, message: Message) -> None:
        """A message on a WebSocket: the client's as it is, the server's as an event of a stream.

        So an answer is kept in the form that it has over HTTP, which everything else reads. Line ends
        within a message, which JSON has between its parts alone, become line feeds.
        """
        if message.side is Side.REQUEST:
            self._keep(self.request, message.data)
            self.request.partial |= not message.whole
        elif not message.whole:
            self.response.partial = True
        else:
            self._keep(self.response, _as_event(message))

    def release(self) -> None:
        taken, self._taken = self._taken, 0
        self._budget.give_back(taken)
        self.request.pieces = []
        self.response.pieces = []

    def _keep(self, body: Kept, data: bytes) -> None:
        if body.partial:
            return
        cost = len(data) + _FLAT
        if body.size + len(data) > self._limit or not self._budget.take(cost):
            body.partial = True
            return
        self._taken += cost
        body.size += len(data)
        body.pieces.append(bytes(data))


class Capture:
    """Which exchanges are recorded, and which of them are kept."""

    def __init__(self, config: CaptureConfig) -> None:
        self._config = config
        self._budget = Budget(config.memory)
        self._upstreams = frozenset(config.upstreams)
        self._rules = frozenset(pattern.removesuffix(".*") for pattern in config.rules)

    def open(self, upstream: str) -> Recording | None:
        """The recording of a new exchange; None where it can't be wanted."""
        if not upstream or (self._upstreams and upstream not in self._upstreams):
            return None
        return Recording(self._config.max_bytes, self._budget)

    def open_on_socket(self, upstream: str, head: RequestHead) -> Recording | None:
        """As ``open``, of a response on a WebSocket that was asked for with ``head``."""
        recording = self.open(upstream)
        if recording is not None:
            recording.on_socket = True
            recording.target = _kept_target(head.target)
            recording.request.headers = (("Content-Type", "application/json"),)
            recording.response.headers = (("Content-Type", "text/event-stream"),)
        return recording

    def wants(self, exchange: Exchange) -> bool:
        """Whether a closed exchange is kept."""
        when = self._config.when
        if when == "always":
            return True
        worst = exchange.worst(Side.RESPONSE) or Severity.INFO
        if (when == "fail" and worst is Severity.FAIL) or (
            when == "warn" and worst >= Severity.WARN
        ):
            return True
        broken = (violation.rule for violation in exchange.violations)
        return any(rule.id in self._rules or rule.family in self._rules for rule in broken)


def _as_event(message: Message) -> bytes:
    lines = [b"data: " + line for line in message.data.splitlines() or [b""]]
    if _EVENT.match(message.kind):
        lines.insert(0, b"event: " + message.kind.encode())
    return b"\n".join([*lines, b"", b""])


def _kept_fields(headers: Headers, names: Iterable[str]) -> Headers:
    kept = [(name, value[:_VALUE]) for name, value in headers if name.lower() in names]
    return tuple(kept[:_FIELDS])


def _kept_target(target: str) -> str:
    """The path, and of the query what is listed."""
    query = target.partition("?")[2].partition("#")[0]
    kept = [(name, value[:_FLAT]) for name, value in parse_qsl(query[:_TARGET]) if name in QUERY]
    path = path_of(target)[:_TARGET]
    return f"{path}?{urlencode(kept)}" if kept else path
