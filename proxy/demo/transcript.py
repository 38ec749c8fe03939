"""What went over the wire as one end saw it, and how two ends differ.

What belongs here: the record of a request with its answer, and the comparison that shows whether a
proxy between the two ends was transparent (design: the promise). What doesn't: reading or writing
sockets (relay.py, traffic.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# RFC 9110 section 7.6.1, and Host: the fields that an intermediary has to rewrite.
_PER_HOP = frozenset(
    {
        b"connection",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)

Fields = tuple[tuple[bytes, bytes], ...]
"""Header field lines: names in the case that was sent, order and repeats kept."""


def end_to_end(fields: Iterable[tuple[bytes, bytes]]) -> Fields:
    """The fields that must arrive as sent."""
    return tuple((name, value) for name, value in fields if name.lower() not in _PER_HOP)


def encoded(fields: Mapping[str, str]) -> Fields:
    """A multidict of fields as bytes; characters are bytes as RFC 9110 section 5.5 has them."""
    return tuple(
        (n.encode("latin-1"), v.encode("utf-8", "surrogateescape")) for n, v in fields.items()
    )


@dataclass(slots=True)
class Message:
    """A request or an answer.

    ``start`` is what its first line says: method and target, or status and reason. ``body`` is
    what the transfer coding carried, before any content decoding. ``complete`` is False where
    the connection ended before the framing did.
    """

    start: tuple[str, str] = ("", "")
    fields: Fields = ()
    body: bytearray = field(default_factory=bytearray)
    complete: bool = True


@dataclass(slots=True)
class Transcript:
    """One request with its answer, as one end sent or received them."""

    request: Message = field(default_factory=Message)
    answer: Message = field(default_factory=Message)


def differences(client: Transcript, relay: Transcript) -> list[str]:
    """In words, what one end has otherwise than the other; empty where every byte arrived as sent.

    The words hold sizes and positions and no content.
    """
    return [
        *_message("request", client.request, relay.request),
        *_message("answer", relay.answer, client.answer),
    ]


def _message(what: str, sent: Message, received: Message) -> list[str]:
    found: list[str] = []
    if sent.start != received.start:
        found.append(f"{what}: another first line arrived")
    if end_to_end(sent.fields) != end_to_end(received.fields):
        found.append(f"{what}: other header fields arrived")
    if sent.body != received.body:
        found.append(f"{what}: {_first_difference(bytes(sent.body), bytes(received.body))}")
    if sent.complete is not received.complete:
        ends = {True: "ended", False: "was cut off"}
        found.append(f"{what}: {ends[sent.complete]} at its sender, {ends[received.complete]} here")
    return found


def _first_difference(sent: bytes, received: bytes) -> str:
    pairs = enumerate(zip(sent, received, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(sent), len(received)))
    return f"{len(sent)} bytes sent, {len(received)} arrived, first difference at byte {at}"
