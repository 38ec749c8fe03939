"""Does a task that an inspector gave away: an inspector of its own goes over that part of the exchange.

What belongs here: feeding that inspector, and which tasks are another's (comparisons of a bridge's two sides:
nnrp/passed.py). What doesn't: tasks and reports (aside.py), and where this runs
(proxy/inspectworker.py). Times are those of the task; what goes by times, or by earlier exchanges, is
found where the exchange is, not here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from teeline.validators.aside import MAX_REPORT, REQUEST, filled, outline, report_of
from teeline.validators.events import RequestHead, ResponseHead, Task
from teeline.validators.inspector import Inspector
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Headers
from teeline.validators.nnrp.passed import BRIDGE, compare

TOO_LARGE: Final = b""
"""The report of what was inspected and can't be told in ``MAX_REPORT`` bytes."""


def perform(task: Task, limits: Limits) -> bytes:
    """The report of a task."""
    report = compare(task, limits) if task.kind == BRIDGE else _inspect(task, limits)
    return report if len(report) <= MAX_REPORT else TOO_LARGE


def _inspect(task: Task, limits: Limits) -> bytes:
    facts = json.loads(task.header)
    exchange = Exchange()
    inspector = Inspector(exchange, limits)
    head = RequestHead(facts["method"], facts["target"], _headers(facts["headers"]))
    inspector.request_head(head, facts["at"])
    if task.request:
        inspector.request_known(filled(json.loads(task.request)["outline"]))
    steps = _read_request if task.kind == REQUEST else _check_answer
    return steps(inspector, facts, task.pieces)


def _read_request(inspector: Inspector, facts: Mapping[str, Any], pieces: Sequence[bytes]) -> bytes:
    at = facts["at"]
    for piece in pieces:
        inspector.request_body(piece, at)
    inspector.request_end(at)
    request = inspector.context.request
    read = outline(request.document) if request.known else None
    return report_of(inspector.context, outline=read)


def _check_answer(inspector: Inspector, facts: Mapping[str, Any], pieces: Sequence[bytes]) -> bytes:
    inspector.exchange.request_bytes = facts["request_bytes"]
    answer = ResponseHead(facts["status"], _headers(facts["response_headers"]))
    inspector.response_head(answer, facts["first_byte"])
    for piece in pieces:
        inspector.response_body(piece, facts["last_byte"])
    inspector.end(Ended(facts["ended"]), facts["end"])
    return report_of(inspector.context)


def _headers(written: Sequence[Sequence[str]]) -> Headers:
    return tuple((name, value) for name, value in written)
