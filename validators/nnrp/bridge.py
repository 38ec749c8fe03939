"""A bridge between HTTP and NNRP where both sides are seen: is one what the other is (``nnrp.bridge-*``).

What belongs here: comparing the HTTP exchange and the NNRP operation of one request. What doesn't: either
side by itself (the OpenAI families, the other nnrp rules). What can't be read on one side is named there;
here it only takes its comparisons away. Values are kept as fingerprints, texts as running hashes.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from teeline.validators.checks.context import Context
from teeline.validators.checks.joined import Joined, Texts
from teeline.validators.events import Output
from teeline.validators.fields.nnrp import (
    COMPLETED,
    DELTA,
    ERROR,
    OPERATIONS,
    STARTED,
    TEXT,
    TOOL_EVENTS,
)
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Side, Unit
from teeline.validators.nnrp.events import chunk_texts
from teeline.validators.nnrp.jsonvalue import Number, fingerprint, value_of
from teeline.validators.operation import Operation as Api
from teeline.validators.operation import asks_in_body, model_of, operation_of

MAX_CHUNKS: Final = 16_384
"""Chunks of one stream whose fingerprints are kept."""
_RESPONSES_TEXT: Final = "response.output_text.delta"
_HTTP_FAILURES: Final = frozenset({"error", "response.failed"})
_CHUNK: Final = "chat.completion.chunk"
_REPLAYED: Final = frozenset({TEXT, STARTED, DELTA})
"""Events whose chunks can be replayed in their place."""
_FIRST: Final = Number("0")
_NAMES: Final[Mapping[Api, str]] = {api: name for name, api in OPERATIONS.items()}


class Front(enum.Enum):
    """Which protocol the client speaks; the server speaks the other one."""

    HTTP = enum.auto()
    NNRP = enum.auto()


class HttpEnd(enum.Enum):
    """How the HTTP exchange ended: whole, broken off by the server, or left by the client."""

    WHOLE = enum.auto()
    BROKEN = enum.auto()
    LEFT = enum.auto()


class _Request(NamedTuple):
    """A request body as a fingerprint, with and without its member ``nnrp``."""

    whole: bytes
    without: bytes
    hints: bool


class Bridge:
    """Compares the two sides of one request; its findings go to ``exchange``.

    The sides are told in any order, each in its own; bytes are JSON documents as they passed, without
    framing. Times (``at``, Unix seconds) say who was first where that counts. ``close`` comes last and
    gives the findings. Peer bytes never raise.
    """

    def __init__(
        self, exchange: Exchange, front: Front = Front.HTTP, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._ctx = Context(exchange, Api.OTHER, limits)
        self._report = self._ctx.report
        self._front = front
        self._texts = Texts(self._ctx)
        # HTTP
        self._wanted: str | None = None  # the operation that the path stands for
        self._asked: _Request | None = None
        self._status = 0
        self._streamed = False
        self._answer: bytes | None = None
        self._http_failed = False
        self._http_end: HttpEnd | None = None
        self._left_at: float | None = None
        self._http_texts: dict[Any, Joined] = {}
        self._sent: Counter[bytes] = Counter()
        # NNRP
        self._named: str | None = None
        self._submitted: _Request | None = None
        self._operation_seen = False
        self._nnrp_texts: dict[Any, Joined] = {}
        self._chunks = _Chunks()
        self._origin: _Origin | None = None  # whose chunks the stream consists of
        self._final_texts: dict[Any, tuple[int, bytes]] = {}
        self._completed: bytes | None = None
        self._success = False
        self._failed = False
        self._ended_at: float | None = None
        self._cancelled = False
        # doubts: what was compared less than whole is not compared
        self._blind = False
        self._full = False

    @property
    def context(self) -> Context:
        """The exchange and its findings, for a report."""
        return self._ctx

    def missing(self, reason: str) -> None:
        """Not all of the answer is told, for a reason that ``inspection`` gets to say."""
        self._ctx.partial(reason)
        self._blind = True

    # -- HTTP ------------------------------------------------------------------------------------------

    def http_request(self, method: str, target: str, body: bytes) -> None:
        """The HTTP request, received from the client or sent to the upstream."""
        api = operation_of(method, target)
        created = asks_in_body(method, target) or (api is Api.MODELS and not model_of(target))
        self._wanted = _NAMES.get(api) if created else None
        self._asked = self._request(value_of(body, self._ctx.limits.depth) if body else {})

    def http_answer(self, status: int) -> None:
        """The head of the HTTP answer."""
        self._status = status

    def http_body(self, body: bytes) -> None:
        """The whole body of an answer that is no event stream."""
        value = value_of(body, self._ctx.limits.depth)
        if value is None:
            self._blind = True
            return
        self._answer = fingerprint(value)
        self._http_failed = isinstance(value, dict) and value.get("error") is not None

    def http_event(self, data: bytes) -> None:
        """The data of one event of an answer that is a stream."""
        self._streamed = True
        if data.strip() == b"[DONE]":
            return
        event = value_of(data, self._ctx.limits.depth)
        if not isinstance(event, dict):
            self._blind = True
            return
        if event.get("error") is not None or _word(event, "type") in _HTTP_FAILURES:
            self._http_failed = True
        for key, text in _http_texts(event):
            self._heard(self._http_texts, key, text)
        self._count(self._sent, fingerprint(event))

    def http_ended(self, end: HttpEnd, at: float) -> None:
        """The HTTP exchange is over."""
        self._http_end = end
        if end is HttpEnd.LEFT:
            self._left_at = at

    # -- NNRP ------------------------------------------------------------------------------------------

    def submitted(self, envelope: bytes) -> None:
        """The envelope of the FRAME_SUBMIT."""
        self._operation_seen = True
        value = value_of(envelope, self._ctx.limits.depth)
        if not isinstance(value, dict):
            self._blind = True
            return
        self._named = _word(value, "operation")
        self._submitted = self._request(value.get("body"))

    def event(self, event: bytes) -> None:
        """The body of a PARTIAL_RESULT."""
        value = value_of(event, self._ctx.limits.depth)
        kind = _word(value, "type")
        if kind is None:
            self._blind = True
            return
        text = value.get("delta")
        if kind == TEXT and isinstance(text, str):
            self._heard(self._nnrp_texts, self._key(value.get("index")), text)
        if kind == COMPLETED:
            self._finished(value.get("body"))
        if kind == TEXT or kind in TOOL_EVENTS:
            chunk = value.get("openai_chunk")
            if self._front is Front.HTTP and not self._is_replayable(kind, value, chunk):
                chunk = None
            who = (kind, _word(value, "call_id") or self._key(value.get("index")))
            self._full |= not self._chunks.add(fingerprint(chunk) if chunk else None, who)

    def cancelled(self) -> None:
        """The bridge has cancelled the operation."""
        self._cancelled = True

    def ended(self, document: bytes | None, at: float) -> None:
        """The operation has ended: with a terminal document, empty (``b""``), or in another way (None)."""
        self._ended_at = at
        if document is None:
            return
        value = value_of(document, self._ctx.limits.depth) if document else {}
        kind = _word(value, "type") if document else None
        self._failed = kind == ERROR
        self._success = not document or kind == COMPLETED
        body = value.get("body") if isinstance(value, dict) else None
        if kind == COMPLETED and isinstance(body, dict):
            self._completed = fingerprint(body)
            self._finished(body)

    # -- what is kept ----------------------------------------------------------------------------------

    def _request(self, value: Any) -> _Request | None:
        if not isinstance(value, dict):
            self._blind = True
            return None
        whole = fingerprint(value)
        if "nnrp" not in value:
            return _Request(whole, whole, hints=False)
        rest = {name: member for name, member in value.items() if name != "nnrp"}
        return _Request(whole, fingerprint(rest), hints=True)

    def _key(self, index: Any) -> Any:
        """What a text is kept under: the choice of a chat; Responses have one text for all their parts."""
        return None if self._named == _NAMES[Api.RESPONSES] else _index(index)

    def _heard(self, texts: dict[Any, Joined], key: Any, text: str) -> None:
        if key not in texts:
            if len(texts) >= self._ctx.limits.choices:
                self._ctx.partial("choice-limit")
                self._blind = True
                return
            texts[key] = Joined(self._texts, "text")
        texts[key].add(text)

    def _is_replayable(self, kind: str, event: Mapping[str, Any], chunk: Any) -> bool:
        """Whether an event's chunk is to be found in the HTTP stream.

        It isn't where the stream can't hold it: a chunk of another stream than that which has begun, one with
        usage (whether it was asked for is the client's matter), one that isn't whole or does not say what its
        event says. Streams of Responses are made throughout.
        """
        told = event.get("arguments_delta" if kind == DELTA else "delta")
        if kind not in _REPLAYED or self._named == _NAMES[Api.RESPONSES] or told == "":
            return False
        origin = _origin(chunk, told)
        self._origin = self._origin or origin
        return origin is not _MADE and origin == self._origin

    def _finished(self, body: Any) -> None:
        """Keeps what the final body says: a stream owes the texts of which no event told anything."""
        for key, text in _final_texts(body)[: self._ctx.limits.choices]:
            whole = Joined(self._texts, "text")
            whole.add(text)
            self._final_texts[key] = whole.fingerprint()

    def _count(self, counts: Counter[bytes], print_: bytes) -> None:
        if len(counts) >= MAX_CHUNKS and print_ not in counts:
            self._full = True
        else:
            counts[print_] += 1

    # -- the comparison --------------------------------------------------------------------------------

    def close(self, at: float) -> Sequence[Output]:
        """Both sides are over: what the comparison finds."""
        report = self._report
        report.at = at
        report.side, report.unit = Side.RESPONSE, Unit.BODY
        if self._blind:
            self._ctx.partial("unreadable")
        if self._full:
            self._ctx.partial("chunk-limit")
        if self._asked is not None and self._operation_seen:
            self._compare_requests(self._asked)
        whole = self._http_end is HttpEnd.WHOLE
        lost = self._front is Front.HTTP and self._failed and not self._blind
        if lost and whole and self._answered_well():
            report("nnrp.bridge-error-lost", detail=f"response.error became status {self._status}")
        comparable = self._success and not self._blind and not self._is_another
        if whole and comparable and self._answered_well():
            self._compare_answers()
        self._look_at_disconnect(at)
        return report.drain()

    @property
    def _is_another(self) -> bool:
        """Whether the operation isn't the path's: its answer is then another one, too."""
        return self._named is not None and self._asked is not None and self._named != self._wanted

    def _answered_well(self) -> bool:
        return 200 <= self._status < 300 and not self._http_failed

    def _compare_requests(self, asked: _Request) -> None:
        report = self._report
        if self._is_another:
            detail = f"the path is that of {self._wanted or 'no operation of the profile'}"
            report("nnrp.bridge-operation-wrong", "/operation", detail=detail)
        submitted = self._submitted
        if submitted is None:
            return
        if self._front is Front.NNRP and asked.hints and not submitted.hints:
            report("nnrp.bridge-nnrp-forwarded", "/nnrp", detail="the upstream is sent nnrp")
            asked = asked._replace(whole=asked.without)
        if asked.whole != submitted.whole:
            report("nnrp.bridge-body-changed", "/body", detail="it is not the HTTP request's body")

    def _compare_answers(self) -> None:
        report = self._report
        if not self._streamed:
            if None not in (self._answer, self._completed) and self._answer != self._completed:
                detail = "the HTTP answer is not response.completed.body"
                report("nnrp.bridge-answer-changed", "/body", detail=detail)
            return
        repeated = self._repeated() if self._front is Front.HTTP and not self._full else 0
        if repeated:
            report("nnrp.bridge-chunk-repeated", "/openai_chunk", detail=f"{repeated} too many")
        elif changed := self._changed_text():
            report("nnrp.bridge-text-changed", detail=f"the text of {changed} choices")
        elif not self._full and (lost := len(self._chunks.most.keys() - self._sent.keys())):
            detail = f"{lost} chunks are not among the HTTP stream's"
            report("nnrp.bridge-chunk-changed", "/openai_chunk", detail=detail)

    def _repeated(self) -> int:
        """How many chunks were replayed beyond what the events allow.

        Events without a chunk become chunks that the bridge makes: these may equal a replayed one.
        """
        extra = sum(max(0, self._sent[chunk] - most) for chunk, most in self._chunks.most.items())
        return max(0, extra - self._chunks.without)

    def _changed_text(self) -> int:
        """In how many choices the texts differ; where one side has none, it is empty.

        What no event told may come from the final body: the text of a choice, items of a response.
        """
        changed = 0
        for key in self._http_texts.keys() | self._nnrp_texts.keys():
            said, told = self._whole(self._http_texts, key), self._whole(self._nnrp_texts, key)
            at_last = self._final_texts.get(key) if key is None or not told[0] else told
            changed += said not in (told, at_last)
        return changed

    def _whole(self, texts: Mapping[Any, Joined], key: Any) -> tuple[int, bytes]:
        return (texts.get(key) or Joined(self._texts, "text")).fingerprint()

    def _look_at_disconnect(self, at: float) -> None:
        """An operation that ends within the grace window needed no cancel any more."""
        left = self._left_at
        if self._front is not Front.HTTP or left is None or self._cancelled:
            return
        if not self._operation_seen:
            return
        ran = (at if self._ended_at is None else self._ended_at) - left
        if ran > self._ctx.limits.grace:
            self._report.side = Side.REQUEST
            detail = f"it ran {ran:.1f} s after the client had left"
            self._report("nnrp.bridge-disconnect-without-cancel", detail=detail)


_Origin = tuple[str | None, str | None]
_MADE: Final[_Origin] = (None, None)
"""In place of an origin: chunks that the bridge makes."""


class _Chunks:
    """The openai_chunks of an operation's events.

    Several events may come from one chunk and carry it each, in a row; events of one kind for one call or
    choice come from as many chunks. ``most`` is how many chunks of a fingerprint there can have been.
    """

    def __init__(self) -> None:
        self.most: Counter[bytes] = Counter()
        self.without = 0
        self._last: bytes | None = None
        self._row: Counter[Any] = Counter()
        self._in_row = 0

    def add(self, chunk: bytes | None, who: tuple[str, Any]) -> bool:
        """Takes one event; False where there are too many chunks to follow."""
        if chunk is None:
            self.without += 1
            return True
        if chunk != self._last:
            self._last, self._in_row = chunk, 0
            self._row.clear()
        if len(self.most) >= MAX_CHUNKS or len(self._row) >= MAX_CHUNKS:
            return False
        self._row[who] += 1
        if self._row[who] > self._in_row:
            self._in_row += 1
            self.most[chunk] += 1
        return True


def _word(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _http_texts(event: Mapping[str, Any]) -> Sequence[tuple[Any, str]]:
    """The texts that an event adds, each with its choice; those of Responses have none."""
    if event.get("type") == _RESPONSES_TEXT:
        delta = event.get("delta")
        return [(None, delta)] if isinstance(delta, str) else []
    found = []
    for choice in _objects(event, "choices"):
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        if isinstance(content, str):
            found.append((_index(choice.get("index")), content))
    return found


def _index(value: Any) -> Number:
    """Which choice a number names; what names none is read as the first."""
    named = isinstance(value, Number) and value[:1].isdigit() and "-" not in value
    return value if named else _FIRST


def _final_texts(body: Any) -> Sequence[tuple[Any, str]]:
    """The texts of a final body, each with its choice; of a response one for all its parts."""
    found: list[tuple[Any, str]] = []
    for choice in _objects(body, "choices"):
        message = choice.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            found.append((_index(choice.get("index")), content))
    parts = [part for item in _objects(body, "output") for part in _objects(item, "content")]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return [(None, "".join(texts)), *found] if texts else found


def _objects(value: Any, name: str) -> Sequence[Mapping[str, Any]]:
    members = value.get(name) if isinstance(value, dict) else None
    return [m for m in members if isinstance(m, dict)] if isinstance(members, list) else []


def _origin(chunk: Any, told: Any) -> _Origin:
    """The stream that a chunk belongs to; ``_MADE`` where a chunk has to be made for the event."""
    if not isinstance(chunk, dict) or chunk.get("usage") is not None:
        return _MADE
    named = _word(chunk, "id"), _word(chunk, "model")
    if _word(chunk, "object") != _CHUNK or not isinstance(chunk.get("created"), Number):
        return _MADE
    says = not isinstance(told, str) or told in chunk_texts(chunk)
    return named if says and None not in named else _MADE
