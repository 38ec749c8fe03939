"""What workers see crosses by kind: whole, bounded, and told by one console as if one process had seen it."""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from teeline.proxy.console import Console
from teeline.proxy.sightings import (
    KINDS,
    OTHERS,
    Kind,
    News,
    Seen,
    SightingSink,
    decode,
    encode,
    sighting_of,
    where,
)
from teeline.validators.events import Closed, Found
from teeline.validators.model import Exchange, Place, Severity, Side, Unit, Verdict
from tests.proxy.samples import exchange, violation

EVIL = "\x1b]0;x\x07\r\n\u202e\ud800" + "m" * 5000


def find(sink: SightingSink, made: Exchange) -> None:
    for found in made.violations:
        sink.found(Found(made, found))
    sink.closed(Closed(made))


def taking(into: list[bytes]) -> Callable[[bytes], bool]:
    """A way that takes everything."""

    def tell(data: bytes) -> bool:
        into.append(data)
        return True

    return tell


def told(use: Callable[[SightingSink], Any], **options: Any) -> list[News]:
    """What a sink told that was used and drained."""

    async def go() -> list[News]:
        news: list[bytes] = []
        sink = SightingSink(taking(news), **options)
        await sink.start()
        use(sink)
        await sink.drain(1)
        await sink.close()
        return [decode(data) for data in news]

    return asyncio.run(go())


def shown(*news: News) -> list[str]:
    """The lines of a console that was told this."""

    async def go() -> str:
        stream = io.StringIO()
        console = Console(stream, color=False, localtime=time.gmtime)
        console.start()
        for each in news:
            console.take(each)
        await console.close()
        return stream.getvalue()

    return asyncio.run(go()).splitlines()


def test_the_first_of_a_kind_crosses_in_full_and_others_as_a_count() -> None:
    def use(sink: SightingSink) -> None:
        for _ in range(3):
            find(sink, exchange(violation()))
        find(sink, exchange())

    (news,) = told(use)
    kind = Kind("chatstream.done-missing", Severity.FAIL, "my-relay", "chat")
    made = exchange(violation())
    first = sighting_of(made, made.violations[0])
    assert news == News((Seen(kind, 3, first.at, first),), 4, Counter({Verdict.FAIL: 3}))


def test_what_is_below_the_least_severity_is_counted_as_an_exchange_only() -> None:
    (news,) = told(lambda sink: find(sink, exchange(violation(severity=Severity.INFO))))
    assert (news.seen, news.exchanges) == ((), 1)


def test_two_workers_are_told_of_as_one() -> None:
    """The first of a kind once, whoever saw it; powers of ten of the sum; one summary."""

    def use(sink: SightingSink) -> None:
        for _ in range(6):
            find(sink, exchange(violation()))

    one, two = told(use)[0], told(use)[0]
    lines = shown(one, two)
    assert sum("the stream ended without [DONE]" in line for line in lines) == 1
    assert [line for line in lines if "so far" in line] == [
        "12:01:08 FAIL chatstream.done-missing  my-relay chat  12 exchanges with it so far"
    ]
    assert lines[-2] == "teeline: 12 exchanges: 0 pass, 0 warn, 12 fail"
    assert lines[-1] == "  12  FAIL chatstream.done-missing  my-relay chat"


def test_nothing_of_a_peer_crosses_or_is_shown_unescaped_or_unbounded() -> None:
    found = violation(message=EVIL, evidence=EVIL, note=EVIL)
    found.place = found.place._replace(pointer=EVIL)
    made = exchange(found, model=EVIL, upstream=EVIL, operation=EVIL)
    (news,) = told(lambda sink: find(sink, made))
    sighting = news.seen[0].sighting
    assert sighting is not None
    assert all(text.isprintable() for text in sighting[1:])
    assert all(line.isprintable() and len(line) < 1500 for line in shown(news))


def test_the_number_of_kinds_that_cross_is_bounded() -> None:
    def use(sink: SightingSink) -> None:
        for number in range(KINDS + 500):
            find(sink, exchange(violation(), operation=f"op-{number}"))

    (news,) = told(use)
    assert len(news.seen) == KINDS + 1
    assert news.seen[-1][:2] == (OTHERS, 500)
    assert news.seen[-1].sighting is None


def test_news_that_are_not_taken_are_kept_and_told_with_the_next() -> None:
    async def go() -> None:
        taken: list[bytes] = []
        willing = False

        def tell(data: bytes) -> bool:
            if willing:
                taken.append(data)
            return willing

        sink = SightingSink(tell)
        find(sink, exchange(violation()))
        assert not sink.tell()
        find(sink, exchange(violation()))
        willing = True
        assert sink.tell() and sink.tell()
        (news,) = map(decode, taken)
        assert (news.seen[0].more, news.exchanges) == (2, 2)
        assert news.seen[0].sighting is not None
        await sink.close()

    asyncio.run(go())


def test_news_are_told_by_themselves() -> None:
    async def go() -> None:
        first = asyncio.Event()

        def tell(data: bytes) -> bool:
            first.set()
            return True

        sink = SightingSink(tell)
        find(sink, exchange(violation()))
        await asyncio.wait_for(first.wait(), 30)

    asyncio.run(go())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1, 2, 3]",
        b"[[[1]], 1, {}]",
        b'[[], 1, {"x": 1}]',
        b"[[], null, {}]",
        b"[[], 1, 1]",
    ],
)
def test_what_are_no_news_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


def test_encoding_keeps_everything() -> None:
    seen = Seen(Kind("a.b", Severity.WARN, "\ud800", ""), 2, 1.5, None)
    news = News((seen,), 7, Counter({Verdict.WARN: 2}))
    assert decode(encode(news)) == news


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(Side.RESPONSE, Unit.EVENT, 3, 77), "event 3 byte 77"),
        (Place(Side.REQUEST, Unit.BODY, 0, 5, "/n"), "request body byte 5 /n"),
        (Place(Side.RESPONSE, Unit.HEAD), "head"),
    ],
)
def test_places_are_told_in_words(place: Place, words: str) -> None:
    assert where(place) == words
