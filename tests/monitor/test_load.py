"""A page that is left open under load stays small, calm and quick."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from tests.clients.peers import Loop
from tests.monitor.chromium import Browser, Page, expect, opened
from tests.monitor.conftest import Watch
from tests.monitor.watched import Watched, exchange, various, violation

ROWS = "section:has(#exchanges) tbody tr"
MOST_ROWS = 300
RATE = 500.0
SECONDS = 6.0
SEEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
OBSERVE = """() => {
  window.told = { updates: [], spent: 0, longest: 0, begun: performance.now() };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.name !== "teeline-update") continue;
      told.updates.push(entry.startTime);
      told.spent += entry.duration;
    }
  }).observe({ entryTypes: ["measure"] });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) told.longest = Math.max(told.longest, entry.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""


def viewers(up: Watched) -> int:
    """Event streams that the server has open."""
    return up.monitor.viewers


def account(page: Page) -> Callable[[], dict[str, float]]:
    """Chromium's own account: seconds of script, of all tasks, and the time of the reading."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "timeTicks"})

    def read() -> dict[str, float]:
        found = session.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    return read


def test_at_500_exchanges_a_second_scripts_take_less_than_a_quarter_of_the_main_thread(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch(audit={"enabled": False})
    with opened(browser, up.url) as page:
        expect(page.locator("#state")).to_have_text("●live")
        loop.run(up.flow(RATE, 2, various(random.Random(1))))
        page.evaluate(OBSERVE)
        read = account(page)
        before = read()
        sent = loop.run(up.flow(RATE, SECONDS, various(random.Random(2))))
        after = read()
        told = page.evaluate("() => ({ ...told, passed: performance.now() - told.begun })")
        assert sent > 0.9 * RATE * SECONDS
        passed = after["Timestamp"] - before["Timestamp"]
        script = (after["ScriptDuration"] - before["ScriptDuration"]) / passed
        tasks = (after["TaskDuration"] - before["TaskDuration"]) / passed
        page_rows = page.locator("tr").count()
        # `pytest -s` shows what was measured.
        sys.stdout.write(
            f"\nscripts {script:.1%} (own account {told['spent'] / told['passed']:.1%}), "
            f"all tasks {tasks:.1%} of the main thread, longest task {told['longest']:.0f} ms, "
            f"{len(told['updates']) / told['passed'] * 1000:.1f} updates/s, {page_rows} rows, "
            f"at {sent / SECONDS:.0f} exchanges/s\n"
        )
        assert 0 < script < 0.25
        assert told["spent"] < 0.25 * told["passed"]
        # Both ends of the span may hold an update.
        assert len(told["updates"]) <= 4 * told["passed"] / 1000 + 2
        assert len(told["updates"]) > 1
        assert page_rows <= MOST_ROWS


def test_however_much_there_is_the_page_holds_at_most_300_rows(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch(audit={"enabled": False})
    with opened(browser, up.url) as page:
        expect(page.locator("#state")).to_have_text("●live")
        for number in range(60):
            loop.run(up.begin(exchange(ended=None, model=f"open-{number}")))
        for number in range(12):
            broken = [exchange(violation(), model=f"kind-{number}-{each}") for each in range(20)]
            loop.run(up.happen(*broken))
            # Told before the next ones come: an update has room for forty.
            expect(page.locator(ROWS).first).to_contain_text(f"kind-{number}-19")
        page.get_by_role("button", name="Show all").click()
        expect(page.locator(ROWS)).to_have_count(200)
        expect(page.locator("section:has(#under-way) tbody tr")).to_have_count(40)
        expect(page.locator("section:has(#faults) tbody tr")).to_have_count(40)
        assert page.locator("tr").count() <= MOST_ROWS


def test_a_tab_that_nobody_sees_gives_its_stream_back_and_is_up_to_date_when_it_is_seen(
    browser: Browser, loop: Loop, watch: Watch
) -> None:
    up = watch()
    loop.run(up.happen(exchange()))
    with opened(browser, "about:blank") as page:
        page.clock.install()
        page.goto(up.url)
        expect(page.locator(ROWS)).to_have_count(1)
        expect(page.locator("#state")).to_have_text("●live")
        assert viewers(up) == 1
        page.evaluate(SEEN, True)
        page.clock.fast_forward(61_000)
        expect(page.locator("#state")).to_have_text("◌asleep")
        while viewers(up):
            loop.run(up.happen(exchange()))
        page.evaluate(SEEN, False)
        expect(page.locator("#state")).to_have_text("●live")
        expect(page.locator(ROWS)).not_to_have_count(1)
        assert viewers(up) == 1
