"""What a FRAME_SUBMIT carries, for a server: the payload of its one frame, or why there is none.

What belongs here: the frozen wire form of a submit (profile 6.1), enforced. What doesn't: naming each
breach (validators/nnrp), what the payload says.
"""

from __future__ import annotations

from typing import NamedTuple

from teeline.proxy.nnrp.documents import refused
from teeline.validators.wire.nnrp import (
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    DESCRIPTOR_BYTES,
    SNAPSHOT,
    STRUCTURED_EVENT,
    Prelude,
    SubmitMeta,
    descriptors_of,
    payload_start,
    prelude_of,
)


class MalformedError(Exception):
    """The packet is not framed as a submit must be; the text is one line that quotes no peer."""


class Submit(NamedTuple):
    """One operation as it was submitted."""

    session: int
    frame: int
    operation: int
    payload: bytes


def payload_of(packet: Packet, meta: SubmitMeta) -> bytes:
    """The payload. MalformedError where the frame is broken, FailedError where it must be refused."""
    body = packet.body
    prelude = prelude_of(body)
    if prelude is None:
        raise MalformedError("the body has no prelude that adds up")
    if prelude.descriptors % DESCRIPTOR_BYTES or not prelude.descriptors:
        raise MalformedError("the body has no typed payload descriptor")
    found = descriptors_of(body, prelude, 2)
    count = prelude.descriptors // DESCRIPTOR_BYTES
    if meta.frames != count or (count == 1 and meta.bitmap != found[0].kind):
        raise MalformedError("the metadata is not that of the body")
    _check_frame(prelude, meta, count)
    (frame,) = found
    if frame.offset or frame.length != prelude.payloads:
        raise MalformedError("the descriptor does not cover its payload")
    if (frame.kind, frame.semantics) != (STRUCTURED_EVENT, SNAPSHOT):
        raise refused("invalid_frame", "The payload must be a structured event, a snapshot.")
    if frame.profile or frame.schema or frame.schema_version:
        raise refused("invalid_frame", "The payload must not be bound to a profile or schema.")
    start = payload_start(prelude)
    return body[start : start + prelude.payloads]


def _check_frame(prelude: Prelude, meta: SubmitMeta, count: int) -> None:
    if count != 1:
        raise refused("invalid_frame", "A submit has one payload frame.")
    if prelude.extra or meta.submit_mode or meta.object_refs:
        raise refused("invalid_frame", "A submit has no other regions than its payload.")
