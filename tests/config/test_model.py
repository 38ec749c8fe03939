"""A configuration that exists is one that can be served."""

from __future__ import annotations

import re

import pytest

from teeline.config.model import (
    Config,
    ListenAddress,
    ProxyURL,
    Timeouts,
    UpstreamConfig,
    UpstreamTLS,
    UpstreamURL,
)

URL = UpstreamURL.parse("https://relay.example/v1")


@pytest.mark.parametrize(
    ("text", "authority", "path", "shown"),
    [
        ("https://relay.example/v1", "relay.example", "/v1", "https://relay.example/v1"),
        ("https://relay.example/v1/", "relay.example", "/v1", "https://relay.example/v1"),
        ("https://relay.example:443", "relay.example", "", "https://relay.example"),
        ("https://relay.example:80/a/b", "relay.example:80", "/a/b", None),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080", "", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/v1", "[::1]:8080", "/v1", "http://[::1]:8080/v1"),
        ("HTTPS://Relay.Example/V1", "relay.example", "/V1", "https://relay.example/V1"),
        ("https://x/a%2Fb", "x", "/a%2Fb", "https://x/a%2Fb"),
    ],
)
def test_an_upstream_url_is_taken_apart(
    text: str, authority: str, path: str, shown: str | None
) -> None:
    url = UpstreamURL.parse(text)
    assert (url.authority, url.path) == (authority, path)
    assert str(url) == (shown or text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("api.openai.com/v1", "http:// or https://"),
        ("localhost:8080", "http:// or https://"),
        ("ftp://relay.example", "http:// or https://"),
        ("https:relay.example", "http:// or https://"),
        ("", "http:// or https://"),
        ("https://", "host"),
        ("https:///v1", "host"),
        ("https://user:sk-secret@relay.example", "user name or password"),
        ("https://sk-secret@relay.example", "user name or password"),
        ("https://relay.example/v1?key=sk-secret", "query"),
        ("https://relay.example/v1?", "query"),
        ("https://relay.example/v1#sk-secret", "fragment"),
        ("https://relay.example/v1/v1", "/v1 once"),
        ("https://relay.example/v1/v1/", "/v1 once"),
        ("https://relay.example/a/../sk-secret", "'..'"),
        ("https://relay.example/sk-secret x", "characters"),
        ("https://relay.example:99999/sk-secret", "not a URL"),
        ("https://relay.example:0/sk-secret", "not a URL"),
        ("https://relay.example:port", "not a URL"),
        ("https://[::1/sk-secret", "not a URL"),
        ("https://r\u00e9lay.example", "host"),
    ],
)
def test_what_is_no_base_url_is_refused_in_one_line_that_holds_no_key(
    text: str, words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        UpstreamURL.parse(text)
    assert "sk-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["127.0.0.1:8787", "[::1]:0", "localhost:65535"])
def test_a_listen_address_reads_as_it_is_written(text: str) -> None:
    assert str(ListenAddress.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "8787", ":8787", "h:", "h:65536", "h:-1", "h:+1", "h:\u0661", "::1:80", "h:1:2"]
)
def test_what_is_no_listen_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ListenAddress.parse(text)


def test_an_upstream_is_named_after_its_host_unless_it_has_a_name() -> None:
    assert UpstreamConfig(URL).name == "relay.example"
    assert UpstreamConfig(UpstreamURL.parse("http://[::1]:1")).name == "1"
    assert UpstreamConfig(URL, "mine").name == "mine"


@pytest.mark.parametrize("name", ["a b", "a/b", "x" * 65, "a\n", "\u00e9"])
def test_a_name_fits_into_attributes_and_log_lines(name: str) -> None:
    with pytest.raises(ValueError, match="a name is"):
        UpstreamConfig(URL, name)


@pytest.mark.parametrize("prefix", ["/", "a", "/a/", "//a", "/a b", "/..", "/a/../b", "/a?"])
def test_what_is_no_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="a prefix is"):
        UpstreamConfig(URL, prefix=prefix)


def test_an_upstream_has_a_prefix_or_an_address() -> None:
    with pytest.raises(ValueError, match="not both"):
        UpstreamConfig(URL, prefix="/a", listen=ListenAddress("h", 1))


def test_upstreams_that_cannot_be_told_apart_are_refused() -> None:
    def config(*upstreams: UpstreamConfig) -> Config:
        return Config(upstreams=upstreams)

    with pytest.raises(ValueError, match="no upstream"):
        config()
    with pytest.raises(ValueError, match="two upstreams are named a"):
        config(UpstreamConfig(URL, "a"), UpstreamConfig(URL, "a", prefix="/b"))
    with pytest.raises(ValueError, match=r"a and b both answer at 127\.0\.0\.1:8787; "):
        config(UpstreamConfig(URL, "a"), UpstreamConfig(URL, "b"))
    with pytest.raises(ValueError, match=r"a and b both answer at 127\.0\.0\.1:8787/x; "):
        config(UpstreamConfig(URL, "a", prefix="/x"), UpstreamConfig(URL, "b", prefix="/x"))


def test_upstreams_are_grouped_by_the_address_they_listen_on() -> None:
    own = ListenAddress("127.0.0.1", 8790)
    a, b = UpstreamConfig(URL, "a"), UpstreamConfig(URL, "b", listen=own)
    c = UpstreamConfig(URL, "c", prefix="/c")
    config = Config(upstreams=(a, b, c))
    assert list(config.by_address()) == [(config.listen, (a, c)), (own, (b,))]


def test_nothing_but_connecting_has_a_time_limit_of_its_own() -> None:
    assert Timeouts() == Timeouts(connect=10.0, first_byte=None, idle=None, total=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://proxy.example:3128", ProxyURL("http", "proxy.example", 3128)),
        ("proxy.example:3128/", ProxyURL("http", "proxy.example", 3128)),
        ("https://proxy.example", ProxyURL("https", "proxy.example", 443)),
        ("http://me:a%40b@proxy", ProxyURL("http", "proxy", 80, "me:a@b")),
        ("http://me@[::1]:1", ProxyURL("http", "::1", 1, "me:")),
    ],
)
def test_a_proxy_is_taken_apart(text: str, expected: ProxyURL) -> None:
    assert ProxyURL.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "http://", "socks5://p:1", "http://p:0", "http://p:x", "http://p/sk-secret", "http://p?a"],
)
def test_what_is_no_proxy_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a proxy is `env` or a URL") as caught:
        ProxyURL.parse(text)
    assert "sk-secret" not in str(caught.value)


def test_a_proxys_login_is_not_shown() -> None:
    assert "s3cret" not in repr(ProxyURL.parse("http://me:s3cret@p"))


def test_a_server_name_is_a_name() -> None:
    with pytest.raises(ValueError, match="no host name"):
        UpstreamTLS(server_name="a b")


def test_timeouts_are_armed_by_any_limit_but_that_of_connecting() -> None:
    assert not Timeouts().armed
    assert all(Timeouts(**{name: 1.0}).armed for name in ("first_byte", "idle", "total"))
