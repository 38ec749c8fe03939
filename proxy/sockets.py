"""What is asked of the sockets below transports, which know no such things themselves.

What belongs here: options and looks at a connection's socket. What doesn't: when they are due.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
from collections.abc import Iterator
from typing import Final

from teeline.proxy import pieces

_RESET: Final = struct.pack("ii", 1, 0)
_UNREAD: Final = 16
"""Pieces that are still read off a connection that failed in a write."""


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Has the kernel ask now and then whether a silent peer is still there.

    Without it a peer that lost its power or its network would never be missed: an answer may be
    silent for minutes, and there is no other limit by default.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    except OSError:
        return  # the connection is gone already


def reset_on_close(transport: asyncio.BaseTransport) -> None:
    """Makes the end of a connection a reset, where a clean one would say something else."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def is_reset(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has broken the connection, which reading would tell if it went on."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return False
    look = select.poll()
    look.register(sock.fileno(), 0)  # the two below are told unasked
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in look.poll(0))


def left_unread(transport: asyncio.BaseTransport) -> Iterator[bytes]:
    """What has come on a connection that broke; a bounded part of it, nothing where TLS is spoken.

    To be read in ``connection_lost``, while the socket is still there.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or transport.get_extra_info("sslcontext") is not None:
        return
    try:
        with socket.socket(fileno=os.dup(sock.fileno())) as copy:
            for _ in range(_UNREAD):
                if not (data := copy.recv(pieces.SIZE)):
                    return
                yield data
    except OSError:
        return  # nothing more is there
