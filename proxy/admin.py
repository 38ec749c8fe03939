"""The admin port: health, readiness, metrics and status, for people and tools that run teeline.

What belongs here: the port, who may ask, and the answers' form. What doesn't: what there is to say
(status.py), traffic (server.py), which has a port of its own and never mixes with this one.

Who may ask: on a loopback address everyone on the machine, elsewhere who carries the token. Web
pages may not: a page on the internet can have a browser ask this machine under a name of its own
(DNS rebinding), so the Host field must name this machine, and an Origin must be that host.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from teeline.config.model import AdminConfig, ListenAddress
from teeline.proxy import secretfile
from teeline.proxy.telemetry import prometheus
from teeline.proxy.telemetry.metrics import Readings
from teeline.proxy.text import printable

log = logging.getLogger("teeline.admin")

MIN_TOKEN: Final = 16
"""Characters of a token at least: fewer could be guessed."""
_MAX_TOKEN = 4096
_UNGUARDED: Final = frozenset({"/healthz", "/readyz"})
"""What a probe asks that knows no token and no name; the answers tell nothing else."""
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Ready = Callable[[], Iterable[str]]
"""Why no traffic should be sent here, in a few words each; nothing where it may."""
Status = Callable[[], dict[str, Any]]
Admits = Callable[[web.Request], bool]
"""Whether a request to a page may pass without the token; names and origins are checked all the same."""


def _nobody(request: web.Request) -> bool:
    return False


class AdminError(Exception):
    """The admin port can't start; the text is one line that says what to change."""


class Guard:
    """Decides who may ask. ``token`` None demands none; ``admits`` lets some pass without one."""

    def __init__(self, token: str | None, hosts: Iterable[str], admits: Admits) -> None:
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(hosts) | _LOCAL
        self._admits = admits

    def refusal(self, request: web.Request) -> HTTPStatus | None:
        """The status that a request is refused with; None where it may pass."""
        if request.path in _UNGUARDED:
            return None
        host = request.headers.get("Host", "").lower()
        if _name(host) not in self._hosts:
            return HTTPStatus.MISDIRECTED_REQUEST
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin.lower()).netloc != host:
            return HTTPStatus.FORBIDDEN
        known = self._knows(request) or self._admits(request)
        return None if known else HTTPStatus.UNAUTHORIZED

    def _knows(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        # Compared as bytes: text with other characters than ASCII would raise.
        return hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)


class AdminServer:
    """Listens from ``start`` to ``close``.

    ``ready`` and ``status`` are asked on the event loop and answer at once. ``pages`` are further
    routes, under the same guard but for those who ``admits`` lets pass.
    """

    def __init__(
        self,
        config: AdminConfig,
        meter: Readings,
        ready: Ready,
        status: Status,
        pages: Iterable[web.AbstractRouteDef] = (),
        admits: Admits = _nobody,
    ) -> None:
        self._config = config
        self._meter = meter
        self._ready = ready
        self._status = status
        self._pages = tuple(pages)
        self._admits = admits
        self._runner: web.AppRunner | None = None

    async def start(self) -> ListenAddress | None:
        """Where it listens, None where it is switched off. Raises AdminError."""
        address = self._config.listen
        if address is None:
            return None
        file = self._config.token_file
        hosts = {*self._config.allowed_hosts, _name(str(address).lower())}
        guard = Guard(None if file is None else read_or_make_token(file), hosts, self._admits)
        runner = web.AppRunner(
            self._application(guard), access_log=None, keepalive_timeout=15, shutdown_timeout=1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, address.host, address.port).start()
        except OSError as error:
            await runner.cleanup()
            raise AdminError(f"can't listen on {address}: {_words(error)}") from None
        self._runner = runner
        return ListenAddress(address.host, runner.addresses[0][1])

    async def close(self) -> None:
        """Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _application(self, guard: Guard) -> web.Application:
        application = web.Application(middlewares=[_guarded(guard)], client_max_size=65536)
        application.on_response_prepare.append(_protect)
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/api/status", self._api_status),
                *self._pages,
            ]
        )
        return application

    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.StreamResponse:
        reasons = list(self._ready())
        if reasons:
            text = "".join(f"{reason}\n" for reason in reasons)
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=text)
        return web.Response(text="ready\n")

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        # In a thread: thousands of series take milliseconds that streams must not wait for.
        page = await asyncio.to_thread(lambda: prometheus.render(self._meter.snapshot()))
        return web.Response(body=page.encode(), headers={"Content-Type": prometheus.CONTENT_TYPE})

    async def _api_status(self, request: web.Request) -> web.StreamResponse:
        body = orjson.dumps(self._status(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        return web.Response(body=body, content_type="application/json")


def read_or_make_token(file: Path) -> str:
    """As ``read_token``; where there is no such file, one is made, for whoever runs teeline to read."""
    try:
        if not file.exists():
            secretfile.make(file)
            log.warning("admin: the token was made: %s", printable(str(file), 1000))
    except OSError as error:
        raise AdminError(f"the token file {file} can't be made: {error.strerror}") from None
    return read_token(file)


def read_token(file: Path) -> str:
    """The token in a file, blanks around it left out. Raises AdminError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_TOKEN + 1)
        token = content.decode("ascii").strip()
    except OSError as error:
        raise AdminError(f"the token file {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AdminError(f"the token in {file} holds characters that no header field can") from None
    if not MIN_TOKEN <= len(token) <= _MAX_TOKEN or not token.isprintable() or " " in token:
        raise AdminError(
            f"the token in {file} is not one word of at least {MIN_TOKEN} characters; "
            "make one with: openssl rand -hex 32"
        )
    return token


def _guarded(guard: Guard) -> Any:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = guard.refusal(request)
        if refusal is None:
            return await _answered(handler, request)
        headers = {"WWW-Authenticate": "Bearer"} if refusal is HTTPStatus.UNAUTHORIZED else {}
        return web.Response(status=refusal, text=f"{refusal.phrase}\n", headers=headers)

    return check


async def _answered(handler: Handler, request: web.Request) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception as error:  # noqa: BLE001  the library would print a traceback with values in it
        log.error("admin: %s failed: %s", request.path, type(error).__name__)
        return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text="internal error\n")


async def _protect(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "teeline"
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _name(host: str) -> str:
    """A Host field without its port: ``[::1]`` of ``[::1]:8788``."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and (name.endswith("]") or ":" not in name) else host


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; choose another with --admin, or --admin off"
    if error.errno is None or error.errno < 0:
        return "the host name can't be resolved"
    return os.strerror(error.errno)
