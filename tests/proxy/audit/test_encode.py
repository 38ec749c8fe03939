"""What is written of an exchange is its record, whatever was written before."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.audit import encode
from teeline.proxy.audit.encode import Encoder, members
from teeline.proxy.audit.record import exchange_record
from teeline.validators.model import Ended, Exchange, TimelineEntry, Timing
from tests.proxy.samples import exchange, violation

CHANGES: dict[str, tuple[Any, ...]] = {
    "id": ("e", "\u202e"),
    "trace_id": ("1" * 32,),
    "span_id": ("2" * 16,),
    "upstream": ("", "other"),
    "operation": ("", "responses"),
    "method": ("GET", "\x1b"),
    "path": ("/v1/responses/resp_1", "/v1?q#f", "/" + "x" * 5000),
    "model": (None, "", "m", 'a "model"', "\ud800"),
    "stream": (False,),
    "status": (None, 404, 10**40),
    "request_id": (None, "req-2"),
    "client": ("::1",),
    "client_key": ("0123456789abcdef",),
    "request_bytes": (0, 10**40),
    "response_bytes": (1,),
    "events": (0, 10**40),
    "usage": ({}, {"a\x00": -(10**40)}, {f"u{n}": n for n in range(100)}),
    "finish": ([], ["length"], ["stop", "stop"], ["s"] * 50),
    "violations": ([], [violation(), violation("usage.total", count=3)]),
    "inspection": ("partial (body-limit)", "none (validator-error)"),
    "ended": (None, Ended.TIMEOUT),
    "profile": ("mistral",),
    "timeline": ([],),
}
EVERY = [(name, value) for name, values in CHANGES.items() for value in values]


ENCODER = Encoder()
"""One for all, so that it remembers other exchanges than the one that it is given."""


def same(encoder: Encoder, made: Exchange) -> None:
    assert encoder.exchange(made) == members(exchange_record(made))


def test_every_value_is_written_as_the_record_has_it() -> None:
    """By one encoder, so that what it keeps of one exchange must not show in another."""
    encoder = Encoder()
    for name, value in itertools.chain(EVERY, reversed(EVERY)):
        same(encoder, exchange())
        same(encoder, exchange(**{name: value}))


def test_every_field_of_an_exchange_that_a_record_shows_is_varied_here() -> None:
    """Whoever adds a field to the record has to say that what is kept depends on it."""
    plain = exchange_record(exchange())
    told = {name for name, value in EVERY if exchange_record(exchange(**{name: value})) != plain}
    others = {"timing"}  # its parts are written anew each time
    assert told | others >= set(CHANGES)
    untold = set(Exchange.__slots__) - set(CHANGES) - others
    for name in untold:
        changed = exchange()
        object.__setattr__(changed, name, "changed")
        assert exchange_record(changed).keys() == plain.keys()
        assert {k: v for k, v in exchange_record(changed).items() if v != plain[k]}.keys() <= {
            "id",
            "trace_id",
            "span_id",
        }


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "_KEPT", 3)
    encoder = Encoder()
    for number in range(10):
        same(encoder, exchange(path=f"/v1/responses/{number}"))
        assert len(encoder._known) <= 3


def test_what_is_large_is_not_kept() -> None:
    """A peer chooses paths, models and reasons; what is kept of them is a megabyte at most."""
    encoder = Encoder()
    for made in (
        exchange(model="m" * 256, path="/" + "x" * 5000),
        exchange(finish=["stop"] * 5000),
    ):
        same(encoder, made)
        assert not encoder._known


NUMBERS = st.one_of(
    st.integers(0, 10**6),
    st.sampled_from(
        [sign * 2**bits + n for sign in (1, -1) for bits in (53, 63, 64) for n in (-1, 0, 1)]
    ),
)
TEXTS = st.one_of(
    st.sampled_from(["", "req-1", 'a "b" \\', "\x1b[31m", "\ud800", "漢", "x" * 300]), st.text()
)
TIMES = st.floats(0, 4e9)
PERHAPS_TIMES = st.none() | TIMES


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": TEXTS,
            "trace_id": TEXTS,
            "request_id": st.none() | TEXTS,
            "client": TEXTS,
            "client_key": st.sampled_from(["", "0123456789abcdef"]),
            "model": st.none() | TEXTS,
            "status": st.none() | NUMBERS,
            "request_bytes": NUMBERS,
            "response_bytes": NUMBERS,
            "events": NUMBERS,
            "usage": st.dictionaries(TEXTS, NUMBERS, max_size=40),
            "finish": st.lists(TEXTS, max_size=20),
            "violations": st.sampled_from([[], [violation()]]),
            "ended": st.none() | st.sampled_from(Ended),
            "timing": st.builds(
                Timing, TIMES, PERHAPS_TIMES, PERHAPS_TIMES, PERHAPS_TIMES, PERHAPS_TIMES, TIMES
            ),
            "timeline": st.lists(
                st.builds(TimelineEntry, TIMES, st.sampled_from(["read", "head"]), NUMBERS, NUMBERS)
            ),
        },
    )
)
def test_whatever_an_exchange_holds_is_written_as_the_record_has_it(
    changes: dict[str, Any],
) -> None:
    made = exchange(**changes)
    try:
        expected = members(exchange_record(made))
    except TypeError:
        with pytest.raises(TypeError):
            ENCODER.exchange(made)
    else:
        assert ENCODER.exchange(made) == expected


def test_members_have_no_braces_and_nothing_that_is_no_json() -> None:
    assert members({}) == b""
    assert members({"a": 1, "b": None}) == b'"a":1,"b":null'
    with pytest.raises(TypeError):
        members({"a": object()})
