"""FRAME_CANCEL, CANCEL, ABORT and deadlines: what a client may cancel, and what comes after.

What belongs here: rules of cancelling. The three messages are equally good; what depends on times is
looked at only where times are those of the wire.
"""

from __future__ import annotations

from collections.abc import Callable

from teeline.validators.fields.nnrp import is_count
from teeline.validators.model import Side
from teeline.validators.nnrp.operation import Operation


def cancel(op: Operation, at: float) -> None:
    """The client cancels an operation, whatever has become of it."""
    if op.terminal:
        op.report("nnrp.cancel-after-terminal", detail="the operation has ended")
    elif op.cancelled:
        op.report("nnrp.cancel-repeated", detail="it was cancelled before")
    else:
        op.cancelled_at = at


def note_partial(op: Operation, at: float) -> None:
    """An event has come."""
    op.latest_partial = at
    if not op.timed or op.cancelled_at is None or op.terminal:
        return
    late = at - op.cancelled_at
    if late > op.limits.grace:
        op.report("nnrp.cancel-late-partial", detail=f"{late:.1f} s after the cancel")


def note_time(op: Operation, at: float) -> None:
    """Time has passed: is the deadline that the client set over?"""
    timeout = op.hints.get("timeout_ms")
    if op.timed_out or not op.timed or not op.active or not is_count(timeout):
        return
    if at > op.at + float(timeout) / 1000:
        op.timed_out = True
        # Noted at whatever packet comes next; it is the client who has not cancelled.
        before, op.report.side = op.report.side, Side.REQUEST
        op.report("nnrp.timeout-without-cancel", detail=f"timeout_ms {timeout:.0f}")
        op.report.side = before


def check_sequence(last: int | None, sequence: int, report: Callable[..., None]) -> None:
    """The control sequence of a session's client only grows."""
    if last is not None and sequence <= last:
        report(
            "nnrp.cancel-sequence-not-increasing",
            detail=f"control_sequence {sequence} after {last}",
        )
