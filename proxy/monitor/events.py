"""The event stream of the live page: what a viewer is sent, and how often.

What belongs here: one viewer's stream, its pace and its end. What doesn't: what an update holds
(hub.py), who may ask (admin.py).

An update is made when the one before has gone out: a viewer that doesn't read is sent less, and
nothing of it waits here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import orjson
from aiohttp import web

from teeline.proxy.monitor.filters import Asked
from teeline.proxy.monitor.hub import FAULTS_EVERY, Cursor, Hub

PERIOD: Final = 0.25
"""Seconds between two updates at least."""
IDLE: Final = 1.0
"""Seconds between two updates at most: rates fall when nothing happens."""
VIEWERS: Final = 32
RETRY: Final = 2000
"""Milliseconds after which a browser connects again."""
STUCK: Final = 60.0
"""Seconds that one update may take to be read; then the viewer is taken for gone."""

_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # For proxies in front (nginx) that would hold an event back.
    "X-Accel-Buffering": "no",
}


def _always() -> bool:
    return True


class Streams:
    """The event streams of one hub; ``viewers`` are open now."""

    def __init__(
        self,
        hub: Hub,
        *,
        clock: Callable[[], float] = time.monotonic,
        period: float = PERIOD,
        most: int = VIEWERS,
    ) -> None:
        self.viewers = 0
        self._hub = hub
        self._clock = clock
        self._period = period
        self._most = most
        self._closing = asyncio.Event()

    async def serve(
        self, request: web.Request, asked: Asked, admitted: Callable[[], bool] = _always
    ) -> web.StreamResponse:
        """Sends a snapshot, or what was missed since Last-Event-ID, then updates until one side ends.

        ``admitted`` is asked before each: a session may end while its stream is open.
        """
        if self.viewers >= self._most:
            text = f"{self._most} pages are open already\n"
            return web.Response(
                status=HTTPStatus.SERVICE_UNAVAILABLE, text=text, headers={"Retry-After": "10"}
            )
        self.viewers += 1
        try:
            response = web.StreamResponse(headers=_HEADERS)
            await response.prepare(request)
            last = request.headers.get("Last-Event-ID", "")
            await self._send(response, asked, last, admitted)
        except (ConnectionError, TimeoutError):
            pass  # the viewer is gone, which is how streams end
        finally:
            self.viewers -= 1
        return response

    def close(self) -> None:
        """Ends all streams; the browser comes back if there is something to come back to."""
        self._closing.set()

    async def _send(
        self, response: web.StreamResponse, asked: Asked, last: str, admitted: Callable[[], bool]
    ) -> None:
        cursor = self._hub.resumed(last)
        if cursor is None:
            found, cursor = self._hub.snapshot(asked)
            kind = "snapshot"
        else:
            found, cursor = self._hub.update(asked, cursor)
            kind = "update"
        await _write(response, f"retry: {RETRY}\n".encode() + _event(kind, found, cursor))
        faults_at = sent_at = self._clock()
        version = self._hub.version
        while not await self._ended(self._period) and admitted():
            now = self._clock()
            if version == self._hub.version and now - sent_at < IDLE:
                continue
            with_faults = now - faults_at >= FAULTS_EVERY
            version = self._hub.version
            before, (found, cursor) = cursor, self._hub.update(asked, cursor, faults=with_faults)
            if cursor.faults != before.faults:
                faults_at = now
            await _write(response, _event("update", found, cursor))
            sent_at = self._clock()

    async def _ended(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return False
        return True


async def _write(response: web.StreamResponse, data: bytes) -> None:
    await asyncio.wait_for(response.write(data), STUCK)


def _event(kind: str, found: dict[str, Any], cursor: Cursor) -> bytes:
    # JSON escapes line ends, so that the data is one line whatever it holds.
    return f"event: {kind}\nid: {cursor}\ndata: ".encode() + orjson.dumps(found) + b"\n\n"
