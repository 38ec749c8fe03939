"""The process itself ends, in good order or not: what its log says then is true."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from teeline.proxy.cli import main
from tests.proxy.cli.test_serve import Serving, serve
from tests.proxy.raw import Wire, client, raw_upstream
from tests.proxy.workers import begun, held, run, whole

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
PIECES = 40


async def slow_answers(wire: Wire) -> None:
    """Answers each request with a stream of a fifth of a second."""
    while True:
        await wire.read_message()
        await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(PIECES):
            await wire.send(b"4\r\nabcd\r\n")
            await asyncio.sleep(0.005)
        await wire.send(b"0\r\n\r\n")


async def ask_on(port: int, answers: list[bool]) -> None:
    """Asks again and again on one connection; keeps whether each answer came whole."""
    async with client(port) as wire:
        while True:
            try:
                await wire.send(GET)
                head = await wire.read_head()
            except (ConnectionError, asyncio.IncompleteReadError):
                return  # between two answers: nothing was lost
            if not head.startswith(b"HTTP/1.1 200"):
                return
            try:
                body = await wire.read_chunks()
            except (ConnectionError, asyncio.IncompleteReadError):
                answers.append(False)
                return
            answers.append(body.count(b"abcd") == PIECES)


async def under_load(teeline: Serving, number: signal.Signals) -> list[bool]:
    """Sends a signal while twenty clients are being answered; which answers came whole."""
    answers: list[bool] = []
    clients = [asyncio.create_task(ask_on(teeline.port, answers)) for _ in range(20)]
    await asyncio.sleep(0.7)
    teeline.process.send_signal(number)
    await asyncio.gather(*clients)
    return answers


def records(folder: Path) -> list[dict[str, object]]:
    text = b"".join(file.read_bytes() for file in sorted(folder.glob("*.jsonl")))
    documents = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == b"\n"]
    return [document for document in documents if "ended" in document]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_under_load_ends_every_open_answer_whole_and_records_it(
    workers: str, tmp_path: Path
) -> None:
    options = ("--audit-dir", str(tmp_path / "audit"), "--workers", workers)

    async def test() -> None:
        async with (
            raw_upstream(slow_answers) as upstream,
            serve(upstream.url, *options) as teeline,
        ):
            answers = await under_load(teeline, signal.SIGTERM)
            code, out, err = await teeline.rest()
        assert code == 0
        assert f"teeline: {len(records(tmp_path / 'audit'))} exchanges: " in out
        assert "Traceback" not in err
        assert len(answers) > 20
        assert all(answers)
        ended = [record["ended"] for record in records(tmp_path / "audit")]
        assert ended.count("complete") == len(answers)
        assert set(ended) <= {"complete", "refused"}

    run(test())


async def gone(pids: Iterable[int]) -> None:
    """Waits for the end of processes that are nobody's children here."""
    loop = asyncio.get_running_loop()
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def workers_of(teeline: Serving) -> list[int]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{teeline.admin}/api/status") as answer,
    ):
        status = await answer.json()
    return [worker["pid"] for worker in status["workers"]["processes"]]


def test_workers_whose_supervisor_was_killed_finish_what_is_open_and_end(tmp_path: Path) -> None:
    folder = tmp_path / "audit"

    async def test() -> None:
        async with (
            held() as (streams, upstream),
            serve(upstream.url, "--audit-dir", str(folder), "--workers", "2") as teeline,
        ):
            pids = await workers_of(teeline)
            assert len(pids) == 2
            wires = [await begun(teeline.port) for _ in range(8)]
            teeline.process.kill()
            # Not process.wait(): it waits for stderr, too, which the workers hold.
            await gone([teeline.process.pid])
            streams.go.set()
            assert all([await whole(wire) for wire in wires])
            await gone(pids)
            with pytest.raises(ConnectionRefusedError):
                await begun(teeline.port)
        assert [record["ended"] for record in records(folder)] == ["complete"] * 8

    run(test())
    result = CliRunner().invoke(main, ["audit", "verify", str(folder)])
    assert result.exit_code == 0, result.output


def test_a_second_signal_ends_all_workers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEELINE__SHUTDOWN__DEADLINE", "100000")

    async def test() -> None:
        async with (
            held() as (_, upstream),
            serve(upstream.url, "--no-audit", "--workers", "2") as teeline,
        ):
            pids = await workers_of(teeline)
            wires = [await begun(teeline.port) for _ in range(8)]
            teeline.process.send_signal(signal.SIGTERM)
            while "second signal" not in await teeline.said():
                pass
            teeline.process.send_signal(signal.SIGTERM)
            code, _, err = await teeline.rest()
            assert not any([await whole(wire) for wire in wires])
            await gone(pids)
        assert code == 0
        assert "Traceback" not in err

    run(test())


@pytest.mark.parametrize("torn", [False, True])
def test_sigkill_leaves_a_chain_that_verifies_and_a_torn_line_is_named(
    torn: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "audit"

    async def test() -> None:
        async with (
            raw_upstream(slow_answers) as upstream,
            serve(upstream.url, "--audit-dir", str(folder)) as teeline,
        ):
            answers = await under_load(teeline, signal.SIGKILL)
            await teeline.process.wait()
        # What closed in the last moment before may be missing, and nothing else.
        assert len(records(folder)) >= answers.count(True) - 20

    run(test())
    if torn:
        file = max(folder.glob("*.jsonl"))
        file.write_bytes(file.read_bytes()[:-20])
    result = CliRunner().invoke(main, ["audit", "verify", str(folder)])
    if torn:
        assert "torn" in result.output
    else:
        assert result.exit_code == 0, result.output
