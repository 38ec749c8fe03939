"""Whatever a relay or a client writes, the page shows it as text and keeps its shape."""

from __future__ import annotations

import pytest

from teeline.validators.model import Exchange
from tests.clients.peers import Loop
from tests.monitor.chromium import NARROW, WIDE, Browser, Page, expect, opened
from tests.monitor.conftest import Watch
from tests.monitor.watched import exchange, violation

ROWS = "section:has(#exchanges) tbody tr"
HOSTILE = (
    "<script>window.broken = 1; alert(1)</script>",
    '<img src=x onerror="window.broken = 1">',
    '"><svg onload=window.broken=1>',
    "javascript:window.broken=1",
    "{{constructor.constructor('window.broken=1')()}}",
    "\u202egnp.exe\u202c\u2066\u2069",
    "שלום עולם مرحبا",
    "\u200b\u200c\u200d\ufeff\u00ad",
    "\x1b[2J\x1b[31mred\x07\x00",
    "a\u0301" * 500,
    "W" * 1_000_000,
    "no-blank-anywhere-" * 60_000,
    "\ud800 lone",
    "line\nline\r\nline\u2028line",
)


def hostile(text: str) -> Exchange:
    """An exchange in which every string is of a peer's making."""
    return exchange(
        violation(message=text, evidence=text),
        model=text,
        request_id=text,
        path=text,
        finish=[text],
        inspection=text,
        service_tier=text,
        error_type=text,
        usage={text: 2**70},
        client=text,
    )


def keeps_its_shape(page: Page) -> None:
    """Nothing ran, nothing came in that isn't the page's, and nothing sticks out sideways."""
    assert page.evaluate("window.broken") is None
    assert page.locator("main script, main img, main iframe, main a[href^=javascript]").count() == 0
    assert page.locator("main svg:not(.plot):not(.bars)").count() == 0
    wider = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wider <= 0


@pytest.mark.parametrize(
    ("size", "audit"), [(WIDE, False), (NARROW, True)], ids=["wide, live only", "narrow, recorded"]
)
def test_hostile_texts_are_shown_as_texts_and_break_nothing(
    browser: Browser, loop: Loop, watch: Watch, size: tuple[int, int], audit: bool
) -> None:
    up = watch(audit={"enabled": audit})
    made = [hostile(text) for text in HOSTILE]
    with opened(browser, up.url, size) as page:
        expect(page.locator("#state")).to_have_text("●live")
        loop.run(up.happen(*made))
        expect(page.locator(ROWS)).to_have_count(len(HOSTILE))
        expect(page.locator("section:has(#faults) tbody tr")).not_to_have_count(0)
        keeps_its_shape(page)
        # A row is a row: what is in it doesn't make it tall.
        tallest = page.evaluate(
            f"Math.max(...[...document.querySelectorAll('{ROWS}')].map(r => r.offsetHeight))"
        )
        assert tallest < 160
        for each in made:
            page.goto(f"{up.url}exchange/{each.id}")
            expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
            keeps_its_shape(page)


def test_what_turns_text_around_does_not_reach_its_neighbours(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    """A name in a right-to-left script stands where it belongs, and so do the cells after it."""
    up = watch()
    loop.run(up.happen(exchange(model="שלום 123 \u202eabc", status=404)))
    with opened(browser, up.url) as page:
        row = page.locator(ROWS)
        expect(row.locator(".model bdi")).to_have_text("שלום 123 \\u202eabc")
        model, status = row.locator(".model").bounding_box(), row.locator(".status").bounding_box()
        assert model is not None and status is not None
        assert model["x"] < status["x"]
        assert (
            row.locator(".model bdi").evaluate("e => getComputedStyle(e).unicodeBidi") == "isolate"
        )


def test_filters_of_an_address_are_texts_too(browser: Browser, watch: Watch) -> None:
    up = watch()
    evil = "%3Cscript%3Ewindow.broken=1%3C/script%3E"
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{up.url}?model={evil}&rule={evil}&text={evil}&upstream={evil}&verdict={evil}")
    expect(page.get_by_label("Model")).to_have_value("<script>window.broken=1</script>")
    keeps_its_shape(page)
    page.goto(f"{up.url}rules/%3Cimg%20src=x%20onerror=window.broken=1%3E")
    expect(page.get_by_role("heading", level=1)).to_have_text("No such rule")
    keeps_its_shape(page)
    context.close()


def test_markup_can_not_be_made_of_text_even_by_the_pages_own_code(
    browser: Browser, watch: Watch
) -> None:
    """The policy refuses what a mistake of ours would try."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(watch().url)
    for attempt in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.write('<b>x</b>')",
        "document.createElement('script').src = '//evil.example/x.js'",
    ):
        refused = page.evaluate(
            f"(() => {{ try {{ {attempt}; return false }} catch (e) {{ return e.name }} }})()"
        )
        assert refused == "TypeError", attempt
    context.close()
