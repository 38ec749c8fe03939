"""The profiles that come with teeline are right, and a wrong one says where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.config.profiles import loads, profiles
from teeline.validators.events import Closed
from teeline.validators.model import Exchange, Marks, Severity
from teeline.validators.policy import Policy
from teeline.validators.profiles import ProfileError, Profiles, Setting
from teeline.validators.rules import examples, register
from tests.validators.exchanges import inspect
from tests.validators.mutations import Mutator

VENDORS = {
    *("anthropic", "azure", "chatgpt-codex", "dashscope", "deepseek", "gemini", "github-copilot"),
    *("gpustack", "groq", "llama.cpp", "mistral", "new-api", "ollama", "openai", "openrouter"),
    *("perplexity", "sglang", "snowflake", "together", "vllm", "xai", "zhipu"),
}
CHAT: dict[str, Any] = {"on": "chat"}
STREAM: dict[str, Any] = {"on": "chat-stream"}
TOOLS: dict[str, Any] = {"on": "chat-stream-tools"}
WHOLE = '{"id":"a","function":{"name":"get_weather","arguments":"{\\"city\\":\\"Paris\\"}"}}'
DELTA = (
    f'{{"index":0,"delta":{{"tool_calls":[{WHOLE}]}},"logprobs":null,"finish_reason":"tool_calls"}}'
)


def test_every_vendor_has_a_profile() -> None:
    assert set(profiles()) == VENDORS


def test_one_api_is_another_name_of_new_api() -> None:
    exchange = Exchange()
    Profiles(profiles().values(), default=Setting("one-api")).choose(exchange)
    assert exchange.profile == "new-api"


def test_every_lowering_says_why() -> None:
    assert all(len(low.because) > 20 for p in profiles().values() for low in p.lower)


@pytest.mark.parametrize(
    ("marks", "name"),
    [
        (Marks(host="my-resource.openai.azure.com"), "azure"),
        (Marks(host="us-central1-aiplatform.googleapis.com"), "gemini"),
        (Marks(host="api.individual.githubcopilot.com"), "github-copilot"),
        (Marks(headers=(("Server", "llama.cpp"),)), "llama.cpp"),
        (Marks(headers=(("X-Oneapi-Request-Id", "1"),)), "new-api"),
        (Marks(headers=(("mistral-correlation-id", "1"),)), "mistral"),
        (Marks(headers=(("X-Generation-Id", "gen-1"),)), "openrouter"),
        (Marks(fingerprint="fp_ollama"), "ollama"),
        (Marks(fingerprint="vllm-0.24.0"), "vllm"),
        (Marks(members=frozenset({"x_groq"})), "groq"),
        (Marks(headers=(("server", "uvicorn"), ("openai-version", "2020-10-01"))), ""),
        (Marks(fingerprint="fp_44709d6fcb", id="chatcmpl-1"), ""),
    ],
)
def test_a_vendor_is_recognised_by_what_only_its_answers_show(marks: Marks, name: str) -> None:
    exchange = Exchange(marks=marks)
    Profiles(profiles().values()).choose(exchange)
    assert exchange.profile == name


def severity(profile: str, rule: str, example: dict[str, Any]) -> Severity | None:
    """The severity of a rule in an example that is inspected and judged with a profile."""
    exchange = inspect(examples.exchange(example))
    assert rule in {v.rule.id for v in exchange.violations}
    known = Profiles(profiles().values(), default=Setting(profile))
    Policy(register(), profiles=known).apply([Closed(exchange)])
    return next((v.severity for v in exchange.violations if v.rule.id == rule), None)


FAIL, WARN, INFO = Severity.FAIL, Severity.WARN, Severity.INFO
NO_MESSAGE = {**CHAT, "remove": ["/choices/0/message"]}
ENDED = "/choices/0/finish_reason"
NO_COUNTER = {**CHAT, "remove": ["/usage/completion_tokens"]}
PARTS = '[{"type":"thinking","thinking":[]},{"type":"text","text":"x"}]'
SEARCH = '{"id":"ws_1","type":"web_search_call","status":"completed"}'
ONE_CALL = {
    **TOOLS,
    "set": {"/1/choices/0/delta": '{"role":"assistant"}', "/2/choices/0": DELTA},
    "remove": ["/3", "/4"],
}


@pytest.mark.parametrize(
    ("profile", "rule", "example", "known", "unknown"),
    [
        (
            "azure",
            "chat.message-missing",
            {**NO_MESSAGE, "set": {ENDED: '"content_filter"'}},
            WARN,
            {**NO_MESSAGE, "set": {ENDED: '"stop"'}},
        ),
        (
            "gemini",
            "chat.message-missing",
            {**NO_MESSAGE, "set": {ENDED: '"length"'}},
            WARN,
            {**NO_MESSAGE, "set": {ENDED: '"content_filter"'}},
        ),
        (
            "gemini",
            "usage.keys-missing",
            {**NO_COUNTER, "set": {ENDED: '"length"'}},
            WARN,
            {**NO_COUNTER, "set": {ENDED: '"stop"'}},
        ),
        (
            "gemini",
            "chatstream.tool-index-type",
            ONE_CALL,
            WARN,
            {**TOOLS, "remove": ["/1/choices/0/delta/tool_calls/0/index"]},
        ),
        (
            "deepseek",
            "chat.finish-unknown",
            {**CHAT, "set": {ENDED: '"insufficient_system_resource"'}},
            WARN,
            {**CHAT, "set": {ENDED: '"model_length"'}},
        ),
        (
            "mistral",
            "chatstream.finish-unknown",
            {**STREAM, "set": {"/4/choices/0/finish_reason": '"model_length"'}},
            WARN,
            {**STREAM, "set": {"/4/choices/0/finish_reason": '"tired"'}},
        ),
        (
            "mistral",
            "chat.content-not-string",
            {**CHAT, "set": {"/choices/0/message/content": PARTS}},
            WARN,
            {**CHAT, "set": {"/choices/0/message/content": "5"}},
        ),
        (
            "mistral",
            "chatstream.content-not-string",
            {**STREAM, "set": {"/2/choices/0/delta/content": PARTS}},
            WARN,
            {
                **STREAM,
                "set": {"/2/choices/0/delta/content": PARTS, "/3/choices/0/delta/content": "5"},
            },
        ),
        (
            "perplexity",
            "chatstream.object-wrong",
            {**STREAM, "set": {"/4/object": '"chat.completion.done"'}},
            WARN,
            {**STREAM, "set": {"/4/object": '"chat.completion.done"', "/3/object": "null"}},
        ),
        (
            "snowflake",
            "chat.finish-unknown",
            {**CHAT, "set": {ENDED: '""'}},
            WARN,
            {**CHAT, "set": {ENDED: "5"}},
        ),
        (
            "azure",
            "usage.cached-exceeds-prompt",
            {
                **CHAT,
                "set": {
                    "/usage/prompt_tokens_details/cached_tokens": "10",
                    "/model": '"grok-4"',
                },
            },
            WARN,
            {**CHAT, "set": {"/usage/prompt_tokens_details/cached_tokens": "10"}},
        ),
        (
            "xai",
            "responses.item-field-missing",
            {"on": "responses", "set": {"/output/0": SEARCH}},
            WARN,
            {"on": "responses", "set": {"/output/0": SEARCH.replace("}", ',"action":5}')}},
        ),
        (
            "groq",
            "chatstream.id-changes",
            {**STREAM, "set": {"/2/id": '"chatcmpl-B"', "/1/model": '"groq/compound"'}},
            WARN,
            {**STREAM, "set": {"/2/id": '"chatcmpl-B"'}},
        ),
    ],
)
def test_a_vendor_s_own_deviation_is_lowered_and_its_neighbour_is_not(
    profile: str, rule: str, example: Any, known: Severity, unknown: Any
) -> None:
    assert severity(profile, rule, example) is known
    assert severity(profile, rule, unknown) is FAIL
    assert severity("none", rule, example) is FAIL


@pytest.mark.parametrize(
    ("profile", "rule", "example", "known"),
    [
        ("ollama", "chatstream.finish-empty-string", None, WARN),
        ("ollama", "models.data-null", None, WARN),
        ("perplexity", "embeddings.format-float-got-base64", None, WARN),
        ("llama.cpp", "chatstream.error-before-content", None, INFO),
        ("gemini", "error.list-wrapped", None, WARN),
        ("mistral", "tools.type-missing", None, INFO),
        ("perplexity", "chatstream.done-missing", None, WARN),
        ("gpustack", "chatstream.done-missing", None, WARN),
        ("snowflake", "chatstream.finish-missing", None, WARN),
        ("xai", "error.string", None, WARN),
    ],
)
def test_what_a_vendor_always_does_is_lowered(
    profile: str, rule: str, example: Any, known: Severity
) -> None:
    bad = example or dict(register()[rule].bad)
    assert severity(profile, rule, bad) is known
    assert severity("openai", rule, bad) is register()[rule].severity


def test_deepseek_s_aliases_are_no_substitution() -> None:
    asked = {"request": {"/model": '"deepseek-chat"'}, "set": {"/model": '"deepseek-v4-flash"'}}
    example = {**CHAT, **asked}
    assert severity("deepseek", "cross.model-substituted", example) is None
    assert severity("none", "cross.model-substituted", example) is WARN


def test_no_profile_ever_raises_a_severity_or_hides_a_finding() -> None:
    """Whatever an answer holds; an alias alone takes a finding away, and no foreign word is lowered."""
    mutator = Mutator(3)
    rules = filter(examples.over_http, register().values())
    documents = [examples.exchange(rule.bad) for rule in rules]
    documents += [mutator.variant(chosen) for chosen in documents]
    policies = {
        name: Policy(register(), profiles=Profiles(profiles().values(), default=Setting(name)))
        for name in (*profiles(), "auto", "none")
    }
    for document in documents:
        found = inspect(document)
        before = list(found.violations)
        for name, policy in policies.items():
            found.violations = list(before)
            policy.apply([Closed(found)])
            after = {v.rule.id: v.severity for v in found.violations}
            gone = {v.rule.id for v in before} - after.keys()
            assert gone <= {"cross.model-substituted"}, name
            for v in before:
                assert after.get(v.rule.id, INFO) <= v.severity, (name, v.rule.id)
                if v.rule.id.endswith("finish-foreign") or name == "none":
                    assert after[v.rule.id] is v.severity, (name, v.rule.id)


# -- files that are wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file must be a mapping"),
        ("[]", "the file must be a mapping"),
        ("a: [", "not YAML"),
        ("about: x", "title is missing"),
        ("title: 5", "title: must be text"),
        ("title: X\ncolour: red", "no key 'colour'"),
        ("title: X\nmarkers: {hosts: [API.x]}", "hosts: must be in lower case"),
        ("title: X\nmarkers: {smell: []}", "no key 'smell'"),
        ("title: X\nmarkers: {hosts: x}", "hosts: must be a list"),
        ("title: X\nlower: [{rule: chat.id-missing}]", "lower: to is missing"),
        ("title: X\nlower: [5]", "an entry must be a mapping"),
        (
            "title: X\nlower: [{rule: chat.id-missing, to: low, because: x}]",
            "unknown severity 'low'",
        ),
        (
            "title: X\nlower: [{rule: chat.id-empty, to: fail, because: x}]",
            "is warn, fail is not below",
        ),
        (
            "title: X\nlower: [{rule: chat.finish-foreign, to: warn, because: x}]",
            "never lowered",
        ),
        ("title: X\naliases: [x]", "aliases: must be a mapping"),
        ("title: X\naliases: {GPT: [x]}", "aliases: must be in lower case"),
        ("title: X\nnotes: {chat.nothing: x}", "no rule is called chat.nothing"),
    ],
)
def test_a_wrong_file_names_itself_the_key_and_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as error:
        loads("acme", text)
    assert str(error.value).startswith("acme.yaml: ")
    assert message in str(error.value)
