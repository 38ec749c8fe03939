"""A worker process is heard as long as it talks sense, and its end is told in words."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.child import Child, StartError
from teeline.proxy.link import (
    LEAVING,
    LIVE,
    MAX_FRAME,
    NEWS,
    READY,
    STATE,
    Job,
    frame,
)
from teeline.proxy.server import bind_all, close_all
from teeline.proxy.serveworker import encode_state
from teeline.proxy.serving import Facts
from teeline.proxy.sightings import News, encode
from teeline.validators.model import Verdict
from tests.proxy.workers import configured, environment, run


class Told:
    """Keeps what a worker told."""

    def __init__(self) -> None:
        self.what: list[Any] = []

    def numbers(self, child: Child, changed: Mapping[str, Any]) -> None:
        if "wrong" in changed:
            raise ValueError
        self.what.append(dict(changed))

    def news(self, news: News) -> None:
        self.what.append(news)

    def leaving(self, child: Child) -> None:
        self.what.append("leaving")

    def live(self, data: bytes) -> None:
        self.what.append(data)


def heard(use: Callable[[Child], None]) -> tuple[Child, list[Any]]:
    """A child that was given bytes, and what it told of them."""

    async def go() -> tuple[Child, list[Any]]:
        told = Told()
        child = Child(1, told)
        use(child)
        return child, told.what

    return asyncio.run(go())


def test_what_a_worker_tells_is_taken_by_its_kind() -> None:
    facts = Facts(3, 2, {"audit": 1}, {"traces": 5}, ["chain"])
    news = News((), 4, Counter({Verdict.FAIL: 2}))
    data = frame(READY) + frame(STATE, encode_state(facts, {"m": [(("k",), 1)]}, 7))
    data += frame(NEWS, encode(news)) + frame(LIVE, b"event") + frame(LEAVING)
    for piece in (1, 7, len(data)):

        def feed(child: Child, size: int = piece) -> None:
            for at in range(0, len(data), size):
                child.data_received(data[at : at + size])

        child, told = heard(feed)
        assert told == [{"m": [[["k"], 1]]}, news, b"event", "leaving"]
        assert (child.facts, child.live_dropped, child.accepting) == (facts, 7, False)


@pytest.mark.parametrize(
    "data",
    [
        (MAX_FRAME + 1).to_bytes(4, "big") + STATE,
        frame(STATE, b"\xff"),
        frame(STATE, b"[]"),
        frame(STATE, b"{}"),
        frame(STATE, b'{"facts": {"x": 1}, "live_dropped": 0, "numbers": {}}'),
        frame(STATE, b'{"facts": {"requests": "many"}, "live_dropped": 0, "numbers": {}}'),
        frame(STATE, encode_state(Facts(), {"wrong": 1}, 0)),
        frame(NEWS, b"{}"),
    ],
)
def test_a_worker_that_talks_nonsense_is_no_longer_trusted(data: bytes) -> None:
    child, _ = heard(lambda child: child.data_received(data))
    assert not child.left
    assert child.broken.startswith("told what can't be understood (")


def test_a_frame_of_a_kind_that_nobody_knows_is_passed_over() -> None:
    child, told = heard(lambda child: child.data_received(frame(b"?", b"x") + frame(LIVE, b"y")))
    assert (told, child.broken) == ([b"y"], "")


def test_a_worker_that_fails_at_its_start_says_why_and_is_gone(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "file").touch()
        config = configured("http://127.0.0.1:1", tmp_path / "file" / "x")
        bound = await bind_all(config)
        sockets = tuple(tuple(s.fileno() for s in sockets) for sockets in bound.values())
        child = Child(1, Told())
        with pytest.raises(StartError, match=r"^audit folder .* can't be written"):
            await child.start(Job(config, 1, 1, sockets), bound, environment())
        assert not Path(f"/proc/{child.pid}").exists()
        close_all(bound)

    run(test())


def test_no_setting_of_a_worker_is_in_the_process_list() -> None:
    async def test() -> None:
        upstream = {"url": "http://h", "proxy": "http://me:s3cret@proxy.example:1"}
        config = configured("http://h", None, upstreams=[upstream])
        bound = await bind_all(config)
        sockets = tuple(tuple(s.fileno() for s in sockets) for sockets in bound.values())
        child = Child(1, Told())
        await child.start(Job(config, 1, 1, sockets), bound, environment())
        told = Path(f"/proc/{child.pid}/cmdline").read_bytes()
        assert b"teeline.proxy.serveworker" in told
        assert b"proxy.example" not in told
        child.kill()
        await child.ended()
        close_all(bound)

    run(test())


@pytest.mark.parametrize(
    ("number", "words", "left"),
    [
        (signal.SIGTERM, "ended with status 0", True),
        (signal.SIGKILL, "was ended by SIGKILL", False),
    ],
)
def test_an_end_is_told_in_words(number: signal.Signals, words: str, left: bool) -> None:
    async def test() -> None:
        config = configured("http://127.0.0.1:1", None)
        bound = await bind_all(config)
        sockets = tuple(tuple(s.fileno() for s in sockets) for sockets in bound.values())
        child = Child(1, Told())
        await child.start(Job(config, 1, 1, sockets), bound, environment())
        assert child.accepting
        os.kill(child.pid, number)
        assert await child.ended() == words
        assert (child.left, child.accepting) == (left, False)
        close_all(bound)

    run(test())


def test_a_worker_that_never_becomes_one_is_told_of_by_its_end() -> None:
    async def test() -> None:
        config = configured("http://127.0.0.1:1", None)
        bound = await bind_all(config)
        child = Child(3, Told())
        environ = {**environment(), "PYTHONHOME": "/nonexistent"}  # no Python starts so
        with pytest.raises(StartError, match=r"^worker 3 does not start: it ended with status 1$"):
            await child.start(Job(config, 1, 1, ()), bound, environ)
        close_all(bound)

    run(test())
