"""Sinks know nothing of each other: what one of them does, or fails to do, is its own affair."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from teeline.proxy.sinks import Fanout, SinkError, ignored
from teeline.validators.events import Closed, Found, Opened, Output, SchemaCheck
from teeline.validators.model import Exchange, Place, Side, Unit, Violation
from teeline.validators.rules import register

RULE = register()["chatstream.done-missing"]
EXCHANGE = Exchange(id="x")
FOUND = Found(
    EXCHANGE,
    Violation(RULE, RULE.severity, RULE.summary, Place(Side.RESPONSE, Unit.BODY), "", 1.0),
)
OUTPUTS: list[Output] = [Opened(EXCHANGE), FOUND, Closed(EXCHANGE)]


class Recorder:
    """A sink that remembers what it was told; ``faults`` are raised by the call of that name."""

    def __init__(self, name: str, **faults: BaseException) -> None:
        self.name = name
        self.calls: list[str] = []
        self.seen: list[Output] = []
        self._faults = faults

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if call in self._faults:
            raise self._faults[call]

    async def start(self) -> None:
        self._called("start")

    def opened(self, event: Opened) -> None:
        self._called("opened")
        self.seen.append(event)

    def found(self, event: Found) -> None:
        self._called("found")
        self.seen.append(event)

    def closed(self, event: Closed) -> None:
        self._called("closed")
        self.seen.append(event)

    async def drain(self, deadline: float) -> None:
        self._called("drain")

    async def close(self) -> None:
        # Others get their turn in between, as with a file or a socket.
        await asyncio.sleep(0)
        self._called("close")


def test_every_sink_gets_every_output_in_order() -> None:
    first, second = Recorder("first"), Recorder("second")
    Fanout([first, second]).emit(OUTPUTS)
    assert first.seen == second.seen == OUTPUTS


def test_a_schema_check_is_no_sinks_business() -> None:
    sink = Recorder("only")
    Fanout([sink]).emit([SchemaCheck(EXCHANGE, 1, {}, {})])
    assert sink.calls == []


@pytest.mark.parametrize("call", ["opened", "found", "closed"])
def test_a_sink_that_fails_loses_its_own_record_and_no_other(call: str) -> None:
    faulty, good = Recorder("faulty", **{call: RuntimeError("x")}), Recorder("good")
    fanout = Fanout([faulty, good])
    fanout.emit(OUTPUTS)
    assert good.seen == OUTPUTS
    assert faulty.calls == ["opened", "found", "closed"] and len(faulty.seen) == 2
    assert fanout.failures == {"faulty": 1}


def test_failures_are_counted_a_sink_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    one, two = Recorder("one", found=ValueError()), Recorder("two", found=KeyError())
    fanout = Fanout([one, two])
    with caplog.at_level(logging.ERROR, logger="teeline.sinks"):
        for _ in range(3):
            fanout.emit(OUTPUTS)
    assert fanout.failures == {"one": 3, "two": 3}
    assert len(caplog.records) == 2


def test_the_log_names_the_kind_of_failure_and_not_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The text of an exception may hold what a peer sent."""
    fanout = Fanout([Recorder("bad", found=ValueError("sk-secret \x1b[31m"))])
    with caplog.at_level(logging.ERROR, logger="teeline.sinks"):
        fanout.emit(OUTPUTS)
    assert "sk-secret" not in caplog.text and "\x1b" not in caplog.text
    assert "bad" in caplog.text and "ValueError" in caplog.text


def run(make: Callable[[], object]) -> None:
    async def main() -> None:
        await make()  # type: ignore[misc]

    asyncio.run(main())


def test_all_sinks_start_in_order() -> None:
    sinks = [Recorder("a"), Recorder("b")]
    run(Fanout(sinks).start)
    assert [sink.calls for sink in sinks] == [["start"], ["start"]]


@pytest.mark.parametrize("error", [SinkError("disk full"), OSError("x")])
def test_all_sinks_start_or_none_does(error: Exception) -> None:
    """Whatever keeps one from starting: those before it are closed, those behind it not started."""
    before, bad, behind = Recorder("before"), Recorder("bad", start=error), Recorder("behind")
    with pytest.raises(type(error)):
        run(Fanout([before, bad, behind]).start)
    assert (before.calls, behind.calls) == (["start", "close"], [])


def test_the_reason_why_a_sink_can_not_start_survives_a_close_that_fails() -> None:
    before = Recorder("before", close=OSError("x"))
    with pytest.raises(SinkError, match="disk full"):
        run(Fanout([before, Recorder("bad", start=SinkError("disk full"))]).start)


def test_a_sink_that_fails_to_drain_keeps_no_other_from_it() -> None:
    bad, good = Recorder("bad", drain=OSError("x")), Recorder("good")
    fanout = Fanout([bad, good])
    run(lambda: fanout.drain(5.0))
    assert good.calls == ["drain"] and fanout.failures == {"bad": 1}


class Stuck(Recorder):
    """A sink whose drain never comes to its end of itself."""

    cancelled = False

    async def drain(self, deadline: float) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def test_a_sink_that_is_late_is_left_behind_at_the_deadline() -> None:
    """However short it is: who has nothing to wait for is done in its first turn, before any timer."""
    stuck, good = Stuck("stuck"), Recorder("good")
    fanout = Fanout([stuck, good])
    run(lambda: fanout.drain(0.001))
    assert stuck.cancelled and good.calls == ["drain"] and fanout.failures == {"stuck": 1}


def test_every_sink_learns_its_deadline() -> None:
    told: list[float] = []

    class Asking(Recorder):
        async def drain(self, deadline: float) -> None:
            told.append(deadline)

    run(lambda: Fanout([Asking("a"), Asking("b")]).drain(7.5))
    assert told == [7.5, 7.5]


def test_a_sink_that_fails_to_close_keeps_no_other_from_it() -> None:
    bad, good = Recorder("bad", close=OSError("x")), Recorder("good")
    fanout = Fanout([bad, good])
    run(fanout.close)
    assert good.calls == ["close"] and fanout.failures == {"bad": 1}


def test_no_sinks_at_all_are_fine() -> None:
    fanout = Fanout([])
    fanout.emit(OUTPUTS)
    run(fanout.start)
    run(lambda: fanout.drain(1.0))
    run(fanout.close)
    assert fanout.failures == {}


def test_sinks_close_one_after_the_other() -> None:
    """What a sink tells as it ends, the head of a log for one, finds those behind it open."""
    order: list[str] = []

    class Slow(Recorder):
        async def close(self) -> None:
            order.append(f"{self.name} begins")
            await super().close()
            order.append(f"{self.name} ends")

    first = Slow("first", close=RuntimeError())
    asyncio.run(Fanout([first, Slow("second")]).close())
    assert order == ["first begins", "second begins", "second ends"]


def test_a_sink_is_not_called_for_what_it_ignores() -> None:
    class Deaf(Recorder):
        opened = found = ignored

    deaf, hearing = Deaf("deaf"), Recorder("hearing")
    Fanout([deaf, hearing]).emit(OUTPUTS)
    assert deaf.seen == [OUTPUTS[2]]
    assert hearing.seen == OUTPUTS
    deaf.opened(OUTPUTS[0])  # whoever calls it all the same does no harm
    assert deaf.seen == [OUTPUTS[2]]
