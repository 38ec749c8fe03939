"""The tables: each names rules that exist, every rule has one detector, and the docs say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teeline.validators import detectors as d
from teeline.validators.detectors.costs import ALL, COSTS, SEVERITIES, cost, detector_of, unusable
from teeline.validators.detectors.model import Cost
from teeline.validators.detectors.observations import PROBE_RULES
from teeline.validators.detectors.probes import PROBES
from teeline.validators.model import Severity
from teeline.validators.rules import register

DOCS = Path(__file__).parents[3] / "docs" / "probe.md"
BY_NAME = {probe.name: probe for probe in PROBES}


def words(what: Cost) -> str:
    """A cost as the docs write it."""
    return str(what.each) if what.each == what.most else f"{what.each} each, at most {what.most}"


def documented(detector: str) -> dict[str, str]:
    """The rows of a detector's table in the docs: rule to cost."""
    text = DOCS.read_text(encoding="utf-8")
    section = re.split(r"^#{2,3} ", text, flags=re.M)
    (body,) = (part for part in section if part.startswith(detector))
    return dict(re.findall(r"^\| `?([^`|]+?)`? \| ([^|]+?) \|", body, flags=re.M))


def test_nine_detectors_weigh_a_hundred() -> None:
    weights = [detector.weight for detector in d.DETECTORS if detector.weight]
    assert (len(weights), sum(weights)) == (9, 100)


def test_every_rule_in_a_table_exists() -> None:
    known = register().keys() | PROBE_RULES.keys()
    named = {rule for table in COSTS.values() for rule in table.rules} | SEVERITIES.keys()
    assert named - known == set()


def test_every_detector_has_a_table() -> None:
    assert set(COSTS) == {detector.name for detector in d.DETECTORS}


@pytest.mark.parametrize("name", COSTS)
def test_the_docs_show_the_same_table(name: str) -> None:
    """A cost that changes in one place alone fails here."""
    table = COSTS[name]
    expected = {rule: words(what) for rule, what in table.rules.items()}
    shown = documented(name)
    general = {"any other fail": str(table.fail), "any other warn": str(table.warn)}
    declared = {
        rule.id: words(cost(name, rule, rule.severity))
        for rule in register().values()
        if rule.source.deduction and rule.id not in table.rules and name == _envelope(rule.family)
    }
    assert shown == {"rule": "points"} | expected | declared | general


def _envelope(family: str) -> str:
    """The detector for whose object a family's rules are declared."""
    return {
        "chat": d.CHAT,
        "chatstream": d.CHAT_STREAM,
        "responses": d.RESPONSES,
        "respstream": d.RESPONSES_STREAM,
    }.get(family, "")


def test_info_is_free_whatever_the_table_says() -> None:
    for rule in register().values():
        for table in COSTS:
            assert cost(table, rule, Severity.INFO).of(1000) == 0


def test_the_plan_s_amounts_hold() -> None:
    """The amounts that were agreed on, by rule."""
    amounts = {
        (d.RESPONSES, "responses.id-missing"): 10,
        (d.RESPONSES, "responses.object-wrong"): 15,
        (d.RESPONSES, "responses.status-unknown"): 15,
        (d.RESPONSES, "responses.output-empty"): 25,
        (d.RESPONSES, "responses.chat-shape"): ALL,
        (d.RESPONSES_STREAM, "sse.no-event-stream"): ALL,
        (d.RESPONSES_STREAM, "respstream.created-not-first"): 20,
        (d.RESPONSES_STREAM, "respstream.terminal-missing"): 20,
        (d.RESPONSES_STREAM, "respstream.text-mismatch"): 25,
        (d.CHAT, "chat.id-missing"): 15,
        (d.CHAT, "chat.choices-empty"): 30,
        (d.CHAT, "chat.finish-unknown"): 20,
        (d.CHAT, "chat.responses-shape"): ALL,
        (d.CHAT_STREAM, "chatstream.done-missing"): 15,
        (d.MODELS, "models.created-type"): 10,
        (d.MODELS, "models.object-wrong"): 15,
    }
    for (detector, rule), points in amounts.items():
        declared = register()[rule]
        assert cost(detector, declared, declared.severity).of(1) == points, rule


@pytest.mark.parametrize(
    ("probe", "rule", "detector"),
    [
        ("models", "http.json-invalid", d.MODELS),
        ("chat-tools", "chat.object-wrong", d.CHAT),
        ("chat-tools", "tools.args-type", d.TOOLS),
        ("chat-tools-stream", "chatstream.tool-index-type", d.TOOLS),
        ("chat-stream", "usage.total-too-low", d.USAGE),
        ("chat-stream", "chatstream.usage-missing", d.CHAT_STREAM),
        ("responses-stream", "responses.object-wrong", d.RESPONSES_STREAM),
        ("responses-structured", "structured.fenced", d.STRUCTURED),
        ("chat-create", "models.requested-model-unlisted", d.MODELS),
        ("chat-stop", "cross.stop-sequence", d.EXTENDED),
        ("chat-create", "cross.model-substituted", d.CHAT),
        ("chat-bad-key", "error.string", d.EXTENDED),
        ("embeddings-float", "embeddings.data-empty", d.EXTENDED),
    ],
)
def test_a_rule_counts_for_one_detector(probe: str, rule: str, detector: str) -> None:
    assert detector_of(register()[rule], BY_NAME[probe]) == detector


def test_what_makes_an_answer_unusable_is_its_shape_and_no_single_member() -> None:
    probe = BY_NAME["chat-create"]
    assert unusable(register()["chat.anthropic-shape"], Severity.FAIL, probe)
    assert not unusable(register()["chat.object-wrong"], Severity.FAIL, probe)
    assert not unusable(register()["chat.anthropic-shape"], Severity.INFO, probe)
