"""Where a tap listens and where it leads: TCP or a Unix socket, plain or TLS.

What belongs here: reading addresses, opening sockets for them. What doesn't: what goes over them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from teeline.config.model import ListenAddress

_SCHEMES = ("tcp", "tls", "ws", "wss", "nnrp", "nnrps")
_ENCRYPTED = ("tls", "wss", "nnrps")
Accept = Callable[[], asyncio.BaseProtocol]
"""Makes the protocol of a connection."""


@dataclass(frozen=True, slots=True)
class Address:
    """``path`` for a Unix socket, else host and port; ``tls`` where the connection is encrypted."""

    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> Address:
        """``HOST:PORT``, also behind tcp, tls, ws, wss, nnrp or nnrps, and ``unix:PATH``; ValueError."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:").removeprefix("//")
            if not path:
                raise ValueError("unix: needs a path")
            return cls(path=path)
        scheme, mark, rest = text.partition("://")
        if not mark:
            scheme, rest = "tcp", text
        if scheme.startswith("quic"):
            raise ValueError("QUIC runs over UDP, which does not go through streams")
        if scheme not in _SCHEMES:
            known = ", ".join(f"{name}://" for name in _SCHEMES)
            raise ValueError(f"an address is HOST:PORT, {known} or unix:PATH")
        place = ListenAddress.parse(rest.rstrip("/"))
        return cls(place.host, place.port, tls=scheme in _ENCRYPTED)

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        place = str(ListenAddress(self.host, self.port))
        return f"tls://{place}" if self.tls else place

    async def listen(self, accept: Accept, context: ssl.SSLContext | None) -> asyncio.Server:
        """A server that accepts here; OSError."""
        loop = asyncio.get_running_loop()
        if self.path:
            return await loop.create_unix_server(accept, self.path)
        return await loop.create_server(accept, self.host, self.port, ssl=context)

    async def connect(self, made: Accept, context: ssl.SSLContext | None) -> None:
        """A connection to it; OSError."""
        loop = asyncio.get_running_loop()
        if self.path:
            await loop.create_unix_connection(made, self.path)
        else:
            await loop.create_connection(made, self.host, self.port, ssl=context)
