"""One browser and one event loop for all tests of this folder; a page of its own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.peers import Loop
from tests.monitor.watched import Watched, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Watch = Callable[..., Watched]


# For the tests of this folder alone: Playwright holds an event loop in this thread, and no other test
# could run one of its own beside it.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # Not at the top: what is missing is to be said of the tests, not of this file.
    from tests.monitor.chromium import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def watch(loop: Loop, tmp_path: Path) -> Iterator[Watch]:
    """Starts a page with the sections of a configuration."""
    with ExitStack() as running:

        def start(**sections: Any) -> Watched:
            return running.enter_context(loop.within(watched(tmp_path / "log", **sections)))

        yield start
