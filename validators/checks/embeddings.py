"""Embeddings: the list, its vectors in either encoding, and both against the request.

What belongs here: an answer of ``POST /embeddings``. Vectors are large (2048 of 3072 numbers): they are
looked at as a whole, in passes that run in C, and never number by number. What doesn't: counters of usage
(usage.py).
"""

from __future__ import annotations

import binascii
from typing import Any

from teeline.validators.checks import cross
from teeline.validators.checks.chat import note_answer, note_error
from teeline.validators.checks.context import Context
from teeline.validators.checks.shapes import is_error
from teeline.validators.checks.usage import check_embeddings_usage
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.embeddings import EMBEDDING, EMBEDDINGS, ENCODINGS
from teeline.validators.fields.table import walk

_FLOAT32 = 4
_NUMBERS = {int, float}
# A float32 is no number where all 8 bits of its exponent are set: 7 in its last byte, 1 in the one before.
_HIGH = bytes(byte & 0x7F == 0x7F for byte in range(256))
_LOW = bytes(byte >> 7 for byte in range(256))


def check_embeddings(ctx: Context, value: Any) -> None:
    """Checks the document of a 2xx answer to an embeddings request."""
    if not isinstance(value, dict):
        ctx.report("embeddings.body-not-object", "", value)
        return
    if is_error(value) and not value.get("data"):
        note_error(ctx, value)
        ctx.report("embeddings.error-in-200", "", value, words=True)
        return
    walk(EMBEDDINGS, value, "", ctx.report)
    note_answer(ctx, value)
    cross.check_model(ctx, value.get("model"))
    data = value.get("data", ABSENT)
    if isinstance(data, list) and data:
        _check_data(ctx, data)
    else:
        ctx.report("embeddings.data-empty", "/data", data)
    usage = value.get("usage", ABSENT)
    if usage is None or usage is ABSENT:
        ctx.report("embeddings.usage-missing", "/usage", usage)
    else:
        check_embeddings_usage(ctx, usage, "/usage")


def _check_data(ctx: Context, data: list[Any]) -> None:
    wanted = ctx.request.inputs("input")
    if wanted is not None and len(data) != wanted:
        detail = f"inputs: {wanted}, embeddings: {len(data)}"
        ctx.report("embeddings.count-mismatch", "/data", detail=detail)
    vectors = _Vectors(ctx)
    for n, item in enumerate(data):
        if isinstance(item, dict):
            walk(EMBEDDING, item, f"/data/{n}", ctx.report)
            vectors.check(item.get("embedding", ABSENT), f"/data/{n}/embedding")
        else:
            ctx.report("embeddings.object-wrong", f"/data/{n}", item)
    vectors.close()
    _check_indexes(ctx, data)


def _check_indexes(ctx: Context, data: list[Any]) -> None:
    """Each of 0 to n-1 once, in whatever order; ones that are no integers have been reported."""
    seen: set[int] = set()
    for n, item in enumerate(data):
        index = _index(item)
        if index is None:
            continue
        if index in seen or not 0 <= index < len(data):
            ctx.report("embeddings.index-wrong", f"/data/{n}/index", index)
            return
        seen.add(index)


def _index(item: Any) -> int | None:
    index = item.get("index") if isinstance(item, dict) else None
    return index if isinstance(index, int) and not isinstance(index, bool) else None


class _Vectors:
    """The vectors of one answer: each in its encoding, and all of one length."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._asked = _encoding_asked(ctx)
        self._lengths: dict[
            int, str
        ] = {}  # how many numbers, and where that was first seen: two say it all

    def check(self, vector: Any, pointer: str) -> None:
        if isinstance(vector, str):
            length = self._encoded(vector, pointer)
        elif isinstance(vector, list):
            length = self._listed(vector, pointer)
        else:
            self._ctx.report("embeddings.vector-type", pointer, vector)
            return
        if length is not None and len(self._lengths) < 2:
            self._lengths.setdefault(length, pointer)

    def _listed(self, vector: list[Any], pointer: str) -> int | None:
        """An array: how many numbers it has, None where that says nothing."""
        report = self._ctx.report
        if not set(map(type, vector)) <= _NUMBERS:
            report("embeddings.vector-type", pointer, vector)
            return None
        if self._asked == "base64":
            detail = f"base64 was asked for, an array of {len(vector)} numbers came"
            report("embeddings.format-base64-got-float", pointer, detail=detail)
        if not any(vector):
            report("embeddings.vector-degenerate", pointer, detail=f"{len(vector)} numbers, all 0")
        return len(vector)

    def _encoded(self, vector: str, pointer: str) -> int | None:
        """A string: how many numbers it holds, None where it can't be read or was not asked for."""
        report = self._ctx.report
        if self._asked == "float":
            detail = f"float was asked for, a string of {len(vector)} characters came"
            report("embeddings.format-float-got-base64", pointer, detail=detail)
            return None
        if self._asked and self._asked not in ENCODINGS:
            return None
        data = _decoded(vector)
        if data is None or len(data) % _FLOAT32:
            fault = "no base64" if data is None else f"{len(data)} bytes, not a multiple of 4"
            report("embeddings.base64-invalid", pointer, detail=fault)
            return None
        count = len(data) // _FLOAT32
        if not data.strip(b"\0"):
            report("embeddings.vector-degenerate", pointer, detail=f"{count} numbers, all 0")
        elif _holds_nonfinite(data):
            report("embeddings.vector-degenerate", pointer, detail="NaN or Infinity in the bytes")
        return count

    def close(self) -> None:
        """All vectors were seen: what their lengths say."""
        report = self._ctx.report
        lengths = self._lengths
        asked = self._ctx.request.integer("dimensions")
        if len(lengths) > 1:
            first, other = lengths.items()
            detail = f"vectors of {first[0]} and of {other[0]} numbers"
            report("embeddings.dimensions-differ", other[1], detail=detail)
        elif asked is not None and lengths and asked not in lengths:
            length, pointer = next(iter(lengths.items()))
            detail = f"dimensions is {asked}, the vectors have {length} numbers"
            report("embeddings.dimensions-ignored", pointer, detail=detail)


def _encoding_asked(ctx: Context) -> str:
    """The encoding that was asked for, float by default; empty where the request is not known."""
    if not ctx.request.known:
        return ""
    asked = ctx.request.document.get("encoding_format")
    return asked if isinstance(asked, str) and asked else "float"


def _decoded(text: str) -> bytes | None:
    """The bytes of a base64 string (RFC 4648 section 4, padded); None where it is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


def _holds_nonfinite(data: bytes) -> bool:
    """Whether little-endian float32 numbers hold NaN or an infinity."""
    high = int.from_bytes(data[3::_FLOAT32].translate(_HIGH), "little")
    return bool(high and high & int.from_bytes(data[2::_FLOAT32].translate(_LOW), "little"))
