"""What goes into an inspector and what comes out of it.

In: the heads below, body bytes and an end, each with the time that the caller's clock gave
(``Inspector.request_head`` and so on take them). Out: ``Opened``, ``Found``, ``Closed`` and
``SchemaCheck``, in the order in which they came to light.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from teeline.validators.heads import FieldNames
from teeline.validators.model import Exchange, Headers, Violation


class RequestHead(NamedTuple):
    """A request line and its header fields. ``target`` is what stood on the line, query included."""

    method: str
    target: str
    headers: Headers
    names: FieldNames | None = None
    """Those of the headers, where whoever made this has them at hand."""


class ResponseHead(NamedTuple):
    """A final status line and its header fields (1xx are never given to an inspector)."""

    status: int
    headers: Headers
    names: FieldNames | None = None
    """As in ``RequestHead``."""


@dataclass(slots=True)
class Opened:
    """An exchange has begun: its identity, method, path and operation are known."""

    exchange: Exchange


@dataclass(slots=True)
class Found:
    """A rule was broken for the first time in this exchange."""

    exchange: Exchange
    violation: Violation


@dataclass(slots=True)
class Closed:
    """The exchange is over; its facts and the counts of its violations are final."""

    exchange: Exchange


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """A document to be checked against a schema that came in a request, away from here.

    ``schema`` is untrusted: whoever runs the check fetches nothing and limits size, depth and time.
    The result goes back through ``Inspector.schema_result`` under the same ``ticket``.
    """

    exchange: Exchange
    ticket: int
    schema: Any
    document: Any


class Task(NamedTuple):
    """A part of an inspection (aside.py writes and reads it): ``header`` is what to do, ``request``
    the outline of the request where it is known already, ``pieces`` the body as it was on the wire."""

    kind: str
    header: bytes
    request: bytes
    pieces: Sequence[bytes]

    @property
    def size(self) -> int:
        return len(self.header) + len(self.request) + sum(map(len, self.pieces))


class Report(NamedTuple):
    """What came of a task; ``failed`` says in a word why nothing did (``busy``, ``timeout``)."""

    data: bytes = b""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Aside:
    """A part of the inspection that takes long, to be done away from here.

    The report goes back through ``Inspector.inspected``. Comes only from inspectors that are made to give
    parts away.
    """

    exchange: Exchange
    task: Task


Output = Opened | Found | Closed | SchemaCheck | Aside


class SchemaError(NamedTuple):
    """One breach of a requested schema: where, and which keyword of JSON Schema failed. No content."""

    pointer: str
    keyword: str


class SchemaResult(NamedTuple):
    """The answer to a ``SchemaCheck``.

    ``errors`` is empty for a valid document. ``unchecked`` says in a word or two why there is no result
    (``timeout``, ``too-large``, ``remote-reference``, ``bad-schema``); it is empty where there is one.
    """

    errors: tuple[SchemaError, ...] = ()
    unchecked: str = ""
