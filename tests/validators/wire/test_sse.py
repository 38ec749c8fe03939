"""The reader follows the grammar of WHATWG HTML 9.2.6, and says where in the body everything stood."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from teeline.validators.limits import Limits
from teeline.validators.wire.sse import Event, Note, NoteKind, SseReader, Tail
from tests.validators.exchanges import byte_by_byte, whole

PROPERTY = settings(max_examples=300, derandomize=True, deadline=None, database=None)
BOM = "\ufeff"
Dispatched = list[tuple[str, bytes]]


def read(
    body: bytes, cut: Callable[[bytes], list[bytes]] = whole, limits: Limits | None = None
) -> tuple[list[Event], Tail | None]:
    reader = SseReader(limits or Limits())
    events = [event for piece in cut(body) for event in reader.feed(piece)]
    return events, reader.close()


def dispatched(events: list[Event]) -> Dispatched:
    """What a client gets to see: events with data."""
    return [(e.name, b"\n".join(e.data)) for e in events if e.data is not None]


def whatwg(body: bytes) -> Dispatched:
    """The algorithm of WHATWG HTML 9.2.6 as it is written there, on a whole stream."""
    lines = re.split(rb"\r\n|\n|\r", body.removeprefix(BOM.encode()))[:-1]
    seen: Dispatched = []
    data, name = b"", b""
    for line in lines:
        if line == b"":
            if data != b"":
                seen.append((name.decode(), data.removesuffix(b"\n")))
            data, name = b"", b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value
            elif field == b"data":
                data += value + b"\n"
    return seen


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data: a\r\n\r\n", [("", b"a")]),
        (b"data: a\r\r", [("", b"a")]),
        (b"data: a\n\r\ndata: b\r\n\ndata: c\r\n\r", [("", b"a"), ("", b"b"), ("", b"c")]),
        (b"data: a\r\n\ndata: b\n\r", [("", b"a"), ("", b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("", b"a")]),
        (b": comment\ndata: a\n:\n\n", [("", b"a")]),
        (b"data\n\n", [("", b"")]),
        (b"data:\n\n", [("", b"")]),
        (b"data: \n\n", [("", b"")]),
        (b"data\ndata\n\n", [("", b"\n")]),
        (b"data:a\n\n", [("", b"a")]),
        (b"data:  a\n\n", [("", b" a")]),
        (b"data: a:b: c\n\n", [("", b"a:b: c")]),
        (b"data: a\ndata: b\n\n", [("", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("", b"b")]),
        (b"event: x\nevent: y\ndata: a\n\n", [("y", b"a")]),
        (b"event: x\n\ndata: a\n\n", [("", b"a")]),
        (b"event\ndata: a\n\n", [("", b"a")]),
        (b"id: 1\ndata: a\nretry: 5\n\n", [("", b"a")]),
        (b"id: 1\n\nretry: 5\n\n", []),
        (b" data: a\n\n", []),
        (b"DATA: a\n\n", []),
        (b"datax: a\n\n", []),
        (b"foo\nfoo: bar\ndata: a\n\n", [("", b"a")]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_the_grammar_decides_what_is_an_event(body: bytes, expected: Dispatched) -> None:
    assert dispatched(read(body)[0]) == expected == whatwg(body)


LINES = st.sampled_from(
    [
        "",
        "",
        "",
        "",
        "data: a",
        "data:b",
        "data:  c",
        "data",
        "data:",
        "data: ",
        "data: é𝄞\u2028\x85",
        'data: {"a": 1}',
        "data: [DONE]",
        "event: x",
        "event:y",
        "event",
        "event:",
        "id: 1",
        "id: a\x00b",
        "id",
        "retry: 10",
        "retry: no",
        ": c",
        ":",
        "foo: bar",
        "foo",
        " data: x",
        "DATA: x",
        '{"a": 1}',
        "[DONE]",
        f"{BOM}data: x",
        "data: :",
        "\tdata: x",
    ]
)
ENDINGS = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Lines with any line ends, the body broken off anywhere."""
    lines = draw(st.lists(st.tuples(LINES, ENDINGS), max_size=16))
    text = draw(st.sampled_from(["", "", "", BOM])) + "".join(a + b for a, b in lines)
    body = text.encode()
    return body[: len(body) - draw(st.integers(0, min(6, len(body))))]


@st.composite
def split(draw: st.DrawFn) -> list[bytes]:
    """A stream in pieces."""
    body = draw(streams())
    cuts = sorted(draw(st.sets(st.integers(0, len(body)), max_size=8)))
    bounds = [0, *cuts, len(body)]
    return [body[a:b] for a, b in itertools.pairwise(bounds)]


@PROPERTY
@given(split())
def test_any_stream_in_any_pieces_is_read_as_the_standard_reads_it(pieces: list[bytes]) -> None:
    assert dispatched(read(b"", lambda _: pieces)[0]) == whatwg(b"".join(pieces))


@PROPERTY
@given(split())
def test_pieces_change_neither_events_nor_notes_nor_tail(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    assert read(b"", lambda _: pieces) == read(body) == read(body, byte_by_byte)


@PROPERTY
@given(streams())
def test_the_official_decoder_sees_the_same_events_with_data(body: bytes) -> None:
    """The SDK strips no BOM, and dispatches blocks without data, which is another test's."""
    body = body.decode(errors="ignore").removeprefix(BOM).encode()
    official = [(s.event or "", s.data.encode()) for s in SSEDecoder().iter_bytes(iter([body]))]
    ours = dispatched(read(body)[0])
    assert [pair for pair in official if pair[1]] == [pair for pair in ours if pair[1]]


@pytest.mark.parametrize(
    "body",
    [
        b"event: ping\n\n",
        b"retry: 10\n\n",
        b"id: 1\n\n",
        b"id: 1\ndata: {}\n\n: comment\n\n",
        b"id: 1\ndata: {}\n\n\n",
        b"id: 1\ndata: {}\n\n: a\ndata: {}\n\nfoo\n\n",
    ],
)
def test_each_block_that_the_official_decoder_dispatches_without_data_comes_out(
    body: bytes,
) -> None:
    """The SDK dispatches a block of event, retry or (once an id was seen) nothing at all."""
    official = [s for s in SSEDecoder().iter_bytes(iter([body])) if not s.data]
    empty = [e for e in read(body)[0] if e.data is None and (e.fields or e.after_id)]
    assert len(empty) == len(official) > 0


def test_an_id_with_a_nul_is_no_id() -> None:
    assert not read(b"id: a\0b\n\n: comment\n\n")[0][1].after_id
    assert read(b"id: ab\n\n: comment\n\n")[0][1].after_id


TRICKY = (
    BOM + "data: é𝄞\r\n\r\nid: 1\rdata:x\n: c\n\n\r\n DATA: y\r\rdata: [DONE]\n\n\r\ndata: {"
).encode()


def test_every_split_of_a_tricky_stream_gives_the_same() -> None:
    expected = read(TRICKY)
    for first in range(len(TRICKY) + 1):
        for second in range(first, len(TRICKY) + 1):
            pieces = [TRICKY[:first], TRICKY[first:second], TRICKY[second:]]
            assert read(b"", lambda _, pieces=pieces: pieces) == expected  # type: ignore[misc]


STARTS: dict[NoteKind, tuple[bytes, ...]] = {
    NoteKind.COMMENT: (b":",),
    NoteKind.LINE_ENDING: (b"\r",),
    NoteKind.NO_SPACE: (b"data:",),
    NoteKind.ID_OR_RETRY: (b"id", b"retry"),
}


@PROPERTY
@given(streams())
def test_offsets_point_at_the_first_data_line_and_at_the_odd_lines(body: bytes) -> None:
    events, tail = read(body)
    for event in events:
        if event.data is not None:
            assert body[event.byte :].removeprefix(BOM.encode()).startswith(b"data")
    notes = [note for event in events for note in event.notes] + list(tail.notes if tail else ())
    for note in notes:
        line = body[note.byte :].removeprefix(BOM.encode() if note.byte == 0 else b"")
        assert line.startswith(STARTS.get(note.kind, (b"",)))
        assert note.kind is not NoteKind.BOM or note.byte == 0


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (b"data: a\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [NoteKind.BOM]),
        (b": c\ndata: a\n\n", [NoteKind.COMMENT]),
        (b"data: a\r\ndata: b\r\n\r\n", [NoteKind.LINE_ENDING]),
        (b"data:a\n\n", [NoteKind.NO_SPACE]),
        (b"data:\n\n", []),
        (b"id: 1\ndata: a\n\n", [NoteKind.ID_OR_RETRY]),
        (b" data: a\n\n", [NoteKind.MALFORMED_NAME]),
        (b"DATA: a\n\n", [NoteKind.MALFORMED_NAME]),
        (b"data : a\n\n", [NoteKind.MALFORMED_NAME]),
        (b"foo: a\n\n", [NoteKind.UNKNOWN_FIELD]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [NoteKind.BOM, NoteKind.UNKNOWN_FIELD]),
        (b'{"a": 1}\n\n', [NoteKind.UNPREFIXED]),
        (b'  "a": 1,\n\n', [NoteKind.UNPREFIXED]),
        (b'error: {"code": 1}\n\n', [NoteKind.UNPREFIXED]),
        (b"}\n\n", [NoteKind.UNPREFIXED]),
    ],
)
def test_what_is_odd_about_a_line_is_noted(body: bytes, kinds: list[NoteKind]) -> None:
    assert [note.kind for note in read(body)[0][0].notes] == kinds


def test_the_first_foreign_line_end_alone_is_noted() -> None:
    notes = [n for e in read(b"data: a\r\n\r\ndata: b\r\n\r\n" * 3)[0] for n in e.notes]
    assert notes == [Note(NoteKind.LINE_ENDING, 7)]


@pytest.mark.parametrize("end", range(len(b"data: abc\n\n") + 1))
def test_the_end_of_the_body_at_any_place_leaves_what_was_unfinished(end: int) -> None:
    body = b"data: abc\n\n"[:end]
    events, tail = read(body)
    if end in (0, 11):
        assert tail is None and len(events) == (end == 11)
        return
    assert events == [] and tail is not None
    assert tail.in_line == (end < 10)
    data = body.removesuffix(b"\n").partition(b":")[2].removeprefix(b" ")
    assert tail.data == ([data] if end >= len(b"data") else None)


@pytest.mark.parametrize(
    ("body", "tail"),
    [
        (b"data: a\n\nda", Tail(9, None, True, (Note(NoteKind.UNKNOWN_FIELD, 9),))),
        (b"data: a\n\ndata: b\ndata: c", Tail(9, [b"b", b"c"], True, (), "", 15)),
        (b"data: a\r", Tail(0, [b"a"], False, (Note(NoteKind.LINE_ENDING, 7),), "", 6)),
        (b"data: a\n\n: c", Tail(9, None, True, (Note(NoteKind.COMMENT, 9),))),
        (b"data: a\n\n: c\n", Tail(13, None, False, (Note(NoteKind.COMMENT, 9),))),
        (b"data: a\n\nevent: x\n", None),
    ],
)
def test_what_stood_behind_the_last_blank_line_is_the_tail(body: bytes, tail: Tail | None) -> None:
    assert read(body)[1] == tail


SMALL = Limits(line=20, event=30)


@pytest.mark.parametrize("cut", [whole, byte_by_byte])
@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (b"data: " + b"x" * 14 + b"\n\n", ""),
        (b"data: " + b"x" * 15 + b"\n\n", "line-limit"),
        (b"data: " + b"x" * 15, "line-limit"),
        (b": " + b"x" * 19 + b"\n\n", "line-limit"),
        (b"data: " + b"x" * 14 + b"\r\n\r\n", ""),
        (b"data: xxxxxxxxx\n" * 3 + b"\n", ""),
        (b"data: xxxxxxxxx\n" * 3 + b"data\n\n", "event-limit"),
        (b"data\n" * 30 + b"\n", ""),
        (b"data\n" * 31 + b"\n", "event-limit"),
    ],
)
def test_a_limit_is_hit_at_the_same_byte_however_the_body_is_cut(
    body: bytes, limit: str, cut: Callable[[bytes], list[bytes]]
) -> None:
    reader = SseReader(SMALL)
    events = [event for piece in cut(body) for event in reader.feed(piece)]
    assert reader.limit == limit
    assert len(events) == (limit == "")


def test_nothing_is_read_behind_a_limit() -> None:
    reader = SseReader(SMALL)
    assert reader.feed(b"data: a\n\n" + b"x" * 21) and reader.limit == "line-limit"
    assert reader.feed(b"\n\ndata: b\n\n") == [] and reader.close() is None


def test_the_notes_of_one_block_are_bounded() -> None:
    assert len(read(b":\n" * 100_000 + b"\n")[0][0].notes) == 64


def cpu_of_one_byte_pieces(size: int) -> float:
    """CPU seconds for one line of ``size`` bytes that comes byte by byte; the best of three."""

    def once() -> float:
        reader, start = SseReader(), time.process_time()
        for _ in range(size):
            reader.feed(b"x")
        assert reader.feed(b"\n\n") and not reader.limit
        return time.process_time() - start

    return min(once() for _ in range(3))


def test_a_long_line_in_one_byte_pieces_takes_linear_time() -> None:
    """Sixteen times the bytes: sixteen times the time and some noise, not 256 times."""
    assert cpu_of_one_byte_pieces(320_000) < 80 * max(cpu_of_one_byte_pieces(20_000), 1e-3)


def test_blocks_that_the_caller_reads_itself_count_for_offsets() -> None:
    reader = SseReader()
    assert reader.between
    reader.at += 100
    [event] = reader.feed(b"data: x\n\n")
    assert (event.byte, reader.offset, reader.between) == (100, 109, True)


@pytest.mark.parametrize("start", [b"data: x", b"data: x\n", b": x\n", b"data: x\r\r", b"\xef"])
def test_inside_a_block_the_next_byte_starts_none(start: bytes) -> None:
    """Nor where a line feed may still belong to the line end before it."""
    reader = SseReader()
    reader.feed(start)
    assert not reader.between


def test_beyond_a_limit_no_block_starts() -> None:
    reader = SseReader(Limits(line=4))
    reader.feed(b"data: xxxxxx\n\n")
    assert reader.limit == "line-limit" and not reader.between


BLOCK_LINES = st.sampled_from(
    [
        *(b"data: x", b"data:  x", b"data: ", b"data:x", b"data", b"data: " + b"y" * 30),
        *(b"event: e", b"event:e", b"event: ", b"event: " + b"n" * 300, b"event: \xff"),
        *(b"id: 1", b": c", b"x", b"data: a\rb", b"data: \xef\xbb\xbf"),
    ]
)
BEFORE = st.sampled_from([b"", b"data: before\n\n", b"id: 7\n\n", b": x\n\n", b"data: x\r\n\r\n"])


@PROPERTY
@given(
    before=BEFORE,
    lines=st.lists(BLOCK_LINES, min_size=1, max_size=3),
    behind=st.sampled_from([b"\n\n", b"\n", b"\n\n\n", b""]),
    limits=st.sampled_from([Limits(), Limits(line=20), Limits(event=20), Limits(line=305)]),
)
def test_a_usual_block_is_the_event_that_it_is_when_it_is_fed(
    before: bytes, lines: list[bytes], behind: bytes, limits: Limits
) -> None:
    """And leaves the reader in the same state, as what comes behind it shows."""
    block = b"\n".join(lines) + behind
    quick, fed = SseReader(limits), SseReader(limits)
    quick.feed(before)
    fed.feed(before)
    if not quick.between:
        return
    event = quick.usual(block)
    if event is not None:
        assert fed.feed(block) == [event]
    rest = b"data: z\n\nid: 2\n\n\n"
    assert quick.feed(rest) == fed.feed(rest)
    assert (quick.offset, quick.between, quick.limit) == (fed.offset, fed.between, fed.limit)


def test_the_blocks_of_official_streams_are_usual() -> None:
    for block in (b"data: {}\n\n", b"data: [DONE]\n\n", b"event: response.created\ndata: {}\n\n"):
        assert SseReader().usual(block) is not None
