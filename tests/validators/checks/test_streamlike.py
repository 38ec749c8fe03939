"""A stream that goes as an earlier one went gets what the full check says of it, and nothing else."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from teeline.validators.checks.stream import EventStream
from teeline.validators.checks.streamlike import LikeStream
from teeline.validators.events import Found, Output, RequestHead, ResponseHead
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.likeness import Likenesses
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Headers, Verdict
from tests.validators import streams
from tests.validators.answers import TOOLS, dumps
from tests.validators.exchanges import NOW, findings, partition
from tests.validators.schemas import answer_schema_checks

CHAT = "/v1/chat/completions"
ASKED = {"model": "gpt-4o", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
ASKING: Headers = (("authorization", "Bearer k"), ("content-type", "application/json"))
FIELDS: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("x-request-id", "r"),
    ("openai-processing-ms", "5"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10"),
)
KINDS: tuple[Headers, ...] = (
    (),
    (("content-type", "application/json"), *FIELDS[1:]),
    (*FIELDS, ("content-length", "100000")),
    (*FIELDS, ("content-encoding", "identity")),
)
REQUESTS: tuple[dict[str, Any], ...] = (
    {"n": 1},
    {"n": 2},
    {"max_tokens": 4},
    {"max_completion_tokens": 100},
    {"stop": ["STOP"]},
    dict(TOOLS),
    {"logprobs": True},
    {"response_format": {"type": "json_object"}},
    {"stream": False},
    {"store": True},
    {"model": "other"},
    {"model": "gpt-4o-2024-08-06"},
    {"stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    {"stream_options": {"include_usage": 1}},
    {"stream_options": [1]},
    {"messages": [{"role": "user", "content": "\ufffd" * 20}]},
    {"messages": [{"role": "user", "content": "word " * 2000}]},
)
PATHS = (CHAT, "/openai/deployments/x/chat/completions", "/v1/chat/completions?a=b", "/v1/other")
LIMITS = (DEFAULT_LIMITS, DEFAULT_LIMITS, Limits(event=4000), Limits(idle_gap=0.5))
DETAILS = {"completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0}}
USUAL = 7
"""The seed of a talk whose streams have usage, and nothing that is to be reported."""
Read = tuple[bytes, float]


class Talk:
    """Streams of one upstream, usual ones and others, by a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._writer = chance.choice(streams.WRITERS)
        self._padded = chance.random() < 0.3
        self._usage = chance.random() < 0.5
        self._interim = chance.random() < 0.5
        role = {"role": "assistant"}
        self._opening = chance.choice((role, {**role, "content": ""}, {**role, "content": None}))
        self._more: dict[str, Any] = chance.choice(
            ({}, {"system_fingerprint": None}, {"system_fingerprint": "fp_\\"}, {"service_tier": "auto"})
        )  # fmt: skip
        self._details = chance.choice(({}, DETAILS))
        self._last: dict[str, Any] = chance.choice(
            ({}, {"service_tier": "priority"}, {"extra": 1}, {"service_tier": None})
        )
        self._streams = 0
        self.odd_texts = 0.05
        self.asked = {
            **ASKED,
            **({"stream_options": {"include_usage": True}} if self._usage else {}),
        }

    def exchange(self) -> dict[str, Any]:
        """The arguments of ``inspected``."""
        chance = self._chance
        if chance.random() < 0.4:
            return self._amiss()
        odd = chance.random() < 0.4
        request = dict(self.asked)
        if odd and chance.random() < 0.4:
            request |= chance.choice(REQUESTS)
        blocks = self._blocks(odd=odd)
        if odd and chance.random() < 0.5:
            self._disturb(blocks)
        body = b"".join(blocks)
        cut = chance.choice((blocks, blocks, [body], partition(self._streams)(body)))
        return {
            "path": chance.choice(PATHS) if odd else CHAT,
            "request": dumps(request),
            "headers": chance.choice(KINDS) if odd and chance.random() < 0.3 else FIELDS,
            "reads": self._timed(cut),
            "ended": chance.choice([*Ended]) if odd and chance.random() < 0.4 else Ended.COMPLETE,
            "limits": chance.choice(LIMITS) if odd else DEFAULT_LIMITS,
        }

    def _amiss(self) -> dict[str, Any]:
        """A clean stream but for one thing, of those that only a relation tells."""
        chance = self._chance
        made: dict[str, Any] = {"request": dumps(self.asked)}
        blocks = self._blocks(odd=False)
        match chance.randrange(10):
            case 0:  # contents that start with the one before, from short ones to longer ones
                start = chance.choice(("w", "word", "word "))
                blocks = self._blocks(odd=False, texts=[start + "x" * n for n in range(5)])
            case 1:
                blocks = self._blocks(odd=False, texts=[" one", " two"][: chance.randint(0, 2)])
            case 2:
                blocks = self._blocks(odd=False, texts=[""] * 5)
            case 3:  # the chunk with the finish_reason, or the usage, is another stream's
                other = self._blocks(odd=False)
                at = -chance.randint(2, 2 + self._usage)
                blocks[at] = other[at]
            case 4:
                self._streams -= 2  # an id that came before
                blocks = self._blocks(odd=False)
            case 5:
                made["request"] = dumps({**self.asked, "max_tokens": 3})
            case 6:  # no size of the request tells this many tokens
                counts = {"prompt_tokens": 10**6, "completion_tokens": 3, "total_tokens": 10**6 + 3}
                blocks = self._blocks(odd=False, counts=counts)
            case 7:
                made["asking"] = (*ASKING, ("content-encoding", "gzip"))
                messages = [{"role": "user", "content": "word " * 9000}]
                made["request"] = gzip.compress(dumps({**self.asked, "messages": messages}))
            case 8:
                made["request"] = dumps({**self.asked, "model": "other"})
            case 9:
                made["ended"] = chance.choice([*Ended])
                del blocks[len(blocks) - chance.randint(0, 2) :]
        return {**made, "reads": self._timed(blocks)}

    def _timed(self, reads: Sequence[bytes]) -> list[Read]:
        times = [NOW]
        for _ in reads:
            times.append(times[-1] + self._chance.choice((0.0, 0.01, 0.02, 0.6)))
        return list(zip(reads, times, strict=False))

    def _blocks(
        self, *, odd: bool, texts: list[str] | None = None, counts: Any = None
    ) -> list[bytes]:
        chance = self._chance
        self._streams += 1
        given, texts = texts is not None, texts or []
        if not given:
            texts = [f" word{n}" for n in range(chance.randint(0 if odd else 3, 14))]
        for n in range(0 if given else len(texts)):
            if chance.random() < (0.3 if odd else self.odd_texts):
                texts[n] = chance.choice((*streams.TEXTS, "", " word", " word1x"))
        deltas: list[Any] = [self._opening, *({"content": text} for text in texts)]
        chunks = [self._chunk(delta) for delta in deltas]
        chunks.append(self._chunk({}, chance.choice(("stop", "length")) if odd else "stop"))
        chunks[-1].update(self._last)
        if self._usage:
            counts = counts or self._counts(odd=odd)
            chunks.append({**self._chunk({}), "choices": [], "usage": counts})
        if odd:
            self._change(chunks)
        return [*streams.framed(chunks, self._writer), streams.DONE]

    def _chunk(self, delta: Any, finish: str | None = None) -> dict[str, Any]:
        more = dict(self._more)
        if self._usage and self._interim:
            more["usage"] = None
        if self._padded:
            more["obfuscation"] = "z" * self._chance.randint(0, 9)
        made = streams.chunk(delta, 0, finish, **more)
        return {
            **made,
            "id": f"chatcmpl-{self._streams:03}",
            "created": 1_760_000_000 + self._streams,
        }

    def _counts(self, *, odd: bool) -> Any:
        chance = self._chance
        prompt, generated = chance.randint(5, 20), chance.randint(1, 20)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            **self._details,
        }
        if odd and chance.random() < 0.4:
            name = chance.choice([*usage])
            usage[name] = chance.choice((0, 1, 10**6, -1, 2.0, "3", None))
        return usage

    def _change(self, chunks: list[dict[str, Any]]) -> None:
        """Up to two chunks, or all of them, hold something else."""
        chance = self._chance
        for _ in range(chance.choice((0, 1, 1, 2))):
            changes: list[tuple[str, Any]] = [
                ("id", chance.choice(("chatcmpl-001", "é", "", "x" * 150, None))),
                ("created", chance.choice((0, 10**10, int(NOW) + 10**6, 1.5, "1760000000"))),
                ("model", "gpt-4o-mini-2024-07-18"),
                ("system_fingerprint", chance.choice(("fp_2", "fp_" + "x" * 200, None, 7))),
                ("service_tier", "flex"),
                ("vendor", 1),
                ("usage", {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
                ("choices", []),
                ("error", {"message": "m", "type": "server_error"}),
            ]
            name, value = chance.choice(changes)
            for chunk in chunks if chance.random() < 0.4 else [chance.choice(chunks)]:
                chunk[name] = value

    def _disturb(self, blocks: list[bytes]) -> None:
        """Blocks are missing, come twice, in another order, or are damaged."""
        chance = self._chance
        at = chance.randrange(len(blocks))
        block = blocks[at]
        byte = chance.randrange(len(block))
        odd = chance.choice(
            (b"", b"\\", b'"', b"\xff", b"\n", b" ", b"0", b"\\ud800", b"\xef\xbf\xbd")
        )
        blocks[at : at + 1] = chance.choice(
            (
                [],
                [block, block],
                [block, b": ping\n\n"],
                [block[:byte] + odd + block[byte + chance.randint(0, 1) :]],
                [*streams.framed([streams.chunk({"content": "x", "role": "assistant"})]), block],
                [*streams.framed([streams.chunk({"content": "x"}, 1)]), block],
                [block.replace(b"\n\n", b"\r\n\r\n")],
                [block[:-1]],
                [block, streams.DONE],
            )
        )


def inspected(
    history: History,
    reads: Sequence[Read],
    *,
    path: str = CHAT,
    request: bytes = dumps(ASKED),
    headers: Headers = FIELDS,
    asking: Headers = ASKING,
    ended: Ended = Ended.COMPLETE,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[list[tuple[int, str]], Exchange]:
    """The rules that were reported, by the number of the read that showed them, and the exchange."""
    inspector = Inspector(Exchange(id="x"), limits, history)
    outputs: list[tuple[int, Output]] = []
    inspector.request_head(RequestHead("POST", path, asking), NOW)
    inspector.request_body(request, NOW)
    inspector.request_end(NOW)
    inspector.response_head(ResponseHead(200, headers), NOW)
    at = NOW
    for n, (data, at) in enumerate(reads):
        outputs += [(n, output) for output in inspector.response_body(data, at)]
    outputs += [(-1, output) for output in inspector.end(ended, at)]
    answer_schema_checks(inspector, [output for _, output in outputs], NOW)
    found = [(n, o.violation.rule.id) for n, o in outputs if isinstance(o, Found)]
    return found, inspector.exchange


class Forgetful(Likenesses[Any]):
    """Learns nothing."""

    @property
    def useful(self) -> bool:
        return False


def forgetful() -> History:
    history = History()
    history.streams = {True: Forgetful(), False: Forgetful()}
    return history


class Taken:
    """Streams that were like an earlier one to their end, those that ceased to be, and full checks."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.whole = self.left = self.full = 0
        finish, leave, check = LikeStream.finish, LikeStream._leave, EventStream.finish

        def finished(stream: LikeStream, ended: Ended) -> None:
            finish(stream, ended)
            self.whole += stream.full is None

        def left(stream: LikeStream) -> EventStream:
            self.left += 1
            return leave(stream)

        def checked(stream: EventStream, ended: Ended) -> None:
            self.full += 1
            check(stream, ended)

        patch.setattr(LikeStream, "finish", finished)
        patch.setattr(LikeStream, "_leave", left)
        patch.setattr(EventStream, "finish", checked)


def test_it_says_what_the_full_check_says(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    for seed in range(400):
        talk, quick, full = Talk(seed), History(), forgetful()
        for n in range(12):
            exchange = talk.exchange()
            found, seen = inspected(quick, **exchange)
            expected, wanted = inspected(full, **exchange)
            assert (found, findings(seen)) == (expected, findings(wanted)), (seed, n)
            assert seen == wanted, (seed, n)
    assert taken.whole > 800
    assert taken.left > 200


def paced(talk: Talk) -> list[Read]:
    talk.odd_texts = 0.0
    return [(block, NOW + n / 100) for n, block in enumerate(talk._blocks(odd=False))]


def test_streams_of_one_form_need_one_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    talk, history = Talk(USUAL), History()
    for _ in range(50):
        _, exchange = inspected(history, paced(talk), request=dumps(talk.asked))
        assert exchange.verdict is Verdict.PASS
    assert (taken.full, taken.whole) == (1, 49)


def test_streams_that_are_all_different_are_not_learnt_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learnt = 0
    learn = Likenesses.learn

    def counted(*args: Any) -> None:
        nonlocal learnt
        learnt += 1
        learn(*args)

    monkeypatch.setattr(Likenesses, "learn", counted)
    history = History()
    for n in range(60):
        talk = Talk(USUAL)
        talk._streams, talk._more = n, {"vendor": n}
        inspected(history, paced(talk), request=dumps(talk.asked))
    assert 0 < learnt < 10


def test_what_was_found_in_a_stream_is_not_what_others_are_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = Taken(monkeypatch)
    history = History()
    for n in range(3):
        talk = Talk(USUAL)
        talk._streams = n
        blocks = [block.replace(b"1760000", b"9") for block, _ in paced(talk)]
        reads = [(block, NOW) for block in blocks]
        _, exchange = inspected(history, reads, request=dumps(talk.asked))
        assert exchange.verdict is not Verdict.PASS
    assert taken.whole == 0


def held(history: History, number: int, texts: int) -> int:
    """Bytes that one more open stream holds from its head on, so many texts later."""
    talk = Talk(USUAL)
    talk._streams, talk.odd_texts = number, 0.0
    chunks = [
        talk._chunk(talk._opening),
        *(talk._chunk({"content": f" w{n}"}) for n in range(texts)),
    ]
    inspector = Inspector(Exchange(id="x"), history=history)
    inspector.request_head(RequestHead("POST", CHAT, ASKING), NOW)
    inspector.request_body(dumps(talk.asked), NOW)
    inspector.request_end(NOW)
    blocks = streams.framed(chunks, talk._writer)
    tracemalloc.start()
    try:
        inspector.response_head(ResponseHead(200, FIELDS), NOW)
        for block in blocks:
            inspector.response_body(block, NOW)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_an_open_stream_holds_little_and_no_more_for_each_text() -> None:
    history = History()
    for talk in [Talk(USUAL)] * 2:
        inspected(history, paced(talk), request=dumps(talk.asked))
    held(history, 50, 100)  # what the first one makes is not its own
    few = held(history, 51, 100)
    assert few < held(forgetful(), 53, 100) / 1.5
    assert held(history, 52, 2000) < few + 512
