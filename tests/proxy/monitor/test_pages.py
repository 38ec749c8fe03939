"""The page's addresses answer who may ask, with headers that keep what they hold where it is."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from teeline.config.model import AdminConfig, ListenAddress
from teeline.proxy.admin import AdminServer
from teeline.proxy.audit.bodies import BodyStore, Keep
from teeline.proxy.monitor import pages
from teeline.proxy.monitor.access import Sessions
from teeline.proxy.monitor.feed import FeedSink
from teeline.proxy.monitor.history import History
from teeline.proxy.monitor.hub import Hub
from teeline.proxy.monitor.pages import Facts, Monitor
from teeline.proxy.telemetry.metrics import Meter
from teeline.validators.events import Closed, Opened
from tests.proxy.audit.logs import writer
from tests.proxy.audit.test_export import STREAM, recording
from tests.proxy.monitor.past import mixed, record
from tests.proxy.raw import run
from tests.proxy.samples import exchange, violation

TOKEN = "t0ken-" + "x" * 20
URL = "https://relay.example/v1"
API = ("facts", "events", "day", "exchanges", "exchange/1", "exchange/1/har", "rules/x", "logout")


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def document(self) -> object:
        return json.loads(self.body)


class Page:
    """A client of a page, with the page's parts."""

    def __init__(self, port: int, hub: Hub, sessions: Sessions | None) -> None:
        self.port = port
        self.hub = hub
        self.sessions = sessions

    async def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> Answer:
        return await asyncio.to_thread(self._ask, path, method, body, headers)

    def _ask(self, path: str, method: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, f"/monitor{path}", body, given)
            answer = connection.getresponse()
            # An event stream doesn't end: its first line says that it was let through.
            stream = answer.getheader("Content-Type", "").startswith("text/event-stream")
            data = answer.readline() if stream else answer.read()
            return Answer(answer.status, data, dict(answer.getheaders()))
        finally:
            connection.close()


@asynccontextmanager
async def page(
    folder: Path | None = None, token: str | None = None, trace_url: str = ""
) -> AsyncIterator[Page]:
    hub = Hub(["main", "spare"])
    sessions = None if token is None else Sessions(token)
    file = None
    if token is not None and folder is not None:
        file = folder / "token"
        file.write_text(token)
    history = None if folder is None else History(folder)
    monitor = Monitor(hub, Facts("1.2.3", {"main": URL}, trace_url), history, sessions)
    server = AdminServer(
        AdminConfig(ListenAddress("127.0.0.1", 0), file),
        Meter(),
        lambda: (),
        dict,
        monitor.routes(),
        monitor.admits,
    )
    address = await server.start()
    assert address is not None
    try:
        yield Page(address.port, hub, sessions)
    finally:
        await monitor.close()
        await server.close()


# -- the page's own files ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/exchange/1", "/rules/usage.x", "/login", "/static/app.js"])
def test_files_come_under_a_policy_that_lets_nothing_else_in(path: str) -> None:
    async def test() -> None:
        async with page() as asked:
            answer = await asked.ask(path)
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    run(test())


def test_no_file_of_the_page_names_another_address_or_makes_markup_of_text() -> None:
    """The policy would stop both; here they are not even tried."""
    namespace = b"http://www.w3.org/2000/svg"
    for name, file in pages.files().items():
        text = file.data.replace(namespace, b"")
        assert not re.search(rb"https?://", text), name
        for sink in (
            b"innerHTML",
            b"outerHTML",
            b"insertAdjacentHTML",
            b"document.write",
            b"eval(",
        ):
            assert sink not in text, name
        assert b" style=" not in text and b"onclick=" not in text, name
        assert b"<script>" not in text, name


def test_a_file_that_is_known_is_not_sent_again() -> None:
    async def test() -> None:
        async with page() as asked:
            first = await asked.ask("/static/style.css")
            tag = first.headers["ETag"]
            assert (await asked.ask("/static/style.css", If_None_Match=tag)).status == 304
            assert (await asked.ask("/static/style.css", If_None_Match='"other"')).status == 200
            assert (await asked.ask("/static/none.js")).status == 404
            assert (await asked.ask("/static/..%2f..%2fpages.py")).status == 404

    run(test())


# -- what is told -----------------------------------------------------------------------------------


def test_the_past_is_listed_filtered_and_paged(tmp_path: Path) -> None:
    record(tmp_path, mixed(130))

    async def test() -> None:
        async with page(tmp_path) as asked:
            first = json.loads((await asked.ask("/api/exchanges?upstream=main")).body)
            assert len(first["rows"]) == 65 and first["older"] is None
            every = json.loads((await asked.ask("/api/exchanges")).body)
            rest = json.loads((await asked.ask(f"/api/exchanges?before={every['older']}")).body)
            assert [len(every["rows"]), len(rest["rows"])] == [100, 30]
            headers = (await asked.ask("/api/exchanges")).headers
            assert headers["Cache-Control"] == "no-store"
            for wrong in ("before=x", "until=x", "until=-1", "until=nan", "status=x", "verdict=x"):
                assert (await asked.ask(f"/api/exchanges?{wrong}")).status == 400, wrong

    run(test())


def test_one_exchange_of_the_past_is_told_in_full_and_can_be_downloaded(tmp_path: Path) -> None:
    record(tmp_path, mixed(3))
    name = f"{0:032x}"

    async def test() -> None:
        async with page(tmp_path) as asked:
            found = json.loads((await asked.ask(f"/api/exchange/{name}")).body)
            assert (found["settled"], found["intact"], found["upstream"]) == (True, True, "main")
            assert found["violations"][0]["why"]
            har = await asked.ask(f"/api/exchange/{name}/har")
            assert (
                har.headers["Content-Disposition"] == f'attachment; filename="exchange-{name}.har"'
            )
            assert json.loads(har.body)["log"]["entries"][0]["response"]["status"] == 200
            file = await asked.ask(f"/api/exchange/{name}/exchange.json")
            assert (file.status, file.body) == (404, b"no bodies were captured\n")
            assert (await asked.ask("/api/exchange/" + "f" * 32)).status == 404
            assert (await asked.ask("/api/exchange/..%2F..%2Fetc")).status == 404

    run(test())


def test_an_exchange_whose_bodies_were_kept_can_be_downloaded_as_a_file(tmp_path: Path) -> None:
    made = exchange(violation(), id="f" * 32, recording=recording())
    log = writer(tmp_path)
    log._bodies = BodyStore(tmp_path, Keep(1 << 30, 1e9))
    log.start()
    log.append([made])
    log.close()
    record(tmp_path, [])

    async def test() -> None:
        async with page(tmp_path) as asked:
            found = json.loads((await asked.ask(f"/api/exchange/{made.id}")).body)
            assert found["captured"] == "complete"
            assert "--data-binary @" in found["again"]["relay"]
            file = await asked.ask(f"/api/exchange/{made.id}/exchange.json")
            assert 'filename="exchange-' in file.headers["Content-Disposition"]
            document = json.loads(file.body)
            assert document["response"]["body_text"].encode() == STREAM
            assert document["endpoint"] == "/v1/chat/completions"

    run(test())


def test_without_an_audit_log_exchanges_of_now_are_told_in_full_and_the_past_is_not() -> None:
    async def test() -> None:
        async with page() as asked:
            feed = FeedSink(asked.hub.take, details=True)
            await feed.start()
            made, under_way = exchange(violation()), exchange(ended=None)
            for each in (made, under_way):
                feed.opened(Opened(each))
            feed.closed(Closed(made))
            await feed.drain(10)
            await feed.close()
            found = json.loads((await asked.ask(f"/api/exchange/{made.id}")).body)
            assert (found["settled"], found["timing"]["start"]) == (True, made.timing.start)
            found = json.loads((await asked.ask(f"/api/exchange/{under_way.id}")).body)
            assert (found["settled"], found["ended"]) == (False, None)
            assert json.loads((await asked.ask("/api/facts")).body)["history"] is False
            for path in ("day", "exchanges", f"exchange/{made.id}/har"):
                answer = await asked.ask(f"/api/{path}")
                assert answer.status == 404
                assert b"no audit log is written" in answer.body

    run(test())


def test_an_index_that_is_being_made_is_a_503_that_says_to_come_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with page(tmp_path) as asked:
            answer = await asked.ask("/api/exchanges")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")

    run(test())


def test_rules_and_facts_are_told() -> None:
    async def test() -> None:
        async with page(trace_url="https://t.example/{trace_id}") as asked:
            rule = json.loads((await asked.ask("/api/rules/chatstream.done-missing")).body)
            assert rule["severity"] == "fail" and rule["bad"]
            assert (await asked.ask("/api/rules/no.such")).status == 404
            facts = json.loads((await asked.ask("/api/facts")).body)
            assert facts["trace_url"] == "https://t.example/{trace_id}"
            assert facts["upstreams"] == {"main": URL}

    run(test())


# -- who may ask ------------------------------------------------------------------------------------


def test_where_a_token_is_demanded_files_are_open_and_what_they_show_is_not(tmp_path: Path) -> None:
    record(tmp_path, mixed(1))

    async def test() -> None:
        async with page(tmp_path, TOKEN) as asked:
            for path in ("/", "/login", "/static/app.js", "/exchange/1"):
                assert (await asked.ask(path)).status == 200, path
            for name in API:
                assert (await asked.ask(f"/api/{name}")).status == 401, name
            assert (await asked.ask("/api/facts", Authorization=f"Bearer {TOKEN}")).status == 200

    run(test())


def test_a_code_signs_in_once_by_a_cookie_that_no_script_and_no_other_site_gets(
    tmp_path: Path,
) -> None:
    record(tmp_path, mixed(1))

    async def test() -> None:
        async with page(tmp_path, TOKEN) as asked:
            assert asked.sessions is not None
            code = asked.sessions.code()
            answer = await asked.ask("/api/login", "POST", code)
            cookie = answer.headers["Set-Cookie"]
            assert answer.status == 204
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
            assert "Path=/monitor" in cookie and "Max-Age=43200" in cookie
            assert "Secure" not in cookie
            pair = cookie.partition(";")[0]
            assert pair.startswith(f"teeline_session_{asked.port}=")
            assert TOKEN not in cookie and code not in cookie
            for name in ("facts", "events", "day", "exchanges"):
                assert (await asked.ask(f"/api/{name}", Cookie=pair)).status == 200, name
            assert (await asked.ask("/api/login", "POST", code)).status == 403
            out = await asked.ask("/api/logout", "POST", Cookie=pair)
            assert "Max-Age=0" in out.headers["Set-Cookie"]
            assert (await asked.ask("/api/facts", Cookie=pair)).status == 401

    run(test())


def test_a_session_opens_nothing_but_the_page(tmp_path: Path) -> None:
    async def test() -> None:
        async with page(tmp_path, TOKEN) as asked:
            answer = await asked.ask("/api/login", "POST", TOKEN)
            pair = answer.headers["Set-Cookie"].partition(";")[0]
            for path in ("/../metrics", "/../api/status"):
                assert (await asked.ask(path, Cookie=pair)).status in (401, 404), path

    run(test())


def test_a_browser_that_came_by_https_gets_a_cookie_for_https(tmp_path: Path) -> None:
    async def test() -> None:
        async with page(tmp_path, TOKEN) as asked:
            origin = f"https://127.0.0.1:{asked.port}"
            answer = await asked.ask("/api/login", "POST", TOKEN, Origin=origin)
            assert "Secure" in answer.headers["Set-Cookie"]

    run(test())


def test_guesses_are_counted_and_other_origins_may_not_even_guess(tmp_path: Path) -> None:
    async def test() -> None:
        async with page(tmp_path, TOKEN) as asked:
            foreign = await asked.ask("/api/login", "POST", TOKEN, Origin="https://evil.example")
            assert foreign.status == 403
            answers = [
                (await asked.ask("/api/login", "POST", f"guess-{n}")).status for n in range(12)
            ]
            assert answers == [403] * 10 + [429] * 2
            assert (await asked.ask("/api/login", "POST", TOKEN)).status == 429

    run(test())


def test_on_loopback_without_a_token_nobody_signs_in() -> None:
    async def test() -> None:
        async with page() as asked:
            answer = await asked.ask("/api/login", "POST", "anything")
            assert answer.status == 204
            assert "Set-Cookie" not in answer.headers
            assert (await asked.ask("/api/facts", Host="evil.example")).status == 421

    run(test())
