"""Every closed exchange is recorded or counted as lost, and nothing the disk does reaches traffic."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.audit.verify import verify
from teeline.proxy.sinks import SinkError
from teeline.validators.events import Closed, Found, Opened
from tests.proxy.audit.logs import ORIGIN, Clock, Disk, entries, files, found, kinds, noted
from tests.proxy.samples import exchange, violation

LONG = 60.0


def run(use: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await use()

    asyncio.run(go())


def sink_at(folder: Path, **options: Any) -> AuditSink:
    return AuditSink(folder, origin=ORIGIN, **({"clock": Clock()} | options))


def test_closed_exchanges_are_on_the_disk_after_a_drain(tmp_path: Path) -> None:
    async def use() -> None:
        sink = sink_at(tmp_path)
        await sink.start()
        made = exchange(violation())
        sink.opened(Opened(made))
        sink.found(Found(made, made.violations[0]))
        assert kinds(tmp_path) == ["open"]
        sink.closed(Closed(made))
        await sink.drain(LONG)
        assert [entry.get("id") for entry in entries(tmp_path)] == [None, made.id]
        assert (sink.recorded, sink.lost) == (1, 0)
        await sink.close()
        await sink.close()

    run(use)
    assert kinds(tmp_path) == ["open", "exchange", "close"]
    assert found(tmp_path) == []


def test_order_is_that_of_closing(tmp_path: Path) -> None:
    made = [exchange() for _ in range(500)]

    async def use() -> None:
        sink = sink_at(tmp_path)
        await sink.start()
        for each in made:
            sink.closed(Closed(each))
        await sink.close()

    run(use)
    assert [e["id"] for e in entries(tmp_path) if "id" in e] == [each.id for each in made]


def test_a_full_queue_loses_counts_and_records_the_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()

    async def use() -> None:
        sink = sink_at(tmp_path, open_file=disk.open, queue_size=100)
        await sink.start()
        disk.room = 0
        sink.closed(Closed(exchange()))
        await sink.drain(LONG)
        for _ in range(400):
            sink.closed(Closed(exchange()))
        # Beside the queue one batch may be in the writer's hands.
        assert 200 < sink.lost <= 301
        assert sink.recorded == 0
        disk.room = None
        await sink.drain(LONG)
        assert sink.recorded + sink.lost == 401
        await sink.close()
        recorded, lost = sink.recorded, sink.lost
        assert recorded + lost == 401
        assert kinds(tmp_path).count("exchange") == recorded
        told = [entry["count"] for entry in entries(tmp_path) if entry.get("kind") == "lost"]
        assert sum(told) == lost

    run(use)
    assert found(tmp_path) == []
    assert sum("No space left on device" in message for message in caplog.messages) == 1
    assert sum("too slow or fails" in message for message in caplog.messages) == 1


def test_what_a_dead_disk_never_took_is_counted_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()

    async def use() -> None:
        sink = sink_at(tmp_path, open_file=disk.open)
        await sink.start()
        disk.room = 0
        for _ in range(7):
            sink.closed(Closed(exchange()))
        await sink.close()
        assert (sink.recorded, sink.lost) == (0, 7)

    run(use)
    assert "audit: 7 exchanges could not be written before the end" in caplog.messages
    assert found(tmp_path) == []


def test_a_folder_that_can_not_be_written_stops_the_start_with_one_line(tmp_path: Path) -> None:
    disk = Disk()
    disk.open_fails = OSError(errno.EACCES, "Permission denied")
    with pytest.raises(SinkError) as error:
        asyncio.run(sink_at(tmp_path, open_file=disk.open).start())
    assert str(error.value) == (
        f"audit folder {tmp_path} can't be written: Permission denied; "
        "make it writable, or set another audit folder"
    )
    (tmp_path / "file").write_text("x")
    with pytest.raises(SinkError, match="Not a directory"):
        asyncio.run(sink_at(tmp_path / "file" / "x").start())


def test_closing_is_safe_unstarted(tmp_path: Path) -> None:
    asyncio.run(sink_at(tmp_path / "data").close())
    assert not (tmp_path / "data").exists()


def test_concurrent_sinks_write_intact_chains_of_their_own(tmp_path: Path) -> None:
    async def use() -> None:
        sinks = [sink_at(tmp_path) for _ in range(4)]
        await asyncio.gather(*(sink.start() for sink in sinks))
        for number in range(400):
            sinks[number % 4].closed(Closed(exchange()))
        await asyncio.gather(*(sink.close() for sink in sinks))

    run(use)
    assert len(files(tmp_path)) == 4
    assert kinds(tmp_path).count("exchange") == 400
    assert found(tmp_path) == []


WRITE_AND_WAIT = """
    import asyncio, sys
    from pathlib import Path
    from teeline.proxy.audit.record import Origin
    from teeline.proxy.audit.sink import AuditSink
    from teeline.validators.events import Closed
    from teeline.validators.model import Exchange

    async def main():
        sink = AuditSink(Path(sys.argv[1]), origin=Origin("1", "r"))
        await sink.start()
        for number in range(100):
            sink.closed(Closed(Exchange(id=str(number))))
        await sink.drain(60)
        print("drained", flush=True)
        while True:
            sink.closed(Closed(Exchange(id="more")))
            await asyncio.sleep(0)

    asyncio.run(main())
"""


def test_a_killed_process_leaves_all_that_was_drained_and_a_log_that_goes_on(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITE_AND_WAIT), str(tmp_path)],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"drained\n"
        process.send_signal(signal.SIGKILL)
    assert set(found(tmp_path)) <= {"torn"}
    assert {str(number) for number in range(100)} <= {str(e.get("id")) for e in entries(tmp_path)}

    async def restart() -> None:
        sink = sink_at(tmp_path)
        await sink.start()
        await sink.close()

    run(restart)
    result = verify([tmp_path])
    assert result.intact
    assert "open-end" in noted(result)
