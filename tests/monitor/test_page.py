"""What an operator sees and does on the live page, in a real browser."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.demo.scenarios import SCENARIOS
from teeline.proxy.demo.stage import stage
from teeline.proxy.demo.traffic import run
from tests.clients.peers import Loop
from tests.monitor.chromium import Browser, Page, expect, opened
from tests.monitor.conftest import Watch
from tests.monitor.watched import exchange, token_file, violation

FREE = ListenAddress("127.0.0.1", 0)
ROWS = "section:has(#exchanges) tbody tr"


def rows(page: Page) -> list[str]:
    return page.locator(ROWS).all_inner_texts()


def test_an_operator_follows_the_demos_traffic_down_to_the_event_that_broke_it(
    browser: Browser, loop: Loop, tmp_path: Path
) -> None:
    stage_ = stage(FREE, tmp_path, io.StringIO(), SCENARIOS, FREE)
    with loop.within(stage_) as up, opened(browser, up.page) as page:
        expect(page.locator("#state")).to_have_text("●live")
        loop.run(run(up.base_url, SCENARIOS, up.relay, up.collector))
        # The top says how the relay does.
        card = page.get_by_role("article", name="Upstream demo-relay")
        expect(card).to_contain_text("failed")
        expect(card).to_contain_text("73 %")
        # Each fault has its line, which leads to its exchanges.
        page.get_by_role("button", name="Show all 17").click()
        faults = page.get_by_role("table", name="Faults by rule, upstream and model")
        for scenario in SCENARIOS:
            for rule in scenario.expected:
                expect(faults.get_by_role("link", name=rule, exact=True)).to_be_visible()
        expect(page.locator(ROWS)).to_have_count(len(SCENARIOS))
        page.get_by_role("link", name="1 exchanges that broke chatstream.done-missing").click()
        expect(page.locator(ROWS)).to_have_count(1)
        assert "rule=chatstream.done-missing" in page.url
        # The exchange, down to the event.
        page.locator(ROWS).get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("fail")
        expect(page.get_by_role("heading", level=1)).to_contain_text("POST /v1/chat/completions")
        marked = page.get_by_role("table", name="What came when").locator("tr.marked.fail")
        expect(marked.last).to_contain_text("chatstream.done-missing")
        broken = page.get_by_role("article", name="chatstream.done-missing")
        expect(broken).to_contain_text("Why it hurts")
        expect(broken).to_contain_text("How to fix it")
        expect(page.locator("pre code").first).to_contain_text("curl -sS -N -i http://127.0.0.1")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download as HAR").click()
        har = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
        assert har["log"]["entries"][0]["response"]["status"] == 200
        # And what the rule is about.
        broken.get_by_role("link", name="chatstream.done-missing").click()
        expect(page.get_by_role("heading", name="Wrong")).to_be_visible()
        expect(page.locator(".diff.good")).not_to_have_count(0)


def test_filters_sit_in_the_address_and_hold_for_what_comes(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    loop.run(up.happen(exchange(violation()), exchange(upstream="spare"), exchange(status=429)))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(3)
        page.get_by_label("Verdict").select_option("fail")
        expect(page.locator(ROWS)).to_have_count(1)
        assert page.url.endswith("/monitor/?verdict=fail")
        page.get_by_label("Model").fill("gpt-4.1")
        page.get_by_label("Model").press("Enter")
        expect(page.locator(ROWS)).to_have_count(0)
        loop.run(
            up.happen(
                exchange(violation(), model="gpt-4.1", request_id="req_wanted"),
                exchange(model="gpt-4.1"),
                exchange(violation()),
            )
        )
        expect(page.locator(ROWS)).to_have_count(1)
        page.reload()
        expect(page.locator(ROWS)).to_have_count(1)
        expect(page.get_by_label("Model")).to_have_value("gpt-4.1")
        page.go_back()
        expect(page.locator(ROWS)).to_have_count(3)
        page.get_by_role("button", name="Clear").click()
        expect(page.locator(ROWS)).to_have_count(6)
        page.get_by_label("Status").fill("4xx")
        page.get_by_label("Status").press("Enter")
        expect(page.locator(ROWS)).to_have_count(1)
        # What can't be a filter is said where it was written, and asked of nobody.
        page.get_by_label("Status").fill("teapot")
        page.get_by_label("Status").press("Enter")
        assert (
            page.get_by_label("Status").evaluate("e => e.validationMessage").startswith("Write a")
        )
        assert page.url.endswith("?status=4xx")
        page.goto(f"{up.url}?status=teapot&verdict=maybe")
        expect(page.locator(ROWS)).to_have_count(6)
        page.goto(f"{up.url}?text=req_wanted")
        expect(page.locator(ROWS)).to_have_count(1)


def test_a_paused_list_stands_still_and_says_what_waits(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    loop.run(up.happen(exchange()))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(1)
        page.get_by_role("button", name="Pause").click()
        loop.run(up.happen(exchange(), exchange()))
        expect(page.locator("#list-note")).to_have_text("2 new wait")
        expect(page.locator(ROWS)).to_have_count(1)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(ROWS)).to_have_count(3)
        expect(page.locator("#list-note")).to_have_text("")


def test_what_a_paused_list_shows_already_is_not_new(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    """An exchange may come twice: in the history that the page begins with, and as it happens."""
    up = watch()
    loop.run(up.happen(exchange()))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(1)
        notes = page.evaluate("""async () => {
            const { List } = await import("/monitor/static/list.js");
            let told = { rows: [] };
            while (!told.rows.length)
                told = await (await fetch("/monitor/api/exchanges")).json();
            const list = new List({ history: false });
            list.replace(told.rows);
            list.toggle();
            list.add(told.rows, 0);
            const same = list.note.textContent;
            list.add([{ ...told.rows[0], id: "another" }], 0);
            return [told.rows.length, same, list.note.textContent];
        }""")
        assert notes == [1, "", "1 new wait"]


def test_whoever_is_on_a_row_keeps_it(browser: Browser, loop: Loop, watch: Watch) -> None:
    up = watch()
    loop.run(up.happen(exchange()))
    with opened(browser, up.url) as page:
        page.locator(ROWS).get_by_role("link").focus()
        loop.run(up.happen(exchange()))
        expect(page.locator("#list-note")).to_have_text("1 new wait")
        expect(page.locator(ROWS)).to_have_count(1)


def test_what_is_under_way_is_shown_while_it_runs_and_listed_when_it_is_over(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    made = exchange(ended=None, events=5, violations=[])
    made.timing.end = None
    with opened(browser, up.url) as page, opened(browser, up.url) as other:
        loop.run(up.begin(made))
        under_way = page.get_by_role("table", name="Exchanges under way")
        expect(under_way.locator("tbody tr")).to_have_count(1)
        expect(under_way).to_contain_text("open")
        under_way.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("open")
        expect(page.get_by_text("This exchange is under way")).to_be_visible()
        made.violations = [violation()]
        made.events = 77
        expect(page.get_by_role("article", name="chatstream.done-missing")).to_be_visible()
        made.ended = exchange().ended
        made.timing.end = made.timing.last_byte
        loop.run(up.end(made))
        # The page follows: from what was known to the record.
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        expect(other.get_by_role("table", name="Exchanges under way")).to_be_hidden()
        expect(other.locator(ROWS)).to_have_count(1)


def test_one_goes_back_in_time_and_to_now(browser: Browser, loop: Loop, watch: Watch) -> None:
    up = watch()
    loop.run(up.happen(*(exchange(model=f"m{number}") for number in range(150))))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS).first).to_contain_text("m149")
        expect(page.locator(ROWS)).to_have_count(100)
        page.get_by_role("button", name="Older").click()
        expect(page.locator("#list-note")).to_have_text("of the past")
        expect(page.locator(f"{ROWS} .model").first).to_have_text(re.compile("m(49|50)$"))
        assert "until=" in page.url
        shown = rows(page)
        loop.run(up.happen(exchange(model="new")))
        page.reload()
        expect(page.locator(ROWS)).to_have_count(len(shown))
        assert rows(page) == shown
        # A filter holds where one is in time.
        until = re.search(r"until=[\d.]+", page.url)
        page.get_by_label("Model").fill("m7")
        page.get_by_label("Model").press("Enter")
        expect(page.locator(ROWS)).to_have_count(1)
        assert until is not None and until[0] in page.url
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator(ROWS).first).to_contain_text("new")


def test_a_day_is_shown_from_the_audit_log(browser: Browser, loop: Loop, watch: Watch) -> None:
    up = watch()
    loop.run(up.happen(*(exchange(violation()) for _ in range(5))))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(5)
        page.get_by_text("24 h", exact=True).click()
        expect(page.get_by_text("1 kind, last 24 hours")).to_be_visible()
        chart = page.get_by_role("article", name="Upstream main").get_by_role("img")
        expect(chart.first).to_have_attribute("aria-label", re.compile(r"at most 0\.0\d"))
        page.get_by_text("15 min", exact=True).click()
        expect(page.get_by_text("1 kind, last 15 minutes")).to_be_visible()


def test_without_an_audit_log_the_page_works_and_says_that_there_is_no_history(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch(audit={"enabled": False})
    loop.run(up.happen(exchange(violation())))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(1)
        expect(page.get_by_text("there is no history")).to_be_visible()
        expect(page.get_by_role("radio", name="24 h")).to_be_disabled()
        page.locator(ROWS).get_by_role("link").click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        expect(page.get_by_role("link", name="Download as HAR")).to_have_count(0)


def test_the_address_of_the_start_signs_in_once_and_leaves_no_trace(
    browser: Browser, loop: Loop, watch: Watch, tmp_path: Path
) -> None:
    up = watch(admin={"token_file": token_file(tmp_path)})
    code = up.url.partition("code=")[2]
    with opened(browser, up.url) as page:
        expect(page.locator("#state")).to_have_text("●live")
        assert code not in page.url
        (cookie,) = page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert page.evaluate("document.cookie") == ""
        assert code not in page.evaluate(
            "document.referrer + performance.getEntries().map(e => e.name)"
        )
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context = browser.new_context()
    page = context.new_page()
    page.goto(up.url)
    expect(page.get_by_role("status")).to_have_text("this code is wrong, was used, or is too old")
    page.goto(up.url.partition("login")[0])
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()


def test_a_trace_leads_to_the_tracing_ui(browser: Browser, loop: Loop, watch: Watch) -> None:
    up = watch(admin={"trace_url": "https://traces.example/trace/{trace_id}"})
    made = exchange()
    loop.run(up.happen(made))
    with opened(browser, f"{up.url}exchange/{made.id}") as page:
        link = page.get_by_role("link", name=made.trace_id)
        expect(link).to_have_attribute("href", f"https://traces.example/trace/{made.trace_id}")
        expect(link).to_have_attribute("rel", "noopener noreferrer")


@pytest.mark.parametrize("path", ["exchange/nothing", "rules/no.such"])
def test_what_is_not_there_is_said(browser: Browser, watch: Watch, path: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{watch().url}{path}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("No such")
    context.close()
