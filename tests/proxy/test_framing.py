"""Where bodies end: the same however the bytes are cut, and never in doubt."""

from __future__ import annotations

import sys

import pytest

from teeline.proxy import framing
from teeline.proxy.framing import MAX_TRAILERS, Body, ChunkedBody, LengthBody

WHOLE = b'3\r\nabc\r\n00A;x="y";z\r\n0123456789\r\n0;last\r\nX-Sum: 1\r\nEmpty:\r\n\r\n'
CONTENT = b"abc0123456789"


def taken(body: Body, *pieces: bytes) -> tuple[bytes, bytes]:
    """What belongs to the body, and the content in it."""
    framed = content = b""
    for piece in pieces:
        content += body.take(piece)
        count = body.taken
        framed += piece[:count]
        if body.done or body.broken:
            break
    return framed, content


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_chunks_are_the_same_however_they_are_cut_in_two(cut: int) -> None:
    body = ChunkedBody()
    pieces = [piece for piece in (WHOLE[:cut], WHOLE[cut:] + b"GET /") if piece]
    assert taken(body, *pieces) == (WHOLE, CONTENT)
    assert body.done


@pytest.mark.parametrize("answer", [False, True])
def test_chunks_are_the_same_byte_by_byte(answer: bool) -> None:
    body = ChunkedBody(answer=answer)
    assert taken(body, *(bytes((byte,)) for byte in WHOLE)) == (WHOLE, CONTENT)
    assert body.done


BROKEN = [
    # what breaks, and how much of it still makes sense
    (b"5\nhello\r\n", b""),
    (b"5 \r\nhello\r\n", b""),
    (b" 5\r\nhello\r\n", b""),
    (b"+5\r\nhello\r\n", b""),
    (b"0x5\r\nhello\r\n", b""),
    (b"5;a\nhello\r\n", b""),
    (b"5;a\rb\r\nhello\r\n", b""),
    (b"5;\x00\r\nhello\r\n", b""),
    (b"\r\nhello\r\n", b""),
    (b"zz\r\n", b""),
    (b"1234567890abcdef\r\n", b""),
    (b"5\r\nhelloXX", b"5\r\nhello"),
    (b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello"),
    (b"5\r\nhello\r\r\n", b"5\r\nhello\r"),
    (b"5\r\nhello!\r\n", b"5\r\nhello"),
    (b"0\r\nX y: 1\r\n\r\n", b"0\r\n"),
    (b"0\r\nX: a\nY: b\r\n\r\n", b"0\r\n"),
    (b"0\r\n folded\r\n\r\n", b"0\r\n"),
    (b"0\r\n\n", b"0\r\n"),
    (b"0\r\n: 1\r\n", b"0\r\n"),
    (b"-0\r\n\r\n", b""),
]


@pytest.mark.parametrize(("data", "sense"), BROKEN, ids=lambda value: repr(value))
def test_what_two_readers_could_take_for_two_things_is_broken(data: bytes, sense: bytes) -> None:
    body = ChunkedBody()
    assert taken(body, data)[0] == sense
    assert body.broken
    assert not body.done


@pytest.mark.parametrize(("data", "sense"), BROKEN, ids=lambda value: repr(value))
def test_a_break_shows_however_it_is_cut(data: bytes, sense: bytes) -> None:
    """A begun line may be taken before its fault shows; no more than that."""
    body = ChunkedBody()
    framed, _ = taken(body, *(bytes((byte,)) for byte in data))
    assert body.broken
    assert framed.startswith(sense)
    assert b"\n" not in framed[len(sense) :]


def test_blanks_behind_a_size_pass_in_answers_only() -> None:
    """Servers exist that pad sizes, and every client reads them the same."""
    body = ChunkedBody(answer=True)
    assert taken(body, b"5  \r\nhello\r\n0   \r\n\r\n")[1] == b"hello"
    assert body.done


@pytest.mark.parametrize(
    "data",
    [b"5;" + b"x" * 5000 + b"\r\nhello\r\n", b"0\r\nX: " + b"x" * MAX_TRAILERS + b"\r\n\r\n"],
    ids=["extensions", "trailers"],
)
@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_lines_between_chunks_are_bounded(data: bytes, size: int) -> None:
    body = ChunkedBody()
    taken(body, *(data[at : at + size] for at in range(0, len(data), size)))
    assert body.broken


def test_many_short_trailers_are_bounded_too() -> None:
    body = ChunkedBody()
    taken(body, b"0\r\n" + b"X: 1\r\n" * MAX_TRAILERS)
    assert body.broken


def test_a_length_ends_within_a_piece() -> None:
    body = LengthBody(5)
    assert taken(body, b"hel", b"lo, world") == (b"hello", b"hello")
    assert body.done
    assert LengthBody(0).done


def test_a_body_without_framing_takes_everything() -> None:
    body = Body()
    assert taken(body, b"a", b"b") == (b"ab", b"ab")
    assert not body.done


STREAM = [b"%x\r\n%b\r\n" % (size, b"d" * size) for size in (1, 15, 16, 246, 246, 4096, 5_000)]


@pytest.mark.parametrize("cut", [*range(1, 40), 300, 540, 4640, 4700])
def test_a_stream_of_chunks_is_read_in_any_pieces(cut: int) -> None:
    """Sizes that were seen before take another way, which must come to the same."""
    whole = b"".join(STREAM) + b"0\r\n\r\n"
    for _ in range(2):
        body = ChunkedBody(answer=True)
        pieces = [whole[at : at + cut] for at in range(0, len(whole), cut)]
        assert taken(body, *pieces) == (whole, b"d" * (1 + 15 + 16 + 246 * 2 + 4096 + 5_000))
        assert body.done
        body = ChunkedBody(answer=True)
        assert taken(body, whole[:cut], whole[cut:] + b"HTTP/1.1")[0] == whole


@pytest.mark.parametrize("line", [b"a ", b"a;x", b"0a", b"A"])
def test_a_size_that_an_answer_may_have_is_judged_anew_in_a_request(line: bytes) -> None:
    chunk = line + b"\r\n0123456789\r\n"
    assert taken(ChunkedBody(answer=True), chunk)[1] == b"0123456789"
    request = ChunkedBody()
    taken(request, chunk)
    assert request.broken is (line == b"a ")


def test_what_is_kept_of_sizes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "_sizes", {})
    monkeypatch.setattr(framing, "_MAX_SIZES", 3)
    for size in range(1, 10):
        taken(ChunkedBody(), b"%x\r\n%b\r\n" % (size, b"d" * size))
    assert list(framing._sizes) == [b"1\r\n", b"2\r\n", b"3\r\n"]


@pytest.mark.parametrize("body", [Body(), LengthBody(10_000), ChunkedBody()])
@pytest.mark.parametrize("piece", [b"400\r\n" + b"x" * 1024 + b"\r\n", b"400\r\n" + b"x" * 500])
def test_nothing_of_a_piece_is_kept(body: Body, piece: bytes) -> None:
    """A stream may be silent for hours behind a piece of 64 KiB."""
    piece = bytes(bytearray(piece))  # of which nobody else knows
    before = sys.getrefcount(piece)
    content = body.take(piece)
    if content is piece:
        del content
    else:
        assert sys.getrefcount(content) == 2  # this name, and the count's own
    assert sys.getrefcount(piece) == before
