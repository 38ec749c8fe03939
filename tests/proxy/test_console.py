"""The console tells of each kind of violation once in full, then in counts, and of nothing else."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from teeline.proxy.console import ConsoleSink, wants_color
from teeline.validators.events import Closed, Found
from teeline.validators.model import Exchange, Severity
from tests.proxy.samples import exchange, violation

LONG = 60.0
RESET = "\x1b[0m"


def shown(use: Callable[[ConsoleSink], Any], close: bool = False, **options: Any) -> list[str]:
    """What is on the stream after ``use``: drained, and closed if asked for."""

    async def run() -> list[str]:
        stream = io.StringIO()
        options.setdefault("environ", {})
        sink = ConsoleSink(stream, localtime=time.gmtime, **options)
        await sink.start()
        use(sink)
        await sink.drain(LONG)
        lines = stream.getvalue().splitlines()
        await sink.close()
        return stream.getvalue().splitlines() if close else lines

    return asyncio.run(run())


def find(sink: ConsoleSink, made: Exchange) -> None:
    for found in made.violations:
        sink.found(Found(made, found))
    sink.closed(Closed(made))


def test_the_first_of_a_kind_is_told_in_full_with_the_reason() -> None:
    lines = shown(lambda sink: find(sink, exchange(violation())))
    assert lines == [
        "12:01:08 FAIL chatstream.done-missing  my-relay chat gpt-4o-mini  "
        "event 12 byte 2345 /choices/0/delta: the stream ended without [DONE]  "
        '"finish_reason": "stop"',
        "         why: clients wait for it until they time out",
    ]


def test_what_the_policy_says_of_the_first_one_is_told_with_it() -> None:
    lowered = violation(severity=Severity.WARN, note="fail lowered to warn by profile x: so it is")
    lines = shown(lambda sink: find(sink, exchange(lowered)))
    assert lines[2] == "         note: fail lowered to warn by profile x: so it is"


def test_later_ones_are_told_at_powers_of_ten_only() -> None:
    def use(sink: ConsoleSink) -> None:
        for _ in range(1234):
            find(sink, exchange(violation()))

    lines = shown(use)
    assert [line.rpartition("chat  ")[2] for line in lines[2:]] == [
        "10 exchanges with it so far",
        "100 exchanges with it so far",
        "1000 exchanges with it so far",
    ]


def test_another_upstream_or_operation_is_another_kind_without_the_reason_again() -> None:
    def use(sink: ConsoleSink) -> None:
        find(sink, exchange(violation()))
        find(sink, exchange(violation(), upstream="other-relay"))
        find(sink, exchange(violation(), operation="responses"))
        find(sink, exchange(violation(), model="another-model"))

    lines = shown(use)
    assert sum("why:" in line for line in lines) == 1
    assert sum("FAIL" in line for line in lines) == 3


def test_what_is_below_the_least_severity_is_not_told() -> None:
    made = exchange(violation("timing.burst", Severity.INFO), violation("usage.x", Severity.WARN))
    assert len(shown(lambda sink: find(sink, made))) == 2
    assert shown(lambda sink: find(sink, made), min_severity=Severity.FAIL) == []


def test_closing_sums_up() -> None:
    def use(sink: ConsoleSink) -> None:
        for _ in range(3):
            find(sink, exchange(violation()))
        find(sink, exchange(violation("usage.x", Severity.WARN)))
        find(sink, exchange())

    assert shown(use, close=True)[-3:] == [
        "teeline: 5 exchanges: 1 pass, 1 warn, 3 fail",
        "  3  FAIL chatstream.done-missing  my-relay chat",
        "  1  WARN usage.x  my-relay chat",
    ]


def test_no_traffic_no_output() -> None:
    assert shown(lambda sink: None, close=True) == []


def test_nothing_from_a_peer_reaches_the_terminal_unescaped() -> None:
    evil = "\x1b]0;x\x07\r\n\u202e" + "m" * 500

    def use(sink: ConsoleSink) -> None:
        found = violation(message=evil, evidence=evil)
        found.place = found.place._replace(pointer=evil)
        find(sink, exchange(found, model=evil, upstream=evil, operation=evil))

    lines = shown(use, close=True)
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 1500


def test_the_number_of_kinds_is_bounded() -> None:
    def use(sink: ConsoleSink) -> None:
        for number in range(3000):
            find(sink, exchange(violation(), operation=f"op-{number}"))

    lines = shown(use, close=True)
    assert sum("chatstream.done-missing" in line and "event" in line for line in lines) == 1000
    assert lines[-1] == "  and 981 kinds more"
    assert any(line.startswith("  2000  INFO (other kinds)") for line in lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_color_is_for_terminals_that_want_it() -> None:
    assert wants_color(Terminal(), {"TERM": "xterm"})
    assert not wants_color(io.StringIO(), {"TERM": "xterm"})
    assert not wants_color(Terminal(), {"TERM": "dumb"})
    assert not wants_color(Terminal(), {"NO_COLOR": "1"})
    assert wants_color(Terminal(), {"NO_COLOR": ""})


def test_color_paints_the_severity_alone() -> None:
    line = shown(lambda sink: find(sink, exchange(violation())), color=True)[0]
    assert line.startswith(f"12:01:08 \x1b[1;31mFAIL{RESET} chatstream.done-missing  my-relay")
    assert line.count("\x1b") == 2


class Stuck(io.StringIO):
    """A stopped terminal: writes wait until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.go.wait()
        return super().write(text)


def test_a_stopped_terminal_holds_nobody_up_and_its_lines_are_counted() -> None:
    async def run() -> None:
        stream = Stuck()
        sink = ConsoleSink(stream, environ={}, color=False)
        await sink.start()
        find(sink, exchange(violation()))
        await asyncio.to_thread(stream.entered.wait)
        for number in range(3000):
            find(sink, exchange(violation(), upstream=f"relay-{number % 900}-{number}"))
        assert sink.lost > 0
        with pytest.raises(TimeoutError):
            await sink.drain(0.01)
        stream.go.set()
        await sink.drain(LONG)
        await sink.close()
        assert f"{sink.lost} lines were not shown" in stream.getvalue()

    asyncio.run(run())


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_broken_pipe_is_no_error_for_traffic(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        sink = ConsoleSink(Broken(), environ={})
        await sink.start()
        for _ in range(10):
            find(sink, exchange(violation()))
        await sink.drain(LONG)
        await sink.close()
        assert sink.lost > 0

    asyncio.run(run())
    assert caplog.messages == ["the console can't be written (BrokenPipeError); lines are lost"]


def test_a_terminal_that_knows_no_unicode_gets_escapes() -> None:
    async def run() -> bytes:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="ascii")
        sink = ConsoleSink(stream, environ={})
        await sink.start()
        find(sink, exchange(violation(), model="modèle-漢"))
        await sink.drain(LONG)
        await sink.close()
        return raw.getvalue()

    assert b"mod\\xe8le-\\u6f22" in asyncio.run(run())


def test_closing_is_idempotent_and_safe_unstarted() -> None:
    async def run() -> None:
        sink = ConsoleSink(io.StringIO(), environ={})
        await sink.close()
        await sink.close()

    asyncio.run(run())
