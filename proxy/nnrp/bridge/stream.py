"""What the streams of all operations share: what they keep of a server's events, and how they fail.

What belongs here: usage, an early terminal, ends that are errors. What doesn't: what a client is sent
(chat.py, responses.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from teeline.proxy.nnrp.bridge.asked import Asked
from teeline.proxy.nnrp.bridge.failure import cancelled_by_server, from_error
from teeline.proxy.nnrp.bridge.told import Document, Event
from teeline.validators.fields.nnrp import CANCELLED, ERROR


@dataclass(slots=True)
class Stream:
    """One stream. ``made_id`` and ``created`` stand where the server tells neither."""

    asked: Asked
    made_id: str
    created: int
    _usage: Mapping[str, Any] | None = None
    _completed: Mapping[str, Any] | None = None

    def _counted(self, event: Event) -> Iterator[bytes]:
        usage = event.members.get("usage")
        self._usage = usage if isinstance(usage, dict) else self._usage
        return iter(())

    def _completed_early(self, event: Event) -> Iterator[bytes]:
        """A terminal document in a PARTIAL_RESULT counts, and the native end is still to come."""
        body = event.members.get("body")
        self._completed = body if isinstance(body, dict) else self._completed
        return iter(())

    def _error(self, event: Event) -> Iterator[bytes]:
        """A failed call ends the stream, too: a client would run the part that it has."""
        raise from_error(event.members)

    def _cancelled(self, event: Event) -> Iterator[bytes]:
        raise cancelled_by_server(event.members)

    def _final(self, document: Document) -> Mapping[str, Any]:
        """The completed body, however it came; empty where there is none. Raises FailureError."""
        raise_unless_success(document)
        return document.completed or self._completed or {}


def raise_unless_success(document: Document) -> None:
    """Raises FailureError for a document that tells an error or a cancel."""
    if document.kind == ERROR:
        raise from_error(document.members, document.status)
    if document.kind == CANCELLED:
        raise cancelled_by_server(document.members)
