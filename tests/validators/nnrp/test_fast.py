"""The fast path and the full check say the same of every connection, however it is cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.events import Output
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp import connection, fast
from teeline.validators.nnrp.capabilities import capabilities_of
from teeline.validators.nnrp.examples import Conversation, Sent, conversation, is_document
from teeline.validators.nnrp.inspector import End, NnrpInspector
from teeline.validators.nnrp.operation import Operation
from teeline.validators.rules import register
from tests.validators.exchanges import NOW, Cut, byte_by_byte, partition, whole
from tests.validators.nnrp.connections import exchanges
from tests.validators.nnrp.packets import Disordered, chunked, opened, partial, stream, text
from tests.validators.streams import COMPACT, TEXTS, WRITERS, Dumps, chunk

RULES = [r for r in register().values() if r.family == "nnrp" and not is_document(r.bad)]


def reads(sent: Sequence[Sent], cut: Cut) -> list[tuple[Side, bytes, float]]:
    """What follows each other on one side at one time is one piece, to be cut anew."""
    pieces = []
    for (side, at), group in groupby(sent, lambda s: (s.side, s.at)):
        joined = b"".join(s.data for s in group)
        pieces += [(side, piece, NOW + at) for piece in cut(joined)]
    return pieces


def fed(wanted: Conversation, cut: Cut | None) -> tuple[NnrpInspector, list[Output], float]:
    """An inspector that has read a connection, what came to light, and the time of the last read.

    ``cut`` None: a read a packet.
    """
    capabilities = wanted.capabilities and capabilities_of(wanted.capabilities)
    inspector = NnrpInspector(Exchange, wanted.limits, capabilities or None)
    told: list[Output] = []
    alone = [(s.side, s.data, NOW + s.at) for s in wanted.sent]
    at = NOW
    for side, piece, at in alone if cut is None else reads(wanted.sent, cut):
        told += inspector.feed(side, piece, at)
    return inspector, told, at


def seen(wanted: Conversation, cut: Cut | None) -> list[Any]:
    """All that an inspector says of a connection, facts, times and timelines included."""
    inspector, told, at = fed(wanted, cut)
    for side in Side:
        told += inspector.finish(side, at, End.LOST if wanted.close == "lost" else End.ORDERLY)
    told += inspector.close(at, Ended.COMPLETE)
    told += inspector.expire(at)
    kinds = [type(output).__name__ for output in told]
    return [sorted(kinds), *(asdict(exchange) for exchange in exchanges(told))]


def state(wanted: Conversation, cut: Cut | None) -> list[Any]:
    """What an inspector knows of the operations before the connection ends."""
    inspector, _, at = fed(wanted, cut)
    inspector.tick(at)
    operations = inspector._connection.operations.values()
    return [(_state(op), asdict(op.exchange)) for op in operations]


def _state(op: Operation) -> tuple[Any, ...]:
    """What later packets will be held against."""
    texts = {key: (text.fingerprint(), text.deltas) for key, text in op.texts.items()}
    place = (op.report.side, op.report.unit, op.report.index, op.report.byte, op.report.at)
    return (texts, place, op.sequence, op.latest_partial, op.terminal, op.final_partial)


class Full:
    """Connections without a fast path: none may learn a template."""

    def __enter__(self) -> None:
        self._credit = fast.CREDIT
        fast.CREDIT = 0  # type: ignore[misc]

    def __exit__(self, *exc: object) -> None:
        fast.CREDIT = self._credit  # type: ignore[misc]


def talk(
    sent: Sequence[Sent], limits: Limits = DEFAULT_LIMITS, close: str = "client"
) -> Conversation:
    return Conversation(tuple(sent), close, None, limits)


def assert_same(wanted: Conversation, *cuts: Cut | None) -> None:
    for cut in cuts:
        with Full():
            expected, known = seen(wanted, cut), state(wanted, cut)
        assert seen(wanted, cut) == expected
        assert state(wanted, cut) == known


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_examples(rule: Any) -> None:
    for example in (rule.bad, rule.good):
        assert_same(conversation(example), None, whole, partition(1))


def test_connections_in_disorder() -> None:
    for seed in range(150):
        sent = Disordered(seed).sent()
        close = ("client", "lost")[seed % 2]
        assert_same(talk(sent, close=close), None, whole, partition(seed))


def test_connections_in_disorder_with_small_limits() -> None:
    small = Limits(body=2_000, choices=1, operations=2)
    for seed in range(250, 290):
        assert_same(talk(Disordered(seed).sent(), small), None, whole)


def test_a_connection_in_disorder_byte_by_byte() -> None:
    for seed in range(4):
        assert_same(talk(Disordered(seed).sent()), byte_by_byte)


INDENTED: Dumps = lambda value: json.dumps(value, indent=1)  # noqa: E731
TEXT = st.one_of(st.sampled_from(TEXTS), st.text(max_size=12))


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=30),
    dumps=st.sampled_from([*WRITERS, INDENTED]),
    chunks=st.booleans(),
    seed=st.integers(0, 99),
)
def test_streams_of_any_text(texts: list[str], dumps: Dumps, chunks: bool, seed: int) -> None:
    sent = stream(texts, dumps, chunks=chunks)
    assert_same(talk(sent), None, whole, partition(seed))


ODD_BYTES = (
    b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\x01", b"\\x", b"\\", b'"', b'","delta":"', b"\t", b"\n",
    b'"}{"a":"', b'"},"x":{"y":"', b"\\u0022", b"\xc3", b"\xf4\x90\x80\x80", b"",
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD_BYTES)
def test_bytes_that_are_no_text(odd: bytes) -> None:
    """Invalid UTF-8, lone surrogates, control characters and cut escapes in the text of any event."""
    for make in (text, chunked):
        for at in (2, 5, 9):
            bodies = [COMPACT(make("MARK")).encode() for _ in range(10)]
            bodies[at] = bodies[at].replace(b"MARK", odd)
            packets = [partial(body, n) for n, body in enumerate(bodies, 1)]
            sent = [*opened(), *(Sent(Side.RESPONSE, p, 1.0) for p in packets)]
            assert_same(talk(sent), None, whole)


def test_a_chunk_that_says_another_text_than_its_event() -> None:
    events = [chunked("Hello") for _ in range(6)]
    events[4] = text("Hello", openai_chunk=chunk({"content": "HellO"}))
    packets = [partial(event, n) for n, event in enumerate(events, 1)]
    sent = [*opened(), *(Sent(Side.RESPONSE, p, 1.0) for p in packets)]
    assert_same(talk(sent), None, whole)
    found = [v["rule"]["id"] for v in seen(talk(sent), whole)[1]["violations"]]
    assert "nnrp.openai-chunk-contradicts" in found


def test_a_choice_in_two_forms_is_heard_in_its_order() -> None:
    events = [(chunked if n % 2 else text)(f" {n}") for n in range(20)]
    packets = [partial(event, n) for n, event in enumerate(events, 1)]
    sent = [*opened(), *(Sent(Side.RESPONSE, p, 1.0) for p in packets)]
    assert_same(talk(sent), None, whole)


def test_a_packet_beyond_what_is_kept_is_not_accepted() -> None:
    packets = [partial(text("x" * (300 if n == 7 else 3)), n) for n in range(1, 10)]
    sent = [*opened(), *(Sent(Side.RESPONSE, p, 1.0) for p in packets)]
    limits = Limits(body=400)
    assert len(packets[6]) > limits.body > len(sent[4].data)
    assert_same(talk(sent, limits), None, whole)
    assert seen(talk(sent, limits), whole)[1]["inspection"] == "partial (body-limit)"


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, Limits(operations=1)])
def test_an_operation_whose_place_is_taken_has_all_its_events(limits: Limits) -> None:
    """By a submit with its frame, or because there is room for one operation only."""
    texts = [Sent(Side.RESPONSE, partial(text(f" {n}"), n), 1.0) for n in range(1, 9)]
    submits = [s for s in opened(frames=2) if s.side is Side.REQUEST][-2:]
    for again in submits:
        sent = [*opened(), *texts, again._replace(at=2.0)]
        assert_same(talk(sent, limits, close="lost"), None, whole)
        assert seen(talk(sent, limits, close="lost"), whole)[1]["events"] == 8


# -- what it saves --------------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The packets that took the full check, by their numbers."""
    counted: list[int] = []
    check: Callable[..., Any] = vars(connection)["check_partial"]

    def counting(op: Any, packet: Any, meta: Any) -> Any:
        counted.append(packet.index)
        return check(op, packet, meta)

    monkeypatch.setattr(connection, "check_partial", counting)
    return counted


@pytest.mark.parametrize("cut", [None, whole, partition(3)])
@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize("words", [[" word"], ["é"], ["\n", '"'], ["日本"]])
def test_a_long_stream_needs_a_handful_of_full_checks(
    words: list[str], chunks: bool, cut: Cut | None, checks: list[int]
) -> None:
    """A read that ends inside a packet costs that packet a full check at most."""
    sent = stream([f"{words[n % len(words)]}{n}" for n in range(1000)], chunks=chunks)
    (seen_,) = seen(talk(sent), cut)[1:]
    assert seen_["events"] == 1000 and seen_["violations"] == []
    assert len(checks) <= 2 + (24 if cut not in (None, whole) else 0)


def test_operations_and_choices_that_take_turns_are_all_taken(checks: list[int]) -> None:
    packets = []
    for n in range(1, 300):
        packets.append(partial(text(f" {n}", n % 2), n, frame=1 + n % 3))
    sent = [*opened(frames=3), *(Sent(Side.RESPONSE, p, 1.0) for p in packets)]
    assert_same(talk(sent), None, whole)
    checks.clear()
    seen(talk(sent), whole)
    assert len(checks) <= 12


def test_messages_of_a_websocket_are_taken_as_well(checks: list[int]) -> None:
    example = {"on": "nnrp-stream", "carrier": "websocket"}
    more = [COMPACT({"s": "PARTIAL_RESULT", "json": text(f" {n}")}) for n in range(500)]
    sent = conversation({**example, "insert": {"4": more}}).sent
    assert_same(talk(sent), None, whole, partition(5))
    for cut in (None, whole):
        checks.clear()
        seen(talk(sent), cut)
        assert len(checks) <= 3


def test_a_member_that_changes_with_each_event_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates that never fit are not learnt for ever."""
    made: list[int] = []
    learn = fast._learnt

    def learning(*of: Any) -> Any:
        made.append(1)
        return learn(*of)

    monkeypatch.setattr(fast, "_learnt", learning)
    events = [text("x", openai_chunk=chunk({}, vendor=n)) for n in range(200)]
    packets = [partial(event, n) for n, event in enumerate(events, 1)]
    seen(talk([*opened(), *(Sent(Side.RESPONSE, p, 1.0) for p in packets)]), whole)
    assert len(made) == fast.CREDIT


def test_what_ended_is_not_kept() -> None:
    inspector = NnrpInspector(Exchange)
    for side, data, at in stream(["a", "b", "c"]):
        inspector.feed(side, data, NOW + at)
    assert len(inspector._fast._streams) == 1
    inspector.tick(NOW + 60)
    assert not inspector._fast._streams and not inspector._fast.armed
