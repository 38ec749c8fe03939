"""What a worker process answers, asked without the process around it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from teeline.proxy.schemaworker import MAX_ERRORS, MAX_POINTER, answer, deeper, pointer, serve

DEPTH = 64


def asked(schema: Any, document: Any) -> tuple[list[list[str]], str]:
    given = answer(json.dumps(schema).encode(), json.dumps(document).encode(), DEPTH)
    return given["errors"], given["unchecked"]


def request(schema: bytes, document: bytes) -> bytes:
    lengths = len(schema).to_bytes(4, "big") + len(document).to_bytes(4, "big")
    return lengths + schema + document


def answers(stream: io.BytesIO) -> list[dict[str, Any]]:
    data, given = stream.getvalue(), []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        given.append(json.loads(data[4:end]))
        data = data[end:]
    return given


@pytest.mark.parametrize(
    ("schema", "document", "errors"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, []),
        ({"type": "object", "required": ["a"]}, {}, [["", "required"]]),
        ({"additionalProperties": False}, {"x": 1}, [["", "additionalProperties"]]),
        ({"properties": {"a/~b": {"enum": [1]}}}, {"a/~b": 2}, [["/a~1~0b", "enum"]]),
        ({"items": {"type": "string"}}, ["x", 1], [["/1", "type"]]),
        (True, 1, []),
        (False, 1, [["", "false"]]),
        ({"format": "date"}, "no date", []),
        ({"type": "integer"}, 1.0, []),
    ],
)
def test_an_error_is_a_pointer_and_a_keyword_and_holds_no_content(
    schema: Any, document: Any, errors: list[list[str]]
) -> None:
    assert asked(schema, document) == (errors, "")


@pytest.mark.parametrize(
    ("step", "number", "multiple"),
    [
        (0.1, 0.3, True),
        (0.01, 0.07, True),
        (0.01, 0.075, False),
        (2, 4.0, True),
        (3, 10**30, False),
        (0.5, "text", True),
    ],
)
def test_multiples_are_counted_in_decimal_as_json_writes_numbers(
    step: float, number: Any, multiple: bool
) -> None:
    """Binary fractions would make 0.07 no multiple of 0.01, which is a false alarm."""
    assert asked({"multipleOf": step}, number) == ([] if multiple else [["", "multipleOf"]], "")


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "remote-reference"),
        ({"$ref": "file:///etc/passwd"}, "remote-reference"),
        ({"$id": "http://a/", "$ref": "b.json"}, "remote-reference"),
        ({"$ref": "#/$defs/absent"}, "bad-schema"),
        ({"$ref": "#absent"}, "bad-schema"),
        ({"$ref": "#"}, "bad-schema"),
        ({"allOf": [{"$ref": "#/allOf/0"}]}, "bad-schema"),
        ({"type": "text"}, "bad-schema"),
        ({"pattern": "("}, "bad-schema"),
        ({"$schema": ["draft"]}, "bad-schema"),
        ("text", "bad-schema"),
        ([], "bad-schema"),
        ({"multipleOf": 1e-320}, "too-large"),
        ({"$id": "http://[", "$ref": "a"}, "engine-error"),
    ],
)
def test_a_schema_that_can_not_be_used_is_named_and_nothing_is_fetched(
    schema: Any, word: str
) -> None:
    assert asked(schema, 1e300) == ([], word)


def test_the_draft_is_the_one_that_the_schema_names() -> None:
    """Draft 4 has a boolean exclusiveMinimum; in 2020-12 that is a bad schema."""
    schema = {"minimum": 1, "exclusiveMinimum": True}
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", **schema}
    assert asked(draft4, 1) == ([["", "minimum"]], "")
    assert asked(schema, 1) == ([], "bad-schema")


def test_only_the_first_errors_are_told() -> None:
    errors, _ = asked({"items": {"type": "string"}}, [1] * 50)
    assert errors == [[f"/{at}", "type"] for at in range(MAX_ERRORS)]


def test_nesting_counts_on_both_sides_of_its_bound() -> None:
    nested: Any = 1
    for _ in range(DEPTH):
        nested = [nested]
    assert not deeper(nested, DEPTH)
    assert deeper([nested], DEPTH)
    assert asked(True, nested) == ([], "")
    assert asked(True, [nested]) == ([], "too-large")
    assert asked({"const": nested}, 1) == ([], "too-large")


def test_text_beyond_the_parser_is_too_large_and_no_crash() -> None:
    assert answer(b"{}", b"[" * 100_000, DEPTH)["unchecked"] == "too-large"
    assert answer(b"{}", b"9" * 5000, DEPTH)["unchecked"] == "too-large"


def test_a_pointer_ends_at_the_last_name_that_fits() -> None:
    assert pointer(["a", "x" * MAX_POINTER, "b"]) == "/a"
    assert len(pointer(["y" * 9] * 1000)) <= MAX_POINTER


def test_the_first_answer_says_ready_and_the_others_come_in_order() -> None:
    wanted = io.BytesIO(request(b'{"type":"string"}', b"1") + request(b"true", b"1"))
    given = io.BytesIO()
    checks: list[None] = []
    serve(wanted, given, DEPTH, before=lambda: checks.append(None))
    assert len(checks) == 2
    assert answers(given) == [
        {"errors": [], "unchecked": ""},
        {"errors": [["", "type"]], "unchecked": ""},
        {"errors": [], "unchecked": ""},
    ]


@pytest.mark.parametrize("cut", [3, 8, 12])
def test_input_that_ends_within_a_request_ends_the_work(cut: int) -> None:
    given = io.BytesIO()
    serve(io.BytesIO(request(b'{"type":"string"}', b"1")[:cut]), given, DEPTH, before=lambda: None)
    assert answers(given) == [{"errors": [], "unchecked": ""}]
