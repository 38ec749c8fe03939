"""The tap changes no byte, says what it saw, and carries ends from one side to the other."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.tap import NnrpTap, TapError
from teeline.validators.model import Ended
from teeline.validators.nnrp.inspector import NnrpInspector
from tests.proxy.certs import Certificates
from tests.proxy.nnrp.fuzz import forwarded
from tests.proxy.nnrp.peers import Kept, Server, capture, tapping
from tests.validators.nnrp.fuzz import Mutator

LOOPBACK = Address("127.0.0.1", 0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


@asynccontextmanager
async def between(server: Server, kept: Kept) -> AsyncIterator[Address]:
    """A tap in front of a server; its address."""
    upstream = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    tap, observers = tapping(Address("127.0.0.1", port), LOOPBACK, [kept])
    try:
        yield await tap.start()
    finally:
        await tap.stop()
        await observers.settle(1.0)
        upstream.close()


async def opened(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.path:
        return await asyncio.open_unix_connection(address.path)
    return await asyncio.open_connection(address.host, address.port)


async def talk(address: Address, says: bytes, pieces: int = 997) -> bytes:
    """Says it all in pieces, then ends its side; what was heard."""
    reader, writer = await opened(address)
    for at in range(0, len(says), pieces):
        writer.write(says[at : at + pieces])
        await asyncio.sleep(0)
    writer.write_eof()
    heard = await reader.read(-1)
    writer.close()
    return heard


@pytest.mark.parametrize("carrier", ["tcp", "ipc", "websocket"])
def test_every_byte_goes_through_and_every_operation_is_seen(carrier: str) -> None:
    async def work() -> None:
        client, says = capture(carrier)
        server, kept = Server(says), Kept()
        async with between(server, kept) as address:
            assert await talk(address, client) == says
            await server.gone.wait()
        assert server.heard == client
        assert len(kept.opened_) == len(kept.closed_) > 0
        assert all(exchange.client == "127.0.0.1" and exchange.id for exchange in kept.closed_)

    run(work())


def test_a_unix_socket_is_tapped_like_any_other(tmp_path: Path) -> None:
    async def work() -> None:
        client, says = capture("ipc")
        server, kept = Server(says), Kept()
        path = str(tmp_path / "server")
        upstream = await asyncio.start_unix_server(server.serve, path)
        tap, _ = tapping(Address(path=path), Address(path=str(tmp_path / "tap")), [kept])
        address = await tap.start()
        assert await talk(address, client) == says
        await tap.stop()
        upstream.close()
        assert server.heard == client and kept.closed_

    run(work())


def test_what_can_not_be_read_goes_through_all_the_same() -> None:
    async def work() -> None:
        says = random.Random(3).randbytes(300_000)
        server, kept = Server(says), Kept()
        async with between(server, kept) as address:
            assert await talk(address, says[::-1], 60_000) == says
            await server.gone.wait()
        assert server.heard == says[::-1]
        assert "nnrp.magic-wrong" in kept.rules

    run(work())


def test_tls_passes_through_and_the_reason_is_said() -> None:
    async def work() -> None:
        server, kept = Server(b"\x16\x03\x03\x00\x02ab"), Kept()
        async with between(server, kept) as address:
            assert await talk(address, b"\x16\x03\x01\x00\x02ab") == server.says
        (seen,) = kept.closed_
        assert (seen.operation, seen.inspection) == ("connection", "none (encrypted)")

    run(work())


def test_broken_connections_of_every_kind_go_through_unchanged() -> None:
    """Whatever the bytes are, they arrive; no observer fails, and what was opened is closed."""

    async def work() -> None:
        figures = await forwarded(list(Mutator(seed=5).variants(150)), seed=5)
        assert figures.right, figures
        assert figures.connections == 150 and figures.exchanges > 100 and figures.findings > 100

    run(work())


class Secured(NamedTuple):
    """A server behind TLS, and what clients and taps need to speak with it."""

    certificates: Certificates
    server: ssl.SSLContext
    trusting: ssl.SSLContext


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    return Secured(made, made.server(made.issue("localhost")), made.client())


@pytest.mark.parametrize("upstream_tls", [False, True])
def test_tls_that_ends_at_the_tap_is_inspected(secured: Secured, upstream_tls: bool) -> None:
    """The clients' TLS is the tap's; towards the server it speaks TLS of its own, or none."""

    async def work() -> None:
        client, says = capture("tcp")
        server, kept = Server(says), Kept()
        theirs = secured.server if upstream_tls else None
        upstream = await asyncio.start_server(server.serve, "localhost", 0, ssl=theirs)
        port = upstream.sockets[0].getsockname()[1]
        tap, observers = tapping(
            Address("localhost", port, tls=upstream_tls),
            Address("localhost", 0),
            [kept],
            accept_tls=secured.server,
            connect_tls=secured.trusting if upstream_tls else None,
        )
        address = await tap.start()
        assert address.tls
        reader, writer = await asyncio.open_connection(
            "localhost", address.port, ssl=secured.trusting
        )
        writer.write(client)
        heard = await reader.readexactly(len(says))
        writer.close()  # TLS has no half close: the end of the client is the connection's
        await server.gone.wait()
        await tap.stop()
        await observers.settle(1.0)
        upstream.close()
        assert (heard, server.heard) == (says, client)
        assert kept.closed_ and {e.inspection for e in kept.closed_} == {"full"}
        assert "nnrp.carrier-encrypted" not in kept.rules

    run(work())


def test_tls_between_client_and_server_passes_untouched(secured: Secured) -> None:
    """A real handshake, end to end: the tap sees no byte of NNRP, and says so."""

    async def work() -> None:
        client, says = capture("tcp")
        server, kept = Server(says), Kept()
        upstream = await asyncio.start_server(server.serve, "localhost", 0, ssl=secured.server)
        port = upstream.sockets[0].getsockname()[1]
        tap, observers = tapping(Address("localhost", port), Address("localhost", 0), [kept])
        address = await tap.start()
        reader, writer = await asyncio.open_connection(
            "localhost", address.port, ssl=secured.trusting
        )
        writer.write(client)
        heard = await reader.readexactly(len(says))
        writer.close()
        await server.gone.wait()
        await tap.stop()
        await observers.settle(1.0)
        upstream.close()
        assert (heard, server.heard) == (says, client)
        (seen,) = kept.closed_
        assert (seen.operation, seen.inspection) == ("connection", "none (encrypted)")
        assert kept.rules == ["nnrp.carrier-encrypted"]

    run(work())


def test_an_upstream_whose_certificate_is_not_trusted_gets_no_byte(secured: Secured) -> None:
    async def work() -> None:
        server = Server(b"")
        upstream = await asyncio.start_server(server.serve, "localhost", 0, ssl=secured.server)
        port = upstream.sockets[0].getsockname()[1]
        strict = ssl.create_default_context()
        up = Address("localhost", port, tls=True)
        tap, _ = tapping(up, LOOPBACK, [Kept()], connect_tls=strict)
        reader, writer = await opened(await tap.start())
        writer.write(b"NNRP")
        with pytest.raises(ConnectionResetError):
            assert await reader.read(1)
        writer.close()
        await tap.stop()
        upstream.close()
        assert server.heard == b""

    run(work())


def test_a_broken_connection_breaks_the_other_side_too() -> None:
    async def work() -> None:
        client, says = capture("tcp")
        server, kept = Server(says[:1000], reset=True), Kept()
        async with between(server, kept) as address:
            reader, writer = await opened(address)
            writer.write(client)
            with pytest.raises(ConnectionResetError):
                while await reader.read(100_000):
                    pass
            writer.close()
        assert any(exchange.ended is Ended.UPSTREAM_ABORTED for exchange in kept.closed_)

    run(work())


def test_an_upstream_that_is_not_there_breaks_the_client_s_connection() -> None:
    async def work() -> None:
        tap, _ = tapping(Address("127.0.0.1", 9), LOOPBACK, [Kept()])
        reader, writer = await opened(await tap.start())
        with pytest.raises(ConnectionResetError):
            assert await reader.read(1)
        writer.close()
        await tap.stop()

    run(work())


def test_an_observer_that_fails_costs_the_inspection_and_not_a_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("an observer's mistake")

    async def work() -> None:
        client, says = capture("tcp")
        server, kept = Server(says), Kept()
        async with between(server, kept) as address:
            monkeypatch.setattr(NnrpInspector, "feed", broken)
            assert await talk(address, client) == says

    run(work())


def test_an_address_that_is_taken_is_said_in_one_line() -> None:
    async def work() -> None:
        taken, _ = tapping(LOOPBACK, LOOPBACK, [])
        address = await taken.start()
        tap = NnrpTap(address, LOOPBACK, lambda _: pytest.fail("no connection"))
        with pytest.raises(TapError, match="can't listen on"):
            await tap.start()
        await taken.stop()

    run(work())


def test_an_operation_is_closed_while_its_connection_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teeline.proxy.nnrp.tap._TICK", 0.02)

    async def work() -> None:
        client, says = capture("tcp")
        server, kept = Server(says), Kept()
        async with between(server, kept) as address:
            _, writer = await opened(address)
            writer.write(client)
            async with asyncio.timeout(5):
                while not kept.closed_:
                    await asyncio.sleep(0.05)
            writer.close()

    run(work())
