"""Recorded bytes of real clients and servers pass through teeline unchanged, piece by piece.

Each recorded connection is played again: a socket client sends what the client sent and a socket
upstream answers what the server answered, both cut where the recorder's reads cut them. Each piece
has to have arrived at the other side before the next one is sent, so that nothing may be held back;
a proxy that waits for more never gets it. With TEELINE_TRANSCRIPTS set, the recordings of that folder
are played instead of those beside the tests.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from teeline.proxy.handover import InBatches
from teeline.validators.events import (
    Closed,
    Output,
    RequestHead,
    ResponseHead,
    SchemaCheck,
    SchemaResult,
)
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended, Exchange, Headers, Violation
from tests.proxy.raw import Recorder, Wire, client, proxy, raw_upstream, run
from tests.transcripts import tape
from tests.transcripts.tape import Parsed, Step, Tape

TAPES = tape.tapes(Path(os.environ.get("TEELINE_TRANSCRIPTS", str(tape.HERE))))

_STALLED = 5.0
"""Seconds after which a piece counts as held back."""


class _Awaited(Recorder):
    """Lets a test wait until so many exchanges are over."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def closed(self, event: Closed) -> None:
        super().closed(event)
        self._changed.set()

    async def have_closed(self, count: int) -> None:
        async with asyncio.timeout(_STALLED):
            while len(self.exchanges) < count:
                self._changed.clear()
                await self._changed.wait()


class _End:
    """One end of the proxy: what it has sent, what it has received, and whether its peer has ended."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.sent = b""
        self.received = b""
        self.ended = False

    async def until(self, arrived: Callable[[], bool]) -> None:
        async with asyncio.timeout(_STALLED):
            while not arrived() and not self.ended:
                await self._read()

    async def until_end(self) -> None:
        await self.until(lambda: False)

    async def _read(self) -> None:
        try:
            piece = await self.wire.reader.read(64 * 1024)
        except ConnectionResetError:
            piece = b""
        self.received += piece
        self.ended = not piece


class _Played(NamedTuple):
    """What both ends have sent and received, as messages, and the exchanges that were reported."""

    sent_requests: list[Parsed]
    got_requests: list[Parsed]
    sent_answers: list[Parsed]
    got_answers: list[Parsed]
    exchanges: list[Exchange]


async def _play(recording: Tape) -> _Played:
    accepted: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold(wire: Wire) -> None:
        accepted.set_result(wire)
        await over.wait()

    recorder = _Awaited()
    async with (
        raw_upstream(hold) as upstream,
        proxy(upstream.url, recorder, handover=InBatches()) as teeline,
        client(teeline.port) as wire,
    ):
        near = _End(wire)
        far: _End | None = None
        for step in recording.steps:
            if step.who == "client":
                far = await _client_step(step, near, far, accepted)
            else:
                assert far is not None, "the server spoke first"
                await _server_step(step, near, far)
        assert far is not None
        await recorder.have_closed(len(tape.requests(near.sent)))
        over.set()
    # In the order of requests: an exchange that waits for a schema check closes behind later ones.
    return _outcome(near, far, sorted(recorder.exchanges, key=lambda each: each.timing.start))


async def _client_step(
    step: Step, near: _End, far: _End | None, accepted: asyncio.Future[Wire]
) -> _End | None:
    """The client sends a piece, or leaves; the upstream must come to know of it."""
    if not step.data:
        assert far is not None
        near.wire.reset() if step.reset else near.wire.close()
        await far.until_end()
        return far
    near.sent += step.data
    await near.wire.send(step.data)
    due = tape.progress(tape.requests(near.sent))
    if far is None and due[0]:
        far = _End(await asyncio.wait_for(accepted, _STALLED))
    if far is not None:
        end = far
        await end.until(lambda: tape.progress(tape.requests(end.received)) >= due)
    return far


async def _server_step(step: Step, near: _End, far: _End) -> None:
    """The upstream sends a piece, or ends the connection; the client must come to know of it."""
    if not step.data:
        far.wire.close()
        await near.until_end()
        return
    far.sent += step.data
    await far.wire.send(step.data)
    asked = tape.requests(near.sent)
    due = tape.progress(tape.answers(far.sent, asked))
    await near.until(lambda: tape.progress(tape.answers(near.received, asked)) >= due)


def _outcome(near: _End, far: _End, exchanges: list[Exchange]) -> _Played:
    asked = tape.requests(near.sent)
    return _Played(
        asked,
        tape.requests(far.received),
        tape.answers(far.sent, asked, ended=near.ended),
        tape.answers(near.received, asked, ended=near.ended),
        exchanges,
    )


def _offline(request: Parsed, answer: Parsed | None, ended: Ended, at: float) -> Exchange:
    """The exchange that the inspector makes of the same bytes in one piece, with no proxy near.

    ``at`` is the time of all of it: what `created` may be depends on the day.
    """
    exchange = Exchange()
    inspector = Inspector(exchange)
    method, target, _ = request.start.decode("latin-1").split(" ")
    opening = RequestHead(method, target, _headers(request.fields))
    outputs: list[Output] = list(inspector.request_head(opening, at))
    if request.content:
        outputs += inspector.request_body(request.content, at)
    outputs += inspector.request_end(at)
    if answer is not None:
        head = ResponseHead(answer.status, _headers(answer.fields))
        outputs += inspector.response_head(head, at)
        if answer.content:
            outputs += inspector.response_body(answer.content, at)
    outputs += inspector.end(ended, at)
    for output in outputs:
        if isinstance(output, SchemaCheck):
            # As in a proxy that was given no schema pool.
            unchecked = SchemaResult(unchecked="unavailable")
            inspector.schema_result(output.ticket, unchecked, at)
    return exchange


def _violations(exchange: Exchange) -> list[tuple[object, ...]]:
    """All that a violation says, but for the time; rules about times have nothing to go by offline."""
    return [_said(v) for v in exchange.violations if v.rule.family != "timing"]


def _said(violation: Violation) -> tuple[object, ...]:
    v = violation
    return v.rule.id, v.severity, v.message, v.place, v.evidence, v.count


def _facts(exchange: Exchange) -> tuple[object, ...]:
    e = exchange
    return (
        *(
            e.method,
            e.path,
            e.operation,
            e.model,
            e.stream,
            e.request_bytes,
            e.status,
            e.request_id,
        ),
        *(e.response_id, e.response_model, e.response_bytes, e.events, e.usage, e.finish),
        *(e.error_type, e.ended, e.inspection),
    )


@pytest.fixture(scope="module")
def played() -> Callable[[Tape], _Played]:
    """Plays each recording once for all promises about it."""
    cache: dict[str, _Played] = {}

    def play(recording: Tape) -> _Played:
        if recording.name not in cache:
            cache[recording.name] = run(_play(recording))
        return cache[recording.name]

    return play


recorded = pytest.mark.parametrize("recording", TAPES, ids=lambda recording: recording.name)


@recorded
def test_the_upstream_gets_what_the_client_sent(
    recording: Tape, played: Callable[[Tape], _Played]
) -> None:
    got = played(recording)
    assert [m.end_to_end for m in got.got_requests] == [m.end_to_end for m in got.sent_requests]


@recorded
def test_the_client_gets_what_the_upstream_sent(
    recording: Tape, played: Callable[[Tape], _Played]
) -> None:
    """Status, reason, fields and content; and an answer that was cut off is not made whole."""
    got = played(recording)
    assert [m.end_to_end for m in got.got_answers] == [m.end_to_end for m in got.sent_answers]


@recorded
def test_the_findings_are_those_of_the_same_bytes_offline(
    recording: Tape, played: Callable[[Tape], _Played]
) -> None:
    got = played(recording)
    assert len(got.exchanges) == len(got.sent_requests)
    left = recording.steps[-1].who == "client"
    for number, exchange in enumerate(got.exchanges):
        answer = got.sent_answers[number] if number < len(got.sent_answers) else None
        whole = answer is not None and answer.complete
        cut_off = Ended.CLIENT_CLOSED if left else Ended.UPSTREAM_ABORTED
        ended = Ended.COMPLETE if whole else cut_off
        offline = _offline(got.sent_requests[number], answer, ended, exchange.timing.start)
        assert _violations(exchange) == _violations(offline)
        assert _facts(exchange) == _facts(offline)


def test_the_recordings_hold_every_kind_of_connection() -> None:
    """Kept alive, cut off by the client in both ways, streamed and whole, refused and compressible."""
    ends = {(tape_.steps[-1].who, tape_.steps[-1].reset) for tape_ in TAPES}
    assert ends == {("client", False), ("client", True), ("server", False)}
    assert len(TAPES) >= 60


def _headers(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields)
