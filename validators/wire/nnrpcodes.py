"""The code points of NNRP/1 that a peer has to choose or tell apart: reasons, roles, states, errors.

What belongs here: numbers that have a name on the wire. What doesn't: message types and layouts (nnrp.py),
what a code means for an OpenAI client (proxy/nnrp/bridge).
"""

from __future__ import annotations

import enum


class Role(enum.IntEnum):
    """Who speaks in CANCEL, ABORT, RESULT_DROP_REASON and RETRY_AFTER."""

    UNSPECIFIED = 0
    CLIENT = 1
    SERVER = 2
    RUNTIME = 3
    SUBAGENT = 4
    TOOL = 5
    SCHEDULER = 6
    CONFORMANCE_RUNNER = 7


class CancelReason(enum.IntEnum):
    """Why an operation is cancelled or aborted."""

    UNSPECIFIED = 0
    USER_CANCELLED = 1
    SUPERSEDED = 2
    DEADLINE = 3
    BUDGET = 4
    DEPENDENCY = 5
    TRANSPORT_CLOSING = 6
    SHUTDOWN = 7
    CONFORMANCE = 8


class DropReason(enum.IntEnum):
    """Why a server gives an operation up."""

    NONE = 0
    DEADLINE = 1
    SUPERSEDED = 2
    PEER_CANCELLED = 3
    BACKPRESSURE = 4
    CAPABILITY = 5
    BUDGET = 6
    OBJECT = 7
    TRANSPORT_CLOSED = 8
    CONFORMANCE = 9


class ErrorCode(enum.IntEnum):
    """What an ERROR says went wrong."""

    UNSUPPORTED_VERSION = 1
    AUTHENTICATION = 2
    INVALID_STATE = 3
    MALFORMED_HEADER = 4
    MALFORMED_BODY = 5
    UNSUPPORTED_CAPABILITY = 6
    LIMIT = 7
    FRAME_EXPIRED = 8
    FRAME_CANCELLED = 9
    CACHE_MISS = 10
    SERVER_BUSY = 11
    INTERNAL = 12


class ErrorScope(enum.IntEnum):
    """What an ERROR is about."""

    CONNECTION = 0
    SESSION = 1
    FRAME = 2


class SessionStatus(enum.IntEnum):
    """What a SESSION_OPEN_ACK answers."""

    OPENED = 0
    REJECTED = 1
    RETRY_LATER = 2
    RESUMED = 3


class CloseReason(enum.IntEnum):
    """Why a session is closed."""

    NORMAL = 0
    CLIENT_SHUTDOWN = 1
    SERVER_SHUTDOWN = 2
    IDLE_TIMEOUT = 3
    PROTOCOL_ERROR = 4
    AUTH_REVOKED = 5


class InFlight(enum.IntEnum):
    """What becomes of operations whose session is closed."""

    DRAIN = 0
    ABORT = 1


class CloseStatus(enum.IntEnum):
    """What a SESSION_CLOSE_ACK answers."""

    ACKNOWLEDGED = 0
    DRAINING = 1
    CLOSED = 2
    REJECTED = 3
