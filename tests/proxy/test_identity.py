"""Exchanges are told apart, wherever they begin, and join the trace that their request names."""

from __future__ import annotations

import os
import uuid

import pytest

from teeline.proxy.identity import Randomness, exchange_id, new_exchange, trace_context

TRACE, SPAN = b"0af7651916cd43dd8448eb211c80319c", b"b7ad6b7169203331"


def test_an_exchange_joins_the_trace_of_its_request() -> None:
    fields = ((b"Traceparent", b"00-" + TRACE + b"-" + SPAN + b"-01"),)
    exchange = new_exchange(1.0, "relay", "", fields)
    assert exchange.trace_id == TRACE.decode()
    assert exchange.parent_span_id == SPAN.decode()
    assert exchange.span_id != SPAN.decode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00-" + b"0" * 32 + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + b"0" * 16 + b"-01",
        b"ff-" + TRACE + b"-" + SPAN + b"-01",
        b"00-" + TRACE.upper() + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + SPAN + b"-01-more",
        b"00-" + TRACE + b"-" + SPAN + b"-01\n",
    ],
)
def test_what_is_no_traceparent_starts_a_trace_of_its_own(value: bytes) -> None:
    assert trace_context(((b"traceparent", value),)) == ("", "", True)


def test_two_traceparents_are_none() -> None:
    field = (b"traceparent", b"00-" + TRACE + b"-" + SPAN + b"-01")
    assert trace_context((field, field)) == ("", "", True)


@pytest.mark.parametrize(("flags", "sampled"), [(b"00", False), (b"01", True), (b"02", False)])
def test_a_parent_that_is_not_sampled_is_known_as_such(flags: bytes, sampled: bool) -> None:
    fields = ((b"traceparent", b"00-" + TRACE + b"-" + SPAN + b"-" + flags),)
    assert new_exchange(1.0, "relay", "", fields).parent_sampled is sampled


def test_ids_are_uuids_of_version_7_that_sort_by_time() -> None:
    random = os.urandom(10).hex()
    earlier = exchange_id(1_700_000_000.0, "f" * 20)
    later = exchange_id(1_700_000_000.001, random)
    assert earlier < later
    assert uuid.UUID(earlier).version == 7
    assert uuid.UUID(earlier).variant == uuid.RFC_4122
    assert earlier[:12] == f"{1_700_000_000_000:012x}"
    assert exchange_id(1.0, random) != exchange_id(1.0, os.urandom(10).hex())
    assert new_exchange(1.0, "relay", "").id != new_exchange(1.0, "relay", "").id


def test_every_exchange_has_digits_of_its_own() -> None:
    """Also behind the end of what was fetched from the system at once."""
    random = Randomness()
    given = {random.next() for _ in range(500)}
    assert len(given) == 500
    assert {len(digits) for digits in given} == {Randomness.DIGITS}


def test_a_forked_process_makes_ids_of_its_own() -> None:
    ours = new_exchange(1.0, "relay", "").span_id
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "".join(new_exchange(1.0, "", "").span_id for _ in range(3)).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, encoding="ascii") as pipe:
        theirs = pipe.read()
    mine = [new_exchange(1.0, "", "").span_id for _ in range(3)]
    assert len(theirs) == 48
    assert not {theirs[at : at + 16] for at in (0, 16, 32)} & {ours, *mine}
