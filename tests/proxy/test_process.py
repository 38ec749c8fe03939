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
from teeline.proxy.process import log_stray, processors, worker_count
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
