"""What is known of one operation: the exchange it is, what was asked, what came, how it ended.

What belongs here: state that several checks share. What doesn't: rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.joined import Joined, Texts
from teeline.validators.limits import Limits
from teeline.validators.model import Exchange, Side, Unit
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from teeline.validators.operation import Operation as Api
from teeline.validators.timeline import Timeline
from teeline.validators.wire.nnrp import Packet

MOST_UNPARSED = 64
"""Arguments that are no JSON, kept until the end shows whether they were cut."""


class Trail:
    """An exchange and the means to report on it."""

    def __init__(self, exchange: Exchange, limits: Limits, at: float) -> None:
        self._begin(exchange, limits)
        exchange.timeline = self.timeline.entries
        exchange.timing.start = at
        exchange.method = "NNRP"

    def _begin(self, exchange: Exchange, limits: Limits) -> None:
        self.exchange = exchange
        self.limits = limits
        self.ctx = Context(exchange, Api.OTHER, limits)
        self.report = self.ctx.report
        self.timeline = Timeline()

    @classmethod
    def of(cls, exchange: Exchange, limits: Limits) -> Trail:
        """Reports on an exchange of somebody else's, who has its times and its timeline."""
        trail = cls.__new__(cls)
        trail._begin(exchange, limits)
        return trail

    def look_at(self, side: Side, packet: Packet, at: float) -> None:
        """What is reported next lies in this packet."""
        report = self.report
        report.at = at
        report.side = side
        report.place(Unit.PACKET, packet.index, packet.offset)


@dataclass(slots=True)
class Call:
    """A tool call by its events."""

    name: Any
    item: Any
    index: Any
    arguments: Joined
    whole: Joined
    deltas: int = 0
    started: bool = True
    ended: str = ""
    named: Any = None


class Operation(Trail):
    """One FRAME_SUBMIT with everything that answers it."""

    def __init__(
        self,
        exchange: Exchange,
        limits: Limits,
        at: float,
        capabilities: Capabilities | None,
    ) -> None:
        super().__init__(exchange, limits, at)
        self.session = 0
        self.frame = 0
        self.id = 0
        self.at = at
        self.timed = True  # times are those of the wire, not made up
        self.shutting_down = False
        self.reused = False  # its frame was that of an active operation
        self.left = False  # the client has ended its session
        # what was asked
        self.capabilities = capabilities
        self.name: str | None = None
        self.known = False  # the envelope's body was read
        self.stream = False
        self.body: Mapping[str, Any] = {}
        self.hints: Mapping[str, Any] = {}
        self.request_id: str | None = None
        self.refusable = ""  # the rule that an answer other than an error breaks
        self.broken_frame = False
        self.without_messages = False
        self.invalid_body = False
        # what came
        self.sequence: int | None = None
        self.final_partial = False
        self.texts: dict[Any, Joined] = {}
        self._told = Texts(self.ctx)
        self.calls: dict[str, Call] = {}
        self.tool_events = False
        self.usage: Mapping[str, Any] | None = None
        self.usages = 0
        self.completed_events = 0
        self.error_event = False
        self.cancelled_event = False
        self.unparsed: list[tuple[int, int, int]] = []  # packet, byte, length of arguments
        self.asked_to_wait = False
        # how it ended
        self.terminal = ""
        self.terminal_at = 0.0
        self.cancelled_at: float | None = None
        self.latest_partial = 0.0
        self.timed_out = False

    def text(self, kind: str) -> Joined:
        """A text that is told in pieces; ``partial`` is set where one of them can't be read."""
        return Joined(self._told, kind)

    @property
    def declared(self) -> Declared | None:
        """What the capability document at hand says of this operation; None for nothing."""
        if self.capabilities is None or self.name is None:
            return None
        return self.capabilities.operations.get(self.name)

    @property
    def cancelled(self) -> bool:
        return self.cancelled_at is not None

    @property
    def active(self) -> bool:
        """Neither ended nor cancelled."""
        return not self.terminal and self.cancelled_at is None

    @property
    def open_calls(self) -> list[Call]:
        """Tool calls that were started and have not ended."""
        return [call for call in self.calls.values() if call.started and not call.ended]
