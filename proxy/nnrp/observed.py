"""What came for one operation, as a test or a question wants to know it.

What belongs here: the events and the end of one operation, read but not judged. What doesn't: packets
(conformance/conversation.py), expectations (conformance/judge.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from teeline.validators.fields.nnrp import CANCELLED, COMPLETED, ERROR
from teeline.validators.wire.json import JsonFaultKind, decode

MAX_EVENTS: Final = 100_000
"""Events of one operation that are kept."""
_TERMINALS: Final = {COMPLETED: "success", CANCELLED: "cancelled", ERROR: "error"}


@dataclass(slots=True)
class Observed:
    """What came for one operation.

    ``events`` are the profile's documents in their order, the one of the end included. ``terminal`` is
    ``success``, ``error`` or ``cancelled``, ``end`` the message that ended it, empty for none. ``notes``
    are what could not be read, and ends that no document tells. ``after_cancel``: seconds from a cancel
    of ours to the end, None where there was none.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    terminal: str = "error"
    end: str = ""
    notes: list[str] = field(default_factory=list)
    after_cancel: float | None = None

    def hear(self, body: bytes) -> None:
        """One event of a PARTIAL_RESULT."""
        value = _read(body)
        if not isinstance(value, dict):
            self.notes.append("a PARTIAL_RESULT holds no JSON object")
        elif len(self.events) < MAX_EVENTS:
            self.events.append(value)

    def conclude(self, document: bytes | None, end: str) -> None:
        """The document of the end; empty for an empty success, None where there is none to read."""
        value = _read(document) if document else {}
        self.end = end
        if document is None or not isinstance(value, dict):
            self.notes.append(f"{end} holds no JSON object")
            return
        if document:
            self.events.append(value)
            kind = value.get("type")
            self.terminal = _TERMINALS.get(kind, "error") if isinstance(kind, str) else "error"
        else:
            self.terminal = "success"

    def kinds(self) -> list[str]:
        """The types of the events."""
        return [kind for event in self.events if isinstance(kind := event.get("type"), str)]

    def error_code(self) -> str:
        """The code of response.error, empty where there is none."""
        told = self.events[-1].get("error") if self.events else None
        code = told.get("code") if isinstance(told, dict) else None
        return code if isinstance(code, str) else ""


def _read(document: bytes) -> Any:
    """A document's value; None for one that is no JSON, be it for a number that JSON can't write."""
    read = decode(document)
    strange = any(fault.kind is JsonFaultKind.NONFINITE for fault in read.faults)
    return None if strange else read.value
