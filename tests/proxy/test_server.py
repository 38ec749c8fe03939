"""The proxy as an object: it starts whole or not at all, and stops without losing what is under way."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from teeline.config.model import (
    Config,
    ListenAddress,
    NnrpConfig,
    UpstreamConfig,
    UpstreamURL,
)
from teeline.proxy.server import (
    ProxyServer,
    Route,
    ServeError,
    bind_all,
    close_all,
    listeners_of,
    vendor_settings,
)
from teeline.proxy.sinks import SinkError
from teeline.validators.events import Found
from teeline.validators.model import Ended
from teeline.validators.profiles import Setting
from tests.ports import free_port
from tests.proxy.raw import Proxy, Recorder, Wire, answering, ask, client, proxy, raw_upstream, run

LOOPBACK = ListenAddress("127.0.0.1", 0)
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"


class LoggedSink(Recorder):
    """A recorder that keeps what is done to it, and may refuse to start."""

    def __init__(self, refuses: bool = False) -> None:
        super().__init__()
        self.life: list[str] = []
        self._refuses = refuses

    async def start(self) -> None:
        if self._refuses:
            raise SinkError("the sink's folder can't be written")
        self.life.append("start")

    async def drain(self, deadline: float) -> None:
        self.life.append(f"drain after {len(self.exchanges)}")

    async def close(self) -> None:
        self.life.append("close")


def config(*urls: str, listen: ListenAddress = LOOPBACK) -> Config:
    upstreams = (UpstreamConfig(UpstreamURL.parse(url), f"relay-{url[-1]}") for url in urls)
    return Config(upstreams=tuple(upstreams), listen=listen)


def test_a_listener_says_what_a_clients_base_url_is_and_where_it_leads() -> None:
    async def test() -> None:
        a, b = UpstreamURL.parse("https://a.example/v1"), UpstreamURL.parse("http://b.example/api")
        upstreams = (
            UpstreamConfig(a, "a"),
            UpstreamConfig(b, "b", prefix="/b"),
            UpstreamConfig(b, "c", listen=ListenAddress("0.0.0.0", 0)),
        )
        server = ProxyServer(Config(upstreams=upstreams, listen=LOOPBACK), ())
        shared, own = await server.start()
        await server.stop(0)
        origin = f"http://127.0.0.1:{shared.port}"
        assert shared.base_url == origin + "/v1"
        assert shared.upstreams == ("a", "b")
        assert shared.routes == (
            Route("a", origin + "/v1", "https://a.example/v1"),
            Route("b", origin + "/b/v1", "http://b.example/api/v1"),
        )
        assert own.base_url == f"http://127.0.0.1:{own.port}/v1"

    run(test())


def test_a_port_in_use_is_one_line_and_starts_no_sink() -> None:
    async def test() -> None:
        sink = LoggedSink()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = ListenAddress("127.0.0.1", taken.getsockname()[1])
            with pytest.raises(
                ServeError, match=rf"^can't listen on {address}: [^\n]*in use[^\n]*$"
            ):
                await ProxyServer(config("http://h/1", listen=address), [sink]).start()
        assert sink.life == []

    run(test())


def test_sockets_that_others_have_too_outlive_the_server_that_accepts_from_them() -> None:
    async def test() -> None:
        async with answering(OK) as upstream:
            config = Config((UpstreamConfig(UpstreamURL.parse(upstream.url)),), LOOPBACK)
            bound = await bind_all(config)
            told = listeners_of(config, bound)
            for _ in range(2):
                server = ProxyServer(config, ())
                copies = {address: [s.dup() for s in sockets] for address, sockets in bound.items()}
                assert await server.start(copies) == told
                assert (await ask(told[0].port, GET)).body == b"ok"
                await server.stop(0)
            close_all(bound)

    run(test())


def test_one_address_that_is_taken_leaves_none_bound() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = ListenAddress("127.0.0.1", free_port())
            url = UpstreamURL.parse("http://127.0.0.1:1")
            second = ListenAddress("127.0.0.1", taken.getsockname()[1])
            upstreams = (UpstreamConfig(url, "a"), UpstreamConfig(url, "b", listen=second))
            with pytest.raises(ServeError, match=f"can't listen on {second}"):
                await bind_all(Config(upstreams, free))
            socket.create_server((free.host, free.port)).close()

    run(test())


def test_a_sink_that_cannot_start_leaves_nothing_open() -> None:
    async def test() -> None:
        started, refusing = LoggedSink(), LoggedSink(refuses=True)
        address = ListenAddress("127.0.0.1", free_port())
        server = ProxyServer(config("http://h/1", listen=address), [started, refusing])
        with pytest.raises(ServeError, match=r"^the sink's folder can't be written$"):
            await server.start()
        assert started.life == ["start", "close"]
        with socket.create_server(("127.0.0.1", address.port)):
            await server.stop(0)

    run(test())


def test_a_capability_document_that_cannot_be_used_leaves_nothing_open(tmp_path: Path) -> None:
    async def test() -> None:
        address = ListenAddress("127.0.0.1", free_port())
        relay, nnrp = (
            UpstreamConfig(UpstreamURL.parse("http://h")),
            NnrpConfig(tmp_path / "no.json"),
        )
        server = ProxyServer(Config((relay,), address, nnrp=nnrp), [])
        with pytest.raises(ServeError, match=r"no\.json: No such file or directory$"):
            await server.start()
        with socket.create_server(("127.0.0.1", address.port)):
            await server.stop(0)

    run(test())


async def _streaming(wire: Wire, teeline: Proxy) -> None:
    """A client in the middle of an answer."""
    await wire.send(GET)
    await wire.read_head()
    assert await wire.read(6) == b"1\r\na\r\n"


def test_stopping_refuses_new_connections_closes_idle_ones_and_lets_answers_end() -> None:
    async def test() -> None:
        sink = LoggedSink()
        more = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(CHUNKED)
            await more.wait()
            await wire.send(b"0\r\n\r\n")
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, sink) as teeline,
            client(teeline.port) as idle,
            client(teeline.port) as busy,
        ):
            await _streaming(busy, teeline)
            stopping = asyncio.create_task(teeline.server.stop(30.0))
            assert await idle.ended() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", teeline.port)
            assert not stopping.done()
            more.set()
            assert await busy.ended() == b"0\r\n\r\n"
            await stopping
        assert sink.ended == [Ended.COMPLETE]
        assert sink.life == ["start", "drain after 1", "close"]

    run(test())


@pytest.mark.parametrize("hastened", [False, True])
def test_what_does_not_end_by_the_deadline_is_cut_off(
    hastened: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A second stop with no deadline is the user's second signal."""

    async def test() -> None:
        sink = LoggedSink()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(CHUNKED)
            await wire.ended()

        async with raw_upstream(script) as upstream, proxy(upstream.url, sink) as teeline:
            async with client(teeline.port) as busy:
                await _streaming(busy, teeline)
                stopping = asyncio.create_task(teeline.server.stop(1e6 if hastened else 0.0))
                await asyncio.sleep(0)
                if hastened:
                    assert not stopping.done()
                    await teeline.server.stop(0)
                await stopping
                assert await busy.ended() == b""
            await asyncio.gather(*upstream.tasks)
        assert sink.ended == [Ended.SHUTDOWN]
        assert sink.life == ["start", "drain after 1", "close"]

    run(test())


def test_a_request_that_waits_when_the_stop_begins_gets_a_503() -> None:
    async def test() -> None:
        sink = LoggedSink()
        more = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(CHUNKED)
            await more.wait()
            await wire.send(b"0\r\n\r\n")
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            proxy(upstream.url, sink) as teeline,
            client(teeline.port) as wire,
        ):
            await _streaming(wire, teeline)
            await wire.send(GET)
            await asyncio.sleep(0.01)
            stopping = asyncio.create_task(teeline.server.stop(30.0))
            await asyncio.sleep(0)
            more.set()
            assert await wire.read(5) == b"0\r\n\r\n"
            refused = await wire.read_message()
            assert refused.status == 503
            assert refused.value(b"teeline-error") == b"shutting_down"
            await stopping
        assert set(sink.ended) == {Ended.COMPLETE, Ended.REFUSED}

    run(test())


def test_stopping_twice_or_before_a_start_does_no_harm() -> None:
    async def test() -> None:
        sink = LoggedSink()
        unstarted = ProxyServer(config("http://h/1"), [sink])
        await unstarted.stop(0)
        await unstarted.stop(0)
        assert sink.life == ["drain after 0", "close"]

    run(test())


def test_requests_are_counted_whatever_came_of_them() -> None:
    async def test() -> None:
        async with answering(OK) as upstream, proxy(upstream.url) as teeline:
            assert teeline.server.requests == 0
            async with client(teeline.port) as wire:
                await wire.send(GET)
                await wire.read_message()
            async with client(teeline.port) as wire:
                await wire.send(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n")
                await wire.read_message()
            assert teeline.server.requests == 2

    run(test())


def test_the_vendor_profile_of_an_answer_is_chosen_by_its_marks() -> None:
    """A call without a type is nothing to write of at Mistral, and a fail anywhere else."""
    call = '{"id":"call_1","function":{"name":"f","arguments":"{}"}}'
    choice = f"""{{"index":0,"message":{{"role":"assistant","content":null,"refusal":null,
        "tool_calls":[{call}]}},"logprobs":null,"finish_reason":"tool_calls"}}"""
    body = f"""{{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"m",
        "choices":[{choice}]}}""".encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(
        body
    )
    marked = head + b"mistral-correlation-id: 1\r\n\r\n" + body
    post = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"

    async def test() -> None:
        sink = Recorder()
        async with (
            answering(marked, head + b"\r\n" + body) as upstream,
            proxy(upstream.url, sink) as teeline,
            client(teeline.port) as wire,
        ):
            for _ in range(2):
                await wire.send(post)
                await wire.read_message(answer=True)
        known, unknown = sink.exchanges
        assert (known.profile, known.profile_reason) == ("mistral", "header mistral-correlation-id")
        assert unknown.profile == ""
        rule = "tools.type-missing"
        severities = [
            o.violation.severity.word
            for o in sink.outputs
            if isinstance(o, Found) and o.violation.rule.id == rule
        ]
        assert severities == ["info", "fail"]
        closed = [[v for v in e.violations if v.rule.id == rule] for e in (known, unknown)]
        assert [v.severity.word for (v,) in closed] == ["info", "fail"]

    run(test())


def test_the_host_of_an_upstream_is_a_mark() -> None:
    vendors = vendor_settings(config("https://api.mistral.ai/v1"))
    assert vendors == {"relay-1": Setting("auto", "api.mistral.ai")}
