"""Sockets below transports: what is asked of them, and what they tell."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from teeline.proxy.sockets import is_reset, keep_alive, left_unread, reset_on_close
from tests.proxy.raw import run


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.Transport, socket.socket]]:
    """A transport that reads nothing, and the socket of its peer."""
    listening = socket.create_server(("127.0.0.1", 0))
    peer = socket.create_connection(listening.getsockname())
    accepted, _ = listening.accept()
    listening.close()
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
        asyncio.Protocol, accepted
    )
    transport.pause_reading()
    try:
        yield transport, peer
    finally:
        transport.abort()
        peer.close()
        await asyncio.sleep(0)


def test_a_reset_is_seen_without_reading_and_an_end_or_bytes_are_none() -> None:
    async def test() -> None:
        async with connected() as (transport, peer):
            assert not is_reset(transport)
            peer.sendall(b"bytes")
            peer.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0.01)
            assert not is_reset(transport)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.close()
            await asyncio.sleep(0.01)
            assert is_reset(transport)

    run(test())


def test_what_came_and_was_not_read_can_still_be_read() -> None:
    async def test() -> None:
        async with connected() as (transport, peer):
            peer.sendall(b"x" * 100_000)
            await asyncio.sleep(0.01)
            assert b"".join(left_unread(transport)) == b"x" * 100_000
            assert list(left_unread(transport)) == []

    run(test())


def test_an_end_can_be_made_a_reset() -> None:
    async def test() -> None:
        async with connected() as (transport, peer):
            reset_on_close(transport)
            transport.abort()
            await asyncio.sleep(0.01)
            with pytest.raises(ConnectionResetError):
                peer.recv(1)

    run(test())


def test_transports_without_a_socket_are_left_alone() -> None:
    transport = asyncio.Transport()
    keep_alive(transport)
    reset_on_close(transport)
    assert not is_reset(transport)
    assert list(left_unread(transport)) == []
