"""A client that hides nothing: requests as they are, answers as their bytes came.

What belongs here: sending one request, reading its answer with the time of each piece, and the plain faces
that users of SDKs know. What doesn't: judging (judge.py), choosing what is sent (plan.py, runner.py). No
redirect is followed, nothing is sent twice, no connection is used again: each answer shows what it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from teeline.proxy.clock import Clock, Now, SystemClock
from teeline.proxy.probe.target import Target, with_version
from teeline.proxy.reports.model import tool_version
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Ended, Headers
from teeline.validators.wire.content import ContentDecoder, codings_of
from teeline.validators.wire.json import decode
from teeline.validators.wire.sse import Event, SseReader

MAX_ANSWER: Final = 32 * 1024 * 1024
"""Bytes of one answer that are read; the connection is closed behind them."""
DEFAULT_TIMEOUT: Final = 60.0


class UnreachableError(Exception):
    """No answer began; the text is one line that says why and quotes no peer."""

    def __init__(self, reason: str, ended: Ended) -> None:
        super().__init__(reason)
        self.ended = ended


class RefusedError(Exception):
    """A stream was asked for and another status than 2xx came; ``response`` is the whole answer."""

    def __init__(self, response: RawResponse) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response


@dataclass(frozen=True, slots=True)
class SSEEvent:
    """One event of a stream. ``json`` is None where ``data`` is no JSON, as ``[DONE]`` is none."""

    event: str
    data: str
    json: Any = None

    @property
    def done(self) -> bool:
        return self.data.strip() == "[DONE]"


@dataclass(frozen=True, slots=True)
class Read:
    """A piece of an answer's body as it came, and when."""

    at: float
    data: bytes


@dataclass(slots=True)
class RawResponse:
    """A request with its answer, nothing interpreted. Times are Unix seconds.

    ``ended`` says how the answer came to its end; ``reads`` are its pieces before content decoding.
    """

    request: RequestHead
    request_body: bytes
    head: ResponseHead
    started: float
    head_at: float
    reads: list[Read] = field(default_factory=list)
    ended: Ended = Ended.COMPLETE
    end_at: float = 0.0
    _content: bytes | None = None

    @property
    def status_code(self) -> int:
        return self.head.status

    @property
    def headers(self) -> Headers:
        return self.head.headers

    def header(self, name: str) -> str:
        """The first value of a header field, empty where there is none."""
        return next((v for n, v in self.head.headers if n.lower() == name.lower()), "")

    @property
    def request_id(self) -> str:
        return self.header("x-request-id")

    @property
    def content(self) -> bytes:
        """The body after content decoding, as far as it could be decoded."""
        if self._content is None:
            self._content = _decoded(self.head.headers, (read.data for read in self.reads))
        return self._content

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """The body as a JSON value, None where it is none."""
        return decode(self.content).value

    def events(self) -> list[SSEEvent]:
        """The body as an event stream."""
        reader = SseReader()
        return [_event(event) for event in reader.feed(self.content) if event.data is not None]


def _decoded(headers: Headers, pieces: Iterable[bytes]) -> bytes:
    codings = codings_of(headers)
    if not codings:
        return b"".join(pieces)
    decoder = ContentDecoder(codings)
    whole = b"".join(decoder.feed(piece) for piece in pieces)
    return whole + decoder.finish()


def _event(event: Event) -> SSEEvent:
    data = b"\n".join(event.data or [])
    return SSEEvent(event.name, data.decode("utf-8", "replace"), decode(data).value)


class OpenAIClient:
    """Speaks HTTP to one server; to be used as ``async with``.

    ``timeout`` are the seconds for a whole exchange.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        timeout: float = DEFAULT_TIMEOUT,
        *,
        target: Target | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.target = target or Target(with_version(base_url), api_key)
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def to(
        cls, target: Target, timeout: float = DEFAULT_TIMEOUT, clock: Clock | None = None
    ) -> Self:
        """A client of a target whose base URL is complete."""
        return cls("", timeout=timeout, target=target, clock=clock)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- the plain faces ---------------------------------------------------------------------------------

    async def list_models(self) -> RawResponse:
        """``GET /models``; raises UnreachableError."""
        return await self.send("GET", "/models")

    async def responses_create(self, **payload: Any) -> RawResponse:
        """``POST /responses``; raises UnreachableError."""
        return await self.send("POST", "/responses", json_bytes(payload))

    async def chat_completions_create(self, **payload: Any) -> RawResponse:
        """``POST /chat/completions``; raises UnreachableError."""
        return await self.send("POST", "/chat/completions", json_bytes(payload))

    def responses_stream(self, **payload: Any) -> AsyncIterator[SSEEvent]:
        """The events of a streamed response as they come; raises UnreachableError, RefusedError."""
        return self._stream("/responses", payload)

    def chat_completions_stream(self, **payload: Any) -> AsyncIterator[SSEEvent]:
        """The events of a streamed completion, ``[DONE]`` included; raises as responses_stream."""
        return self._stream("/chat/completions", payload)

    async def _stream(self, path: str, payload: dict[str, Any]) -> AsyncIterator[SSEEvent]:
        body = json_bytes({**payload, "stream": True})
        # A consumer that stops in the middle must not leave the connection open.
        async with aclosing(self.exchange("POST", path, body)) as pieces:
            response = await anext(pieces)
            assert isinstance(response, RawResponse)
            if not 200 <= response.status_code < 300:
                async for _ in pieces:
                    pass
                raise RefusedError(response)
            codings = codings_of(response.headers)
            decoder = ContentDecoder(codings) if codings else None
            reader = SseReader()
            async for read in pieces:
                assert isinstance(read, Read)
                for event in reader.feed(decoder.feed(read.data) if decoder else read.data):
                    if event.data is not None:
                        yield _event(event)

    # -- one exchange ------------------------------------------------------------------------------------

    async def send(
        self, method: str, path: str, body: bytes = b"", key: str | None = None
    ) -> RawResponse:
        """Sends a request and reads the answer to its end; raises UnreachableError.

        An answer that breaks off is one, too: ``ended`` says so. ``key`` None is the target's.
        """
        response: RawResponse | None = None
        async for part in self.exchange(method, path, body, key):
            if isinstance(part, RawResponse):
                response = part
        assert response is not None
        return response

    async def exchange(
        self, method: str, path: str, body: bytes = b"", key: str | None = None
    ) -> AsyncGenerator[RawResponse | Read, None]:
        """The answer when its head is there, then each piece of its body; raises UnreachableError."""
        now = self._clock.start()
        head = self._head(method, path, body, self.target.key if key is None else key)
        started = now()
        deadline = asyncio.get_running_loop().time() + self._timeout
        answer = await self._answer(head, body, deadline)
        fields = tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in answer.raw_headers)
        response = RawResponse(head, body, ResponseHead(answer.status, fields), started, now())
        try:
            yield response
            async for read in _reads(answer, now, deadline, response):
                response.reads.append(read)
                yield read
        finally:
            answer.close()
            response.end_at = now()

    def _head(self, method: str, path: str, body: bytes, key: str) -> RequestHead:
        url = self.target.url(path)
        fields = [
            ("Accept", "application/json"),
            ("Accept-Encoding", "gzip, deflate"),
            ("User-Agent", f"teeline-probe/{tool_version()}"),
            *self.target.auth(key),
        ]
        if body:
            fields.append(("Content-Type", "application/json"))
        given = {name.lower() for name, _ in self.target.headers}
        kept = [(name, value) for name, value in fields if name.lower() not in given]
        return RequestHead(method, url, (*kept, *self.target.headers))

    async def _answer(
        self, head: RequestHead, body: bytes, deadline: float
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("a client is used inside `async with`")
        try:
            async with asyncio.timeout_at(deadline):
                return await self._session.request(
                    head.method,
                    head.target,
                    data=body or None,
                    headers=list(head.headers),
                    allow_redirects=False,
                )
        except TimeoutError:
            raise UnreachableError(f"no answer within {self._timeout:g} s", Ended.TIMEOUT) from None
        except aiohttp.ClientConnectorCertificateError:
            raise UnreachableError("its certificate is not valid", Ended.REFUSED) from None
        except aiohttp.ClientConnectorError as error:
            reason = getattr(error.os_error, "strerror", "") or "can't connect"
            raise UnreachableError(str(reason), Ended.REFUSED) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = f"the connection broke before an answer ({type(error).__name__})"
            raise UnreachableError(reason, Ended.UPSTREAM_ABORTED) from None


async def _reads(
    answer: aiohttp.ClientResponse, now: Now, deadline: float, response: RawResponse
) -> AsyncIterator[Read]:
    """The pieces of a body; sets how it ended."""
    size = 0
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                data = await answer.content.readany()
        except TimeoutError:
            response.ended = Ended.TIMEOUT
            return
        except (aiohttp.ClientError, OSError, RuntimeError):
            response.ended = Ended.UPSTREAM_ABORTED
            # Bytes that came before the break; aiohttp's readany withholds them.
            if rest := answer.content._read_nowait(-1):
                yield Read(now(), rest)
            return
        if not data:
            return
        yield Read(now(), data)
        size += len(data)
        if size > MAX_ANSWER:
            response.ended = Ended.CLIENT_CLOSED
            return


def json_bytes(document: Any) -> bytes:
    """A request's document as it goes out."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
