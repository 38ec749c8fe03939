"""What stands in NNRP/1 packets: fixed metadata, the body's prelude, typed payload descriptors.

What belongs here: layouts, and reading fields out of bytes that are long enough. What doesn't: cutting
packets (nnrp.py), building them (nnrpencode.py), which rule a wrong field breaks (validators/nnrp). All
integers are little-endian; nothing is padded.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

PRELUDE_BYTES: Final = 32
DESCRIPTOR_BYTES: Final = 24
STRUCTURED_EVENT: Final = 16
SNAPSHOT: Final = 1


# -- fixed metadata ----------------------------------------------------------------------------------


class SubmitMeta(NamedTuple):
    """FRAME_SUBMIT. ``tiles`` are the members that announce tile, camera and section regions."""

    tiles: tuple[int, ...]
    reserved: tuple[int, ...]
    operation: int
    submit_mode: int
    object_refs: int
    bitmap: int
    frames: int


class ResultMeta(NamedTuple):
    """RESULT_PUSH."""

    status: int
    flags: int
    result_class: int
    reused_frame: int
    reserved: tuple[int, ...]
    queue_ms: int
    bitmap: int
    frames: int


class PartialMeta(NamedTuple):
    """PARTIAL_RESULT."""

    operation: int
    sequence: int
    body_bytes: int
    flags: int


class ControlMeta(NamedTuple):
    """CANCEL, ABORT and RESULT_DROP_REASON."""

    operation: int
    sequence: int
    reason: int
    flags: int
    reserved: int


class ErrorMeta(NamedTuple):
    """ERROR."""

    code: int
    scope: int
    retry_after: int
    session: int
    frame: int


class OpenMeta(NamedTuple):
    """SESSION_OPEN."""

    requested: int
    profile: int
    reserved: int
    resume_bytes: int
    in_flight: int


class OpenAckMeta(NamedTuple):
    """SESSION_OPEN_ACK. ``granted``: operations in flight, the larger of grant and maximum."""

    session: int
    status: int
    granted: int
    error: int


SUBMIT_LAYOUT: Final = Struct("<HHHHHHBBBBHHIIIIIQIBBBBIIIHH")
RESULT_LAYOUT: Final = Struct("<HHHHHHHHHHIIQQBBHIHHIHH")
PARTIAL_LAYOUT: Final = Struct("<QQQQII")
CONTROL_LAYOUT: Final = Struct("<QQHBBIQ")
ERROR_LAYOUT: Final = Struct("<8I")
OPEN_LAYOUT: Final = Struct("<IHBBIIIHHIIIIQ")
OPEN_ACK_LAYOUT: Final = Struct("<IHBBIIHHIIIIQIII")


def submit_meta(meta: bytes) -> SubmitMeta:
    """The metadata of a FRAME_SUBMIT, which must be 72 bytes."""
    v = SUBMIT_LAYOUT.unpack(meta)
    return SubmitMeta((*v[0:6], *v[13:16]), (v[9], v[16], v[18], v[22], v[27]), v[17], v[19], v[23],
                      v[25], v[26])  # fmt: skip


def result_meta(meta: bytes) -> ResultMeta:
    """The metadata of a RESULT_PUSH, which must be 64 bytes."""
    v = RESULT_LAYOUT.unpack(meta)
    reserved = (v[5], v[9], v[12], v[13], v[16], v[22])
    return ResultMeta(v[0], v[1], v[14], v[17], reserved, v[7], v[20], v[21])


def partial_meta(meta: bytes) -> PartialMeta:
    """The metadata of a PARTIAL_RESULT, which must be 40 bytes."""
    operation, sequence, _, _, size, flags = PARTIAL_LAYOUT.unpack(meta)
    return PartialMeta(operation, sequence, size, flags)


def control_meta(meta: bytes) -> ControlMeta:
    """The metadata of CANCEL, ABORT and RESULT_DROP_REASON, which must be 32 bytes."""
    operation, sequence, reason, _, flags, _, reserved = CONTROL_LAYOUT.unpack(meta)
    return ControlMeta(operation, sequence, reason, flags, reserved)


def error_meta(meta: bytes) -> ErrorMeta:
    """The metadata of an ERROR, which must be 32 bytes."""
    code, scope, _, retry_after, session, frame, _, _ = ERROR_LAYOUT.unpack(meta)
    return ErrorMeta(code, scope, retry_after, session, frame)


def open_meta(meta: bytes) -> OpenMeta:
    """The metadata of a SESSION_OPEN, which must be 48 bytes."""
    v = OPEN_LAYOUT.unpack(meta)
    return OpenMeta(v[0], v[1], v[8], v[10], v[7])


def open_ack_meta(meta: bytes) -> OpenAckMeta:
    """The metadata of a SESSION_OPEN_ACK, which must be 56 bytes."""
    v = OPEN_ACK_LAYOUT.unpack(meta)
    return OpenAckMeta(v[0], v[3], max(v[6], v[7]), v[14])


# -- bodies of FRAME_SUBMIT and RESULT_PUSH ----------------------------------------------------------


class Prelude(NamedTuple):
    """The lengths of the six regions behind it, in their order, and two fields that are 0."""

    inline_objects: int
    object_references: int
    descriptors: int
    payloads: int
    extension_descriptors: int
    extension_payloads: int
    flags: int
    reserved: int

    @property
    def extra(self) -> int:
        """Bytes of regions that typed payloads don't use."""
        return (
            self.inline_objects
            + self.object_references
            + self.extension_descriptors
            + self.extension_payloads
        )


class Descriptor(NamedTuple):
    """What a typed payload is; ``offset`` and ``length`` lie in the payload region."""

    profile: int
    kind: int
    flags: int
    schema: int
    schema_version: int
    semantics: int
    reserved: int
    offset: int
    length: int


PRELUDE_LAYOUT: Final = Struct("<8I")
DESCRIPTOR_LAYOUT: Final = Struct("<HBBIIHHII")


def prelude_of(body: bytes) -> Prelude | None:
    """The prelude that a body begins with; None where there is none that adds up to the body."""
    if len(body) < PRELUDE_BYTES:
        return None
    prelude = Prelude._make(PRELUDE_LAYOUT.unpack_from(body))
    return prelude if PRELUDE_BYTES + sum(prelude[:6]) == len(body) else None


def descriptors_of(body: bytes, prelude: Prelude, most: int) -> list[Descriptor]:
    """The first descriptors of a body, ``most`` at most; its descriptor region is a multiple of 24."""
    start = PRELUDE_BYTES + prelude.inline_objects + prelude.object_references
    count = min(prelude.descriptors // DESCRIPTOR_BYTES, most)
    return [
        Descriptor._make(DESCRIPTOR_LAYOUT.unpack_from(body, start + DESCRIPTOR_BYTES * n))
        for n in range(count)
    ]


def payload_start(prelude: Prelude) -> int:
    """Where the payload region of a body begins."""
    return PRELUDE_BYTES + prelude.inline_objects + prelude.object_references + prelude.descriptors


def looks_typed(body: bytes) -> bool:
    """Whether a body begins with a prelude that adds up, or with the descriptor of such a payload."""
    if prelude_of(body) is not None:
        return True
    if len(body) < DESCRIPTOR_BYTES:
        return False
    found = Descriptor._make(DESCRIPTOR_LAYOUT.unpack_from(body))
    return (
        found.kind == STRUCTURED_EVENT
        and found.semantics <= 2
        and found.offset == 0
        and found.length == len(body) - DESCRIPTOR_BYTES
    )
