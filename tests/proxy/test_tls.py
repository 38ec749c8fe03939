"""TLS on both sides: who is trusted, who we are, and what is said where that fails."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import truststore

from teeline.config.model import (
    Config,
    ListenAddress,
    ListenTLS,
    UpstreamConfig,
    UpstreamTLS,
    UpstreamURL,
)
from teeline.proxy.server import ProxyServer, ServeError
from teeline.proxy.tls import TLSFilesError, towards_clients, towards_upstream
from teeline.validators.model import Ended
from tests.proxy.certs import Certificates
from tests.proxy.raw import Message, Recorder, Wire, ask, code_of, run, serving

GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certs"))


@asynccontextmanager
async def tls_upstream(context: ssl.SSLContext, answer: bytes = OK) -> AsyncIterator[int]:
    """Answers each request on each connection; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        try:
            while True:
                await wire.read_message()
                await wire.send(answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def through(port: int, tls: UpstreamTLS | None, recorder: Recorder | None = None) -> Message:
    """The answer to a request through a proxy with these settings."""
    url = UpstreamURL.parse(f"https://127.0.0.1:{port}/v1")
    config = Config((UpstreamConfig(url, "relay", tls=tls),), ListenAddress("127.0.0.1", 0))
    async with serving(config, *([recorder] if recorder else [])) as (_, ports):
        return await ask(ports[0], GET)


def test_an_authority_of_ones_own_is_trusted_where_it_is_named(certs: Certificates) -> None:
    async def test() -> None:
        async with tls_upstream(certs.server(certs.issue("127.0.0.1"))) as port:
            assert (await through(port, UpstreamTLS(ca=certs.ca))).body == b"ok"
            assert (await through(port, UpstreamTLS(verify=False))).body == b"ok"

    run(test())


@pytest.mark.parametrize("case", ["unknown", "expired", "wrong name"])
def test_a_certificate_that_proves_nothing_gives_a_502_and_no_request_is_sent(
    case: str, certs: Certificates
) -> None:
    async def test() -> None:
        recorder = Recorder()
        name = "other.example" if case == "wrong name" else "127.0.0.1"
        file = certs.issue(name, days=-1 if case == "expired" else 1)
        trusted = None if case == "unknown" else UpstreamTLS(ca=certs.ca)
        async with tls_upstream(certs.server(file)) as port:
            answer = await through(port, trusted, recorder)
        assert (answer.status, code_of(answer)) == (502, "upstream_tls")
        assert recorder.ended == [Ended.REFUSED]

    run(test())


def test_the_name_that_is_verified_can_be_another_than_the_urls(certs: Certificates) -> None:
    async def test() -> None:
        async with tls_upstream(certs.server(certs.issue("relay.internal"))) as port:
            named = UpstreamTLS(ca=certs.ca, server_name="relay.internal")
            assert (await through(port, named)).body == b"ok"

    run(test())


def test_a_client_certificate_is_shown_to_an_upstream_that_asks_for_one(
    certs: Certificates,
) -> None:
    async def test() -> None:
        context = certs.server(certs.issue("127.0.0.1"), wants_client=True)
        async with tls_upstream(context) as port:
            ours = UpstreamTLS(ca=certs.ca, cert=certs.issue("client.example"))
            assert (await through(port, ours)).body == b"ok"
            assert (await through(port, UpstreamTLS(ca=certs.ca))).status == 502

    run(test())


def test_clients_are_served_over_tls(certs: Certificates) -> None:
    async def test() -> None:
        file = certs.issue("localhost")
        async with tls_upstream(certs.server(certs.issue("127.0.0.1"))) as port:
            url = UpstreamURL.parse(f"https://127.0.0.1:{port}/v1")
            config = Config(
                (UpstreamConfig(url, tls=UpstreamTLS(ca=certs.ca)),),
                ListenAddress("127.0.0.1", 0),
                ListenTLS(file),
            )
            server = ProxyServer(config, ())
            (listener,) = await server.start()
            assert listener.base_url == f"https://127.0.0.1:{listener.port}/v1"
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", listener.port, ssl=certs.client(), server_hostname="localhost"
            )
            wire = Wire(reader, writer)
            for _ in range(2):
                await wire.send(GET)
                assert (await wire.read_message()).body == b"ok"
            # A client that speaks no TLS is nobody's request, and the others go on.
            plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", listener.port)
            await Wire(plain_reader, plain_writer).send(GET)
            await plain_reader.read()
            plain_writer.close()
            await wire.send(GET)
            assert (await wire.read_message()).body == b"ok"
            writer.close()
            await server.stop(5.0)
            assert server.connections() == []

    run(test())


def test_the_system_is_trusted_where_nothing_else_is_said() -> None:
    context = towards_upstream(None)
    assert isinstance(context, truststore.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_only_http_1_1_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[list[str]] = []
    monkeypatch.setattr(
        ssl.SSLContext, "set_alpn_protocols", lambda _, names: offered.append(names)
    )
    towards_upstream(UpstreamTLS(verify=False))
    assert offered == [["http/1.1"]]


def test_files_that_cannot_be_used_are_one_line_that_names_them(
    tmp_path: Path,
) -> None:
    nothing, garbage = tmp_path / "none.pem", tmp_path / "garbage.pem"
    garbage.write_text("no certificate", encoding="ascii")
    uses: tuple[Callable[[Path], object], ...] = (
        lambda file: towards_upstream(UpstreamTLS(ca=file)),
        lambda file: towards_upstream(UpstreamTLS(cert=file)),
        lambda file: towards_clients(ListenTLS(file)),
    )
    for file, why in ((nothing, "No such file"), (garbage, "not what it should be")):
        for use in uses:
            with pytest.raises(TLSFilesError) as caught:
                use(file)
            assert str(file) in str(caught.value)
            assert why in str(caught.value)
            assert "\n" not in str(caught.value)


def test_a_server_with_files_that_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    async def test() -> None:
        upstream = UpstreamConfig(UpstreamURL.parse("https://h"))
        config = Config(
            (upstream,), ListenAddress("127.0.0.1", 0), ListenTLS(tmp_path / "none.pem")
        )
        with pytest.raises(ServeError, match=r"none\.pem: No such file"):
            await ProxyServer(config, ()).start()

    run(test())
