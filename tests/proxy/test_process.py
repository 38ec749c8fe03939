"""A process that serves is set up once, and says nothing of what peers sent."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from teeline.config.model import AUTO_WORKERS
from teeline.proxy.process import (
    EVENT_LOOP,
    EventLoopError,
    event_loop,
    log_stray,
    processors,
    run,
    worker_count,
)
from tests.proxy.workers import configured, environment


def test_workers_are_as_many_as_configured_or_as_there_are_processors_for_us() -> None:
    assert worker_count(configured("http://h", None, 3)) == 3
    auto = dataclasses.replace(configured("http://h", None), workers=AUTO_WORKERS)
    assert worker_count(auto) == processors()


@pytest.mark.parametrize(
    ("limit", "count"),
    [("max 100000", 4), ("250000 100000", 3), ("10000 100000", 1), ("900000 100000", 4), ("x", 4)],
)
def test_processors_are_those_that_the_container_may_fill(
    limit: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    quota = tmp_path / "cpu.max"
    assert processors(quota) == 4
    quota.write_text(f"{limit}\n", encoding="ascii")
    assert processors(quota) == count


def test_errors_that_nobody_took_are_told_without_their_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        error = RuntimeError("sk-secret")
        log_stray(asyncio.get_running_loop(), {"message": "what", "exception": error})

    asyncio.run(test())
    assert caplog.messages == ["what: RuntimeError"]


def test_log_lines_name_the_process_where_there_are_several() -> None:
    code = (
        "from teeline.proxy.process import prepare; import logging, resource, sys\n"
        "prepare('worker 2: ')\n"
        "logging.getLogger('teeline.audit').warning('x')\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "print(sys.getswitchinterval() < 0.001, soft == hard)\n"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), env=environment(), capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("True True\n", "teeline: worker 2: WARNING: x\n")


def test_the_event_loop_is_asyncios_own_unless_another_is_asked_for() -> None:
    assert event_loop({}) is asyncio.new_event_loop
    assert event_loop({EVENT_LOOP: ""}) is asyncio.new_event_loop
    assert event_loop({EVENT_LOOP: "asyncio"}) is asyncio.new_event_loop

    async def kind() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(kind(), event_loop({})).startswith("asyncio")
    pytest.importorskip("uvloop")
    assert run(kind(), event_loop({EVENT_LOOP: "uvloop"})).startswith("uvloop")


def test_an_event_loop_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EventLoopError, match="must be asyncio or uvloop"):
        event_loop({EVENT_LOOP: "os"})
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(EventLoopError, match=r"pip install 'teeline\[uvloop\]'"):
        event_loop({EVENT_LOOP: "uvloop"})


def test_what_is_there_before_serving_is_no_longer_walked_by_the_collector() -> None:
    """In a process of its own, since it can't be told from what tests leave behind."""
    code = (
        "import gc; from teeline.proxy import serving; from teeline.proxy.process import set_aside; "
        "before = gc.get_threshold(); set_aside(); after = gc.get_threshold(); "
        "print(gc.get_freeze_count(), len(gc.get_objects()), after[0], after[1:] == before[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, check=True, timeout=60
    )
    frozen, walked, young, others_as_before = done.stdout.split()
    assert int(frozen) > 20_000
    assert int(walked) < 1_000
    # Each round among new objects holds all streams up.
    assert 700 < int(young) <= 5_000 and others_as_before == b"True"
