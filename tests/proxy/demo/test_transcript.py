"""Two ends of a wire are compared byte by byte, and a difference is named without content."""

from __future__ import annotations

from copy import deepcopy

import pytest
from multidict import CIMultiDict

from teeline.proxy.demo.transcript import (
    Message,
    Transcript,
    differences,
    encoded,
    end_to_end,
)


def _transcript() -> Transcript:
    fields = ((b"Content-Type", b"application/json"), (b"X-A", b"1"), (b"X-A", b"2"))
    request = Message(("POST", "/v1/chat/completions"), fields, bytearray(b'{"model":"secret"}'))
    answer = Message(("200", "OK"), fields, bytearray(b"data: secret\n\n"))
    return Transcript(request, answer)


def test_equal_ends_have_no_differences() -> None:
    """Nothing is said where everything arrived as sent."""
    assert differences(_transcript(), _transcript()) == []


@pytest.mark.parametrize("side", ["request", "answer"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.body.__setitem__(3, 0), "first difference at byte 3"),
        (lambda m: m.body.extend(b"x"), "first difference at byte"),
        (lambda m: setattr(m, "fields", m.fields[::-1]), "other header fields"),
        (lambda m: setattr(m, "fields", m.fields[:-1]), "other header fields"),
        (lambda m: setattr(m, "start", ("x", "y")), "another first line"),
        (lambda m: setattr(m, "complete", False), "cut off"),
    ],
)
def test_every_difference_is_named_and_quotes_nothing(
    side: str, change: object, words: str
) -> None:
    """A byte, a length, an order, a repeat, a first line, an end: each is seen on both sides."""
    client, relay = _transcript(), _transcript()
    assert callable(change)
    change(getattr(client, side))
    (found,) = differences(client, relay)
    assert found.startswith(f"{side}: ")
    assert words in found
    assert "secret" not in found


def test_the_case_of_a_field_name_counts() -> None:
    """Header fields arrive as they were written, not merely with the same meaning."""
    client, relay = _transcript(), _transcript()
    relay.request.fields = tuple((n.lower(), v) for n, v in relay.request.fields)
    assert differences(client, relay) == ["request: other header fields arrived"]


def test_fields_that_belong_to_one_hop_do_not_count() -> None:
    """RFC 9110 section 7.6.1: an intermediary answers for these, and for Host, itself."""
    client, relay = _transcript(), deepcopy(_transcript())
    relay.request.fields += ((b"HOST", b"relay"), (b"connection", b"close"))
    client.answer.fields += ((b"Transfer-Encoding", b"chunked"), (b"Keep-Alive", b"timeout=5"))
    assert differences(client, relay) == []
    assert end_to_end(((b"Host", b"a"), (b"X", b"b"))) == ((b"X", b"b"),)


def test_a_multidict_keeps_case_order_and_repeats() -> None:
    """What one end holds as text compares with what the other read as bytes."""
    fields = CIMultiDict([("X-b", "1"), ("x-A", "ü"), ("X-b", "2")])
    assert encoded(fields) == ((b"X-b", b"1"), (b"x-A", "ü".encode()), (b"X-b", b"2"))
