"""The bytes of the NNRP measurement: one operation that streams, clean by every rule.

What belongs here: what client and server send. What doesn't: sockets and pace (nnrp_peers.py).
"""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

from teeline.validators.model import Side
from teeline.validators.nnrp.examples import conversation


class Traffic(NamedTuple):
    """``opening`` and ``client`` are one write each, ``packets`` one a packet of the server's stream."""

    client: bytes
    opening: bytes
    packets: tuple[bytes, ...]


@functools.cache
def traffic(deltas: int) -> Traffic:
    """An operation with this many text deltas, 2 at least, and a result; a packet has about 160 bytes."""
    more = [f" token{n % 1000}" for n in range(deltas - 2)]
    example: dict[str, Any] = {
        "on": "nnrp-stream",
        "set": {"/4/json/body/choices/0/message/content": json.dumps("Hello" + "".join(more))},
        "insert": {"4": [json.dumps(_delta(text)) for text in more]},
    }
    sent = conversation(example).sent
    client = b"".join(s.data for s in sent if s.side is Side.REQUEST)
    server = [s.data for s in sent if s.side is Side.RESPONSE]
    # Two acknowledgements, then the stream.
    return Traffic(client, b"".join(server[:2]), tuple(server[2:]))


def _delta(text: str) -> dict[str, Any]:
    event = {"type": "response.output_text.delta", "index": 0, "delta": text}
    return {"s": "PARTIAL_RESULT", "json": event}
