"""The routes of the live page under /monitor: its files, its API, signing in and out.

What belongs here: from a request to a question, and from an answer to a response. What doesn't: the
answers (hub.py, history.py, details.py), the port and its guard (admin.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from teeline.proxy.audit.export import Export, Source
from teeline.proxy.monitor.access import SESSION_SECONDS, Sessions, TooManyGuessesError, cookie_name
from teeline.proxy.monitor.details import detailed, rule_page, unsettled
from teeline.proxy.monitor.events import Streams
from teeline.proxy.monitor.filters import Asked, BadFilterError, asked
from teeline.proxy.monitor.history import History, HistoryError, Place, Recorded
from teeline.proxy.monitor.hub import Hub
from teeline.validators.rules import register

ROOT: Final = "/monitor"
STATIC: Final = f"{ROOT}/static/"

_API: Final = f"{ROOT}/api"
_LOGIN: Final = f"{_API}/login"

_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # No text can become markup or script in the page, whatever its own code did wrong.
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_ID = re.compile(r"[0-9A-Za-z-]{1,64}\Z")
_SCORES_EVERY: Final = 5.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page says of the process. ``trace_url`` holds ``{trace_id}``, or is empty."""

    version: str
    upstreams: Mapping[str, str]
    trace_url: str = ""
    note: str = ""
    """A line for whoever opens the page: the demo says what it is."""


class Monitor:
    """The page: ``routes`` for the admin port. ``history`` is None where no audit log is written."""

    def __init__(
        self,
        hub: Hub,
        facts: Facts,
        history: History | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self.hub = hub
        self.sessions = sessions
        self._facts = facts
        self._history = history
        self._streams = Streams(hub)

    @property
    def viewers(self) -> int:
        """Event streams that are open."""
        return self._streams.viewers

    def routes(self) -> Iterator[web.AbstractRouteDef]:
        shell = _file("index.html")
        for path in ("/", "/exchange/{id}", "/rules/{id}"):
            yield web.get(ROOT + path, shell)
        yield web.get(ROOT, _to_the_page)
        yield web.get(f"{ROOT}/login", _file("login.html"))
        yield web.get(STATIC + "{name}", _static)
        yield web.get(f"{_API}/facts", self._told_facts)
        yield web.get(f"{_API}/events", self._events)
        yield web.get(f"{_API}/day", _of_the_past(self._day))
        yield web.get(f"{_API}/exchanges", _of_the_past(self._exchanges))
        yield web.get(f"{_API}/exchange/{{id}}", _of_the_past(self._exchange))
        download = f"{_API}/exchange/{{id}}/{{form:exchange\\.json|har}}"
        yield web.get(download, _of_the_past(self._download))
        yield web.get(f"{_API}/rules/{{id}}", _rule)
        yield web.post(_LOGIN, self._login)
        yield web.post(f"{_API}/logout", self._logout)

    def admits(self, request: web.Request) -> bool:
        """Whether a request without a token may pass: the page's own files tell nothing, and what does
        is for those with a session."""
        path = request.path
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            return False
        if not path.startswith(f"{_API}/") or path == _LOGIN:
            return True
        return self.sessions is not None and self.sessions.holds(request.cookies, _cookie(request))

    async def close(self) -> None:
        """Ends the event streams, which otherwise hold the port open, and the question under way."""
        self._streams.close()
        if self._history is not None:
            await self._history.close()

    # -- what is told ----------------------------------------------------------------------------

    async def _told_facts(self, request: web.Request) -> web.StreamResponse:
        facts = self._facts
        return _json(
            {
                "version": facts.version,
                "upstreams": facts.upstreams,
                "trace_url": facts.trace_url or None,
                "note": facts.note or None,
                "history": self._history is not None,
                "sessions": self.sessions is not None,
            }
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        asked_for = _asked(request)
        # A token stays right, a session ends, and its stream with it.
        by_session = self.admits(request)
        scoring = asyncio.create_task(self._keep_scores())
        try:
            return await self._streams.serve(
                request, asked_for, lambda: not by_session or self.admits(request)
            )
        finally:
            scoring.cancel()

    async def _day(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._past().day())

    async def _exchanges(self, request: web.Request) -> web.StreamResponse:
        before, until = request.query.get("before"), request.query.get("until")
        try:
            place = Place.parse(before) if before else None
            moment = float(until) if until else None
        except ValueError:
            raise web.HTTPBadRequest(text="before or until is no place in time\n") from None
        if moment is not None and not 0 <= moment <= 1e11:
            raise web.HTTPBadRequest(text="until is no time\n")
        return _json(await self._past().rows(_asked(request), place, moment))

    async def _exchange(self, request: web.Request) -> web.StreamResponse:
        exchange = _id(request)
        found = None if self._history is None else await self._history.record(exchange)
        if found is not None and self._history is not None:
            folder = self._history.folder
            return _json(
                await self._history.run(
                    lambda: detailed(
                        found.found.fields, folder, found.url, intact=found.found.intact
                    )
                )
            )
        if (record := self.hub.record(exchange)) is not None:
            url = self._facts.upstreams.get(str(record.get("upstream")))
            return _json(detailed(record, None, url))
        if (row := self.hub.row(exchange)) is not None:
            return _json(unsettled(row))
        raise web.HTTPNotFound(text="no exchange has this id, or none any more\n")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        exchange, form = _id(request), request.match_info["form"]
        history = self._past()
        found = await history.record(exchange)
        if found is None:
            raise web.HTTPNotFound(text="no record has this id\n")
        data, why = await history.run(lambda: _exported(history, found, form))
        if not data:
            raise web.HTTPNotFound(text=f"{why}\n")
        suffix = "har" if form == "har" else "json"
        disposition = f'attachment; filename="exchange-{exchange}.{suffix}"'
        return web.Response(
            body=data,
            content_type="application/json",
            headers={"Content-Disposition": disposition},
        )

    def _past(self) -> History:
        if self._history is None:
            raise web.HTTPNotFound(text="no audit log is written: there is no history\n")
        return self._history

    async def _keep_scores(self) -> None:
        """As long as someone looks."""
        while self._history is not None:
            # The index may be in the making: until then the window of now serves.
            with contextlib.suppress(HistoryError):
                self.hub.scores = await self._history.scores()
            await asyncio.sleep(_SCORES_EVERY)

    # -- signing in and out ----------------------------------------------------------------------

    async def _login(self, request: web.Request) -> web.StreamResponse:
        if self.sessions is None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        secret = (await request.read()).decode("utf-8", "replace").strip()
        try:
            session = self.sessions.begin(secret)
        except TooManyGuessesError:
            raise web.HTTPTooManyRequests(text="too many wrong codes; wait a minute\n") from None
        if session is None:
            raise web.HTTPForbidden(text="this code is wrong, was used, or is too old\n")
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        response.set_cookie(
            _cookie(request),
            session,
            max_age=int(SESSION_SECONDS),
            path=ROOT,
            httponly=True,
            samesite="Strict",
            # The port itself speaks no TLS; a browser that came by https says so.
            secure=urlsplit(request.headers.get("Origin", "")).scheme == "https",
        )
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        name = _cookie(request)
        if self.sessions is not None and (session := request.cookies.get(name)):
            self.sessions.end(session)
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        response.del_cookie(name, path=ROOT)
        return response


def _of_the_past(handler: Handler) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except HistoryError as error:
            raise web.HTTPServiceUnavailable(
                text=f"{error}\n", headers={"Retry-After": "2"}
            ) from None

    return answer


def _cookie(request: web.Request) -> str:
    name = request.transport.get_extra_info("sockname") if request.transport else None
    return cookie_name(name[1] if isinstance(name, tuple) else 0)


def _exported(history: History, recorded: Recorded, form: str) -> tuple[bytes, str]:
    export = Export(history.folder)
    source: Iterable[Source] = [Source(recorded.found, recorded.url)]
    data = b"".join(export.har(source) if form == "har" else export.exchanges(source))
    return data, next(iter(export.left_out), "")


async def _rule(request: web.Request) -> web.StreamResponse:
    rule = register().get(request.match_info["id"])
    if rule is None:
        raise web.HTTPNotFound(text="this version of teeline has no such rule\n")
    return _json(rule_page(rule))


async def _to_the_page(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(f"{ROOT}/")


def _asked(request: web.Request) -> Asked:
    try:
        return asked(request.query)
    except BadFilterError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None


def _id(request: web.Request) -> str:
    found = request.match_info["id"]
    if not _ID.match(found):
        raise web.HTTPNotFound(text="this is no exchange's id\n")
    return found


def _json(document: Any) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")


# -- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page as it is sent."""

    data: bytes
    kind: str
    etag: str


@functools.cache
def files() -> Mapping[str, File]:
    """The page's files by name, read once."""
    found = {}
    for each in (resources.files(__package__) / "static").iterdir():
        kind = _TYPES.get(each.name[each.name.rfind(".") :])
        if kind is not None:
            data = each.read_bytes()
            found[each.name] = File(data, kind, hashlib.sha256(data).hexdigest()[:16])
    return found


def _file(name: str) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        return _sent(request, files()[name])

    return send


async def _static(request: web.Request) -> web.StreamResponse:
    found = files().get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    return _sent(request, found)


def _sent(request: web.Request, file: File) -> web.Response:
    headers = {
        "Content-Security-Policy": _POLICY,
        "Cache-Control": "no-cache",
        "ETag": f'"{file.etag}"',
    }
    if any(tag.value == file.etag for tag in request.if_none_match or ()):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return web.Response(body=file.data, content_type=file.kind, charset="utf-8", headers=headers)
