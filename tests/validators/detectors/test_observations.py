"""What a question of our own finds in an answer: capability, refusals, and answers that are none."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.detectors.model import ProtocolFamily
from teeline.validators.detectors.observations import (
    PROBE_RULES,
    Answer,
    has_call,
    is_event_of,
    observe,
    text_of,
)
from teeline.validators.detectors.probes import PROBES
from teeline.validators.model import Ended, Severity

BY_NAME = {probe.name: probe for probe in PROBES}
CHAT, RESPONSES = ProtocolFamily.CHAT_COMPLETIONS, ProtocolFamily.RESPONSES


def said(text: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}}]}


def seen(probe: str, answer: Answer) -> list[str]:
    return [o.rule.id.removeprefix("probe.") for o in observe(BY_NAME[probe], answer)]


SEEN: list[tuple[str, Answer, list[str]]] = [
    ("chat-basic", Answer(200, said("Pong!")), []),
    ("chat-basic", Answer(200, said("hello")), ["pong-missing"]),
    ("chat-basic", Answer(200, said(" \n")), ["text-missing"]),
    ("chat-basic", Answer(200, said(None)), ["text-missing"]),
    ("chat-basic", Answer(503), ["request-failed"]),
    ("chat-basic", Answer(None), ["no-answer"]),
    ("chat-basic", Answer(200, ended=Ended.UPSTREAM_ABORTED), ["no-answer"]),
    ("chat-basic", Answer(200, usable=False), ["answer-unusable"]),
    ("chat-basic", Answer(200, error="server_error"), ["error-answered"]),
    ("chat-tools", Answer(200, said("it is cold")), ["tool-not-called"]),
    ("chat-tools", Answer(400), ["tools-refused"]),
    ("chat-tools", Answer(429), ["request-failed"]),
    ("chat-tools", Answer(502), ["request-failed"]),
    ("chat-structured", Answer(400), ["format-refused"]),
    ("chat-logprobs", Answer(400), ["option-refused"]),
    ("chat-logprobs", Answer(500), ["request-failed"]),
    ("chat-bad-key", Answer(401), []),
    ("chat-bad-key", Answer(200), ["bad-key-accepted"]),
    ("chat-bad-model", Answer(200), ["bad-model-accepted"]),
    ("chat-bad-json", Answer(200), ["bad-json-accepted"]),
    ("chat-bad-json", Answer(500), ["bad-request-5xx"]),
    ("chat-stream", Answer(200, events=40, reads=1, seconds=3.0), ["one-burst"]),
    ("chat-stream", Answer(200, events=40, reads=1, seconds=0.2), []),
    ("chat-stream", Answer(200, events=40, reads=9, seconds=3.0), []),
    ("chat-stream", Answer(200, events=4, reads=1, seconds=3.0), []),
]


@pytest.mark.parametrize(("probe", "answer", "expected"), SEEN)
def test_what_is_seen_in_an_answer(probe: str, answer: Answer, expected: list[str]) -> None:
    assert seen(probe, answer) == expected


HOSTILE: list[Any] = [
    None,
    1,
    "x",
    [],
    [1],
    {},
    {"choices": 1},
    {"choices": [1, None]},
    {"output": [{}, 1]},
]
HOSTILE += [
    {"choices": [{"message": []}]},
    {"output": [{"content": [1]}]},
    {"output": [{"type": []}]},
]


@pytest.mark.parametrize("document", HOSTILE, ids=repr)
def test_documents_of_any_type_are_looked_into(document: Any) -> None:
    for family in (CHAT, RESPONSES):
        assert text_of(family, document) == ""
        assert not is_event_of(family, document) or "choices" in document
    assert not has_call(document)


def test_calls_are_seen_in_every_shape() -> None:
    """Whether there is a call is asked here; what is wrong with it is the rules' to say."""
    assert has_call({"output": [{"type": "function_call"}]})
    assert has_call({"choices": [{"message": {"tool_calls": [{"name": "flat"}]}}]})
    assert has_call({"choices": [{"message": {"function_call": {"name": "f"}}}]})
    assert not has_call({"choices": [{"message": {"tool_calls": []}}]})


def test_rules_of_the_check_say_all_that_others_say() -> None:
    for rule_id, rule in PROBE_RULES.items():
        assert rule_id == rule.id
        assert rule.summary
        assert rule.why
        assert rule.fix


def test_no_rule_is_declared_that_nothing_reports() -> None:
    reported = {f"probe.{name}" for _, _, names in SEEN for name in names}
    assert reported == set(PROBE_RULES)


def test_capability_is_no_protocol_fault() -> None:
    """What a model can't do warns; what no client can read fails."""
    warned = {"pong-missing", "tool-not-called", "tools-refused", "format-refused"}
    assert {PROBE_RULES[f"probe.{name}"].severity for name in warned} == {Severity.WARN}
