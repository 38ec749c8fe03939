"""What a configuration says of the page is what comes up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teeline.config.load import Setting, load
from teeline.config.model import Config, ListenAddress
from teeline.proxy.admin import AdminError
from teeline.proxy.monitor.access import Sessions
from teeline.proxy.monitor.configured import feed_of, keeps_history, monitor_of, page_url


def config(**sections: Any) -> Config:
    upstream = [{"name": "main", "url": "https://relay.example/v1"}]
    settings = {"upstreams": upstream, "listen": "127.0.0.1:0", **sections}
    return load(flags=[Setting((name,), value, "--flag") for name, value in settings.items()])


def test_without_an_admin_port_there_is_neither_page_nor_feed() -> None:
    off = config(admin={"listen": "off"})
    assert monitor_of(off) is None
    assert feed_of(off, lambda data: None) is None


@pytest.mark.parametrize(
    ("audit", "kept"), [({}, True), ({"enabled": False}, False), ({"index": False}, False)]
)
def test_history_is_there_where_there_is_an_index(audit: dict[str, bool], kept: bool) -> None:
    made = config(audit=audit)
    assert keeps_history(made) is kept
    feed = feed_of(made, lambda data: None)
    assert feed is not None
    assert feed._details is not kept


def test_a_token_makes_sessions_and_one_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken-" + "x" * 20)
    monitor = monitor_of(config(admin={"token_file": str(file)}))
    assert monitor is not None
    assert monitor.sessions is not None
    open_to_all = monitor_of(config())
    assert open_to_all is not None
    assert open_to_all.sessions is None
    with pytest.raises(AdminError, match="can't be read"):
        monitor_of(config(admin={"token_file": str(tmp_path)}))


def test_the_address_is_one_that_a_browser_can_go_to() -> None:
    assert page_url(ListenAddress("127.0.0.1", 8788), None) == "http://127.0.0.1:8788/monitor/"
    assert page_url(ListenAddress("0.0.0.0", 1), None) == "http://127.0.0.1:1/monitor/"
    assert page_url(ListenAddress("::", 1), None) == "http://[::1]:1/monitor/"
    sessions = Sessions("t0ken-" + "x" * 20)
    url, _, code = page_url(ListenAddress("box.lan", 1), sessions).partition("?code=")
    assert url == "http://box.lan:1/monitor/login"
    assert sessions.begin(code) is not None


@pytest.mark.parametrize(
    "url", ["javascript:{trace_id}", "https://t.example/", "https://a b/{trace_id}"]
)
def test_an_address_of_traces_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Exception, match="`trace_url` is like"):
        config(admin={"trace_url": url})


def test_an_address_of_traces_is_told_as_it_is() -> None:
    made = config(admin={"trace_url": "https://t.example/trace/{trace_id}"})
    assert made.admin.trace_url == "https://t.example/trace/{trace_id}"
