"""Builds NNRP/1 packets as peers of openai-compatible/1 send them.

What belongs here: one function a message, from its values to the bytes of a whole packet, right by the
profile (6.1, 7.1, 8.1). What doesn't: reading packets (nnrp.py), ids and order (proxy/nnrp), and packets
that are wrong on purpose (validators/nnrp/examples.py). Values are those of the wire: ids are integers
of 32 (session, frame) and 64 bits (operation), times are milliseconds, texts are UTF-8 bytes. A value
out of its bounds is struct.error.

The bits and numbers of the handshake are those that the native SDK sends: a peer is chosen by them.
"""

from __future__ import annotations

from typing import Final

from teeline.validators.wire.nnrp import (
    Message,
    packed,
)
from teeline.validators.wire.nnrpcodes import (
    CancelReason,
    CloseReason,
    CloseStatus,
    DropReason,
    ErrorCode,
    ErrorScope,
    InFlight,
    Role,
    SessionStatus,
)
from teeline.validators.wire.nnrpcontrol import (
    CLOSE_ACK_LAYOUT,
    CLOSE_LAYOUT,
    HELLO_ACK_LAYOUT,
    HELLO_LAYOUT,
    RETRY_AFTER_LAYOUT,
)
from teeline.validators.wire.nnrplayout import (
    CONTROL_LAYOUT,
    DESCRIPTOR_BYTES,
    DESCRIPTOR_LAYOUT,
    ERROR_LAYOUT,
    OPEN_ACK_LAYOUT,
    OPEN_LAYOUT,
    PARTIAL_LAYOUT,
    PRELUDE_LAYOUT,
    RESULT_LAYOUT,
    SNAPSHOT,
    STRUCTURED_EVENT,
    SUBMIT_LAYOUT,
)

SESSION_PROFILE: Final = 2
"""TOKEN: what a session is opened with. The profile's profile_id 0 is that of payload descriptors alone."""
SESSION_SCHEMA: Final = 0x1001
SESSION_SCHEMA_VERSION: Final = 3
MAX_PACKET: Final = 64 * 1024 * 1024
"""Bytes of the largest packet that native peers take."""

_PROFILES: Final = 0b11
_TOKEN_PROFILE: Final = 0b10
_PAYLOAD_KINDS: Final = 0x73
_LATENCY_BUDGET: Final = 10_000
_TOKEN_TTL: Final = 120_000
_PRIORITY: Final = 1
_RAW_U16: Final = 1
_INHERIT: Final = 0xFF
_TAG: Final = 1


def typed_body(document: bytes) -> bytes:
    """A body with one JSON document as its one typed payload: prelude, descriptor, payload (6.1, 8.1)."""
    size = len(document)
    descriptor = DESCRIPTOR_LAYOUT.pack(0, STRUCTURED_EVENT, 0, 0, 0, SNAPSHOT, 0, 0, size)
    return PRELUDE_LAYOUT.pack(0, 0, DESCRIPTOR_BYTES, size, 0, 0, 0, 0) + descriptor + document


# -- opening and closing -------------------------------------------------------------------------------


def client_hello() -> bytes:
    """CLIENT_HELLO: NNRP/1 in its only wire format, one lane, no cache."""
    meta = HELLO_LAYOUT.pack(
        1, 1, 1, _PROFILES, _PAYLOAD_KINDS, *[0] * 7, 1, 0, 0, 0, _LATENCY_BUDGET, *[0] * 5
    )
    return packed(Message.CLIENT_HELLO, meta, b"", 0, 0)


def server_hello_ack(in_flight: int, max_body: int = MAX_PACKET) -> bytes:
    """SERVER_HELLO_ACK: the same choice from the other side; bodies of up to ``max_body`` bytes."""
    head = (1, 0, 0, 0, 0, _TOKEN_PROFILE, _PAYLOAD_KINDS, *[0] * 8)
    limits = (1, in_flight, 0, _LATENCY_BUDGET, 0, 0)
    meta = HELLO_ACK_LAYOUT.pack(*head, *limits, max_body, _TOKEN_TTL, 0, 0, 0)
    return packed(Message.SERVER_HELLO_ACK, meta, b"", 0, 0)


def session_open(in_flight: int, deadline_ms: int = 10_000, lease_ms: int = 30_000) -> bytes:
    """SESSION_OPEN: asks for a session with so many operations in flight."""
    meta = OPEN_LAYOUT.pack(0, SESSION_PROFILE, _PRIORITY, 0, SESSION_SCHEMA,
                            SESSION_SCHEMA_VERSION, deadline_ms, in_flight, 0, lease_ms,
                            0, 0, 0, 0)  # fmt: skip
    return packed(Message.SESSION_OPEN, meta, b"", 0, 0)


def session_open_ack(
    session: int, in_flight: int, lease_ms: int = 30_000, resume_ms: int = 120_000
) -> bytes:
    """SESSION_OPEN_ACK: the session, and how many operations may be in flight."""
    meta = OPEN_ACK_LAYOUT.pack(session, SESSION_PROFILE, _PRIORITY, SessionStatus.OPENED,
                                SESSION_SCHEMA, SESSION_SCHEMA_VERSION, in_flight, in_flight,
                                lease_ms, resume_ms, 0, 0, session, 0, 0, 0)  # fmt: skip
    return packed(Message.SESSION_OPEN_ACK, meta, b"", session, 0)


def session_refused(status: SessionStatus, code: ErrorCode, diagnostic: bytes) -> bytes:
    """SESSION_OPEN_ACK of session 0: no session, and why."""
    meta = OPEN_ACK_LAYOUT.pack(0, SESSION_PROFILE, _PRIORITY, status, SESSION_SCHEMA,
                                SESSION_SCHEMA_VERSION, *[0] * 8, code, 0)  # fmt: skip
    return packed(Message.SESSION_OPEN_ACK, meta, diagnostic, 0, 0)


def session_close(
    session: int, last: int, reason: CloseReason, policy: InFlight = InFlight.DRAIN
) -> bytes:
    """SESSION_CLOSE; ``last`` is the last operation that was submitted, 0 for none."""
    meta = CLOSE_LAYOUT.pack(reason, policy, 0, 0, last, 0, _TAG)
    return packed(Message.SESSION_CLOSE, meta, b"", session, 0)


def session_close_ack(session: int, last: int) -> bytes:
    """SESSION_CLOSE_ACK: the session is closed; ``last`` as SESSION_CLOSE named it."""
    meta = CLOSE_ACK_LAYOUT.pack(CloseStatus.CLOSED, 0, 0, last, 0)
    return packed(Message.SESSION_CLOSE_ACK, meta, b"", session, 0)


def close() -> bytes:
    """CLOSE: the whole connection."""
    return packed(Message.CLOSE, b"", b"", 0, 0)


def ping(session: int) -> bytes:
    """PING; a native server closes a connection that pings session 0."""
    return packed(Message.PING, b"", b"", session, 0)


def pong(session: int) -> bytes:
    """PONG, the answer to PING."""
    return packed(Message.PONG, b"", b"", session, 0)


# -- an operation --------------------------------------------------------------------------------------


def frame_submit(session: int, frame: int, operation: int, envelope: bytes) -> bytes:
    """FRAME_SUBMIT with an envelope of the profile, JSON in UTF-8 (6.1)."""
    tiles = (0, 0, 0, 0, 0, 0, 0, 0, _RAW_U16)
    meta = SUBMIT_LAYOUT.pack(*tiles, *[0] * 8, operation, 0, 0, 0, _INHERIT, 0, 0, 0,
                              STRUCTURED_EVENT, 1, 0)  # fmt: skip
    return packed(Message.FRAME_SUBMIT, meta, typed_body(envelope), session, frame)


def partial_result(
    session: int, frame: int, operation: int, sequence: int, event: bytes, *, final: bool = False
) -> bytes:
    """PARTIAL_RESULT with one event, bare JSON in UTF-8 (7.1); ``sequence`` counts from 1."""
    meta = PARTIAL_LAYOUT.pack(operation, sequence, 0, sequence, len(event), int(final))
    return packed(Message.PARTIAL_RESULT, meta, event, session, frame)


def result_push(
    session: int, frame: int, status: int, document: bytes | None, queue_ms: int = 0
) -> bytes:
    """RESULT_PUSH with the document that ends an operation (8.1); None: an empty success.

    ``status`` is not fixed by the profile: 200, 499 for a cancel, 500, 503 and 504 for errors are usual.
    """
    frames, kinds = (0, 0) if document is None else (1, STRUCTURED_EVENT)
    times = (0, min(queue_ms, 0xFFFF), 0)
    meta = RESULT_LAYOUT.pack(status, 0, 0, 0, 0, 0, *times, *[0] * 11, kinds, frames, 0)
    body = b"" if document is None else typed_body(document)
    return packed(Message.RESULT_PUSH, meta, body, session, frame)


def frame_cancel(session: int, frame: int) -> bytes:
    """FRAME_CANCEL: the header names the operation. Prefer ``cancel``: SDK clients take no event after it."""
    return packed(Message.FRAME_CANCEL, b"", b"", session, frame)


def cancel(session: int, frame: int, operation: int, sequence: int, reason: CancelReason) -> bytes:
    """CANCEL of one operation; ``sequence`` rises with each control message of a sender."""
    meta = CONTROL_LAYOUT.pack(operation, sequence, reason, Role.CLIENT, 0, 0, 0)
    return packed(Message.CANCEL, meta, b"", session, frame)


def abort(
    session: int,
    frame: int,
    operation: int,
    sequence: int,
    reason: CancelReason,
    diagnostic: bytes = b"",
) -> bytes:
    """ABORT of one operation: as CANCEL, without a request to finish in an orderly way."""
    meta = CONTROL_LAYOUT.pack(operation, sequence, reason, Role.CLIENT, 0, len(diagnostic), 0)
    return packed(Message.ABORT, meta, diagnostic, session, frame)


def result_drop_reason(
    session: int,
    frame: int,
    operation: int,
    sequence: int,
    reason: DropReason,
    diagnostic: bytes = b"",
) -> bytes:
    """RESULT_DROP_REASON: the server gives an operation up, and why."""
    meta = CONTROL_LAYOUT.pack(operation, sequence, reason, Role.SERVER, 0, len(diagnostic), 0)
    return packed(Message.RESULT_DROP_REASON, meta, diagnostic, session, frame)


def retry_after(
    session: int, frame: int, scope: int, sequence: int, delay_ms: int, diagnostic: bytes = b""
) -> bytes:
    """RETRY_AFTER: the diagnostics beside an overload; ``scope`` is the operation's id."""
    meta = RETRY_AFTER_LAYOUT.pack(scope, sequence, delay_ms, 0, 0, Role.SERVER, 0, len(diagnostic))
    return packed(Message.RETRY_AFTER, meta, diagnostic, session, frame)


def error(
    code: ErrorCode,
    scope: ErrorScope,
    session: int = 0,
    frame: int = 0,
    diagnostic: bytes = b"",
    *,
    fatal: bool = True,
    retry_after_ms: int = 0,
) -> bytes:
    """ERROR. SDK clients fail the whole session on any, so an operation's error is a ``result_push``."""
    meta = ERROR_LAYOUT.pack(
        code, scope, int(fatal), retry_after_ms, session, frame, 0, len(diagnostic)
    )
    return packed(Message.ERROR, meta, diagnostic, session, frame)
