"""The requests: legal in their own protocol, in the set that names them, and without surprises."""

from __future__ import annotations

import json

import pytest

from teeline.validators import detectors as d
from teeline.validators.detectors.model import Expect, Probe, ProbeSet, ProtocolFamily
from teeline.validators.detectors.probes import (
    BAD_MODEL,
    FOLLOW_UPS,
    PROBES,
    chosen,
    sent_document,
)
from tests.validators.exchanges import inspect

BOTH = frozenset({ProtocolFamily.RESPONSES, ProtocolFamily.CHAT_COMPLETIONS})
ALL = (*PROBES, *FOLLOW_UPS.values())


def test_names_are_unique() -> None:
    assert len({probe.name for probe in ALL}) == len(ALL)


def test_sets_grow_by_what_they_add() -> None:
    sets = [{probe.name for probe in chosen(s, BOTH)} for s in ProbeSet]
    assert [len(s) for s in sets] == [7, 11, len(PROBES)]
    assert sets[0] < sets[1] < sets[2]


@pytest.mark.parametrize("family", sorted(BOTH))
def test_one_protocol_alone_is_asked_in_its_own_words(family: ProtocolFamily) -> None:
    wanted = chosen(ProbeSet.EXTENDED, frozenset({family}))
    assert {p.family for p in wanted} == {None, family}
    path = "/responses" if family is ProtocolFamily.RESPONSES else "/chat/completions"
    assert {p.path for p in wanted if p.family is family} == {path}


def test_the_full_set_asks_for_every_detector() -> None:
    """All but usage, which is judged wherever tokens are used."""
    asked = {p.detector for p in chosen(ProbeSet.FULL, BOTH)}
    assert asked == {x.name for x in d.DETECTORS if x.weight} - {d.USAGE}


def test_tools_have_the_shape_of_their_protocol() -> None:
    """Nested in chat, flat in Responses: a relay that takes the other one hides a fault."""
    by_name = {p.name: p.document("m") for p in ALL}
    chat, responses = by_name["chat-tools"], by_name["responses-tools"]
    assert chat is not None
    assert responses is not None
    assert set(chat["tools"][0]) == {"type", "function"}
    assert {"name", "parameters", "strict"} <= set(responses["tools"][0])
    assert chat["tools"][0]["function"]["strict"] is True


@pytest.mark.parametrize("probe", [p for p in ALL if p.body is not None], ids=lambda p: p.name)
def test_our_own_requests_break_no_rule(probe: Probe) -> None:
    """What teeline sends is held against the same rules as what a client sends."""
    asked = json.loads(json.dumps(sent_document(probe, "gpt-4o-mini")))
    seen = inspect(
        {
            "method": probe.method,
            "endpoint": f"/v1{probe.path}",
            "request": asked,
            "response": {"status": 500, "headers": {}, "body_text": "{}"},
        }
    )
    deprecated = {"request.deprecated"} if probe.name == "chat-max-tokens" else set()
    found = {v.rule.id for v in seen.violations if v.rule.id.startswith("request.")}
    assert found - deprecated == set()


def test_a_bad_model_is_asked_for_by_name() -> None:
    for probe in PROBES:
        document = sent_document(probe, "gpt-4o-mini")
        if document is not None:
            assert document["model"] == (BAD_MODEL if probe.bad_model else "gpt-4o-mini")


def test_what_must_be_refused_is_wrong_in_one_way() -> None:
    for probe in PROBES:
        wrong = (probe.bad_key, probe.bad_model, probe.raw is not None)
        assert sum(wrong) == (1 if probe.expect is Expect.REFUSAL else 0)
