"""Makes the pictures of the live page that the documentation shows.

``python -m tests.monitor.screenshots [FOLDER]`` writes them to docs/images: made-up traffic of two relays
through the page's real server, seen by a real browser. To be run, and looked at, when the page changes.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.clients.peers import Loop
from tests.monitor.chromium import NARROW, Browser, chromium, expect, opened
from tests.monitor.watched import Watched, exchange, various, violation, watched

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDE = (1200, 1000)

_SLOT = 5.0
_SLOTS = 174
_ROWS = "section:has(#exchanges) tbody tr"


class PastClock:
    """Behind the world's time by as much as the traffic that is being made up."""

    def __init__(self) -> None:
        self.behind = 0.0

    def __call__(self) -> float:
        return time.time() - self.behind


async def pass_by(up: Watched, clock: PastClock) -> None:
    """A quarter of an hour of traffic; a burst in it, and a relay that gets worse."""
    dice = random.Random(11)
    make = various(dice, clock)
    for slot in range(_SLOTS, 0, -1):
        clock.behind = slot * _SLOT
        for _ in range(dice.randint(14, 22) + (25 if 70 < slot < 95 else 0)):
            made = make()
            up.open(made)
            up.close(made)
        await up.sinks.drain(20)
    clock.behind = 0.0
    for number in range(3):
        under_way = exchange(
            ended=None,
            upstream=("main", "spare")[number % 2],
            model=("o4-mini", "gpt-4.1")[number % 2],
            events=(212, 18, 77)[number],
            response_bytes=(48_200, 4_100, 17_800)[number],
        )
        under_way.timing.start -= (12.4, 0.3, 3.1)[number]
        under_way.timing.first_byte = under_way.timing.start + 0.4
        under_way.timing.end = None
        up.open(under_way)
    await up.sinks.drain(20)


def pictures(browser: Browser, up: Watched, folder: Path, broken: str) -> None:
    """The overview, in both schemes and on a telephone; one exchange."""
    shots: tuple[tuple[str, str, tuple[int, int], str], ...] = (
        ("overview-light", "", WIDE, "light"),
        ("overview-dark", "", WIDE, "dark"),
        ("overview-narrow", "", NARROW, "light"),
        ("exchange-light", f"exchange/{broken}", WIDE, "light"),
    )
    for name, path, size, scheme in shots:
        options: dict[str, Any] = {"color_scheme": scheme, "reduced_motion": "reduce"}
        with opened(browser, up.url + path, size, **options) as page:
            shown = page.locator(_ROWS) if not path else page.locator(".violation")
            expect(shown.first).to_be_visible()
            if not path:
                expect(page.locator("#state")).to_have_text("●live")
                expect(page.get_by_role("article", name="Upstream main")).to_contain_text("score")
            page.screenshot(path=folder / f"monitor-{name}.png")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    clock, loop = PastClock(), Loop()
    with ExitStack() as running:
        log = Path(running.enter_context(tempfile.TemporaryDirectory())) / "log"
        clock.behind = (_SLOTS + 1) * _SLOT
        up = running.enter_context(loop.within(watched(log, clock)))
        loop.run(pass_by(up, clock))
        made = exchange(violation(), upstream="spare", model="gpt-4.1")
        loop.run(up.happen(made))
        browser = running.enter_context(chromium())
        pictures(browser, up, folder, made.id)
    loop.close()


if __name__ == "__main__":
    main()
