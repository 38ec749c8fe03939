"""The fast path and the full check say the same of every stream, however it is cut."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators import fast
from teeline.validators.checks import chatstream, respdeltas, respstream
from teeline.validators.checks.chatstream import ChatStream
from teeline.validators.checks.respstream import ResponsesStream
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.fields import table
from teeline.validators.inspector import Inspector
from teeline.validators.model import Exchange, Verdict
from tests.validators import streams
from tests.validators.exchanges import (
    NOW,
    Cut,
    cases,
    examples,
    findings,
    inspect,
    partition,
    whole,
)
from tests.validators.mutations import Mutator

EXCHANGES = [*cases().values(), *(document for _, document in examples())]


def event_by_event(body: bytes) -> list[bytes]:
    """A read an event, as paced streams come."""
    return [block + b"\n\n" for block in body.split(b"\n\n")[:-1]] + [body.rpartition(b"\n\n")[2]]


def seen(document: dict[str, Any], cut: Cut) -> tuple[Any, ...]:
    """All that an inspector says of an exchange, its facts included."""
    exchange = inspect(document, cut)
    facts = {
        name: getattr(exchange, name)
        for name in Exchange.__slots__
        if name not in ("violations", "timing")
    }
    return findings(exchange), facts


class Full:
    """Streams without a fast path: no template is learnt, and no event compared with the one before."""

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(fast, "CREDIT", 0)
        for checks in (chatstream, respdeltas):
            self._patch.setattr(checks, "comparable", lambda *_: None)

    def __exit__(self, *exc: object) -> None:
        self._patch.undo()


class Decoded:
    """Streams whose events are all decoded: what is left is the comparison with the one before."""

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(fast, "CREDIT", 0)

    def __exit__(self, *exc: object) -> None:
        self._patch.undo()


def assert_same(document: dict[str, Any], *cuts: Cut) -> None:
    for cut in cuts:
        with Full():
            expected = seen(document, cut)
        assert seen(document, cut) == expected, json.dumps(document)
        with Decoded():
            assert seen(document, cut) == expected, json.dumps(document)


def test_cases_and_examples() -> None:
    for n, document in enumerate(EXCHANGES):
        assert_same(document, event_by_event, whole, partition(n))


def test_streams_in_disorder() -> None:
    for seed in range(400):
        document = streams.Disordered(seed).exchange()
        assert_same(document, event_by_event, whole, partition(seed))


def test_variants_of_streams() -> None:
    mutator = Mutator(seed=20270131)
    for seed in range(600):
        document = mutator.variant(streams.Disordered(seed).exchange())
        assert_same(document, event_by_event, partition(seed))


TEXT = st.one_of(st.sampled_from(streams.TEXTS), st.text(max_size=12))
WRITER = st.sampled_from(streams.WRITERS)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=30), dumps=WRITER, seed=st.integers(0, 99))
def test_chat_of_any_text(texts: list[str], dumps: streams.Dumps, seed: int) -> None:
    blocks = [*streams.framed(streams.chat(texts), dumps), streams.DONE]
    document = streams.exchange(blocks, "/v1/chat/completions")
    assert_same(document, event_by_event, whole, partition(seed))


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=30),
    dumps=WRITER,
    seed=st.integers(0, 99),
    broken=st.one_of(st.none(), st.integers(0, 40)),
)
def test_responses_of_any_text(
    texts: list[str], dumps: streams.Dumps, seed: int, broken: int | None
) -> None:
    """Also where an event is missing, so that numbers and texts no longer agree."""
    events = streams.responses(texts)
    if broken is not None:
        del events[broken % len(events)]
    document = streams.exchange(streams.framed(events, dumps), "/v1/responses", input="Hi")
    assert_same(document, event_by_event, whole, partition(seed))


def test_bytes_that_are_no_text() -> None:
    """Invalid UTF-8, lone surrogates, control characters and cut escapes in the text of any chunk."""
    good = streams.framed(streams.chat(["MARK"] * 12))
    for odd in (
        b"\xff",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\x01",
        b"\\x",
        b"\\",
        b'"',
        b'","content":"',
        b"\t",
    ):
        for at in range(1, 12):
            blocks = [*good[:at], good[at].replace(b"MARK", odd), *good[at + 1 :], streams.DONE]
            document = streams.exchange(blocks, "/v1/chat/completions")
            assert_same(document, event_by_event, whole)


# -- what it saves --------------------------------------------------------------------------------------


class Counts:
    """Full checks of events and walks of the explaining walker, counted by name."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.checks = 0
        self.walks = 0
        for protocol in (ChatStream, ResponsesStream):
            patch.setattr(protocol, "event", self._checked(protocol.event))
        patch.setattr(table, "explain", self._walked(table.explain))

    def _checked(self, full: Callable[..., None]) -> Callable[..., None]:
        def counted(*args: Any) -> None:
            self.checks += 1
            full(*args)

        return counted

    def _walked(self, full: Callable[..., None]) -> Callable[..., None]:
        def counted(*args: Any) -> None:
            self.walks += 1
            full(*args)

        return counted


def clean_streams() -> Iterator[tuple[str, list[bytes], str, int]]:
    texts = [f" word{n}" for n in range(1000)]
    chat = [*streams.framed(streams.chat(texts)), streams.DONE]
    yield "chat", chat, "/v1/chat/completions", 5
    odd = [*streams.framed(streams.chat(["é\n"] * 1000), streams.SPACED), streams.DONE]
    yield "chat with escapes", odd, "/v1/chat/completions", 5
    yield "responses", streams.framed(streams.responses(texts)), "/v1/responses", 12


@pytest.mark.parametrize("cut", [event_by_event, whole, partition(7)])
@pytest.mark.parametrize(("blocks", "path", "most"), [stream[1:] for stream in clean_streams()])
def test_a_long_clean_stream_needs_a_handful_of_full_checks(
    blocks: list[bytes], path: str, most: int, cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that ends inside an event costs that event a full check, and no more than that one."""
    messages = [{"role": "user", "content": "Hi"}]
    asked = {"input": "Hi"} if path.endswith("responses") else {"messages": messages}
    document = streams.exchange(blocks, path, **asked)
    counts = Counts(monkeypatch)
    exchange = inspect(document, cut)
    torn = 24 if cut not in (event_by_event, whole) else 0
    assert exchange.events >= 1000
    assert exchange.verdict is Verdict.PASS
    assert counts.checks <= most + torn
    assert counts.walks == 0


def test_where_events_are_decoded_each_is_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that equals the one before, its text aside, is not gone through member by member."""
    walked = 0

    def walk(*args: Any) -> bool:
        nonlocal walked
        walked += 1
        return table.walk(*args)

    for checks in (chatstream, respstream):
        monkeypatch.setattr(checks, "walk", walk)
    chunks = [streams.chunk({"content": f" word{n}"}) for n in range(500)]
    blocks = [*streams.framed([streams.chunk({"role": "assistant"}), *chunks]), streams.DONE]
    events = streams.framed(streams.responses([f" word{n}" for n in range(500)]))
    with Decoded():
        inspect(streams.exchange(blocks, "/v1/chat/completions"), event_by_event)
        inspect(streams.exchange(events, "/v1/responses", input="Hi"), event_by_event)
    assert 0 < walked < 40


@pytest.mark.parametrize("number", ["1.0", "true", "1e0", '"1"', "null", "2"])
def test_a_number_that_is_equal_in_python_alone_is_another_one(number: str) -> None:
    good = streams.framed([streams.chunk({"content": "word"}, 1) for _ in range(8)])
    for at in range(2, 8):
        odd = good[at].replace(b'"index":1', b'"index":' + number.encode())
        document = streams.exchange([*good[:at], odd, *good[at + 1 :]], "/v1/chat/completions")
        assert_same(document, event_by_event, whole)
    events = streams.framed(streams.responses(["word"] * 8))
    for at in range(5, 12):
        odd = events[at].replace(b'"output_index":0', b'"output_index":' + number.encode())
        document = streams.exchange(
            [*events[:at], odd, *events[at + 1 :]], "/v1/responses", input="Hi"
        )
        assert_same(document, event_by_event, whole)


def held(blocks: list[bytes], path: str) -> int:
    """Bytes that an inspector holds once it has read all these blocks."""
    inspector = Inspector(Exchange(id="x"))
    inspector.request_head(RequestHead("POST", path, ()), NOW)
    inspector.response_head(ResponseHead(200, ()), NOW)
    tracemalloc.start()
    try:
        for block in blocks:
            inspector.response_body(block, NOW)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("blocks", "path"), [stream[1:3] for stream in clean_streams()])
def test_what_is_held_does_not_grow_with_the_events(blocks: list[bytes], path: str) -> None:
    held(blocks[:100], path)  # tables are compiled by the first to need them
    assert held(blocks[:900], path) <= held(blocks[:100], path) + 2048


def test_interleaved_choices_are_taken_both(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = [streams.chunk({"role": "assistant", "content": ""}, n) for n in (0, 1)]
    texts = [streams.chunk({"content": f" {n}"}, n % 2) for n in range(200)]
    ended = [streams.chunk({}, n, finish="stop") for n in (0, 1)]
    blocks = [*streams.framed([*opened, *texts, *ended]), streams.DONE]
    counts = Counts(monkeypatch)
    inspect(streams.exchange(blocks, "/v1/chat/completions", n=2), event_by_event)
    assert counts.checks <= 8


def test_a_member_that_changes_with_each_event_is_given_up() -> None:
    """Templates that never fit are not learnt for ever."""
    stream = fast.FastPath(1 << 20)
    events = [streams.chunk({"content": "x"}, vendor=n) for n in range(100)]
    made = 0
    choice = _Anything()
    for event, block in zip(events, streams.framed(events), strict=True):
        before = len(stream.armed)
        if stream.useful:
            stream.arm(block, block[6:-2], event, choice)
            made += len(stream.armed) >= before
    assert made <= fast.CREDIT
    assert not stream.useful


class _Anything:
    holes = (fast.Hole(("choices", 0, "delta", "content"), fast.HoleKind.TEXT),)

    deaf = False

    def expected(self) -> bytes:
        return b""

    def skip(self, index: int, byte: int) -> None:
        """Nothing to keep."""

    def add_all(self, texts: list[bytes]) -> None:
        """Nothing to keep."""

    def add(self, text: bytes | str, index: int, byte: int) -> None:
        """Nothing to keep."""


# -- learning -------------------------------------------------------------------------------------------


def template_of(value: dict[str, Any], data: bytes, head: bytes = b"data: ") -> bool:
    """Whether a template is learnt from this event."""
    return fast.learnt(head + data + b"\n\n", data, value, _Anything()) is not None


def test_a_hole_is_found_where_its_name_and_its_text_stand_elsewhere_too() -> None:
    """The right place is the one whose text, when it is changed, changes the member and nothing else."""
    value = streams.chunk({"content": "Hi"}, content="Hi", note='"content":"Hi"')
    value = {"content": "Hi", **value}
    data = streams.COMPACT(value).encode()
    template = fast.learnt(b"data: " + data + b"\n\n", data, value, _Anything())
    assert template is None  # the first member of that name is another one: not told apart
    data = streams.COMPACT(streams.chunk({"content": "Hi"}, note='"content":"Hi"')).encode()
    assert template_of(json.loads(data), data)


def test_nothing_is_learnt_from_what_could_be_mistaken() -> None:
    for text in ("hole-0", "7007007"):
        data = streams.COMPACT(streams.chunk({"content": text})).encode()
        assert not template_of(json.loads(data), data)


def test_nothing_is_learnt_from_framing_that_has_more_to_it() -> None:
    value = streams.chunk({"content": "Hi"})
    data = streams.COMPACT(value).encode()
    assert template_of(value, data, b"event: x\ndata: ")
    for block in (b"data: " + data + b"\r\n\r\n", b"data: " + data + b"\nid: 1\n\n"):
        assert fast.learnt(block, data, value, _Anything()) is None


def test_no_template_leads_past_a_limit() -> None:
    value = streams.chunk({"content": "Hi"})
    data = streams.COMPACT(value).encode()
    stream = fast.FastPath(fast.MAX_HOLE)
    stream.arm(b"data: " + data + b"\n\n", data, value, _Anything())
    assert not stream.armed
