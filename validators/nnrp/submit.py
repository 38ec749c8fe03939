"""FRAME_SUBMIT: its metadata and body, down to the envelope (rules ``nnrp.submit-*``).

What belongs here: the wire form of one submit. What doesn't: what the envelope says (envelope.py), frames
and ids of a session (session.py).
"""

from __future__ import annotations

from teeline.validators.evidence import ABSENT
from teeline.validators.nnrp.envelope import check_envelope
from teeline.validators.nnrp.operation import Operation
from teeline.validators.nnrp.payload import SUBMIT, read_payload
from teeline.validators.wire.nnrp import (
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    SubmitMeta,
    prelude_of,
)

ACCEPTED = "nnrp.invalid-submit-accepted"


def check_submit(op: Operation, packet: Packet, meta: SubmitMeta) -> None:
    """Checks one FRAME_SUBMIT and reads what was asked into ``op``."""
    report = op.report
    if not meta.operation:
        report("nnrp.submit-operation-id-zero", detail="operation_id 0")
    if not packet.frame:
        report("nnrp.submit-frame-id-zero", detail="frame_id 0")
    if any(meta.reserved):
        report("nnrp.submit-reserved-nonzero", detail="reserved fields of the metadata")
    if any(meta.tiles):
        report("nnrp.submit-tile-fields-set", detail="tile, camera or section fields")
    if meta.submit_mode or meta.object_refs:
        detail = f"submit_mode {meta.submit_mode}, object_ref_mask {meta.object_refs}"
        report("nnrp.submit-extra-regions", detail=detail)
    if not packet.whole:
        op.ctx.partial("body-limit")
        return
    prelude = prelude_of(packet.body)
    if not packet.body or (prelude is not None and not any(prelude[:6])):
        report("nnrp.submit-body-empty", detail=f"{len(packet.body)} bytes of body")
        return
    payload = read_payload(op.ctx, packet, meta.bitmap, meta.frames, SUBMIT)
    op.broken_frame = not payload.framed
    if payload.refused:
        op.refusable = ACCEPTED
    if payload.value is ABSENT:
        return
    if not isinstance(payload.value, dict):
        report("nnrp.submit-json-not-object", "", payload.value)
        return
    check_envelope(op, payload.value)
