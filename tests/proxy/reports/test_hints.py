"""A hint names the probable cause where one shows, and is silent everywhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.reports.hints import TABLE, hints
from teeline.validators.model import Exchange, Place, Severity, Side, Unit, Violation
from teeline.validators.rules import examples, register
from tests.validators.exchanges import cases, inspect

HTML = "<!doctype html><html><body>Welcome</body></html>"


def exchange(path: str, status: int, body: str, kind: str = "application/json") -> Exchange:
    return inspect(
        {
            "endpoint": path,
            "request": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hi"}]},
            "response": {"status": status, "headers": {"content-type": kind}, "body_text": body},
        }
    )


def said(*arguments: Any, **more: Any) -> str:
    return " ".join(hints(exchange(*arguments, **more)))


def test_every_row_speaks_of_rules_that_exist() -> None:
    named = {rule for row in TABLE for rule in row.rules}
    assert named <= set(register())


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/api/chat/completions", "/relay/chat/completions"]
)
@pytest.mark.parametrize(
    ("status", "body"), [(200, HTML), (404, HTML), (404, '{"detail":"Not Found"}')]
)
def test_a_base_url_without_v1_is_named(path: str, status: int, body: str) -> None:
    kind = "text/html" if body is HTML else "application/json"
    assert said(path, status, body, kind) == (
        "The path has no /v1: the base URL probably lacks it. Write https://HOST/v1."
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/v1/chat/completions", "holds /v1 twice"),
        ("/v1/relay/v1/chat/completions", "holds /v1 twice"),
        ("/v1/chat/completions/chat/completions", "holds an operation twice"),
        ("/chat/completions/v1/chat/completions", "holds an operation twice"),
        ("/v1/chat/completions", "has nothing at this path"),
        ("/v4/chat/completions", "has nothing at this path"),
        ("/openai/deployments/x/chat/completions", "has nothing at this path"),
    ],
)
def test_a_base_url_that_says_too_much_is_named(path: str, words: str) -> None:
    assert words in said(path, 404, '{"detail":"Not Found"}')


def test_a_web_page_under_v1_is_a_site_or_a_login() -> None:
    assert said("/v1/chat/completions", 200, HTML, "text/html").startswith("A web page came back")


def test_a_redirect_is_a_matter_of_the_address() -> None:
    assert "http for https" in said("/v1/chat/completions", 301, "")


@pytest.mark.parametrize("status", [502, 503, 504, 403])
def test_a_page_of_a_gateway_is_the_edge_s(status: int) -> None:
    assert "(the edge)" in said("/v1/chat/completions", status, HTML, "text/html")


def test_a_status_that_only_a_cdn_has_is_the_edge_s() -> None:
    assert "(the edge)" in said("/v1/chat/completions", 524, "error code: 524", "text/plain")


def test_an_error_of_the_relay_s_own_is_not_the_edge_s() -> None:
    assert said("/v1/chat/completions", 502, "upstream is gone", "text/plain") == ""


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("fx_responses_object_on_chat", "answer of the Responses API"),
        ("fx_responses_sse_on_chat", "answer of the Responses API"),
        ("fx_anthropic_sse_on_chat", "Anthropic's Messages API"),
        ("fx_gemini_candidates_on_chat", "native Gemini API"),
        ("fx_ollama_native_on_chat", "Ollama's native API"),
        ("fx_legacy_completion_on_chat", "legacy completions API"),
        ("cj_wrapped_in_data_code", "envelope of the relay's own"),
    ],
)
def test_another_api_s_answer_is_called_by_its_name(case: str, words: str) -> None:
    (hint,) = hints(inspect(cases()[case]))
    assert words in hint


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("responses.chat-shape", "answer of Chat Completions"),
        ("respstream.chat-chunks", "answer of Chat Completions"),
        ("completions.chat-shape", "answer of Chat Completions"),
        ("responses.anthropic-shape", "Anthropic's Messages API"),
        ("respstream.final-output-empty", "ChatGPT's Codex backend"),
    ],
)
def test_a_cause_is_named_by_the_rule_that_it_breaks(rule: str, words: str) -> None:
    (hint,) = hints(inspect(examples.exchange(register()[rule].bad)))
    assert words in hint


def test_ids_that_all_change_are_copilot_s() -> None:
    place = Place(Side.RESPONSE, Unit.EVENT)
    rules = [
        register()[f"respstream.{name}"] for name in ("item-id-changes", "response-id-changes")
    ]
    both = [Violation(rule, rule.severity, "", place, "", 0.0) for rule in rules]
    (hint,) = hints(Exchange(violations=both))
    assert "GitHub Copilot's backend" in hint
    assert hints(Exchange(violations=both[:1])) == []


def test_lines_of_json_may_be_ollama_s() -> None:
    lines = "".join(
        json.dumps({"message": {"content": "x"}, "done": n == 2}) + "\n" for n in range(3)
    )
    document = examples.exchange({"on": "chat-stream", "body": lines})
    (hint,) = hints(inspect(document))
    assert "Ollama's native API" in hint


def test_legal_exchanges_get_no_hint() -> None:
    for name, case in cases().items():
        if name.startswith("ok_"):
            assert hints(inspect(case)) == [], name
    for rule in filter(examples.over_http, register().values()):
        assert hints(inspect(examples.exchange(rule.good))) == [], rule.id


def test_a_finding_alone_is_no_cause() -> None:
    """Most faults are just themselves; a hint would only be noise."""
    hinted = {
        rule.id
        for rule in filter(examples.over_http, register().values())
        if rule.severity is Severity.FAIL and hints(inspect(examples.exchange(rule.bad)))
    }
    assert hinted <= {rule for row in TABLE for rule in row.rules}
    assert "chatstream.done-missing" not in hinted
