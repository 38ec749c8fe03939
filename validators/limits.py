"""Bounds on what an inspector holds, whatever a peer sends.

Each limit that is hit is named in the exchange's ``inspection`` (``partial (event-limit)``): what
could not be checked is said, never silent. Forwarding is not affected by any of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """All in bytes unless said otherwise."""

    body: int = 16 * 1024 * 1024
    """One JSON document, request or answer, after decoding."""
    in_place: int = 256 * 1024
    """One document that is inspected where its bytes pass, beside other streams; larger ones are given
    away (``Aside``) where somebody takes them."""
    line: int = 4 * 1024 * 1024
    """One line of an event stream."""
    event: int = 4 * 1024 * 1024
    """The data of one event, all its lines together."""
    decoded: int = 256 * 1024 * 1024
    """A whole body after content decoding (compression bombs end here)."""
    ratio: int = 200
    """Decoded bytes per encoded byte, once more than a mebibyte came out."""
    depth: int = 128
    """Nesting of a JSON document, in levels."""
    choices: int = 128
    """Open choices of one stream (the API's own maximum of n)."""
    tool_calls: int = 4096
    """Open tool calls of one exchange."""
    arguments: int = 256 * 1024
    """The joined arguments of one tool call."""
    text: int = 256 * 1024
    """The joined text of one choice that was asked to be JSON, in characters."""
    texts: int = 16_384
    """Texts of one Responses stream that are compared with what it says of them elsewhere."""
    listed_models: int = 10_000
    """Ids of one model list that are kept for later exchanges."""
    operations: int = 1024
    """Open operations of one NNRP connection, and as many that have ended."""
    sessions: int = 256
    """Sessions of one NNRP connection."""
    packet: int = 64 * 1024 * 1024
    """One NNRP packet, as its peers have it; what is inspected of one is bounded by ``body``."""
    packet_in_place: int = 1024 * 1024
    """What is inspected of one NNRP packet where its bytes pass beside other connections; of recordings it
    is ``body``."""
    head: int = 256 * 1024
    """What is looked at before a body's kind is known."""

    # What follows bounds nothing: beyond it something is worth an observation.
    large_request: int = 4 * 1024 * 1024
    """A request's body; it is inspected all the same, up to ``body``."""
    slow_first_byte: float = 30.0
    """Seconds from the request to the first byte of its answer."""
    idle_gap: float = 30.0
    """Seconds between two reads of an event stream, comments included."""
    grace: float = 1.0
    """Seconds in which results may still come after an NNRP operation was cancelled."""
    burst_wait: float = 3.0
    """Seconds until a stream whose events then come all at once."""


DEFAULT_LIMITS = Limits()
