"""The page by keyboard alone, for screen readers, in both schemes, on narrow screens."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.demo.scenarios import SCENARIOS
from teeline.proxy.demo.stage import stage
from teeline.proxy.demo.traffic import run
from tests.clients.peers import Loop, missing
from tests.monitor.chromium import NARROW, WIDE, Browser, Page, expect, opened
from tests.monitor.conftest import Watch
from tests.monitor.watched import exchange, token_file, violation

FREE = ListenAddress("127.0.0.1", 0)
ROWS = "section:has(#exchanges) tbody tr"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def focused(page: Page) -> str:
    """The name of what has the focus, which must be visible."""
    told: dict[str, Any] = page.evaluate(
        """() => {
          const it = document.activeElement, style = getComputedStyle(it);
          const box = it.getBoundingClientRect();
          return {
            name: it.getAttribute("aria-label") || it.textContent || it.id,
            outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
              || Boolean(it.closest("label:focus-within")),
            inside: box.bottom > 0 && box.top < innerHeight,
          };
        }"""
    )
    assert told["outlined"], told
    assert told["inside"], told
    return str(told["name"]).strip()


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_the_keyboard_alone_leads_from_the_top_to_an_exchange_and_back(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    made = [exchange(model=f"m{number}") for number in range(3)]
    loop.run(up.happen(exchange(violation(), model="broken"), *made))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(4)
        press(page, "Tab")
        assert focused(page) == "Skip to the content"
        names = []
        for _ in range(30):
            press(page, "Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
            names.append(focused(page))
        # One stop for the whole list, and everything else that can be used.
        assert "Keyboard shortcuts" in names
        assert "chatstream.done-missing" in names
        assert "Pause" in names
        assert len([name for name in names if name.count(":") == 2]) == 1
        # A filter by shortcut.
        press(page, "/")
        page.keyboard.type("stream ended")
        press(page, "Enter")
        expect(page.locator(ROWS)).to_have_count(1)
        press(page, "Escape")
        expect(page.get_by_label("Text")).to_have_value("stream ended")
        press(page, "l")
        expect(page.locator(f"{ROWS} a").first).to_be_focused()
        press(page, "Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("fail")
        press(page, "g")
        expect(page.locator(ROWS)).to_have_count(4)
        # Through the list.
        press(page, "l", "j", "ArrowDown", "k")
        expect(page.locator(f"{ROWS} a").nth(1)).to_be_focused()
        focused(page)
        press(page, "End")
        expect(page.locator(f"{ROWS} a").last).to_be_focused()


def test_shortcuts_are_told_and_stay_away_from_fields(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    loop.run(up.happen(exchange()))
    with opened(browser, up.url) as page:
        expect(page.locator(ROWS)).to_have_count(1)
        press(page, "?")
        help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
        expect(help_).to_contain_text("pause or resume the list")
        press(page, "p", "Escape")
        expect(help_).to_be_hidden()
        press(page, "p")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        press(page, "/")
        page.keyboard.type("p?")
        expect(page.get_by_label("Text")).to_have_value("p?")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        expect(help_).to_be_hidden()
        press(page, "Escape", "p", "w")
        expect(page.get_by_role("radio", name="24 h")).to_be_checked()


def test_new_kinds_of_faults_are_said_once_and_not_each_time(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    with opened(browser, up.url) as page:
        expect(page.locator("#state")).to_have_text("●live")
        page.evaluate(
            """() => {
              window.said = [];
              const status = document.getElementById("said");
              new MutationObserver(() => said.push(status.textContent))
                .observe(status, { childList: true, characterData: true, subtree: true });
            }"""
        )
        for _ in range(5):
            loop.run(up.happen(exchange(violation())))
        expect(page.locator("#said")).to_have_text("New fault: chatstream.done-missing main")
        assert page.evaluate("said.length") == 1


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", NARROW), ("dark", WIDE)], ids=["light, narrow", "dark, wide"]
)
def test_axe_finds_nothing_on_any_page(
    browser: Browser, loop: Loop, tmp_path: Path, scheme: Any, size: tuple[int, int]
) -> None:
    """Contrast, names, roles, landmarks, order of headings: WCAG 2.2 AA and axe's best practices."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        missing("the axe-playwright-python package")
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    up = stage(FREE, tmp_path, io.StringIO(), SCENARIOS, FREE)
    with loop.within(up) as demo, opened(browser, demo.page, size, color_scheme=scheme) as page:
        loop.run(run(demo.base_url, SCENARIOS, demo.relay, demo.collector))
        expect(page.locator(ROWS)).to_have_count(len(SCENARIOS))
        exchange_ = page.locator(f"{ROWS}.fail").first.get_attribute("data-id")
        for path in ("", f"exchange/{exchange_}", "rules/chatstream.done-missing", "login"):
            page.goto(demo.page + path)
            expect(page.get_by_role("heading", level=1)).not_to_have_text("")
            expect(page.locator("main h2, main form").first).to_be_attached()
            found = Axe().run(page, options={"runOnly": RULES})
            told = [
                (v["id"], [n["target"] for n in v["nodes"]]) for v in found.response["violations"]
            ]
            assert told == [], path


def test_nothing_moves_for_whoever_asked_for_stillness(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    loop.run(up.happen(exchange(violation())))
    with opened(browser, up.url, reduced_motion="reduce") as page:
        expect(page.locator(ROWS)).to_have_count(1)
        moving = page.evaluate(
            """() => [...document.querySelectorAll("*")]
                 .filter((each) => parseFloat(getComputedStyle(each).transitionDuration) > 0).length"""
        )
        assert moving == 0


def test_the_sign_in_page_works_by_keyboard(
    browser: Browser, loop: Loop, watch: Watch, tmp_path: Path
) -> None:
    up = watch(admin={"token_file": token_file(tmp_path)})
    token = (tmp_path / "token").read_text(encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(up.url.partition("?")[0])
    expect(page.get_by_label("Code or token")).to_be_focused()
    page.keyboard.type(token)
    press(page, "Enter")
    expect(page.locator("#state")).to_have_text("●live")
    context.close()
