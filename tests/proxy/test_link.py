"""Frames arrive whole and in order; a supervisor that reads nothing holds no worker up."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.config.load import Setting, load
from teeline.proxy.link import (
    LIVE,
    LIVE_BYTES,
    LIVE_ITEMS,
    MAX_FRAME,
    MAX_LIVE,
    NEWS,
    STATE,
    STOP,
    Deframer,
    Downlink,
    Job,
    LinkError,
    Uplink,
    frame,
    job_frame,
    receive_job,
)

LONG = 30.0


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def nothing() -> None:
    """A state in which nothing changes."""


def test_a_job_arrives_with_what_came_behind_it() -> None:
    config = load(flags=[Setting(("upstreams",), [{"url": "https://relay.example"}], "--upstream")])
    job = Job(config, 2, 3, ((7, 8), (9,)))
    with pair() as (ours, theirs):
        ours.sendall(job_frame(job) + frame(STOP, b"2.5"))
        taken, deframer = receive_job(theirs)
        assert taken == job
        assert Downlink(theirs, deframer).read() == ([2.5], False)


def test_a_worker_whose_supervisor_is_gone_before_the_job_has_none() -> None:
    with pair() as (ours, theirs):
        ours.close()
        with pytest.raises(EOFError):
            receive_job(theirs)
    with pair() as (ours, theirs):
        ours.sendall(frame(STOP, b"1"))
        with pytest.raises(LinkError):
            receive_job(theirs)


@given(
    st.lists(st.tuples(st.sampled_from([LIVE, NEWS, STATE]), st.binary(max_size=40)), max_size=5),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_frames_are_the_same_however_they_are_cut(
    sent: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    data = b"".join(frame(kind, payload) for kind, payload in sent)
    deframer = Deframer()
    found: list[tuple[bytes, bytes]] = []
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        found += deframer.feed(data[start:end])
    assert found == sent


def test_a_frame_beyond_its_bounds_is_refused_before_it_comes() -> None:
    with pytest.raises(LinkError):
        list(Deframer().feed((MAX_FRAME + 1).to_bytes(4, "big") + STATE))


def test_the_supervisors_orders_and_its_end_are_heard_without_waiting() -> None:
    with pair() as (ours, theirs):
        downlink = Downlink(theirs, Deframer())
        assert downlink.read() == ([], False)
        ours.sendall(frame(STOP, b"30.000") + frame(STOP, b"0.000"))
        assert downlink.read() == ([30.0, 0.0], False)
        ours.close()
        assert downlink.read() == ([], True)


def received(sock: socket.socket) -> list[tuple[bytes, bytes]]:
    """All frames until the other end is closed."""
    deframer = Deframer()
    found: list[tuple[bytes, bytes]] = []
    while data := sock.recv(1 << 20):
        found += deframer.feed(data)
    return found


def use(
    link: socket.socket,
    what: Callable[[Uplink], None],
    state: Callable[[], bytes | None] = nothing,
) -> Uplink:
    """An uplink that was used and closed, and its socket with it."""

    async def go() -> Uplink:
        uplink = Uplink(link, state)
        uplink.start()
        what(uplink)
        await uplink.close(LONG)
        link.close()
        return uplink

    return asyncio.run(go())


def test_what_is_told_and_published_arrives_in_order_and_the_state_last() -> None:
    def tell(uplink: Uplink) -> None:
        uplink.publish(b"one")
        assert uplink.tell(NEWS, b"two")
        uplink.publish(b"three")

    with pair() as (ours, theirs):
        use(theirs, tell, lambda: b"state")
        found = received(ours)
    assert found[:3] == [(LIVE, b"one"), (NEWS, b"two"), (LIVE, b"three")]
    assert found[-1] == (STATE, b"state")


def test_a_state_in_which_nothing_changed_is_not_sent() -> None:
    with pair() as (ours, theirs):
        use(theirs, lambda uplink: None)
        assert received(ours) == []


@pytest.mark.parametrize("size", [100, 1000])
def test_live_events_that_nobody_reads_are_dropped_and_counted_and_the_rest_arrives(
    size: int,
) -> None:
    """The bounds are of items and of bytes; what must arrive does."""
    published = 3 * max(LIVE_ITEMS, LIVE_BYTES // size)

    async def go(link: socket.socket, reader: socket.socket) -> tuple[Uplink, list[bytes]]:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        uplink = Uplink(link, nothing)
        uplink.start()
        for _ in range(published):
            uplink.publish(b"x" * size)
        assert uplink.tell(NEWS, b"news")
        assert uplink.dropped > 0
        reading = asyncio.get_running_loop().run_in_executor(None, received, reader)
        await uplink.close(LONG)
        link.close()
        found = await reading
        assert (NEWS, b"news") in found
        return uplink, [payload for kind, payload in found if kind == LIVE]

    with pair() as (ours, theirs):
        uplink, events = asyncio.run(go(theirs, ours))
    assert len(events) + uplink.dropped == published


def test_what_must_arrive_is_bounded_too_and_who_has_more_is_told_to_keep_it() -> None:
    async def go(link: socket.socket) -> None:
        uplink = Uplink(link, nothing)  # not started: nothing is sent
        for _ in range(LIVE_ITEMS):
            uplink.publish(b"x")
        uplink.publish(b"x")
        assert uplink.dropped == 1
        told = 0
        while uplink.tell(NEWS, b"x"):
            told += 1
        assert 0 < told < 100

    with pair() as (_, theirs):
        asyncio.run(go(theirs))


def test_an_event_beyond_its_bound_is_dropped() -> None:
    with pair() as (ours, theirs):
        uplink = use(theirs, lambda uplink: uplink.publish(b"x" * (MAX_LIVE + 1)))
        assert received(ours) == []
    assert uplink.dropped == 1


def test_a_supervisor_that_is_gone_is_nobodys_error() -> None:
    with pair() as (ours, theirs):
        ours.close()
        use(theirs, lambda uplink: uplink.publish(b"x"), lambda: b"state")
