"""Content codings (RFC 9110 section 8.4) undone on a copy, piece by piece, within bounds.

What belongs here: encoded bytes in, decoded bytes out as soon as they can be had, and the one fault
that ended it. What doesn't: transfer codings (undone before an inspector sees a body), what the
decoded bytes mean, which rule a fault breaks.

The same bytes give the same output and the same fault however they are cut. Decoders lose what a call
made when that call meets a fault, so that a stage keeps its encoded bytes for a while: on a fault it
starts over and takes the slice in doubt byte by byte (``_Stage._again``).
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import brotli  # type: ignore[import-untyped]  # it has no stubs
import zstandard

from teeline.validators.heads import names_of
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Headers

MAX_CODINGS: Final = 4
"""Codings of one body, one upon the other; more are a fault (LIMIT)."""
FREE: Final = 1024 * 1024
"""Decoded bytes that no ratio is asked of."""

_SLICE: Final = 256
"""Encoded bytes that a decoder takes at once, counted from the start of the body."""
_PART: Final = 4 * _SLICE
_STEP: Final = 64 * 1024
"""Decoded bytes that a decoder gives at once, where it can be told."""
_HISTORY: Final = 64 * 1024
"""Encoded bytes that a stage keeps to start over with, until it gave ``FREE`` decoded ones."""
_WINDOW: Final = 8 * 1024 * 1024
"""RFC 9659 section 3: the window of content coding zstd is at most 8 MiB."""


class ContentFault(enum.StrEnum):
    """Why decoding ended before the body did, or could not end with it."""

    UNKNOWN_CODING = "unknown_coding"
    """A coding that is none of gzip, deflate, br, zstd."""
    CORRUPT = "corrupt"
    """Not what the coding allows, or a checksum that is wrong."""
    TRUNCATED = "truncated"
    """The body ended before its coding did."""
    LIMIT = "limit"
    """More decoded bytes than ``Limits.decoded`` or ``Limits.ratio`` allow, or too many codings."""
    TRAILING = "trailing"
    """Bytes behind the end of the coding; everything before was decoded."""


def codings_of(headers: Headers) -> tuple[str, ...]:
    """The codings of a body in the order in which they were applied, in lower case.

    All Content-Encoding fields together; ``identity`` left out, ``x-gzip`` as ``gzip`` (RFC 9110
    section 8.4.1.3).
    """
    values = names_of(headers).values(headers, "content-encoding")
    if not values:
        return ()
    words = (word.strip(" \t").lower() for value in values for word in value.split(","))
    return tuple(_ALIASES.get(word, word) for word in words if word not in ("", "identity"))


_ALIASES: Final[Mapping[str, str]] = {"x-gzip": "gzip"}


class ContentDecoder:
    """Undoes the codings of one body. Never raises for what it is fed.

    ``codings`` are as ``codings_of`` gives them. ``encoded`` and ``decoded`` count bytes in and out.
    ``fault`` is None until something is wrong, and ``coding`` then names the coding at fault; decoding
    stops there, with all before it given out. With codings at work no more than ``Limits.decoded`` comes
    out, and once that is more than ``FREE`` no more than ``Limits.ratio`` times ``encoded``, at any of
    the stages. Without codings bytes pass as they are, uncopied and without a limit: nothing grows.
    """

    def __init__(self, codings: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> None:
        self.fault: ContentFault | None = None
        self.coding = ""
        self.encoded = 0
        self.decoded = 0
        self._limits = limits
        self._allowed = 0
        self._stages: list[_Stage] = []
        for coding in reversed(codings):
            if coding not in _CODINGS:
                self._stop(ContentFault.UNKNOWN_CODING, coding)
            elif len(self._stages) == MAX_CODINGS:
                self._stop(ContentFault.LIMIT, coding)
            else:
                self._stages.append(_Stage(coding, _CODINGS[coding]))

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes that ``data`` completes; ``b""`` after a fault."""
        if self.fault is not None:
            self.encoded += len(data)
            return b""
        if not self._stages:
            self.encoded += len(data)
            self.decoded += len(data)
            return data
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and self.fault is None:
            # Slices end at fixed offsets of the body and the ratio goes by their starts: a limit is
            # then hit at the same byte however the body was cut.
            size = _SLICE - self.encoded % _SLICE
            self._take(data[at : at + size], pieces)
            at += size
        self.encoded += max(len(data) - at, 0)
        decoded = b"".join(pieces)
        self.decoded += len(decoded)
        return decoded

    def finish(self) -> bytes:
        """The body has ended: what is left (nothing, of these codings), and the fault if it is short.

        A body without any bytes is whole: HEAD, 204 and 304 have the field as well.
        """
        for stage in self._stages:
            if self.fault is None and not stage.whole:
                self._stop(ContentFault.TRUNCATED, stage.coding)
        return b""

    def _stop(self, fault: ContentFault, coding: str) -> None:
        if self.fault is None:
            self.fault, self.coding = fault, coding

    def _take(self, data: bytes, pieces: list[bytes]) -> None:
        start = self.encoded - self.encoded % _SLICE
        self._allowed = min(self._limits.decoded, max(FREE, self._limits.ratio * (start + 1)))
        self.encoded += len(data)
        try:
            for piece in self._through(0, data):
                pieces.append(piece)
        except _Stopped as stopped:
            self._stop(stopped.fault, stopped.coding)

    def _through(self, number: int, data: bytes) -> Iterator[bytes]:
        """What comes out behind the stages from ``number`` on."""
        if number == len(self._stages):
            yield data
            return
        stage = self._stages[number]
        for piece in stage.feed(data):
            room = self._allowed - stage.given
            if len(piece) > room:
                yield from self._through(number + 1, piece[:room])
                raise _Stopped(ContentFault.LIMIT, stage.coding)
            stage.given += len(piece)
            yield from self._through(number + 1, piece)


class Decoded(NamedTuple):
    """A body with its codings undone; ``more``: there is more than was asked for, and it is unfinished."""

    body: bytes
    fault: ContentFault | None = None
    more: bool = False


def decoded_within(
    pieces: Sequence[bytes], codings: Sequence[str], limits: Limits, most: int
) -> Decoded:
    """A body, decoded no further than a little beyond ``most`` bytes."""
    if not codings:
        more = sum(map(len, pieces)) > most
        return Decoded(b"" if more else b"".join(pieces), more=more)
    decoder = ContentDecoder(codings, limits)
    decoded: list[bytes] = []
    for piece in pieces:
        for part in parts(piece):
            decoded.append(decoder.feed(part))
            if decoder.decoded > most:
                return Decoded(b"", more=True)
    decoded.append(decoder.finish())
    return Decoded(b"".join(decoded), decoder.fault)


def parts(data: bytes) -> Iterator[bytes]:
    """Parts of which each gives little more than ``FREE`` bytes, whoever packed them."""
    for at in range(0, len(data), _PART):
        yield data[at : at + _PART]


class _Stopped(Exception):
    """Decoding ends here; caught by ``ContentDecoder``."""

    def __init__(self, fault: ContentFault, coding: str) -> None:
        super().__init__(fault, coding)
        self.fault = fault
        self.coding = coding


# --- one coding --------------------------------------------------------------------------------------

_CORRUPT: Final = (zlib.error, brotli.error, zstandard.ZstdError)
"""What the decoders raise where the bytes are not what the coding allows."""


class _Unit(Protocol):
    """One stream of a coding: a gzip member, a zstd frame, a whole body of the others."""

    @property
    def ended(self) -> bool:
        """The end of the stream was decoded."""

    @property
    def rest(self) -> bytes:
        """What was fed behind the end."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decoded bytes; one of ``_CORRUPT`` where they end."""


class _Coding(NamedTuple):
    """How the streams of a coding are opened, and what may stand behind one.

    ``follows`` says whether at most ``magic`` bytes can begin another stream; ``padding`` are the byte
    values that may stand before it or at the end.
    """

    open: Callable[[], _Unit]
    follows: Callable[[bytes], bool]
    magic: int = 1
    padding: bytes = b""


class _Stage:
    """Undoes one coding. ``given`` is the number of bytes that its user took; the user counts it."""

    def __init__(self, coding: str, kind: _Coding) -> None:
        self.coding = coding
        self.given = 0
        self._kind = kind
        self._unit: _Unit | None = kind.open()
        self._held = b""
        self._history: bytearray | None = bytearray()
        self._fed = False

    @property
    def whole(self) -> bool:
        """Nothing is missing at this point: what was fed ends with a stream, or nothing was fed."""
        return not self._fed or (self._unit is None and not self._held)

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _SLICE):
            yield from self._checked(data[at : at + _SLICE])

    def _checked(self, data: bytes) -> Iterator[bytes]:
        self._fed = True
        try:
            yield from self._decoded(data)
        except _CORRUPT:
            yield from self._again(data)
        if self._history is not None:
            self._history += data
            if len(self._history) > _HISTORY or self.given > FREE:
                self._history = None

    def _decoded(self, data: bytes) -> Iterator[bytes]:
        while data:
            unit = self._unit
            if unit is None:
                data = self._followed(data)
                continue
            yield from unit.feed(data)
            if not unit.ended:
                return
            data = unit.rest
            self._unit = None

    def _followed(self, data: bytes) -> bytes:
        """Open the stream that ``data`` begins, if it does; what is to be fed to it."""
        data = (self._held + data).lstrip(self._kind.padding)
        self._held = b""
        if not data:
            return b""
        if not self._kind.follows(data[: self._kind.magic]):
            raise _Stopped(ContentFault.TRAILING, self.coding)
        if len(data) < self._kind.magic:
            self._held = data
            return b""
        self._unit = self._kind.open()
        return data

    def _again(self, data: bytes) -> Iterator[bytes]:
        """Decode from the start, ``data`` byte by byte, and give what the failed call lost.

        Without a history that is lost, and bytes behind the end of a br stream pass for corrupt.
        """
        if self._history is None:
            raise _Stopped(ContentFault.CORRUPT, self.coding)
        known = self.given
        self._unit, self._held = self._kind.open(), b""
        try:
            for part in (bytes(self._history), *(data[at : at + 1] for at in range(len(data)))):
                for piece in self._decoded(part):
                    new = piece[known:]
                    known = max(known - len(piece), 0)
                    if new:
                        yield new
        except _CORRUPT:
            raise _Stopped(ContentFault.CORRUPT, self.coding) from None


class _Inflate:
    """gzip, zlib or raw deflate, by ``wbits``."""

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)

    @property
    def ended(self) -> bool:
        return self._stream.eof

    @property
    def rest(self) -> bytes:
        return self._stream.unused_data

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece = self._stream.decompress(data, _STEP)
            if piece:
                yield piece
            data = self._stream.unconsumed_tail
            if self._stream.eof or (not data and len(piece) < _STEP):
                return


class _Deflate:
    """deflate: zlib as RFC 9110 section 8.4.1.2 has it, or raw, as its note says some send."""

    def __init__(self) -> None:
        self._head = b""
        self._inflate: _Inflate | None = None

    @property
    def ended(self) -> bool:
        return self._inflate is not None and self._inflate.ended

    @property
    def rest(self) -> bytes:
        return self._inflate.rest if self._inflate else b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return
            # RFC 1950 section 2.2: method 8 in the low bits, and a check that makes 31 divide the two.
            is_zlib = data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._inflate = _Inflate(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        yield from self._inflate.feed(data)


class _Brotli:
    """br. Its decoder refuses a call with bytes behind the end, so that there is never a rest."""

    rest = b""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def ended(self) -> bool:
        return bool(self._stream.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece: bytes = self._stream.process(data, output_buffer_limit=_STEP)
            if piece:
                yield piece
            # At the bound there may be more to come, though the stream would accept bytes as well.
            if self.ended or len(piece) < _STEP:
                return
            data = b""


class _Zstd:
    """One zstd frame. Its decoder has no bound on output: it is in the bytes fed at once.

    A block gives at most 128 KiB (RFC 8878 section 3.1.1.2) and takes four bytes at least.
    """

    _AT_ONCE = 64

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self.rest = b""

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), self._AT_ONCE):
            piece = self._stream.decompress(data[at : at + self._AT_ONCE])
            if piece:
                yield piece
            if self._stream.eof:
                self.rest = self._stream.unused_data + data[at + self._AT_ONCE :]
                return


def _nothing_follows(_: bytes) -> bool:
    return False


def _gzip_follows(head: bytes) -> bool:
    return b"\x1f\x8b".startswith(head)


def _zstd_follows(head: bytes) -> bool:
    """The magic number of a frame, or one of the sixteen of skippable frames."""
    skippable = head[0] & 0xF0 == 0x50 and b"\x2a\x4d\x18".startswith(head[1:])
    return skippable or b"\x28\xb5\x2f\xfd".startswith(head)


_CODINGS: Final[Mapping[str, _Coding]] = {
    "gzip": _Coding(lambda: _Inflate(zlib.MAX_WBITS + 16), _gzip_follows, 2, b"\x00"),
    "deflate": _Coding(_Deflate, _nothing_follows),
    "br": _Coding(_Brotli, _nothing_follows),
    "zstd": _Coding(_Zstd, _zstd_follows, 4),
}
