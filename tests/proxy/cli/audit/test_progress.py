"""Long work says how far it is; short work says nothing."""

from __future__ import annotations

import io
import time

import pytest

from teeline.proxy.cli.audit.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_short_work_says_nothing(clock: list[float]) -> None:
    out = Terminal()
    shown = Progress("indexing", "bytes", out)
    shown.at(5, 10)
    shown.close()
    assert out.getvalue() == ""


def test_a_terminal_gets_one_line_that_is_cleared(clock: list[float]) -> None:
    out = Terminal()
    shown = Progress("indexing", "bytes", out)
    clock[0] += 2
    shown.at(5, 10)
    shown.add(1)
    shown.close()
    assert out.getvalue() == "\rteeline: indexing: 5 bytes, 50 %\x1b[K\r\x1b[K"


def test_a_file_gets_a_line_now_and_then(clock: list[float]) -> None:
    out = io.StringIO()
    shown = Progress("checking", "records", out)
    for _ in range(5):
        clock[0] += 3
        shown.add(10)
    shown.close()
    assert out.getvalue() == "teeline: checking: 10 records\nteeline: checking: 50 records\n"
