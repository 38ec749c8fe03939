"""Two recordings of one connection, each a direction, put into an order that both can have happened in.

What belongs here: what came before what where no times were recorded. What doesn't: rules.

A side's own order is kept. An answer comes as early as it may: behind the submit, the open or the cancel
that it answers. So nothing is found that only the made-up order would show, except that a cancel may seem
to come late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from teeline.validators.fields.nnrp import CANCELLED
from teeline.validators.model import Side
from teeline.validators.nnrp.carrier import carrier_of
from teeline.validators.wire.nnrp import (
    Message,
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    control_meta,
)

_ANSWERS: Mapping[int, int] = {
    Message.SERVER_HELLO_ACK: Message.CLIENT_HELLO,
    Message.SESSION_OPEN_ACK: Message.SESSION_OPEN,
    Message.SESSION_CLOSE_ACK: Message.SESSION_CLOSE,
}
_CANCELS = (Message.FRAME_CANCEL, Message.CANCEL, Message.ABORT)
_PEER_CANCELLED = 3
_PIECE = 64 * 1024


def interleaved(client: bytes, server: bytes, keep: int) -> Iterator[tuple[Side, bytes]]:
    """The bytes of both sides in pieces, in a possible order; every byte once."""
    ours, theirs = _cut(client, keep), _cut(server, keep)
    merge = _Merge(ours)
    waiting = iter(theirs)
    answer = next(waiting, None)
    for packet, data in ours:
        while answer is not None and merge.may_come(answer[0]):
            yield from ((Side.RESPONSE, piece) for piece in _pieces(merge.answered(answer)))
            answer = next(waiting, None)
        merge.sent(packet)
        yield from ((Side.REQUEST, piece) for piece in _pieces(data))
    while answer is not None:
        yield from ((Side.RESPONSE, piece) for piece in _pieces(answer[1]))
        answer = next(waiting, None)


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _cut(data: bytes, keep: int) -> list[tuple[Packet | None, bytes]]:
    """The bytes in parts that each complete one packet, the packet beside them; what is left at the end."""
    carrier = carrier_of(data[:4], keep)
    if carrier is None:
        return [(None, data)]
    parts: list[tuple[Packet | None, bytes]] = []
    start = 0
    for at in range(0, len(data), 16):
        # Small steps: one packet at a time comes out, as none is shorter than its header.
        carrier.push(data[at : at + 16])
        for packet in iter(carrier.next, None):
            parts.append((packet, data[start : at + 16]))
            start = at + 16
    return [*parts, (None, data[start:])] if start < len(data) else parts


class _Merge:
    """What was sent so far, and which cancels are still to come."""

    def __init__(self, ours: list[tuple[Packet | None, bytes]]) -> None:
        self._kinds: Counter[int] = Counter()
        self._answered: Counter[int] = Counter()
        self._frames: set[tuple[int, int]] = set()
        self._cancels: Counter[tuple[int, int]] = Counter()
        self._submits: Counter[tuple[int, int]] = Counter()
        for packet, _ in ours:
            if packet is None:
                continue
            key = (packet.session, packet.frame)
            if packet.type in _CANCELS:
                self._cancels[key] += 1
            elif packet.type == Message.FRAME_SUBMIT:
                self._submits[key] += 1

    def sent(self, packet: Packet | None) -> None:
        """The client has sent a packet."""
        if packet is None:
            return
        key = (packet.session, packet.frame)
        self._kinds[packet.type] += 1
        if packet.type == Message.FRAME_SUBMIT:
            self._frames.add(key)
        elif packet.type in _CANCELS:
            self._cancels[key] -= 1

    def answered(self, answer: tuple[Packet | None, bytes]) -> bytes:
        """Notes that an answer came; its bytes."""
        if answer[0] is not None:
            self._answered[answer[0].type] += 1
        return answer[1]

    def may_come(self, answer: Packet | None) -> bool:
        """Whether what a packet answers was sent."""
        if answer is None:
            return True
        asked = _ANSWERS.get(answer.type)
        if asked is not None:
            return self._kinds[asked] > self._answered[answer.type]
        key = (answer.session, answer.frame)
        if key in self._submits and key not in self._frames:
            return False
        return not (self._cancels[key] > 0 and _tells_of_cancel(answer))


def _tells_of_cancel(answer: Packet) -> bool:
    """Whether an answer is one to a cancel, so that the cancel was there first."""
    if answer.type == Message.RESULT_DROP_REASON and len(answer.meta) == 32:
        return control_meta(answer.meta).reason == _PEER_CANCELLED
    return answer.type in (Message.RESULT_PUSH, Message.PARTIAL_RESULT) and (
        CANCELLED.encode() in answer.body
    )
