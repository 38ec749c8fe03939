"""The bridge as an HTTP server: routes, limits, errors as OpenAI objects, start and stop.

What belongs here: what all requests share. What doesn't: one request's course (handler.py), the way to the
NNRP server (proxy/nnrp/client.py).

It is a server for OpenAI clients, no transparent proxy: heads are its own, and a maintained server reads
requests. Nobody is asked for a key; one that a client sends goes no further.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from teeline.config.model import ListenAddress
from teeline.proxy.nnrp.bridge.asked import (
    BASELINE,
    MODELS,
    ROUTES,
    Asked,
    asked_of,
    hints_of,
    request_id,
)
from teeline.proxy.nnrp.bridge.compare import Comparer, Copy
from teeline.proxy.nnrp.bridge.failure import FailureError, refused
from teeline.proxy.nnrp.bridge.handler import Course, Times
from teeline.proxy.nnrp.client import BusyError, NnrpClient, UnavailableError
from teeline.proxy.nnrp.clientoperation import Operation
from teeline.proxy.nnrp.httplog import quiet
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.wire.nnrpcodes import CancelReason

log = logging.getLogger("teeline.nnrp")

_BODY_SECONDS: Final = 60.0
_KEEP_ALIVE: Final = 75.0
_LAST_SECONDS: Final = 2.0
"""In which answers that were cut at a stop are sent."""
_ID: Final = web.RequestKey("request_id", str)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BridgeError(Exception):
    """The bridge can't start; the text is one line that says what to change."""


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """``open_requests`` at once, more get 503; ``body`` bytes of a request, more get 413; ``grace``
    seconds for open answers at a stop. ``hints``: lower-case header fields and the members of ``nnrp``.
    """

    capabilities: Capabilities = BASELINE
    hints: Mapping[str, str] = field(default_factory=dict)
    times: Times = field(default_factory=Times)
    open_requests: int = 256
    body: int = 8 * 1024 * 1024
    grace: float = 25.0


class BridgeServer:
    """Serves from ``start`` to ``stop``; the client is the caller's, to be closed behind it.

    With a ``comparer``, which is the caller's too, each request's two sides are compared behind its answer.
    """

    def __init__(
        self, client: NnrpClient, options: BridgeOptions, comparer: Comparer | None = None
    ) -> None:
        self._client, self._options, self._comparer = client, options, comparer
        self._operations: set[Operation] = set()
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._hurry = asyncio.Event()
        self._stopping = self._cut = False
        self._submitting: set[asyncio.Task[Operation]] = set()
        self._runner: web.AppRunner | None = None
        self._sites: list[web.TCPSite] = []

    async def start(
        self, address: ListenAddress, tls: ssl.SSLContext | None = None
    ) -> ListenAddress:
        """Listens; where. Raises BridgeError."""
        application = web.Application(
            client_max_size=self._options.body, middlewares=[self._errors]
        )
        application.on_response_prepare.append(_signed)
        application.router.add_route("*", "/{path:.*}", self._routed)
        runner = web.AppRunner(
            application,
            keepalive_timeout=_KEEP_ALIVE,
            access_log=None,
            logger=quiet("bridge"),
            handler_cancellation=True,
            shutdown_timeout=_LAST_SECONDS,
        )
        await runner.setup()
        site = web.TCPSite(runner, address.host, address.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise BridgeError(f"can't listen on {address}: {error.strerror}") from None
        self._runner, self._sites = runner, [site]
        return ListenAddress(address.host, runner.addresses[0][1])

    async def stop(self) -> None:
        """Takes no more requests, waits for open answers, and ends those that take too long."""
        self._stopping = True
        for site in self._sites:
            await site.stop()
        self._sites.clear()
        await self._settled(self._options.grace)
        self._cut = True
        for task in list(self._submitting):
            task.cancel()
        for operation in list(self._operations):
            operation.cancel(CancelReason.SHUTDOWN)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def hurry(self) -> None:
        """Open answers are waited for no longer."""
        self._hurry.set()

    async def _settled(self, seconds: float) -> None:
        """Waits until no answer is open, for so long or until it is to hurry."""
        waiting = {asyncio.create_task(event.wait()) for event in (self._idle, self._hurry)}
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    # -- a request -------------------------------------------------------------------------------------

    async def _routed(self, request: web.Request) -> web.StreamResponse:
        route = ROUTES.get(request.path)
        if route is None:
            raise refused(404, "unknown_url", "The bridge serves no such path.")
        if "Origin" in request.headers:
            raise refused(403, "origin_refused", "Pages in browsers are not served.")
        method, operation = route
        if request.method != method:
            raise refused(405, "method_not_allowed", f"This path is asked with {method}.")
        if self._stopping:
            raise _shutting_down()
        if self._open >= self._options.open_requests:
            message = "The bridge has as many open requests as it may."
            raise refused(503, "overloaded", message)
        self._open += 1
        self._idle.clear()
        try:
            return await self._answered(request, operation)
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def _answered(self, request: web.Request, name: str) -> web.StreamResponse:
        fields = {key.lower(): value for key, value in request.headers.items()}
        hints = hints_of(fields, self._options.hints)
        data = b"" if name == MODELS else await _body(request)
        asked = asked_of(name, data, request[_ID], hints, self._options.capabilities)
        operation = await self._submitted(asked.envelope)
        self._operations.add(operation)
        try:
            with self._copied(request, asked, data, operation) as copy:
                made, now = secrets.token_hex(12), int(time.time())
                course = Course(request, asked, operation, self._options.times, made, now, copy)
                return await course.answer()
        finally:
            self._operations.discard(operation)

    def _copied(
        self, request: web.Request, asked: Asked, data: bytes, operation: Operation
    ) -> AbstractContextManager[Copy | None]:
        """Keeps what passes, where somebody compares it."""
        if self._comparer is None:
            return nullcontext()
        return self._comparer.open(request, asked, data, operation)

    async def _submitted(self, envelope: bytes) -> Operation:
        task = asyncio.create_task(self._client.submit(envelope))
        self._submitting.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._cut:
                task.cancel()
                raise
            raise _shutting_down() from None
        except BusyError:
            message = "All sessions with the NNRP server are in use."
            raise refused(503, "overloaded", message) from None
        except UnavailableError as error:
            log.warning("%s: no session: %s", self._client.endpoint, error)
            message = "The bridge could not open a session with the NNRP server."
            raise refused(502, "upstream_unreachable", message) from None
        finally:
            self._submitting.discard(task)

    # -- errors ----------------------------------------------------------------------------------------

    @web.middleware
    async def _errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("X-Request-Id")
        request[_ID] = request_id(given, f"req_{secrets.token_hex(12)}")
        try:
            return await handler(request)
        except FailureError as failure:
            return _error(request, failure)
        except ConnectionError:
            # To nobody: the connection is gone, and the library logs what is raised.
            return web.Response()
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an end
            log.error("bridge: a request failed: %s", type(error).__name__)
            return _error(request, refused(500, "internal_error", "The bridge failed."))


def _shutting_down() -> FailureError:
    return refused(503, "shutting_down", "The bridge is shutting down.")


async def _body(request: web.Request) -> bytes:
    """The request's body. Raises FailureError."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise refused(408, "body_timeout", "The request body did not come in time.") from None
    except web.HTTPRequestEntityTooLarge:
        message = "The request body is larger than the bridge accepts."
        raise refused(413, "body_too_large", message) from None
    except web.RequestPayloadError:
        raise refused(400, "bad_request", "The request body could not be read.") from None


def _error(request: web.Request, failure: FailureError) -> web.Response:
    headers = {"Content-Type": "application/json", "x-request-id": request[_ID]}
    if failure.own:
        headers["teeline-error"] = failure.code
    if failure.retry_after_ms:
        headers["Retry-After"] = str(-(-failure.retry_after_ms // 1000))
    if failure.status == 405:
        headers["Allow"] = ROUTES[request.path][0]
    return web.Response(status=failure.status, body=failure.body, headers=headers)


async def _signed(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "teeline"
