"""The process itself ends, in good order or not: what its log says then is true."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from teeline.proxy.cli import main
from tests.proxy.cli.test_serve import Serving, serve
from tests.proxy.raw import Wire, client, raw_upstream, run

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


async def ask_on(port: int, whole: list[bool]) -> None:
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
                body = await wire._read_chunks()
            except (ConnectionError, asyncio.IncompleteReadError):
                whole.append(False)
                return
            whole.append(body.count(b"abcd") == PIECES)


async def under_load(teeline: Serving, number: signal.Signals) -> list[bool]:
    """Sends a signal while twenty clients are being answered; which answers came whole."""
    whole: list[bool] = []
    clients = [asyncio.create_task(ask_on(teeline.port, whole)) for _ in range(20)]
    await asyncio.sleep(0.7)
    teeline.process.send_signal(number)
    await asyncio.gather(*clients)
    return whole


def records(folder: Path) -> list[dict[str, object]]:
    text = b"".join(file.read_bytes() for file in sorted(folder.glob("*.jsonl")))
    documents = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == b"\n"]
    return [document for document in documents if "ended" in document]


def test_sigterm_under_load_ends_every_open_answer_whole_and_records_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            raw_upstream(slow_answers) as upstream,
            serve(upstream.url, "--audit-dir", str(tmp_path / "audit")) as teeline,
        ):
            whole = await under_load(teeline, signal.SIGTERM)
            code, _, err = await teeline.rest()
        assert code == 0
        assert "Traceback" not in err
        assert len(whole) > 20
        assert all(whole)
        ended = [record["ended"] for record in records(tmp_path / "audit")]
        assert ended.count("complete") == len(whole)
        assert set(ended) <= {"complete", "refused"}

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
            whole = await under_load(teeline, signal.SIGKILL)
            await teeline.process.wait()
        # What closed in the last moment before may be missing, and nothing else.
        assert len(records(folder)) >= whole.count(True) - 20

    run(test())
    if torn:
        file = max(folder.glob("*.jsonl"))
        file.write_bytes(file.read_bytes()[:-20])
    result = CliRunner().invoke(main, ["audit", "verify", str(folder)])
    if torn:
        assert "torn" in result.output
    else:
        assert result.exit_code == 0, result.output
