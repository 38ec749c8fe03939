"""The page that goes to a relay's operator: complete in itself, and everything in it escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from teeline.proxy.probe.report.html import render
from teeline.proxy.reports.model import Style
from tests.proxy.probe.report.outcomes import HOSTILE, KEY, faulty


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_the_page_loads_and_runs_nothing() -> None:
    """No script, no image, no link, no style from elsewhere: it shows the same without a network."""
    seen = Tags()
    page = render(faulty(HOSTILE), Style())
    seen.feed(page)
    assert {"script", "img", "link", "iframe", "object", "form", "a"} & set(seen.tags) == set()
    assert not [
        name for name in seen.attributes if name.startswith("on") or name in ("src", "href")
    ]
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import", page)


def test_what_a_server_wrote_is_shown_and_not_obeyed() -> None:
    page = render(faulty(HOSTILE), Style())
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert KEY not in page


def test_the_page_says_how_to_see_each_finding_again() -> None:
    page = render(faulty(), Style())
    for words in ("chat.object-wrong", "curl -sS", "result", "excellent", "differences"):
        assert words in page
