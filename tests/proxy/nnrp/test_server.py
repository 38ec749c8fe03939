"""One address serves plain streams and WebSocket, within its bounds, and closes behind its last word."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.conversation import Conversation, ConversationError
from teeline.proxy.nnrp.server import NnrpServer, ServerError
from teeline.proxy.nnrp.serverlimits import ServerLimits
from teeline.validators.wire import nnrpencode as encode
from tests.proxy.certs import Certificates
from tests.proxy.nnrp.linked import Serves, forever

LOOPBACK = Address("127.0.0.1", 0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


@asynccontextmanager
async def serving(
    listen: Address = LOOPBACK, service: Serves | None = None, **options: Any
) -> AsyncIterator[Address]:
    server = NnrpServer(listen, service or Serves(), **options)
    try:
        yield await server.start()
    finally:
        await server.stop()


async def ask(endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> str:
    conversation = await Conversation.open(endpoint, tls)
    try:
        return (await conversation.run(b"{}", timeout=10)).terminal
    finally:
        await conversation.close()


def endpoint(address: Address, carrier: str) -> Endpoint:
    return Endpoint(address, "/any/path" if carrier == "websocket" else None)


@pytest.mark.parametrize("carrier", ["stream", "websocket"])
def test_a_port_serves_both_carriers(carrier: str) -> None:
    async def work() -> None:
        async with serving() as address:
            assert await ask(endpoint(address, carrier)) == "success"

    run(work())


def test_a_unix_socket_is_served_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "nnrp"

    async def work() -> None:
        async with serving(Address(path=str(path))) as address:
            assert await ask(endpoint(address, "stream")) == "success"
        assert not path.exists()

    run(work())


@pytest.mark.parametrize("carrier", ["stream", "websocket"])
def test_tls_ends_here(carrier: str, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    ours = certificates.server(certificates.issue("localhost"))

    async def work() -> None:
        async with serving(tls=ours) as address:
            place = Address("localhost", address.port, tls=True)
            assert await ask(endpoint(place, carrier), certificates.client()) == "success"

    run(work())


def test_an_address_that_is_taken_is_said() -> None:
    async def work() -> None:
        async with serving() as address:
            with pytest.raises(ServerError, match="can't listen on"):
                await NnrpServer(address, Serves()).start()

    run(work())


def test_connections_are_bounded() -> None:
    async def work() -> None:
        async with serving(limits=ServerLimits(connections=1)) as address:
            first = await Conversation.open(endpoint(address, "stream"))
            with pytest.raises(ConversationError):
                await Conversation.open(endpoint(address, "stream"))
            await first.close()

    run(work())


def test_a_client_that_says_nothing_is_sent_away() -> None:
    async def work() -> None:
        async with serving(limits=ServerLimits(handshake=0.01)) as address:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    run(work())


def test_pages_in_browsers_are_kept_out() -> None:
    async def work() -> None:
        async with serving() as address, aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(f"ws://{address}/", origin="https://example.com")

    run(work())


def test_a_plain_get_is_told_what_is_spoken_here() -> None:
    async def work() -> None:
        async with (
            serving() as address,
            aiohttp.ClientSession() as session,
            session.get(f"http://{address}/") as response,
        ):
            assert response.status == 426

    run(work())


@pytest.mark.parametrize("message", ["text", "half a packet"])
def test_a_message_that_is_no_packet_ends_a_websocket(message: str) -> None:
    async def work() -> None:
        async with (
            serving() as address,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"ws://{address}/") as socket,
        ):
            if message == "text":
                await socket.send_str("hello")
            else:
                await socket.send_bytes(encode.client_hello()[:50])
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE

    run(work())


@pytest.mark.parametrize("carrier", ["stream", "websocket"])
def test_stopping_tells_open_operations(carrier: str) -> None:
    async def work() -> None:
        server = NnrpServer(LOOPBACK, Serves(forever))
        conversation = await Conversation.open(endpoint(await server.start(), carrier))
        running = asyncio.create_task(conversation.run(b"{}", timeout=10))
        while not server.open_operations:
            await asyncio.sleep(0.001)
        await server.stop(0.01)
        observed = await running
        assert observed.notes == ["dropped: transport_closed"]
        await conversation.close()

    run(work())


def test_a_handshake_that_does_not_come_to_its_end_is_ended() -> None:
    async def work() -> None:
        async with serving(limits=ServerLimits(handshake=0.01)) as address:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    run(work())


def test_what_a_client_sends_that_is_no_http_stays_out_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET / HTTP/1.1\r\nAuthorization: sk-secret\r\nbroken\r\n\r\n")
            await reader.read()
            writer.close()
        assert "sk-secret" not in caplog.text

    run(work())
