"""What the proxy asks of whoever inspects: in its own process, beside the traffic, on a WebSocket.

What belongs here: these interfaces. What doesn't: who fulfils them (validators, schemapool.py,
inspectpool.py), and feeding them (tee.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from teeline.validators.events import (
    Output,
    Report,
    RequestHead,
    ResponseHead,
    SchemaResult,
    Task,
)
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.wsresponses import Keep


class SchemaChecker(Protocol):
    """Checks a document against an untrusted schema, away from the event loop."""

    async def check(self, schema: Any, document: Any) -> SchemaResult: ...


class AsideInspector(Protocol):
    """Does the parts of inspections that take long, away from the event loop."""

    @property
    def longest(self) -> float:
        """Seconds after which there is a report at the latest."""

    async def inspect(self, task: Task) -> Report: ...


class Inspection(Protocol):
    """What a tee asks of any inspector: the end, and schema checks that are out by then."""

    @property
    def pending(self) -> int: ...

    def end(self, ended: Ended, at: float) -> Sequence[Output]: ...

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]: ...

    def expire(self, at: float) -> Sequence[Output]: ...


class ExchangeInspector(Inspection, Protocol):
    """And of one exchange's; PlainInspector and Inspector (validators) are those in use."""

    @property
    def acting(self) -> ExchangeInspector:
        """Whoever is to be told of what comes next: itself, or what has taken its place."""

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]: ...

    def request_body(self, data: bytes, at: float) -> Sequence[Output]: ...

    def request_end(self, at: float) -> Sequence[Output]: ...

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]: ...

    def response_body(self, data: bytes, at: float) -> Sequence[Output]: ...

    def inspected(self, report: Report, at: float) -> Sequence[Output]: ...


class SocketInspector(Inspection, Protocol):
    """And of a WebSocket's; SocketResponses and UpgradedSocket (validators) are those in use.

    It opens and closes exchanges of its own; the connection's is closed by the tee. ``ticks``: it has to
    know now and then how late it is.
    """

    @property
    def ticks(self) -> bool: ...

    def tick(self, at: float) -> Sequence[Output]: ...

    def client_bytes(self, data: bytes, at: float) -> Sequence[Output]: ...

    def server_bytes(self, data: bytes, at: float) -> Sequence[Output]: ...

    def client_left(self) -> None: ...


Inspect = Callable[[Exchange, Limits], ExchangeInspector]
"""Makes the inspector of an exchange."""

Listen = Callable[
    [Exchange, Callable[[], Exchange], RequestHead, ResponseHead, Limits, Keep], SocketInspector
]
"""Makes the inspector of a WebSocket whose handshake is over; the second makes its exchanges, the last
is told whose each message is.
"""
