"""PARTIAL_RESULT: one bare JSON event, told from everything that only looks like one, and its place."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.limits import Limits
from tests.validators.nnrp.steps import Steps

TEXT = '{"type":"response.output_text.delta","index":0,"delta":"Q"}'


def body(text: str) -> dict[str, int]:
    return Steps().server("PARTIAL_RESULT", text=text).rules


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"data: {TEXT}\n\n", "nnrp.partial-sse-delimiter"),
        (f"{TEXT}\n\n", "nnrp.partial-sse-delimiter"),
        (f"{TEXT}\r\n\r\n", "nnrp.partial-sse-delimiter"),
        (f"event: x\ndata: {TEXT}", "nnrp.partial-sse-delimiter"),
        ("[DONE]", "nnrp.partial-sse-delimiter"),
        (f"{TEXT}\n[DONE]", "nnrp.partial-sse-delimiter"),
        (TEXT + TEXT, "nnrp.partial-multiple-events"),
        (f"{TEXT}\n{TEXT}", "nnrp.partial-multiple-events"),
        (f"{TEXT}{{", "nnrp.partial-multiple-events"),
        (f"[{TEXT}]", "nnrp.partial-array"),
        ('"data: x"', "nnrp.partial-json-not-object"),
        ("null", "nnrp.partial-json-not-object"),
        ("NaN", "nnrp.partial-json-invalid"),
        (TEXT[:-1], "nnrp.partial-json-invalid"),
        (" ", "nnrp.partial-json-invalid"),
        (TEXT.replace("Q", "\udcff"), "nnrp.partial-utf8-invalid"),
        ("\ufeff" + TEXT, "nnrp.json-bom"),
        (TEXT.replace("Q", "\\ud800"), "nnrp.json-surrogate"),
        (TEXT.replace('"index":0', '"index":0,"index":0'), "nnrp.json-duplicate-key"),
        ("", "nnrp.partial-empty"),
    ],
)
def test_a_body_breaks_one_rule_of_form(text: str, rule: str) -> None:
    assert body(text) == {rule: 1}


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("Q", "data: [DONE]"),
        TEXT.replace("Q", "\\n\\ndata: {}\\n\\n"),
        TEXT.replace(",", ",\n"),
        TEXT.replace(",", ",\n") + "\n",
        "\n" + TEXT,
        TEXT.replace("Q", "}\\r\\n\\r\\n[DONE]"),
    ],
)
def test_words_of_event_streams_inside_json_are_no_framing(text: str) -> None:
    assert body(text) == {}


@pytest.mark.parametrize("kind", ["null", "7", "[]", "{}", "true", '""', '"x"', '"response."'])
def test_a_type_is_a_known_string(kind: str) -> None:
    rule = "nnrp.partial-type-unknown" if kind[0] == '"' else "nnrp.partial-type-missing"
    assert body(TEXT.replace('"response.output_text.delta"', kind)) == {rule: 1}


def test_a_broken_event_leaves_the_next_ones_read() -> None:
    steps = Steps().text("Hel").server("PARTIAL_RESULT", text="{oops").text("lo").ends()
    assert steps.rules == {"nnrp.partial-json-invalid": 1}
    assert steps.op.terminal and steps.op.exchange.events == 3


def test_what_is_nested_too_deep_is_said_and_no_fault() -> None:
    steps = Steps(limits=Limits(depth=8))
    steps.server("PARTIAL_RESULT", text='{"type":' + "[" * 20 + "]" * 20 + "}")
    assert (steps.rules, steps.op.exchange.inspection) == ({}, "partial (depth-limit)")


def test_a_body_beyond_the_limit_is_said_and_its_place_counts() -> None:
    steps = Steps(limits=Limits(body=4096))
    steps.text("Hello").text("x" * 5000).text("!")
    assert (steps.rules, steps.op.exchange.inspection) == ({}, "partial (body-limit)")
    assert steps.op.exchange.events == 3


def test_a_sequence_grows_over_what_could_not_be_read() -> None:
    steps = Steps()
    for number, text in ((5, TEXT), (6, "{oops"), (6, TEXT), (9, TEXT), (8, TEXT)):
        steps.server("PARTIAL_RESULT", text=text, meta={"result_sequence": number})
    assert steps.rules["nnrp.result-sequence-not-increasing"] == 2


def test_after_the_end_the_place_alone_is_named() -> None:
    steps = Steps().text("Hello").ends()
    steps.text("x").server("PARTIAL_RESULT", text="{oops").event("usage", usage=7).event("odd")
    assert steps.rules == {
        "nnrp.event-after-terminal": 3,
        "nnrp.partial-json-invalid": 1,
        "nnrp.usage-after-terminal": 1,
    }


def test_after_a_final_partial_each_further_one_is_counted() -> None:
    steps = Steps()
    for flags in (0, 1, 0, 1):
        steps.server("PARTIAL_RESULT", text=TEXT, meta={"flags": flags})
    assert steps.rules == {"nnrp.partial-after-final-flag": 2}


@pytest.mark.parametrize("kind", ["completed", "error", "cancelled"])
def test_documents_of_the_end_may_have_any_shape_in_a_partial(kind: str) -> None:
    odd: tuple[Any, ...] = (None, 7, [], {}, "x", True)
    for value in odd:
        steps = Steps().event(kind, body=value, error=value, reason=value).ends()
        assert "nnrp.partial-terminal-document" in steps.rules
        assert steps.op.terminal
