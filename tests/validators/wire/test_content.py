"""What undoing content codings promises: the bytes, at once, the same however cut, and never too many."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.limits import Limits
from teeline.validators.wire.content import (
    FREE,
    MAX_CODINGS,
    ContentDecoder,
    ContentFault,
    codings_of,
)

MIB = 1024 * 1024
promised = settings(deadline=None)


def gzip(data: bytes) -> bytes:
    return zlib.compress(data, wbits=31)


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


class Encoder(NamedTuple):
    """A coding's name in the header, and what encodes it."""

    coding: str
    encode: Callable[[bytes], bytes]


ENCODERS = [
    pytest.param(Encoder("gzip", gzip), id="gzip"),
    pytest.param(Encoder("deflate", zlib.compress), id="deflate"),
    pytest.param(Encoder("deflate", raw_deflate), id="raw-deflate"),
    pytest.param(Encoder("br", brotli.compress), id="br"),
    pytest.param(Encoder("zstd", zstd), id="zstd"),
]
every_coding = pytest.mark.parametrize("encoder", ENCODERS)
BODY = b'{"id":"chatcmpl-1","choices":[' + b",".join(b'{"index":%d}' % n for n in range(40)) + b"]}"


class Decoded(NamedTuple):
    body: bytes
    fault: ContentFault | None
    coding: str
    encoded: int
    decoded: int


def decode(
    codings: Iterable[str], data: bytes, cuts: Iterable[int] = (), limits: Limits | None = None
) -> Decoded:
    """All that a decoder says of ``data``, fed in the pieces between ``cuts``."""
    decoder = ContentDecoder(tuple(codings), limits or Limits())
    body = b""
    start = 0
    for end in (*cuts, len(data)):
        body += decoder.feed(data[start:end])
        start = end
    body += decoder.finish()
    assert decoder.decoded == len(body)
    return Decoded(body, decoder.fault, decoder.coding, decoder.encoded, decoder.decoded)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


class TestWholeBodies:
    @every_coding
    @pytest.mark.parametrize("body", [b"", b"x", BODY, noise(3000).hex().encode(), b"ab" * 100_000])
    def test_a_body_is_decoded(self, encoder: Encoder, body: bytes) -> None:
        data = encoder.encode(body)
        assert decode([encoder.coding], data) == Decoded(body, None, "", len(data), len(body))

    @every_coding
    def test_a_body_cut_at_any_place_or_into_bytes_is_the_same(self, encoder: Encoder) -> None:
        data = encoder.encode(BODY)
        whole = decode([encoder.coding], data)
        for cut in range(len(data) + 1):
            assert decode([encoder.coding], data, [cut]) == whole
        assert decode([encoder.coding], data, range(1, len(data))) == whole

    @pytest.mark.parametrize("outer", ENCODERS)
    @pytest.mark.parametrize("inner", ENCODERS)
    def test_codings_are_undone_from_the_last_to_the_first(
        self, inner: Encoder, outer: Encoder
    ) -> None:
        data = outer.encode(inner.encode(BODY))
        codings = (inner.coding, outer.coding)
        whole = Decoded(BODY, None, "", len(data), len(BODY))
        assert decode(codings, data) == whole
        assert decode(codings, data, range(1, len(data))) == whole

    def test_gzip_members_follow_one_another_with_zeros_between_and_behind(self) -> None:
        data = gzip(b"one,") + gzip(b"") + b"\0\0\0" + gzip(b"two") + b"\0" * 20
        for cuts in ((), range(1, len(data))):
            assert decode(["gzip"], data, cuts)[:2] == (b"one,two", None)

    def test_zstd_frames_follow_one_another_skippable_ones_too(self) -> None:
        skippable = b"\x5f\x2a\x4d\x18\x03\0\0\0abc"
        data = skippable + zstd(b"one,") + skippable + zstd(b"") + zstd(b"two") + skippable
        for cuts in ((), range(1, len(data))):
            assert decode(["zstd"], data, cuts)[:2] == (b"one,two", None)

    @every_coding
    def test_a_body_without_bytes_is_whole(self, encoder: Encoder) -> None:
        assert decode([encoder.coding], b"") == Decoded(b"", None, "", 0, 0)

    def test_without_codings_bytes_pass_uncopied_and_unlimited(self) -> None:
        decoder = ContentDecoder((), Limits(decoded=10))
        data = bytes(100)
        assert decoder.feed(data) is data
        assert (decoder.encoded, decoder.decoded, decoder.fault) == (100, 100, None)


class TestStreams:
    EVENTS = tuple(b'data: {"n":%d}\n\n' % n for n in range(20))

    def flushed(self, coding: str) -> list[bytes]:
        """The events, each flushed by its encoder, and the end of the stream."""
        if coding == "br":
            br = brotli.Compressor()
            return [br.process(event) + br.flush() for event in self.EVENTS] + [br.finish()]
        if coding == "zstd":
            frame = zstandard.ZstdCompressor().compressobj()
            block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
            return [frame.compress(e) + frame.flush(block) for e in self.EVENTS] + [frame.flush()]
        stream = zlib.compressobj(wbits={"gzip": 31, "deflate": 15, "raw": -15}[coding])
        flush = zlib.Z_SYNC_FLUSH
        return [stream.compress(e) + stream.flush(flush) for e in self.EVENTS] + [stream.flush()]

    @pytest.mark.parametrize("coding", ["gzip", "deflate", "raw", "br", "zstd"])
    def test_each_event_comes_out_with_its_own_bytes(self, coding: str) -> None:
        decoder = ContentDecoder(("deflate" if coding == "raw" else coding,))
        *events, end = self.flushed(coding)
        assert tuple(decoder.feed(data) for data in events) == self.EVENTS
        assert decoder.feed(end) + decoder.finish() == b""
        assert decoder.fault is None


class TestFaults:
    @every_coding
    def test_a_body_that_ends_early_anywhere_is_truncated(self, encoder: Encoder) -> None:
        data = encoder.encode(BODY)
        for end in range(1, len(data)):
            decoded = decode([encoder.coding], data[:end])
            assert decoded[1:3] == (ContentFault.TRUNCATED, encoder.coding)
            assert BODY.startswith(decoded.body)
            assert decode([encoder.coding], data[:end], range(1, end)) == decoded

    def test_a_further_member_or_frame_that_ends_early_is_truncated(self) -> None:
        for coding, encode, magic in (("gzip", gzip, 2), ("zstd", zstd, 4)):
            again = encode(b"two")
            for end in range(1, len(again)):
                decoded = decode([coding], encode(b"one") + again[:end])
                assert decoded.fault is ContentFault.TRUNCATED
                assert decoded.body.startswith(b"one")
                assert end > magic or decoded.body == b"one"

    @pytest.mark.parametrize(
        "data", [b'{"id":"chatcmpl-1"}', b"data: [DONE]\n\n", b"<html>", b"\0" * 9]
    )
    @pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
    def test_a_body_that_was_never_encoded_is_at_fault_and_gives_nothing_of_itself(
        self, coding: str, data: bytes
    ) -> None:
        decoded = decode([coding], data)
        assert decoded.fault in (
            ContentFault.CORRUPT,
            ContentFault.TRUNCATED,
            ContentFault.TRAILING,
        )
        assert decoded.coding == coding
        assert data not in decoded.body

    @pytest.mark.parametrize("declared", ENCODERS)
    @every_coding
    def test_a_body_in_another_coding_than_declared_is_at_fault(
        self, encoder: Encoder, declared: Encoder
    ) -> None:
        decoded = decode([declared.coding], encoder.encode(BODY))
        assert (decoded.fault is None) == (declared.coding == encoder.coding)
        assert decoded.body == (BODY if declared.coding == encoder.coding else b"")

    @pytest.mark.parametrize(
        ("coding", "encode", "checksum"),
        [
            ("gzip", gzip, -5),
            ("gzip", gzip, -1),
            ("deflate", zlib.compress, -1),
            ("zstd", zstd, -1),
        ],
    )
    def test_a_wrong_checksum_is_corrupt_and_the_body_before_it_is_out(
        self, coding: str, encode: Callable[[bytes], bytes], checksum: int
    ) -> None:
        data = bytearray(encode(BODY))
        data[checksum] ^= 1
        for cuts in ((), range(1, len(data))):
            decoded = decode([coding], bytes(data), cuts)
            assert decoded[1:3] == (ContentFault.CORRUPT, coding)
            assert BODY.startswith(decoded.body)
            # A zstd decoder holds its last block back until the checksum is right.
            assert coding == "zstd" or decoded.body == BODY

    @pytest.mark.parametrize(
        ("encode", "coding"), [(gzip, "gzip"), (brotli.compress, "br"), (zstd, "zstd")]
    )
    def test_a_corrupt_end_of_a_long_body_costs_at_most_what_came_with_it(
        self, encode: Callable[[bytes], bytes], coding: str
    ) -> None:
        body = noise(300_000)
        data = encode(body)[:-600] + b"\xff" * 600
        for cuts in ((), range(100, len(data), 100)):
            decoded = decode([coding], data, cuts)
            assert decoded.fault is ContentFault.CORRUPT
            # A block of zstd is at most 128 KiB, and none is out before it is whole.
            assert body[: 300_000 - 131_072 - 600] == decoded.body[: 300_000 - 131_072 - 600]

    @every_coding
    def test_bytes_behind_the_end_are_trailing_and_the_body_is_out(self, encoder: Encoder) -> None:
        data = encoder.encode(BODY) + b"junk"
        for cuts in ((), range(1, len(data)), (len(data) - 4,)):
            decoded = decode([encoder.coding], data, cuts)
            assert decoded[:3] == (BODY, ContentFault.TRAILING, encoder.coding)

    @every_coding
    @promised
    @given(data=st.data())
    def test_a_corrupt_body_gives_the_same_however_it_is_cut(
        self, encoder: Encoder, data: st.DataObject
    ) -> None:
        body = data.draw(st.binary(max_size=60)) * data.draw(st.integers(1, 40))
        encoded = bytearray(encoder.encode(body))
        encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
        encoded += data.draw(st.binary(max_size=4))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=6)))
        bytewise = decode([encoder.coding], bytes(encoded), range(1, len(encoded)))
        assert decode([encoder.coding], bytes(encoded), cuts) == bytewise
        assert decode([encoder.coding], bytes(encoded)) == bytewise

    @promised
    @given(
        st.lists(st.sampled_from(["gzip", "deflate", "br", "zstd", "x", ""]), max_size=5),
        st.lists(st.binary(max_size=300), max_size=4),
    )
    def test_nothing_that_is_fed_raises(self, codings: list[str], pieces: list[bytes]) -> None:
        decoder = ContentDecoder(codings)
        decoded = [decoder.feed(piece) for piece in pieces] + [decoder.finish()]
        assert decoder.encoded == sum(map(len, pieces))
        assert decoder.decoded == sum(map(len, decoded))
        assert (decoder.coding in codings) == (decoder.fault is not None or "" in codings)

    @pytest.mark.parametrize("codings", [("compress",), ("gzip", "aws-chunked"), ("foo", "gzip")])
    def test_an_unknown_coding_anywhere_stops_decoding_before_it_begins(
        self, codings: tuple[str, ...]
    ) -> None:
        unknown = next(coding for coding in codings if coding != "gzip")
        data = gzip(BODY)
        assert decode(codings, data) == Decoded(
            b"", ContentFault.UNKNOWN_CODING, unknown, len(data), 0
        )

    def test_a_fault_ends_decoding_and_stays(self) -> None:
        decoder = ContentDecoder(("gzip",))
        assert decoder.feed(gzip(b"one") + b"junk") == b"one"
        assert decoder.feed(gzip(b"two")) + decoder.finish() == b""
        assert decoder.fault is ContentFault.TRAILING
        assert decoder.encoded == len(gzip(b"one") + b"junk" + gzip(b"two"))

    def test_the_fault_of_an_inner_coding_names_that_coding(self) -> None:
        assert decode(("br", "gzip"), gzip(b"not brotli at all"))[1:3] == (
            ContentFault.CORRUPT,
            "br",
        )
        assert decode(("br", "gzip"), gzip(brotli.compress(BODY)[:-2]))[1:3] == (
            ContentFault.TRUNCATED,
            "br",
        )
        assert decode(("br", "gzip"), gzip(brotli.compress(BODY))[:-2])[1:3] == (
            ContentFault.TRUNCATED,
            "gzip",
        )

    def test_a_zstd_window_beyond_eight_mebibytes_is_refused(self) -> None:
        parameters = zstandard.ZstdCompressionParameters(window_log=24)
        frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        data = frame.compress(noise(1000)) + frame.flush()
        assert decode(["zstd"], data).fault is ContentFault.CORRUPT


class TestBounds:
    ZEROS = bytes(10 * MIB)

    @every_coding
    def test_a_bomb_ends_at_the_ratio(self, encoder: Encoder) -> None:
        data = encoder.encode(self.ZEROS)
        limits = Limits(ratio=100)
        decoded = decode([encoder.coding], data, limits=limits)
        assert decoded[1:3] == (ContentFault.LIMIT, encoder.coding)
        assert FREE <= decoded.decoded <= max(FREE, limits.ratio * len(data))
        assert decode([encoder.coding], data, range(1, len(data)), limits) == decoded

    @every_coding
    def test_the_ratio_is_never_passed_at_any_moment(self, encoder: Encoder) -> None:
        data = encoder.encode(noise(20_000) + self.ZEROS)
        limits = Limits(ratio=60)
        decoder = ContentDecoder((encoder.coding,), limits)
        for at in range(0, len(data), 97):
            decoder.feed(data[at : at + 97])
            assert decoder.decoded <= max(FREE, limits.ratio * decoder.encoded)
        assert decoder.fault is ContentFault.LIMIT
        assert decoder.decoded > FREE

    @every_coding
    def test_a_body_within_the_ratio_is_decoded(self, encoder: Encoder) -> None:
        data = encoder.encode(self.ZEROS)
        limits = Limits(ratio=2 * len(self.ZEROS))
        assert decode([encoder.coding], data, limits=limits)[:2] == (self.ZEROS, None)

    @every_coding
    def test_no_ratio_is_asked_of_the_first_mebibyte(self, encoder: Encoder) -> None:
        data = encoder.encode(bytes(FREE))
        assert decode([encoder.coding], data, limits=Limits(ratio=1))[1] is None
        data = encoder.encode(bytes(FREE + 1))
        decoded = decode([encoder.coding], data, limits=Limits(ratio=1))
        assert decoded[1:] == (ContentFault.LIMIT, encoder.coding, len(data), FREE)

    @every_coding
    @pytest.mark.parametrize("over", [0, 1])
    def test_a_body_is_decoded_up_to_the_limit_and_no_further(
        self, encoder: Encoder, over: int
    ) -> None:
        body = noise(5000) + bytes(over)
        data = encoder.encode(body)
        for cuts in ((), range(1, len(data))):
            decoded = decode([encoder.coding], data, cuts, Limits(decoded=5000))
            assert decoded.body == body[:5000]
            assert decoded.fault is (ContentFault.LIMIT if over else None)

    def test_the_limit_is_hit_at_the_same_byte_however_the_body_is_cut(self) -> None:
        for encode, coding in ((gzip, "gzip"), (brotli.compress, "br"), (zstd, "zstd")):
            data = encode(noise(3000) + self.ZEROS + noise(3000))
            limits = Limits(ratio=300)
            whole = decode([coding], data, limits=limits)
            assert whole.fault is ContentFault.LIMIT
            for step in (1, 7, 255, 256, 257, 4096):
                assert decode([coding], data, range(step, len(data), step), limits) == whole

    @pytest.mark.parametrize("outer", ENCODERS)
    def test_a_nested_bomb_ends_at_the_stage_that_grows(self, outer: Encoder) -> None:
        data = outer.encode(gzip(gzip(self.ZEROS) * 100))
        codings = ("gzip", "gzip", outer.coding)
        decoded = decode(codings, data)
        assert decoded.fault is ContentFault.LIMIT
        assert decoded.decoded <= max(FREE, 1000 * len(data))
        assert decode(codings, data, range(1, len(data))) == decoded

    def test_a_stage_that_grows_is_stopped_though_nothing_comes_out(self) -> None:
        members = gzip(b"") * (2 * FREE // len(gzip(b"")))
        decoded = decode(("gzip", "gzip"), gzip(members), limits=Limits(ratio=10))
        assert decoded[1:3] == (ContentFault.LIMIT, "gzip")
        assert decoded.body == b""

    def test_more_codings_than_anyone_uses_are_refused(self) -> None:
        data = BODY
        for _ in range(MAX_CODINGS):
            data = gzip(data)
        assert decode(["gzip"] * MAX_CODINGS, data)[:2] == (BODY, None)
        assert decode(["gzip"] * (MAX_CODINGS + 1), gzip(data))[:2] == (b"", ContentFault.LIMIT)


class TestCodingsOf:
    @pytest.mark.parametrize(
        ("values", "codings"),
        [
            ((), ()),
            (("gzip",), ("gzip",)),
            (("identity",), ()),
            (("",), ()),
            (("GZip , br",), ("gzip", "br")),
            (("x-gzip",), ("gzip",)),
            (("gzip, identity", "\tzstd ,,"), ("gzip", "zstd")),
            (("foo",), ("foo",)),
        ],
    )
    def test_all_fields_and_values_count_in_their_order(
        self, values: tuple[str, ...], codings: tuple[str, ...]
    ) -> None:
        names = ("Content-Encoding", "content-encoding", "CONTENT-ENCODING")
        fields = tuple(zip(names, values, strict=False))
        headers = (("Accept-Encoding", "br"), *fields, ("Content-Type", "text/plain"))
        assert codings_of(headers) == codings
