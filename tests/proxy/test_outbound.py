"""Proxies on the way: which one, and a tunnel that changes nothing of what passes through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from teeline.config.model import (
    Config,
    ListenAddress,
    ProxyURL,
    UpstreamConfig,
    UpstreamTLS,
    UpstreamURL,
)
from teeline.proxy.outbound import proxy_of
from tests.proxy.certs import Certificates
from tests.proxy.raw import Message, answering, ask, code_of, run, serving
from tests.proxy.test_tls import tls_upstream

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ENVIRONMENT = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,.internal,h.example:8443"}


def chosen(url: str, environ: dict[str, str], proxy: ProxyURL | str | None = "env") -> str:
    found = proxy_of(UpstreamConfig(UpstreamURL.parse(url), proxy=proxy), environ)
    return "" if found is None else f"{found.host}:{found.port}"


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://relay.example", ENVIRONMENT, "proxy:3128"),
        ("http://relay.example", ENVIRONMENT, ""),
        ("http://relay.example", {"ALL_PROXY": "all:1"}, "all:1"),
        ("https://relay.example", {**ENVIRONMENT, "https_proxy": "lower:2"}, "lower:2"),
        ("https://localhost", ENVIRONMENT, ""),
        ("https://relay.internal", ENVIRONMENT, ""),
        ("https://notinternal", ENVIRONMENT, "proxy:3128"),
        ("https://h.example", ENVIRONMENT, "proxy:3128"),
        ("https://h.example:8443", ENVIRONMENT, ""),
        ("https://relay.example", {**ENVIRONMENT, "NO_PROXY": "*"}, ""),
        ("https://relay.example", {"HTTPS_PROXY": "socks5://s"}, ""),
        ("https://relay.example", {}, ""),
    ],
)
def test_the_environment_says_which_proxy(url: str, environ: dict[str, str], expected: str) -> None:
    assert chosen(url, environ) == expected


def test_the_environment_is_not_asked_unless_the_configuration_says_so() -> None:
    assert chosen("https://relay.example", ENVIRONMENT, None) == ""
    assert chosen("https://relay.internal", ENVIRONMENT, ProxyURL("http", "p", 1)) == "p:1"


class Tunnels:
    """A proxy that keeps what it is asked for, and gives its answer."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        writer.write(self.answer)
        if b" 200 " in self.answer:
            port = int(head.split()[1].rpartition(b":")[2])
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def tunnels(
    answer: bytes = b"HTTP/1.1 200 Connected\r\n\r\n",
) -> AsyncIterator[Tunnels]:
    proxy = Tunnels(answer)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    yield proxy
    server.close()
    await server.wait_closed()


async def through(url: str, port: int, tls: UpstreamTLS | None = None, login: str = "") -> Message:
    proxy = ProxyURL("http", "127.0.0.1", port, login)
    upstream = UpstreamConfig(UpstreamURL.parse(url), "relay", tls=tls, proxy=proxy)
    async with serving(Config((upstream,), ListenAddress("127.0.0.1", 0))) as (_, ports):
        return await ask(ports[0], GET)


def test_a_request_arrives_through_the_tunnel_as_it_would_without() -> None:
    async def test() -> None:
        async with answering(OK) as upstream, tunnels() as proxy:
            assert (await through(upstream.url, proxy.port, login="me:s3c:ret")).body == b"ok"
        authority = b"127.0.0.1:%d" % upstream.port
        assert upstream.requests[0].lines == [b"GET /v1/models HTTP/1.1", b"Host: " + authority]
        assert proxy.asked == [
            b"CONNECT %b HTTP/1.1\r\nHost: %b\r\nProxy-Authorization: Basic bWU6czNjOnJldA==\r\n\r\n"
            % (authority, authority)
        ]

    run(test())


def test_tls_is_set_up_with_the_upstream_through_the_tunnel(tmp_path: Path) -> None:
    async def test() -> None:
        certs = Certificates(tmp_path)
        async with tls_upstream(certs.server(certs.issue("127.0.0.1"))) as port, tunnels() as proxy:
            url = f"https://127.0.0.1:{port}"
            assert (await through(url, proxy.port, UpstreamTLS(ca=certs.ca))).body == b"ok"
            refused = await through(url, proxy.port)
            assert code_of(refused) == "upstream_tls"

    run(test())


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"",
    ],
    ids=["declined", "no proxy", "closed"],
)
def test_a_proxy_that_lets_nobody_through_gives_a_502_of_its_own(answer: bytes) -> None:
    async def test() -> None:
        async with tunnels(answer) as proxy:
            refused = await through("http://127.0.0.1:1", proxy.port)
        assert (refused.status, code_of(refused)) == (502, "proxy_failed")
        refused = await through("http://127.0.0.1:1", proxy.port)
        assert (refused.status, code_of(refused)) == (502, "proxy_failed")

    run(test())
