"""Every carrier takes the same bytes, is paused and closed alike, and says plainly why there is none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import WSMsgType, web

from teeline.config.model import UpstreamTLS
from teeline.proxy.nnrp.client import NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint, Link, LinkError
from teeline.proxy.tls import towards_upstream
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import Message, Splitter
from tests.proxy.raw import run

LIMIT = 1 << 20


class Heard:
    """A receiver that keeps what comes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.news, self.gone = asyncio.Event(), asyncio.Event()
        self.losses = 0

    def received(self, data: bytes) -> None:
        self.data += data
        self.news.set()

    def lost(self) -> None:
        self.losses += 1
        self.gone.set()

    async def until(self, size: int) -> None:
        while len(self.data) < size:
            self.news.clear()
            await self.news.wait()


Echo = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def websocket_echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(max_msg_size=LIMIT)
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


@asynccontextmanager
async def serving(
    carrier: str, folder: Path
) -> AsyncIterator[tuple[Endpoint, ssl.SSLContext | None]]:
    """An echo on a carrier."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    secure = carrier in ("nnrps", "wss")
    trusting = towards_upstream(UpstreamTLS(ca=folder / "ca.pem")) if secure else None
    ours = context if secure else None
    if carrier == "unix":
        server = await asyncio.start_unix_server(echo, str(folder / "s"))
        yield Endpoint.parse(f"unix:{folder / 's'}"), None
        server.close()
    elif carrier in ("nnrp", "nnrps"):
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=ours)
        port = server.sockets[0].getsockname()[1]
        yield Endpoint.parse(f"{carrier}://127.0.0.1:{port}"), trusting
        server.close()
    else:
        application = web.Application()
        application.router.add_get("/nnrp", websocket_echo)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ours).start()
        port = runner.addresses[0][1]
        yield Endpoint.parse(f"{carrier}://127.0.0.1:{port}"), trusting
        await runner.cleanup()


CARRIERS = pytest.mark.parametrize("carrier", ["nnrp", "nnrps", "unix", "ws", "wss"])


@asynccontextmanager
async def linked(carrier: str, folder: Path) -> AsyncIterator[tuple[Link, Heard]]:
    async with serving(carrier, folder) as (endpoint, context):
        heard = Heard()
        link = await endpoint.connect(heard, context, LIMIT)
        try:
            yield link, heard
        finally:
            link.abort()
            await heard.gone.wait()
            assert heard.losses == 1


@CARRIERS
def test_what_is_written_comes_back_in_order(carrier: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(carrier, tmp_path) as (link, heard):
            sent = b"".join(encode.ping(n) for n in range(1, 200))
            for start in range(0, len(sent), 40):
                link.write(sent[start : start + 40])
            await heard.until(len(sent))
            assert heard.data == sent
            assert [p.session for p in Splitter(LIMIT).feed(sent)] == list(range(1, 200))

    run(test())


@CARRIERS
def test_a_paused_link_brings_nothing_more_until_it_is_resumed(
    carrier: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with linked(carrier, tmp_path) as (link, heard):
            link.write(encode.ping(1))
            await heard.until(40)
            link.pause()
            link.pause()
            for number in range(2, 20):
                link.write(encode.ping(number))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await heard.until(19 * 40 - 39)
            link.resume()
            await heard.until(19 * 40)

    run(test())


@CARRIERS
def test_a_close_lets_through_what_was_written(carrier: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(carrier, tmp_path) as (endpoint, context):
            heard = Heard()
            link = await endpoint.connect(heard, context, LIMIT)
            link.write(encode.ping(1))
            link.close()
            link.write(encode.ping(2))  # to nobody, and no error
            await heard.gone.wait()
            link.abort()
            link.pause()
            link.resume()
            assert heard.losses == 1

    run(test())


@pytest.mark.parametrize("carrier", ["nnrp", "unix", "ws"])
def test_a_peer_that_does_not_read_makes_a_link_congested(carrier: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(carrier, tmp_path) as (link, heard):
            assert not link.congested
            link.pause()  # the echo stands once its own answers are not read
            piece = encode.frame_submit(1, 1, 1, b"x" * 500_000)
            for _ in range(80):
                link.write(piece)
            assert link.congested
            link.resume()
            await heard.until(80 * len(piece))
            while link.congested:
                await asyncio.sleep(0)

    run(test())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nnrp://127.0.0.1:1", "refused|Connect"),
        ("ws://127.0.0.1:1", "refused|Connect"),
        ("unix:/nowhere/at/all", "No such file"),
    ],
)
def test_no_connection_is_told_in_a_line(text: str, words: str) -> None:
    async def test() -> None:
        with pytest.raises(LinkError, match=words):
            await Endpoint.parse(text).connect(Heard(), None, LIMIT)

    run(test())


@pytest.mark.parametrize("carrier", ["nnrps", "wss"])
def test_a_certificate_of_nobody_we_know_is_told(carrier: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(carrier, tmp_path) as (endpoint, _):
            (tmp_path / "other").mkdir()
            trustme.CA().cert_pem.write_to_path(str(tmp_path / "other" / "ca.pem"))
            stranger = towards_upstream(UpstreamTLS(ca=tmp_path / "other" / "ca.pem"))
            with pytest.raises(LinkError, match="certificate"):
                await endpoint.connect(Heard(), stranger, LIMIT)

    run(test())


def test_a_websocket_server_that_has_no_such_path_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving("ws", tmp_path) as (endpoint, _):
            elsewhere = Endpoint(endpoint.address, "/elsewhere")
            with pytest.raises(LinkError, match="status 404"):
                await elsewhere.connect(Heard(), None, LIMIT)

    run(test())


def test_a_text_message_ends_a_websocket_link(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("no packet")
        await socket.receive()
        return socket

    async def test() -> None:
        application = web.Application()
        application.router.add_get("/nnrp", answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        heard = Heard()
        endpoint = Endpoint.parse(f"ws://127.0.0.1:{runner.addresses[0][1]}")
        await endpoint.connect(heard, None, LIMIT)
        await heard.gone.wait()
        assert not heard.data
        await runner.cleanup()

    run(test())


def test_a_session_over_an_encrypted_websocket(tmp_path: Path) -> None:
    """The whole client over the carrier that has the most layers."""

    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=LIMIT)
        await socket.prepare(request)
        splitter = Splitter(LIMIT)
        async for message in socket:
            (packet,) = splitter.feed(message.data)
            for data in _ANSWERS.get(packet.type, ()):
                await socket.send_bytes(data)
        return socket

    async def test() -> None:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        application = web.Application()
        application.router.add_get("/v1/nnrp", answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        endpoint = Endpoint.parse(f"wss://127.0.0.1:{runner.addresses[0][1]}/v1/nnrp")
        client = NnrpClient(endpoint, tls=towards_upstream(UpstreamTLS(ca=tmp_path / "ca.pem")))
        operation = await client.submit(b"{}")
        assert await operation.read() == [b'{"n":1}']
        assert await operation.read() == []
        await client.close()
        await runner.cleanup()

    run(test())


_ANSWERS: dict[int, list[bytes]] = {
    Message.CLIENT_HELLO: [encode.server_hello_ack(4)],
    Message.SESSION_OPEN: [encode.session_open_ack(1, 4)],
    Message.FRAME_SUBMIT: [
        encode.partial_result(1, 1, 1, 1, b'{"n":1}'),
        encode.result_push(1, 1, 200, None),
    ],
    Message.SESSION_CLOSE: [encode.session_close_ack(1, 1)],
}
