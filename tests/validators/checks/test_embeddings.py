"""Embeddings: vectors against the request, in both encodings, and at what cost."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
import tracemalloc
from typing import Any

import pytest

from teeline.validators.checks.context import Context
from teeline.validators.checks.embeddings import check_embeddings
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation
from teeline.validators.rules.examples import exchange
from tests.validators.exchanges import inspect


def rules(document: dict[str, Any]) -> set[str]:
    return {v.rule.id for v in inspect(document).violations if v.rule.family == "embeddings"}


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def answer(vectors: list[Any], request: dict[str, Any] | None) -> dict[str, Any]:
    """An answer with these vectors to a request with these members; None: it was not recorded."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    document = exchange({"on": "embeddings", "set": {"/data": json.dumps(data)}})
    document["request"] = (
        None if request is None else {"model": "text-embedding-3-small", "input": "x", **request}
    )
    return document


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ("Hello", 1),
        (["Hello"], 1),
        (["a", "b", "c"], 3),
        ([9906, 1070], 1),
        ([[9906], [1070, 0]], 2),
        ([{"text": "a"}, {"image": "b"}], 2),
    ],
)
def test_inputs_are_counted_in_all_their_forms(given: Any, count: int) -> None:
    assert rules(answer([[0.5]] * count, {"input": given})) == set()
    assert rules(answer([[0.5]] * (count + 1), {"input": given})) == {"embeddings.count-mismatch"}


@pytest.mark.parametrize("given", [[], {}, None, 5])
def test_inputs_that_cannot_be_counted_are_not(given: Any) -> None:
    assert rules(answer([[0.5]] * 3, {"input": given})) == set()


def test_without_the_request_either_encoding_is_right() -> None:
    assert rules(answer([[0.5, 1]], None)) == set()
    assert rules(answer([packed(0.5, 1)], None)) == set()


@pytest.mark.parametrize("vector", ["1/8A807U", "not base64", packed(math.nan)])
def test_an_encoding_of_a_vendor_is_not_read(vector: str) -> None:
    assert rules(answer([vector], {"encoding_format": "int8"})) == set()


def test_a_string_that_was_not_asked_for_is_named_and_not_read() -> None:
    """What it would be as 32-bit floats says nothing: it may be int8 or binary."""
    document = answer(["AAAA", "AAAAAAAA"], {"input": ["a", "b"], "dimensions": 3})
    assert rules(document) == {"embeddings.format-float-got-base64"}


@pytest.mark.parametrize("vector", ["AAAA\n", "AAA", "AA-_", "é", "AAA=AAA=", packed(1) + "="])
def test_what_is_no_strict_base64_is_none(vector: str) -> None:
    document = answer([vector], {"encoding_format": "base64"})
    assert rules(document) == {"embeddings.base64-invalid"}


def test_numbers_that_are_none_are_found_in_the_bytes() -> None:
    """Against the definition, over all exponents and signs and over random bytes."""
    chance = random.Random(1)
    patterns = [sign << 31 | exponent << 23 for sign in (0, 1) for exponent in range(256)]
    patterns += [chance.getrandbits(32) for _ in range(2_000)]
    for pattern in patterns:
        data = struct.pack("<fIf", 0.5, pattern, -0.5)
        (number,) = struct.unpack_from("<f", data, 4)
        document = answer([base64.b64encode(data).decode()], {"encoding_format": "base64"})
        found = "embeddings.vector-degenerate" in rules(document)
        assert found is not math.isfinite(number), hex(pattern)


@pytest.mark.parametrize("vector", [[], [0, 0.0], [-0.0]])
def test_a_vector_without_direction_is_degenerate(vector: list[float]) -> None:
    assert rules(answer([vector], {})) == {"embeddings.vector-degenerate"}


def test_lengths_that_differ_silence_the_requested_length() -> None:
    document = answer([[1, 2], [1, 2, 3]], {"input": ["a", "b"], "dimensions": 4})
    assert rules(document) == {"embeddings.dimensions-differ"}


@pytest.mark.parametrize("vector", [[True, False], [None], ["0.1"], [{}], 5, None, {}])
def test_only_numbers_make_a_vector(vector: Any) -> None:
    assert rules(answer([vector], {})) == {"embeddings.vector-type"}


@pytest.mark.parametrize("item", [0.1, [0.1], "x", None])
def test_an_element_that_is_no_object_has_one_name(item: Any) -> None:
    change = {"/data": json.dumps([item])}
    document = exchange({"on": "embeddings", "request": {"/input": '"x"'}, "set": change})
    assert rules(document) == {"embeddings.object-wrong"}


@pytest.mark.parametrize("encoded", [False, True])
def test_large_vectors_cost_no_object_a_number(encoded: bool) -> None:
    rows, columns = 64, 3072
    vector = packed(*[0.5] * columns) if encoded else [0.5] * columns
    data = [{"object": "embedding", "index": n, "embedding": vector} for n in range(rows)]
    value = {"object": "list", "data": data, "model": "m", "usage": None}
    ctx = Context(Exchange(id="x"), Operation.EMBEDDINGS, DEFAULT_LIMITS)
    check_embeddings(ctx, value)  # caches that are filled once are no cost of this answer
    tracemalloc.start()
    try:
        check_embeddings(ctx, value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * columns * 4  # a few copies of one vector's bytes, whatever the rows
