"""What passed on both sides of a bridge for one request, kept to be compared where that holds nobody up.

What belongs here: the two sides as data, and as a task that another process can do (aside.py has the
others). What doesn't: the comparison (bridge.py), who keeps the sides and asks (proxy/nnrp/bridge).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from teeline.validators.aside import adopt, report_of, task
from teeline.validators.checks.context import Context
from teeline.validators.events import Output, Report, Task
from teeline.validators.limits import Limits
from teeline.validators.model import Exchange
from teeline.validators.nnrp.bridge import Bridge, HttpEnd
from teeline.validators.operation import Operation as Api
from teeline.validators.wire.sse import SseReader

BRIDGE: Final = "bridge"
"""The kind of task, and the operation of the exchange that its findings go to."""


_GATHERED: Final = 64 * 1024
"""Bytes of small pieces that are put together."""


@dataclass(slots=True)
class Passed:
    """One request over a bridge with HTTP in front. Times are Unix seconds, bytes are as they passed.

    ``sent`` is the body of the HTTP answer in pieces, an event stream where ``streamed``, and ``end`` how it
    came to its end at ``left_at``. ``events`` are bodies of PARTIAL_RESULTs; ``document`` ended the
    operation, empty for an empty success, None where it ended in another way. ``ended`` is false for an
    operation that went on at ``looked_at``. ``missing`` says why not everything was kept, empty where it was.
    """

    method: str
    target: str
    request: bytes
    envelope: bytes
    status: int = 0
    streamed: bool = False
    sent: list[bytes] = field(default_factory=list)
    end: HttpEnd = HttpEnd.WHOLE
    left_at: float = 0.0
    events: list[bytes] = field(default_factory=list)
    document: bytes | None = None
    ended: bool = True
    cancelled: bool = False
    looked_at: float = 0.0
    missing: str = ""

    def task(self) -> Task:
        """The comparison, to be done by ``compare``."""
        pieces = [self.envelope, self.document or b"", *self.sent, *self.events]
        facts = {
            "method": self.method,
            "target": self.target,
            "status": self.status,
            "streamed": self.streamed,
            "end": self.end.name,
            "left_at": self.left_at,
            "document": self.document is not None,
            "ended": self.ended,
            "cancelled": self.cancelled,
            "looked_at": self.looked_at,
            "missing": self.missing,
            "sent": len(self.sent),
            "lengths": list(map(len, pieces)),
        }
        return task(BRIDGE, facts, self.request, list(_gathered(pieces)))


def read(task: Task) -> Passed:
    """The sides that a task was made of; its pieces may have been cut anew."""
    facts = json.loads(task.header)
    pieces = _cut(b"".join(task.pieces), facts.pop("lengths"))
    envelope, document = islice(pieces, 2)
    has_document, end = facts.pop("document"), HttpEnd[facts.pop("end")]
    return Passed(
        request=task.request,
        envelope=envelope,
        sent=list(islice(pieces, facts.pop("sent"))),
        events=list(pieces),
        document=document if has_document else None,
        end=end,
        **facts,
    )


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in few pieces, each of which is written by itself; large ones are not copied."""
    group: list[bytes] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _GATHERED:
            yield b"".join(group)
            group, size = [], 0
        group.append(piece)
        size += len(piece)
    yield b"".join(group)


def _cut(data: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for length in lengths:
        yield data[at : at + length]
        at += length


def compare(task: Task, limits: Limits) -> bytes:
    """The report of a task: what the comparison finds. Peer bytes never raise."""
    passed = read(task)
    bridge = Bridge(Exchange(), limits=limits)
    if passed.missing:
        bridge.missing(passed.missing)
    bridge.http_request(passed.method, passed.target, passed.request)
    bridge.submitted(passed.envelope)
    for event in passed.events:
        bridge.event(event)
    if passed.cancelled:
        bridge.cancelled()
    if passed.ended:
        bridge.ended(passed.document, passed.left_at)
    bridge.http_answer(passed.status)
    if passed.streamed:
        _read_stream(bridge, passed.sent, limits)
    elif passed.sent:
        bridge.http_body(b"".join(passed.sent))
    bridge.http_ended(passed.end, passed.left_at)
    bridge.close(passed.looked_at)
    return report_of(bridge.context)


def _read_stream(bridge: Bridge, pieces: Sequence[bytes], limits: Limits) -> None:
    reader = SseReader(limits)
    for piece in pieces:
        for event in reader.feed(piece):
            if event.data is not None:
                bridge.http_event(b"\n".join(event.data))
    if reader.limit:
        bridge.missing(reader.limit)


def adopted(exchange: Exchange, report: Report, limits: Limits) -> Sequence[Output]:
    """Takes a report's findings over into the exchange. Raises ValueError and KeyError where it is none."""
    context = Context(exchange, Api.OTHER, limits)
    if report.failed:
        context.partial(f"inspection-{report.failed}")
        return []
    adopt(context, json.loads(report.data))
    return context.report.drain()
