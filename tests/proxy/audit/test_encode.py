"""What is written of an exchange is its record, whatever was written before."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest

from teeline.proxy.audit import encode
from teeline.proxy.audit.encode import Encoder, members
from teeline.proxy.audit.record import exchange_record
from teeline.validators.model import Ended, Exchange
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


def same(encoder: Encoder, made: Exchange) -> None:
    written = orjson.loads(b"{%b}" % encoder.exchange(made))
    expected = exchange_record(made)
    assert written == expected
    assert list(written) == list(expected)


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
        assert len(encoder._request._known) <= 3


def test_members_have_no_braces_and_nothing_that_is_no_json() -> None:
    assert members({}) == b""
    assert members({"a": 1, "b": None}) == b'"a":1,"b":null'
    with pytest.raises(TypeError):
        members({"a": object()})
