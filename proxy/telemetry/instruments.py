"""Every metric, declared once: name, kind, unit, description, attributes, buckets.

What belongs here: the table that recording (metrics.py), the exports (metricexport.py,
prometheus.py) and docs/telemetry.md go by. What doesn't: numbers.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from teeline.proxy.telemetry import names


class Kind(enum.Enum):
    """What a metric's numbers do: only grow, go up and down, or fall into buckets."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Instrument(NamedTuple):
    """``attributes`` are the names of a key's parts, in their order; ``bounds`` a histogram's.

    ``observed``: its numbers are kept elsewhere and read when they are asked for.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...]
    bounds: tuple[float, ...] = ()
    observed: bool = False


_SECONDS: Final = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
_TOKENS: Final = tuple(float(4**power) for power in range(14))
_LAG: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

CLIENT: Final = (
    names.UPSTREAM,
    names.OPERATION_NAME,
    names.PROVIDER_NAME,
    names.REQUEST_MODEL,
    names.RESPONSE_MODEL,
    names.SERVER_ADDRESS,
    names.SERVER_PORT,
)
"""What the GenAI histograms are split by, and the upstream."""

TOKEN_USAGE: Final = Instrument(
    names.TOKEN_USAGE,
    Kind.HISTOGRAM,
    "{token}",
    "Tokens used, as the relay reported them; without a report nothing is recorded.",
    (*CLIENT, names.TOKEN_TYPE),
    _TOKENS,
)
OPERATION_DURATION: Final = Instrument(
    names.OPERATION_DURATION,
    Kind.HISTOGRAM,
    "s",
    "Time from a request's head to the end of its exchange.",
    (*CLIENT, names.ERROR_TYPE),
    _SECONDS,
)
TIME_TO_FIRST_CHUNK: Final = Instrument(
    names.TIME_TO_FIRST_CHUNK,
    Kind.HISTOGRAM,
    "s",
    "Time from a request's head to the first event of its stream.",
    CLIENT,
    _SECONDS,
)
TIME_PER_OUTPUT_CHUNK: Final = Instrument(
    names.TIME_PER_OUTPUT_CHUNK,
    Kind.HISTOGRAM,
    "s",
    "Mean time between two events of a stream, one value a stream.",
    CLIENT,
    _SECONDS,
)
EXCHANGES: Final = Instrument(
    names.EXCHANGES,
    Kind.COUNTER,
    "{exchange}",
    "Closed exchanges.",
    (
        names.UPSTREAM,
        names.OPERATION_NAME,
        names.REQUEST_MODEL,
        names.VERDICT,
        names.CLIENT_VERDICT,
        names.ENDED,
    ),
)
VIOLATIONS: Final = Instrument(
    names.VIOLATIONS_FOUND,
    Kind.COUNTER,
    "{violation}",
    "Rules broken, each once an exchange; those whose log records are damped are counted too.",
    (names.UPSTREAM, names.RULE, names.SEVERITY, names.SIDE),
)
INSPECTION_SKIPPED: Final = Instrument(
    names.INSPECTION_SKIPPED,
    Kind.COUNTER,
    "{exchange}",
    "Exchanges that were inspected in part or not at all, by the reason.",
    (names.UPSTREAM, names.REASON),
)
INSPECTION_LAG: Final = Instrument(
    names.INSPECTION_LAG,
    Kind.HISTOGRAM,
    "s",
    "Time from the end of an exchange to its verdict; schema checks are waited for.",
    (names.UPSTREAM,),
    _LAG,
)
OPEN_STREAMS: Final = Instrument(
    names.OPEN_STREAMS,
    Kind.GAUGE,
    "{stream}",
    "Answers that are event streams and not over, from their heads to their ends.",
    (names.UPSTREAM,),
    observed=True,
)
EXPORT_DROPPED: Final = Instrument(
    names.EXPORT_DROPPED,
    Kind.COUNTER,
    "{record}",
    "Records that no collector will get: the queue was full, or the export failed.",
    (names.SIGNAL,),
    observed=True,
)
AUDIT_RECORDS: Final = Instrument(
    names.AUDIT_RECORDS,
    Kind.COUNTER,
    "{record}",
    "Exchanges in the audit log.",
    (),
    observed=True,
)
AUDIT_LOST: Final = Instrument(
    names.AUDIT_LOST,
    Kind.COUNTER,
    "{record}",
    "Exchanges that the audit log could not take.",
    (),
    observed=True,
)
WORKERS: Final = Instrument(
    names.WORKERS,
    Kind.GAUGE,
    "{process}",
    "Worker processes that accept connections; told where there is more than one.",
    (),
    observed=True,
)
WORKER_RESTARTS: Final = Instrument(
    names.WORKER_RESTARTS,
    Kind.COUNTER,
    "{process}",
    "Worker processes that ended unasked; each is replaced.",
    (),
    observed=True,
)

INSTRUMENTS: Final = (
    OPERATION_DURATION,
    TIME_TO_FIRST_CHUNK,
    TIME_PER_OUTPUT_CHUNK,
    TOKEN_USAGE,
    EXCHANGES,
    VIOLATIONS,
    INSPECTION_SKIPPED,
    INSPECTION_LAG,
    OPEN_STREAMS,
    EXPORT_DROPPED,
    AUDIT_RECORDS,
    AUDIT_LOST,
    WORKERS,
    WORKER_RESTARTS,
)
