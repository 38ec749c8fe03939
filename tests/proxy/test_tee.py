"""The copy of an exchange: what observers get, and that none of their failures is seen in traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from teeline.proxy.clock import Now
from teeline.proxy.inspection import SchemaChecker
from teeline.proxy.memory import Inspectors
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout
from teeline.proxy.tee import UNINSPECTED, Tee
from teeline.validators.events import (
    Closed,
    Found,
    Opened,
    Output,
    Report,
    RequestHead,
    ResponseHead,
    SchemaCheck,
    SchemaResult,
    Task,
)
from teeline.validators.inspector import Inspector
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange
from teeline.validators.policy import Policy
from tests.proxy.raw import Recorder, run

HEAD = RequestHead("POST", "/v1/chat/completions?key=sk-secret", (("Host", "h"),))
ANSWER = ResponseHead(200, (("Content-Type", "application/json"),))
STEPS = ("request_head", "request_body", "request_end", "response_head", "response_body", "end")


class ManualClock:
    """A clock that each reading moves on by a second."""

    def __init__(self) -> None:
        self.at = 1_700_000_000.0

    def start(self) -> Now:
        return self._next

    def _next(self) -> float:
        self.at += 1
        return self.at


class Probe:
    """An inspector that keeps its calls, gives the least outputs, and fails where it is told to."""

    def __init__(self, exchange: Exchange, fails_at: str = "", checks: int = 0) -> None:
        self.exchange = exchange
        self.pending = 0
        self.calls: list[tuple[Any, ...]] = []
        self._fails_at = fails_at
        self._checks = checks

    @property
    def acting(self) -> Probe:
        return self

    def _step(self, *call: Any, outputs: Sequence[Output] = ()) -> Sequence[Output]:
        self.calls.append(call)
        if call[0] == self._fails_at:
            raise ValueError("sk-secret")
        return outputs

    def request_head(self, head: RequestHead, at: float) -> Sequence[Output]:
        return self._step("request_head", head, at, outputs=(Opened(self.exchange),))

    def request_body(self, data: bytes, at: float) -> Sequence[Output]:
        return self._step("request_body", data, at)

    def request_end(self, at: float) -> Sequence[Output]:
        return self._step("request_end", at)

    def response_head(self, head: ResponseHead, at: float) -> Sequence[Output]:
        return self._step("response_head", head, at)

    def response_body(self, data: bytes, at: float) -> Sequence[Output]:
        return self._step("response_body", data, at)

    def end(self, ended: Ended, at: float) -> Sequence[Output]:
        self.pending = self._checks
        wanted = [SchemaCheck(self.exchange, n, {"n": n}, n) for n in range(self._checks)]
        closed = () if self._checks else (Closed(self.exchange),)
        return self._step("end", ended, at, outputs=(*wanted, *closed))

    def schema_result(self, ticket: int, result: SchemaResult, at: float) -> Sequence[Output]:
        self.pending -= 1
        closed = () if self.pending else (Closed(self.exchange),)
        return self._step("schema_result", ticket, result, outputs=closed)

    def inspected(self, report: Report, at: float) -> Sequence[Output]:
        return self._step("inspected", report, at)

    def expire(self, at: float) -> Sequence[Output]:
        self.pending = 0
        return self._step("expire", at, outputs=(Closed(self.exchange),))


class Bench:
    """Observers around one probe, and what came out of them."""

    def __init__(
        self, fails_at: str = "", checks: int = 0, policy: Policy | None = None, **options: Any
    ) -> None:
        self.recorder = Recorder()
        self.probe = Probe(Exchange())

        def inspect(exchange: Exchange, limits: Limits) -> Probe:
            self.probe = Probe(exchange, fails_at, checks)
            return self.probe

        self.observers = Observers(
            inspect, policy or Policy({}), Fanout([self.recorder]), ManualClock(), **options
        )

    def open(self) -> Tee:
        return self.observers.open("relay", "127.0.0.1", ())

    async def whole(self) -> Tee:
        """A tee that was fed a whole exchange."""
        tee = self.open()
        tee.request_head(HEAD, tee.now())
        tee.request_body(b"{}", tee.now())
        tee.request_end(None, tee.now())
        tee.response_head(ANSWER, tee.now())
        tee.response_body(b"abc", tee.now())
        await self.end(tee)
        return tee

    async def end(self, tee: Tee) -> None:
        tee.end(Ended.COMPLETE, tee.now())
        await self.observers.settle(30.0)

    @property
    def kinds(self) -> list[str]:
        return [type(output).__name__ for output in self.recorder.outputs]


def test_an_inspector_gets_everything_in_order_with_times_that_grow() -> None:
    bench = Bench()
    run(bench.whole())
    assert [call[0] for call in bench.probe.calls] == list(STEPS)
    times = [call[-1] for call in bench.probe.calls]
    assert times == sorted(set(times))
    assert bench.kinds == ["Opened", "Closed"]


def test_an_exchange_knows_who_it_is_from_its_head_on() -> None:
    tee = Bench().open()
    tee.request_head(HEAD, tee.now())
    assert (tee.exchange.upstream, tee.exchange.client) == ("relay", "127.0.0.1")
    assert len(tee.exchange.trace_id) == 32
    assert len(tee.exchange.span_id) == 16
    assert tee.exchange.parent_span_id == ""


@pytest.mark.parametrize("step", STEPS)
def test_an_inspector_that_fails_is_named_once_and_its_exchange_still_opens_and_closes(
    step: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(fails_at=step)

    async def test() -> Exchange:
        await bench.whole()
        return (await bench.whole()).exchange

    exchange = run(test())
    assert bench.kinds == ["Opened", "Closed"] * 2
    assert exchange.inspection == UNINSPECTED
    assert len(caplog.records) == 1
    assert "ValueError" in caplog.text
    assert "sk-secret" not in caplog.text


def test_an_exchange_without_its_inspector_keeps_the_facts_that_need_none() -> None:
    exchange = run(Bench(fails_at="request_head").whole()).exchange
    assert (exchange.method, exchange.path) == ("POST", "/v1/chat/completions")
    assert (exchange.operation, exchange.status, exchange.ended) == ("chat", 200, Ended.COMPLETE)
    assert (exchange.request_bytes, exchange.response_bytes) == (2, 3)
    assert exchange.timing.end is not None
    assert exchange.timing.start < exchange.timing.end


def test_an_inspector_that_cannot_be_made_leaves_the_exchange_uninspected() -> None:
    recorder = Recorder()

    def inspect(exchange: Exchange, limits: Limits) -> Probe:
        raise RuntimeError

    async def test() -> None:
        observers = Observers(inspect, Policy({}), Fanout([recorder]), ManualClock())
        tee = observers.open("relay", "", ())
        tee.request_head(HEAD, 1.0)
        tee.end(Ended.TIMEOUT, tee.now())

    run(test())
    assert recorder.exchanges[0].inspection == UNINSPECTED
    assert recorder.ended == [Ended.TIMEOUT]


def test_a_policy_that_fails_loses_findings_but_no_exchange() -> None:
    class Broken(Policy):
        def apply(self, outputs: Sequence[Output]) -> Sequence[Output]:
            raise KeyError("sk-secret")

    bench = Bench(policy=Broken({}))
    exchange = run(bench.whole()).exchange
    assert bench.kinds == ["Opened", "Closed"]
    assert exchange.inspection == UNINSPECTED


class Checker:
    """Answers when it is let to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.go = asyncio.Event()

    async def check(self, schema: Any, document: Any) -> SchemaResult:
        self.asked.append((schema, document))
        await self.go.wait()
        return SchemaResult()


def test_an_exchange_closes_after_the_last_of_its_schema_checks() -> None:
    async def test() -> None:
        checker = Checker()
        bench = Bench(checks=2, checker=checker, schema_timeout=30.0)
        tee = bench.open()
        tee.request_head(HEAD, tee.now())
        ending = asyncio.create_task(bench.end(tee))
        while len(checker.asked) < 2:
            await asyncio.sleep(0)
        assert bench.kinds == ["Opened"]
        checker.go.set()
        await ending
        assert checker.asked == [({"n": 0}, 0), ({"n": 1}, 1)]
        assert bench.kinds == ["Opened", "Closed"]

    run(test())


def test_a_schema_check_that_takes_too_long_is_given_up() -> None:
    async def test() -> None:
        bench = Bench(checks=2, checker=Checker(), schema_timeout=0.0)
        await bench.whole()
        assert [call[0] for call in bench.probe.calls][-2:] == ["end", "expire"]
        assert bench.kinds == ["Opened", "Closed"]
        await bench.observers.settle(30.0)

    run(test())


class Broken:
    async def check(self, schema: Any, document: Any) -> SchemaResult:
        raise OSError("sk-secret")


@pytest.mark.parametrize("checker", [None, Broken()])
def test_a_schema_check_without_a_checker_counts_as_not_checked(
    checker: SchemaChecker | None,
) -> None:
    bench = Bench(checks=1, checker=checker)
    run(bench.whole())
    assert bench.probe.calls[-1][:3] == ("schema_result", 0, SchemaResult(unchecked="unavailable"))
    assert bench.kinds == ["Opened", "Closed"]


class Elsewhere:
    """Inspects nothing; fails, or never comes to an end."""

    longest = 0.0

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Task] = []
        self._error = error

    async def inspect(self, task: Task) -> Report:
        self.asked.append(task)
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()
        return Report()


def large(elsewhere: Elsewhere | None, patience: float) -> Recorder:
    """The records of an exchange whose answer is to be inspected elsewhere."""
    recorder = Recorder()

    async def test() -> None:
        observers = Observers(
            Inspectors(aside=True),
            Policy({}),
            Fanout([recorder]),
            ManualClock(),
            limits=Limits(in_place=10),
            aside=elsewhere,
        )
        tee = observers.open("relay", "", ())
        tee.request_head(HEAD, tee.now())
        tee.response_head(ANSWER, tee.now())
        tee.response_body(b'{"sk-secret": 1}', tee.now())
        tee.end(Ended.COMPLETE, tee.now())
        assert not recorder.exchanges
        await observers.settle(patience)

    run(test())
    return recorder


def test_who_inspects_elsewhere_may_fail_or_be_missing(caplog: pytest.LogCaptureFixture) -> None:
    for elsewhere in (Elsewhere(ValueError("sk-secret")), None):
        [exchange] = large(elsewhere, 30.0).exchanges
        assert exchange.inspection == "partial (inspection-unavailable)"
    assert "ValueError" in caplog.text and "sk-secret" not in caplog.text


def test_an_exchange_that_is_inspected_elsewhere_closes_with_the_server() -> None:
    elsewhere = Elsewhere()
    [exchange] = large(elsewhere, 0.01).exchanges
    assert len(elsewhere.asked) == 1
    assert (exchange.inspection, exchange.ended) == (
        "partial (inspection-timeout)",
        Ended.COMPLETE,
    )


def test_an_exchange_without_schema_checks_is_closed_by_its_end() -> None:
    """Nothing is left for later that a stopping proxy would have to wait for."""
    bench = Bench()
    tee = bench.open()
    tee.request_head(HEAD, tee.now())
    tee.end(Ended.CLIENT_CLOSED, tee.now())
    assert bench.kinds == ["Opened", "Closed"]


def test_what_passes_after_a_switch_of_protocols_is_counted_and_not_inspected() -> None:
    bench = Bench()
    tee = bench.open()
    tee.request_head(HEAD, tee.now())
    tee.switched(ResponseHead(101, ()), tee.now())
    tee.sent(b"abc", tee.now())
    tee.returned(b"defgh", tee.now())
    tee.end(Ended.COMPLETE, tee.now())
    exchange = tee.exchange
    assert (exchange.status, exchange.request_bytes, exchange.response_bytes) == (101, 3, 5)
    assert exchange.inspection == "none (websocket)"
    assert [call[0] for call in bench.probe.calls] == ["request_head"]
    assert bench.kinds == ["Opened", "Closed"]


def test_the_real_inspector_finds_through_the_tee_what_is_wrong() -> None:
    recorder = Recorder()

    async def test() -> None:
        observers = Observers(Inspector, Policy({}), Fanout([recorder]), ManualClock())
        tee = observers.open("relay", "127.0.0.1", ())
        tee.request_head(HEAD, tee.now())
        tee.request_body(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}', tee.now())
        tee.request_end(None, tee.now())
        tee.response_head(ANSWER, tee.now())
        tee.response_body(b"<html>", tee.now())
        tee.end(Ended.COMPLETE, tee.now())

    run(test())
    found = [output for output in recorder.outputs if isinstance(output, Found)]
    assert found
    assert recorder.exchanges[0].verdict == "fail"
    assert recorder.exchanges[0].model == "m"
