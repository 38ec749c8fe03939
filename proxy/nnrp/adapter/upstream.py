"""Requests to the OpenAI-compatible server behind the adapter, and its answers as they come.

What belongs here: addresses, header fields, the key, bounds of an answer, and what can go wrong on the
way. What doesn't: what an answer becomes (chat.py, responses.py).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

import aiohttp
from yarl import URL

from teeline.proxy.nnrp.adapter.errors import BROKEN_OFF, TIMEOUT, UNREACHABLE, unusable
from teeline.proxy.nnrp.documents import FailedError
from teeline.proxy.probe.target import with_version
from teeline.proxy.reports.model import tool_version
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.wire.sse import SseReader

CONNECT: Final = 10.0
"""Seconds in which a connection must be there."""
MAX_ERROR: Final = 64 * 1024
"""Bytes of an error's body that are read."""
_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """``url`` is a base URL, with or without its version; ``timeout`` is seconds for a whole answer."""

    url: str
    key: str = ""
    timeout: float = 600.0
    max_answer: int = 16 * 1024 * 1024
    tls: ssl.SSLContext | None = None


class Answer:
    """An answer whose head is there."""

    def __init__(self, response: aiohttp.ClientResponse, max_bytes: int, key: str) -> None:
        self._response, self._max, self._key = response, max_bytes, key.encode()

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def streams(self) -> bool:
        """Whether it is an event stream."""
        return self._response.content_type == _STREAM

    @property
    def retry_after(self) -> str:
        """The header field of that name."""
        return self._response.headers.get("Retry-After", "")

    async def body(self) -> bytes:
        """The whole body. FailedError where it is too large or breaks off."""
        return self._clean(b"".join([piece async for piece in self._pieces(self._max)]))

    async def error_body(self) -> bytes:
        """The body of a refusal, as far as it may be read."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self._pieces(self._max):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ERROR:
                break
        return self._clean(b"".join(pieces)[:MAX_ERROR])

    async def data(self) -> AsyncGenerator[bytes, None]:
        """The data of each event of a stream. FailedError where it breaks off or passes a bound."""
        reader = SseReader(DEFAULT_LIMITS)
        async for piece in self._pieces(self._max):
            for event in reader.feed(piece):
                if event.data is not None:
                    yield self._clean(b"\n".join(event.data))
            if reader.limit:
                raise unusable("The server sent an event that is too long.")

    def _clean(self, data: bytes) -> bytes:
        """What the server says, without the key that it may quote."""
        return data.replace(self._key, b"***") if self._key and self._key in data else data

    async def _pieces(self, most: int) -> AsyncIterator[bytes]:
        coding = self._response.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise unusable("The server sent a content coding that was not asked for.")
        size = 0
        try:
            async for piece in self._response.content.iter_any():
                size += len(piece)
                if size > most:
                    raise unusable("The server's answer is too large.")
                yield piece
        except (aiohttp.ClientError, ConnectionError):
            raise FailedError(BROKEN_OFF) from None


class Upstream:
    """The way to the server. Used as an asynchronous context manager; it holds the connections."""

    def __init__(self, options: UpstreamOptions) -> None:
        self._options = options
        self.base_url = with_version(options.url)

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT)
        fields = {
            "User-Agent": f"teeline-nnrp-adapter/{tool_version()}",
            "Accept-Encoding": "identity",
        }
        if self._options.key:
            fields["Authorization"] = f"Bearer {self._options.key}"
        self._session = aiohttp.ClientSession(
            headers=fields,
            timeout=timeout,
            # A connection each: one that was kept may be closed by the server just when a request goes
            # out on it, and a request that was perhaps taken must not be sent twice.
            connector=aiohttp.TCPConnector(
                limit=0, force_close=True, ssl=self._options.tls or True
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @asynccontextmanager
    async def asked(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        request_id: str = "",
        timeout: float | None = None,
    ) -> AsyncIterator[Answer]:
        """An answer, whose request ends with the context. FailedError where there is none in time."""
        fields = {"Content-Type": "application/json"} if body is not None else {}
        if request_id:
            fields["X-Request-Id"] = request_id
        url = URL(self.base_url + path, encoded=True)
        limit = self._options.timeout
        try:
            async with (
                asyncio.timeout(limit if timeout is None else min(timeout, limit)),
                self._session.request(
                    method, url, data=body, headers=fields, allow_redirects=False
                ) as response,
            ):
                yield Answer(response, self._options.max_answer, self._options.key)
        except TimeoutError:
            raise FailedError(TIMEOUT) from None
        except (aiohttp.ClientError, OSError):
            raise FailedError(UNREACHABLE) from None
