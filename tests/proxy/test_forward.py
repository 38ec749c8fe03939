"""Where requests go, and what becomes of those that go nowhere."""

from __future__ import annotations

from teeline.config.model import Config, ListenAddress, UpstreamConfig, UpstreamURL
from teeline.proxy.forward import Forwarder
from teeline.proxy.upstream import Upstream
from tests.proxy.raw import Recorder, answering, ask, code_of, run, serving
from tests.proxy.test_tee import Bench

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"


def test_a_path_without_a_route_gives_a_404_and_the_others_lose_their_prefix() -> None:
    async def test() -> None:
        recorder = Recorder()
        async with answering(OK) as upstream:
            url = UpstreamURL.parse(upstream.url + "/base/v1")
            routes = (
                UpstreamConfig(url, "a", prefix="/a"),
                UpstreamConfig(url, "ab", prefix="/a/b"),
            )
            config = Config(upstreams=routes, listen=ListenAddress("127.0.0.1", 0))
            async with serving(config, recorder) as (_, ports):
                for target in (b"/a/v1/x?y", b"/a/b/v1/x", b"/a?", b"http://h/a/v1/z"):
                    assert (await ask(ports[0], GET.replace(b"/v1/models", target))).status == 200
                for target in (b"/", b"/ab/v1/x", b"/v1/x"):
                    answer = await ask(ports[0], GET.replace(b"/v1/models", target))
                    assert (answer.status, code_of(answer)) == (404, "no_route")
        assert [message.lines[0].split()[1] for message in upstream.requests] == [
            b"/base/v1/x?y",
            b"/base/v1/x",
            b"/base/v1?",
            b"/base/v1/z",
        ]
        assert [exchange.upstream for exchange in recorder.exchanges] == ["a", "ab", "a", "a"] + [
            ""
        ] * 3

    run(test())


def test_routes_are_remembered_up_to_a_bound_and_without_queries() -> None:
    """A query may hold a key, and there is no end of paths."""
    upstream = Upstream(UpstreamConfig(UpstreamURL.parse("http://h/v1")))
    forwarder = Forwarder([upstream], Bench().observers)
    for number in range(2000):
        assert forwarder._route(b"/v1/%d" % number) == (upstream, b"/v1/%d" % number)
        assert forwarder._route(b"/v1/x?key=%d" % number) == (upstream, b"/v1/x?key=%d" % number)
    assert len(forwarder._routes) == 1024
    assert not any(b"?" in target for target in forwarder._routes)
