"""Faults of either side and of what surrounds them: nothing hangs, nothing leaks, and the record of
each exchange says what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from teeline.config.model import ClientsConfig, Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.proxy.audit.files import DiskFile
from teeline.proxy.audit.record import Origin
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.clock import SystemClock
from teeline.proxy.tee import UNINSPECTED
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended
from tests.proxy.certs import Certificates
from tests.proxy.raw import (
    Recorder,
    Wire,
    answering,
    ask,
    client,
    code_of,
    proxy,
    raw_upstream,
    run,
    serving,
)

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UPLOAD = b"POST /v1/files HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No descriptor and no task more than before, once everything inside is over."""
    # What an event loop opens for its first stream (uvloop: /dev/null) stays for as long as the loop.
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0):
        pass
    gc.collect()
    await asyncio.sleep(0)
    before, tasks = descriptors(), len(asyncio.all_tasks())
    yield
    for _ in range(100):
        gc.collect()
        if descriptors() <= before and len(asyncio.all_tasks()) <= tasks:
            return
        await asyncio.sleep(0.02)
    assert descriptors() <= before
    assert len(asyncio.all_tasks()) <= tasks


# -- the upstream ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "how", "ended", "status"),
    [
        (b"", "close", Ended.REFUSED, 502),
        (b"", "reset", Ended.REFUSED, 502),
        (b"HTTP/1.1 200 O", "close", Ended.REFUSED, 502),
        (b"HTTP/1.1 200 O", "reset", Ended.REFUSED, 502),
        (b"\x00\xff garbage\r\n", "wait", Ended.REFUSED, 502),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", "close", Ended.REFUSED, 502),
        (CHUNKED, "close", Ended.UPSTREAM_ABORTED, 200),
        (CHUNKED + b"5\r\nhel", "close", Ended.UPSTREAM_ABORTED, 200),
        (CHUNKED + b"5\r\nhello\r\n", "reset", Ended.UPSTREAM_ABORTED, 200),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", "close", Ended.UPSTREAM_ABORTED, 200),
        (CHUNKED + b"5\r\nhello\r\nzz\r\n", "wait", Ended.UPSTREAM_ABORTED, 200),
        (OK[:-1], "close", Ended.UPSTREAM_ABORTED, 200),
        (OK, "close", Ended.COMPLETE, 200),
        (OK, "reset", Ended.COMPLETE, 200),
        (OK + OK, "wait", Ended.COMPLETE, 200),
        (b"HTTP/1.1 200 OK\r\n\r\nall", "close", Ended.COMPLETE, 200),
    ],
)
def test_whatever_an_upstream_does_has_its_record_and_leaves_nothing(
    sent: bytes, how: str, ended: Ended, status: int
) -> None:
    async def test() -> None:
        recorder = Recorder()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(sent)
            if how == "wait":
                await wire.ended()
            elif how == "reset":
                await asyncio.sleep(0.02)
                wire.reset()

        async with (
            nothing_left(),
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            while b"\r\n\r\n" not in (head := await wire.reader.readuntil(b"\r\n\r\n")):
                pass
            if b" 103 " in head:
                head = await wire.read_head()
            assert int(head[9:12]) == status
            await wire.ended()
        assert recorder.ended == [ended]
        assert recorder.exchanges[0].status == (status if status == 200 else None)

    run(test())


def test_a_name_that_cannot_be_resolved_leaves_nothing() -> None:
    async def test() -> None:
        recorder = Recorder()
        async with nothing_left(), proxy("http://host.invalid", recorder) as teeline:
            answer = await ask(teeline.port, GET)
            assert (answer.status, code_of(answer)) == (502, "upstream_unreachable")
        assert recorder.ended == [Ended.REFUSED]

    run(test())


def test_a_client_that_leaves_while_its_upstream_is_connected_leaves_nothing() -> None:
    """A server that accepts and never answers the TLS handshake."""

    async def test() -> None:
        recorder = Recorder()

        async def mute(wire: Wire) -> None:
            await wire.ended()

        async with nothing_left(), raw_upstream(mute) as upstream:
            url = upstream.url.replace("http:", "https:")
            async with proxy(url, recorder) as teeline:
                async with client(teeline.port) as wire:
                    await wire.send(GET)
                    while not upstream.wires:
                        await asyncio.sleep(0.001)
                    wire.reset()
                await asyncio.gather(*upstream.tasks)
                assert teeline.server.connections() == []
        assert recorder.ended == [Ended.CLIENT_CLOSED]

    run(test())


# -- the client ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("when", ["waiting", "streaming", "uploading"])
def test_the_upstreams_request_ends_within_a_second_of_its_client(
    when: str, how: str, scheme: str, tmp_path: Path
) -> None:
    async def test() -> None:
        recorder = Recorder()
        ready, over = asyncio.Event(), asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            wire = Wire(reader, writer)
            await wire.read_head()
            if when == "streaming":
                await wire.send(CHUNKED + b"1\r\na\r\n")
            ready.set()
            await wire.ended()
            over.set()
            writer.close()

        certs = Certificates(tmp_path)
        context = certs.server(certs.issue("127.0.0.1")) if scheme == "https" else None
        server = await asyncio.start_server(script, "127.0.0.1", 0, ssl=context)
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        upstream = UpstreamConfig(UpstreamURL.parse(url), "relay", tls=certs.trusting(scheme))
        config = Config((upstream,), ListenAddress("127.0.0.1", 0))
        async with serving(config, recorder) as (_, ports), client(ports[0]) as wire:
            await wire.send(UPLOAD + b"x" * 1000 if when == "uploading" else GET)
            await ready.wait()
            if when == "streaming":
                await wire.read_head()
            started = time.monotonic()
            wire.reset() if how == "reset" else wire.close()
            await over.wait()
            assert time.monotonic() - started < 1.0
        server.close()
        await server.wait_closed()
        assert recorder.ended == [Ended.CLIENT_CLOSED]

    run(test())


def test_a_client_that_is_reset_while_its_upstream_takes_nothing_is_missed_too() -> None:
    """Nothing is read from it just then, so its end would not be seen by reading."""

    async def test() -> None:
        recorder = Recorder()
        over = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_head()
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await over.wait()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(UPLOAD)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while True:
                        await wire.send(b"x" * 100_000)
            wire.reset()
            async with asyncio.timeout(3):
                while not recorder.ended:
                    await asyncio.sleep(0.01)
            over.set()
        assert recorder.ended == [Ended.CLIENT_CLOSED]

    run(test())


def test_a_head_that_does_not_come_whole_in_time_gives_a_408() -> None:
    async def test() -> None:
        async with answering(OK) as upstream:
            config = Config(
                (UpstreamConfig(UpstreamURL.parse(upstream.url)),),
                ListenAddress("127.0.0.1", 0),
                clients=ClientsConfig(head_timeout=0.1),
            )
            async with (
                nothing_left(),
                serving(config) as (_, ports),
                client(ports[0]) as idle,
                client(ports[0]) as slow,
            ):
                await slow.send(GET)
                assert (await slow.read_message()).body == b"ok"
                await asyncio.sleep(0.2)  # between requests there is no limit
                await slow.send(GET[:10])
                await asyncio.sleep(0.05)
                await slow.send(GET[10:20])  # nor does another byte give more time
                answer = await slow.read_message()
                assert (answer.status, code_of(answer)) == (408, "head_timeout")
                assert await slow.ended() == b""
                await idle.send(GET)
                assert (await idle.read_message()).body == b"ok"

    run(test())


def test_peers_that_vanish_without_a_word_are_asked_for_by_the_kernel() -> None:
    """Half-open connections end after two minutes, whichever side has lost its power."""

    async def test() -> None:
        async with (
            answering(OK) as upstream,
            proxy(upstream.url) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_message()
            (connection,) = teeline.server.connections()
            behind = connection._behind
            assert behind is not None
            for transport in (connection.transport, behind.transport):
                sock = transport.get_extra_info("socket")
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                idle = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                probes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
                gap = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
                assert idle + probes * gap <= 120

    run(test())


IDLE = """
import socket, sys
count, port = int(sys.argv[1]), int(sys.argv[2])
held = []
for _ in range(count):
    held.append(socket.create_connection(("127.0.0.1", port)))
print("open", flush=True)
sys.stdin.read()
"""


def test_ten_thousand_idle_connections_cost_little_and_are_still_served() -> None:
    count, needed = 10_000, 10_500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"{needed} descriptors are needed for one end, {hard} are allowed")
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

    async def test() -> None:
        async with answering(OK) as upstream:
            config = Config(
                (UpstreamConfig(UpstreamURL.parse(upstream.url)),),
                ListenAddress("127.0.0.1", 0),
                clients=ClientsConfig(connections=count + 1),
            )
            async with serving(config) as (server, ports):
                before = _resident()
                # Their ends are in a process of their own, for each end takes a descriptor.
                idle = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", IDLE, str(count), str(ports[0])),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
                assert idle.stdin is not None
                assert idle.stdout is not None
                assert await idle.stdout.readline() == b"open\n"
                while len(server.connections()) < count:
                    await asyncio.sleep(0.01)
                used = _resident() - before
                assert (await ask(ports[0], GET)).body == b"ok"
                idle.stdin.close()
                await idle.wait()
                while server.connections():
                    await asyncio.sleep(0.01)
                assert used / count < 8 * 1024

    run(test())


def _resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- what surrounds them ---------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["request_end", "response_head", "response_body", "end"])
def test_a_validator_that_raises_is_not_seen_in_traffic_and_said_in_the_record(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(Inspector, step, fail)

    async def test() -> None:
        recorder = Recorder()
        async with (
            answering(OK) as upstream,
            proxy(upstream.url, recorder) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(3):
                await wire.send(GET)
                assert (await wire.read_message()).body == b"ok"
        assert recorder.ended == [Ended.COMPLETE] * 3
        assert {exchange.inspection for exchange in recorder.exchanges} == {UNINSPECTED}

    run(test())


def test_a_wall_clock_that_steps_back_puts_no_end_before_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall = [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])

    async def test() -> None:
        recorder = Recorder()
        go = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await go.wait()
            await wire.send(OK)

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, recorder, clock=SystemClock()) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await asyncio.sleep(0.02)
            wall[0] -= 86_400
            go.set()
            assert (await wire.read_message()).body == b"ok"
        timing = recorder.exchanges[0].timing
        assert timing.first_byte is not None
        assert timing.end is not None
        assert 1_800_000_000.0 <= timing.start < timing.first_byte <= timing.end < 1_800_000_060.0

    run(test())


@pytest.mark.parametrize("fault", ["full", "gone"])
def test_a_disk_that_takes_no_records_is_not_seen_in_traffic(fault: str, tmp_path: Path) -> None:
    class Full(DiskFile):
        """A file on a disk that has no room left behind its first line."""

        def write(self, data: bytes) -> int:
            if self.lines:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.lines = 1
            return super().write(data)

        lines = 0

    async def test() -> None:
        recorder = Recorder()
        folder = tmp_path / "audit"
        audit = AuditSink(
            folder, origin=Origin("0", "0"), open_file=Full if fault == "full" else DiskFile
        )
        async with answering(OK) as upstream, proxy(upstream.url, audit, recorder) as teeline:
            if fault == "gone":
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
            for _ in range(5):
                assert (await ask(teeline.port, GET)).body == b"ok"
            await asyncio.sleep(0.3)
            assert (await ask(teeline.port, GET)).body == b"ok"
        assert recorder.ended == [Ended.COMPLETE] * 6

    run(test())
