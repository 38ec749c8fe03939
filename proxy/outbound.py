"""HTTP proxies between teeline and an upstream, used where the configuration asks for one.

What belongs here: which proxy it is, and the tunnel through it (CONNECT, RFC 9110 9.3.6). A tunnel
is asked for whatever the upstream's scheme is: what is said in it stays as transparent as without.
What doesn't: the connection to the upstream itself (upstream.py).
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from typing import cast

from teeline.config.model import FROM_ENVIRONMENT, ProxyURL, UpstreamConfig, UpstreamURL
from teeline.proxy.parse import HeadError, HeadReader


class ProxyError(Exception):
    """The proxy can't be reached, or lets nobody through."""


def proxy_of(config: UpstreamConfig, environ: Mapping[str, str]) -> ProxyURL | None:
    """The proxy to an upstream: none, the one configured, or the environment's where asked for.

    A value of the environment that is no URL of a proxy counts as none: it is meant for others.
    """
    if not isinstance(config.proxy, str):
        return config.proxy
    assert config.proxy == FROM_ENVIRONMENT
    settings = {
        scheme: value
        for scheme in ("http", "https", "all", "no")
        # The lower-case name wins, as in curl.
        if (value := environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY"))
    }
    text = settings.get(config.url.scheme) or settings.get("all")
    if text is None or _passed_by(config.url, settings.get("no", "")):
        return None
    try:
        return ProxyURL.parse(text)
    except ValueError:
        return None


def _passed_by(url: UpstreamURL, exceptions: str) -> bool:
    """Whether NO_PROXY names a host: itself, a domain above it, or all (``*``)."""
    for entry in exceptions.lower().split(","):
        name = entry.strip().removeprefix("*").removeprefix(".")
        host, colon, port = name.rpartition(":")
        if colon and port.isdigit() and ":" not in host:
            if int(port) != url.port:
                continue
            name = host
        if entry.strip() == "*" or (name and f".{url.host}".lower().endswith(f".{name}")):
            return True
    return False


async def connect(
    proxy: ProxyURL,
    url: UpstreamURL,
    protocol: asyncio.BufferedProtocol,
    tls: ssl.SSLContext | None,
    server_name: str | None,
) -> None:
    """Connects ``protocol`` to an upstream through a proxy.

    Raises ProxyError; what fails behind the proxy raises as without it.
    """
    loop = asyncio.get_running_loop()
    asking = _Asking(_request(proxy, url))
    try:
        transport, _ = await loop.create_connection(
            lambda: asking,
            proxy.host,
            proxy.port,
            ssl=ssl.create_default_context() if proxy.scheme == "https" else None,
        )
    except (OSError, UnicodeError):
        raise ProxyError from None
    try:
        await asking.opened
        if tls is None:
            transport.set_protocol(protocol)
        else:
            secured = await loop.start_tls(transport, protocol, tls, server_hostname=server_name)
            if secured is None:
                raise ProxyError
            transport = secured
    except BaseException:
        transport.abort()
        raise
    protocol.connection_made(transport)
    if tls is None:
        transport.resume_reading()


def _request(proxy: ProxyURL, url: UpstreamURL) -> bytes:
    host = f"[{url.host}]" if ":" in url.host else url.host
    lines = [f"CONNECT {host}:{url.port} HTTP/1.1", f"Host: {host}:{url.port}"]
    if proxy.login:
        login = base64.b64encode(proxy.login.encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {login}")
    return "\r\n".join((*lines, "", "")).encode("ascii")


class _Asking(asyncio.Protocol):
    """Asks a proxy for a tunnel; ``opened`` is done when it stands."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._reader = HeadReader()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.opened.done():
            self._transport.abort()  # nobody may speak before the upstream was spoken to
            return
        try:
            found = self._reader.answer(data)
        except HeadError:
            self._fail()
            return
        if found is None:
            return
        head, rest = found
        if not 200 <= head.status < 300 or rest:
            self._fail()
            return
        # Until the upstream's protocol is in this one's place.
        self._transport.pause_reading()
        self.opened.set_result(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._fail()

    def _fail(self) -> None:
        if not self.opened.done():
            self.opened.set_exception(ProxyError())
