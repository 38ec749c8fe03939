"""A real browser for the live page: where it is, how it is started, what it must not complain of.

What belongs here: Chromium through Playwright, and what is skipped where either is missing. What
doesn't: what a person should see (the tests), the page's server (watched.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.clients.peers import missing, program

try:
    from playwright.sync_api import Browser, Page, expect, sync_playwright
except ImportError:
    missing("the playwright package")

__all__ = ["NARROW", "WIDE", "Browser", "Page", "chromium", "expect", "opened"]

# Generous: what is awaited is awaited until it is there, also on a machine that does much else.
expect.set_options(timeout=20_000)

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE = (1280, 900)
NARROW = (390, 844)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; skips where it or Playwright is missing, and fails in CI."""
    path = program("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, url: str, size: tuple[int, int] = WIDE, **options: Any
) -> Iterator[Page]:
    """A page in a profile of its own. Ends with an error where the browser complained of anything."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.goto(url)
    yield page
    context.close()
    assert complaints == []
