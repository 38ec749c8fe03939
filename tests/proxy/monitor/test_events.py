"""The event stream keeps its pace, goes on where it was, and waits for nobody."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

from teeline.proxy.monitor.events import PERIOD
from teeline.proxy.monitor.hub import ROWS
from teeline.proxy.monitor.rows import live_row
from tests.proxy.monitor.test_hub import batch, rows
from tests.proxy.monitor.test_pages import TOKEN, Page, page
from tests.proxy.raw import run
from tests.proxy.samples import exchange


class Stream:
    """A viewer's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.head = b""

    async def event(self) -> tuple[str, str, dict[str, Any]]:
        """Kind, id and data of the next event."""
        fields: dict[str, str] = {}
        while True:
            line = (await self._reader.readline()).decode().rstrip("\n")
            if not line and "data" in fields:
                return fields["event"], fields["id"], json.loads(fields["data"])
            if not line or line.endswith("\r"):
                continue
            name, _, value = line.partition(": ")
            fields[name] = value

    async def ended(self) -> bool:
        return await self._reader.read() is not None

    def close(self) -> None:
        self.writer.close()


async def viewer(
    port: Page, query: str = "", last: str = "", cookie: str = "", *, small: bool = False
) -> Stream:
    sock = socket.socket()
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1024 if small else 2**20)
    resume = f"Last-Event-ID: {last}\r\n" if last else ""
    resume += f"Cookie: {cookie}\r\n" if cookie else ""
    head = (
        f"GET /monitor/api/events?{query} HTTP/1.0\r\nHost: 127.0.0.1:{port.port}\r\n{resume}\r\n"
    )
    writer.write(head.encode())
    made = Stream(reader, writer)
    made.head = await reader.readuntil(b"\r\n\r\n")
    return made


def test_a_new_viewer_gets_all_and_then_what_is_new() -> None:
    async def test() -> None:
        async with page() as port:
            first, second = rows(2), rows(2)
            port.hub.take(batch(*first))
            stream = await viewer(port)
            assert b"text/event-stream" in stream.head
            assert b"no-store" in stream.head
            kind, _, told = await stream.event()
            assert (kind, told["rows"]) == ("snapshot", first[::-1])
            port.hub.take(batch(*second))
            kind, _, told = await stream.event()
            while not told["rows"]:
                kind, _, told = await stream.event()
            assert (kind, told["rows"]) == ("update", second[::-1])
            stream.close()

    run(test())


def test_a_viewer_that_comes_back_misses_nothing_and_hears_nothing_twice() -> None:
    async def test() -> None:
        async with page() as port:
            port.hub.take(batch(*rows(2)))
            stream = await viewer(port)
            _, last, _ = await stream.event()
            stream.close()
            port.hub.take(batch(*(missed := rows(2))))
            stream = await viewer(port, last=last)
            kind, _, told = await stream.event()
            assert (kind, told["rows"]) == ("update", missed[::-1])
            stream.close()
            stream = await viewer(port, last="of-another-run.7")
            assert (await stream.event())[0] == "snapshot"
            stream.close()

    run(test())


def test_filters_of_the_address_hold_for_rows() -> None:
    async def test() -> None:
        async with page() as port:
            wanted = live_row(exchange(model="wanted"))
            port.hub.take(batch(wanted, *rows(3)))
            stream = await viewer(port, "model=wanted")
            assert (await stream.event())[2]["rows"] == [wanted]
            stream.close()

    run(test())


def test_however_much_happens_a_viewer_is_told_at_most_four_times_a_second() -> None:
    async def test() -> None:
        async with page() as port:
            stop = asyncio.Event()

            async def happen() -> None:
                while not stop.is_set():
                    port.hub.take(batch(*rows(5)))
                    await asyncio.sleep(0.005)

            happening = asyncio.create_task(happen())
            begun = time.monotonic()
            stream = await viewer(port)
            await stream.event()
            for _ in range(6):
                _, _, told = await stream.event()
                assert len(told["rows"]) <= ROWS
            # From the beginning on: whoever reads late can't make the server quicker.
            assert time.monotonic() - begun >= 6 * PERIOD * 0.99
            stop.set()
            await happening
            stream.close()

    run(test())


def test_a_viewer_that_does_not_read_holds_up_nobody_and_gets_no_memory() -> None:
    async def test() -> None:
        async with page() as port:
            stuck = await viewer(port, small=True)
            quick = await viewer(port)
            await quick.event()
            for _ in range(8):
                for _ in range(20):
                    port.hub.take(batch(*rows(60)))
                _, _, told = await quick.event()
                assert told["upstreams"]
            stuck.close()
            quick.close()

    run(test())


def test_viewers_are_counted_bounded_and_forgotten_when_they_leave() -> None:
    async def test() -> None:
        async with page() as port:
            streams = [await viewer(port) for _ in range(32)]
            refused = await viewer(port)
            assert b" 503 " in refused.head.split(b"\r\n")[0]
            assert b"Retry-After: 10" in refused.head
            refused.close()
            for stream in streams:
                stream.close()
            while b" 503 " in (again := await viewer(port)).head:
                again.close()
            again.close()

    run(test())


def test_streams_end_when_the_page_does() -> None:
    async def test() -> None:
        async with page() as port:
            stream = await viewer(port)
            await stream.event()
        assert await stream.ended()
        stream.close()

    run(test())


def test_a_stream_ends_with_the_session_that_began_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with page(tmp_path, TOKEN) as port:
            signed_in = await port.ask("/api/login", "POST", TOKEN)
            cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
            stream = await viewer(port, cookie=cookie)
            assert (await stream.event())[0] == "snapshot"
            await port.ask("/api/logout", "POST", Cookie=cookie)
            assert await stream.ended()
            stream.close()

    run(test())
