"""HTTP heads on their way through: which lines travel, how a body is framed, what the target
becomes.

What belongs here: the values of a head, and the bytes that go out for it. What doesn't: what its fields
mean for this hop (form.py), whether a head is valid (parse.py asks llhttp), connections, and the heads
that teeline writes in its own name (answers.py). Lines travel as they came: case, order, repeats and
blanks are never touched. A head never changes once it is made, so one that comes again is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from teeline.proxy.form import (
    CONNECTION,
    DROPPED,
    HOST,
    UPGRADE,
    AnswerForm,
    Fields,
    Form,
    Framing,
    RequestForm,
)
from teeline.proxy.framing import Body, ChunkedBody, LengthBody
from teeline.validators import events
from teeline.validators.model import Headers

_Form = TypeVar("_Form", bound=Form)


class Head(Generic[_Form]):
    """A head: its bytes, its form and the values of its fields.

    ``headers`` are the fields as an inspector takes them: bytes above ASCII as latin-1. ``length`` is
    that of Content-Length.
    """

    __slots__ = ("form", "headers", "length", "raw")

    def __init__(self, raw: bytes, form: _Form, values: Sequence[str]) -> None:
        self.raw = raw
        self.form = form
        self.headers: Headers = tuple(zip(form.names, values, strict=True))
        self.length = int(values[form.length_at]) if form.length_at >= 0 else None

    @property
    def lines(self) -> list[bytes]:
        """The field lines as they came, without their ends."""
        return self.raw[:-4].split(b"\r\n")[1:]

    @property
    def trace(self) -> Fields:
        """The fields that say which trace a message belongs to."""
        if not self.form.trace_at:
            return ()
        traces = (self.headers[at] for at in self.form.trace_at)
        return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in traces)

    def kept(self, authority: bytes | None, *, upgrade: bool) -> list[bytes]:
        """The lines that travel. ``authority`` takes the place of Host's value, where it is
        given; ``upgrade`` lets a WebSocket handshake through.
        """
        form, lines = self.form, self.lines
        for at, kind in reversed(form.special):
            if kind == HOST and authority is not None:
                lines[at] = lines[at].partition(b":")[0] + b": " + authority
            elif kind == CONNECTION and upgrade:
                lines[at] = b"Connection: Upgrade"
            elif kind in DROPPED and not (kind == UPGRADE and upgrade):
                del lines[at]
        if form.listed:
            lines = [line for line in lines if line.partition(b":")[0].lower() not in form.listed]
        return lines


class RequestHead(Head[RequestForm]):
    """The head of a request."""

    __slots__ = ("_event", "_forwarded")

    def __init__(self, raw: bytes, form: RequestForm, values: Sequence[str]) -> None:
        super().__init__(raw, form, values)
        self._event: tuple[bytes, events.RequestHead] | None = None
        self._forwarded: tuple[bytes, bytes, bool, bytes] | None = None

    @property
    def has_body(self) -> bool:
        """Without a field that says so there is none; one of no bytes is none."""
        return self.form.chunked or bool(self.length)

    def body(self) -> Body:
        """The scanner of its body, of one of no bytes where it has none."""
        return ChunkedBody() if self.form.chunked else LengthBody(self.length or 0)

    def event(self, target: bytes) -> events.RequestHead:
        """The head as an inspector takes it, with the target that the upstream gets."""
        before = self._event
        if before is not None and before[0] is target:
            return before[1]
        method = str(self.form.method, "latin-1")
        event = events.RequestHead(method, str(target, "latin-1"), self.headers, self.form.fields)
        self._event = target, event
        return event

    def forwarded(self, target: bytes, authority: bytes, *, upgrade: bool = False) -> bytes:
        """The head for the upstream: the same lines, with Host naming the upstream, in the same
        place.

        A client that ends its connection behind this exchange has the upstream end its own.
        """
        before = self._forwarded
        # The targets of usual routes are remembered, so that the same one is the same object.
        if before is not None and before[0] is target and before[1:3] == (authority, upgrade):
            return before[3]
        data = self._rewritten(target, authority, upgrade=upgrade)
        self._forwarded = target, authority, upgrade, data
        return data

    def _rewritten(self, target: bytes, authority: bytes, *, upgrade: bool) -> bytes:
        form, lines = self.form, self.kept(authority, upgrade=upgrade)
        if not form.has_host:
            lines.insert(0, b"Host: " + authority)
        if not form.http10 and not form.persistent:
            lines.append(b"Connection: close")
        elif form.http10 and form.persistent:
            lines.append(b"Connection: keep-alive")
        start = b" ".join((form.method, target, form.version))
        return b"\r\n".join((start, *lines, b"", b""))


class AnswerHead(Head[AnswerForm]):
    """The head of an answer, 1xx included."""

    __slots__ = ()

    @property
    def status(self) -> int:
        return self.form.status

    def event(self) -> events.ResponseHead:
        """The head as an inspector takes it."""
        return events.ResponseHead(self.form.status, self.headers, self.form.fields)

    def framing(self, method: bytes) -> Framing:
        """The framing of a final answer (RFC 9112 6.3)."""
        return self.form.framing if method != b"HEAD" else Framing.NONE

    def body(self, framing: Framing) -> Body:
        """The scanner of its body, of one of no bytes where it has none."""
        if framing is Framing.CHUNKED:
            return ChunkedBody(answer=True)
        if framing is Framing.CLOSE:
            return Body()
        return LengthBody((self.length or 0) if framing is Framing.LENGTH else 0)

    def forwarded(
        self, connection: bytes | None = None, *, chunked: bool = True, upgrade: bool = False
    ) -> bytes:
        """The head for the client: the same status line and lines.

        ``connection`` is what teeline says of the client's connection, where anything needs to be
        said. ``chunked`` false takes Transfer-Encoding away, for a client of HTTP/1.0 (RFC 9112
        7.1 forbids it there).
        """
        form = self.form
        if connection is None and chunked and not upgrade:
            if not form.special:
                return self.raw  # nothing is dropped, and nothing said beside it
            if form.cut and form.cut in self.raw:
                return self.raw.replace(form.cut, b"\r\n", 1)
        lines = self.kept(None, upgrade=upgrade)
        if not chunked:
            lines = [line for line in lines if not line.lower().startswith(b"transfer-encoding:")]
        if connection is not None:
            lines.append(b"Connection: " + connection)
        return b"\r\n".join((form.start, *lines, b"", b""))


def upstream_target(target: bytes, prefix: bytes, base: bytes) -> bytes:
    """The target for the upstream: a route's prefix off, the base URL's path on, the rest
    untouched.

    ``prefix`` and ``base`` have no slash at their end; both may be empty. Where the base ends in
    ``/v1`` and the client's path begins with it, it is used once. ``*`` (OPTIONS) stays as it is.
    """
    if target == b"*":
        return target
    path = origin_form(target)[len(prefix) :]
    if base.endswith(b"/v1") and begins_with(path, b"/v1"):
        path = path[3:]
    mapped = base + path
    return mapped if mapped.startswith(b"/") else b"/" + mapped


def begins_with(target: bytes, prefix: bytes) -> bool:
    """Whether the path of a target begins with a prefix, and ends or goes on at a ``/`` or
    ``?`` there.
    """
    return target.startswith(prefix) and target[len(prefix) : len(prefix) + 1] in b"/?"


def origin_form(target: bytes) -> bytes:
    """A target without the scheme and authority of the absolute form (RFC 9112 3.2.2)."""
    if target.startswith(b"/") or b"://" not in target:
        return target
    rest = target.partition(b"://")[2]
    cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    return rest[cut:] if rest[cut : cut + 1] == b"/" else b"/" + rest[cut:]
