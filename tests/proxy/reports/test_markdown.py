"""The generated pages say all that is declared, and declarations can't break their layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from teeline.proxy.reports.markdown import profile_page, rule_index, rule_pages
from teeline.validators.model import Rule, RuleSource, Severity
from teeline.validators.profiles import Lowering, Markers, Profile
from teeline.validators.rules import register

RULE = Rule(
    id="chat.bad",
    severity=Severity.FAIL,
    summary="The `a_b` of <x> | y is *bad* and _worse_.",
    why="It hurts.",
    fix="Mend it.",
    source=RuleSource("a specification", "4.5", 15),
    bad={"on": "chat", "body": "````\nx"},
    good={"on": "chat"},
    core=True,
)
RULES: Mapping[str, Rule] = {"chat.bad": RULE}
ACME = Profile(
    "acme",
    "Acme",
    about="A vendor.",
    names=("acme-old",),
    lower=(
        Lowering(
            "chat.bad",
            Severity.WARN,
            "so it is",
            when=frozenset({"finish-length"}),
            words=frozenset({"", "odd"}),
            models=("acme-2",),
        ),
    ),
    markers=Markers(
        hosts=("acme.example",),
        headers=(("x-acme", ""), ("server", "acme/")),
        fingerprints=("fp_acme",),
        ids=("a-",),
        members=("x_acme",),
    ),
    aliases={"a": frozenset({"b"})},
    extensions=frozenset({"x_acme"}),
    notes={"chat.bad": "known | for it"},
)


def page() -> str:
    ((family, text),) = rule_pages(RULES)
    assert family == "chat"
    return text


def test_a_rule_is_told_in_full() -> None:
    text = page()
    assert "## chat.bad\n" in text
    assert "**fail**, core. The `a_b` of \\<x\\> | y is \\*bad\\* and \\_worse\\_." in text
    assert "- Why: It hurts.\n- Fix: Mend it.\n" in text
    assert "- Source: a specification; relay check, section 4.5; deduction 15\n" in text
    assert text.index("Wrong:") < text.index("Right:")


def test_an_observation_is_neither_wrong_nor_right() -> None:
    ((_, text),) = rule_pages({"chat.bad": replace(RULE, severity=Severity.INFO)})
    assert "\nReported:\n" in text and "\nNot reported:\n" in text


def test_a_fence_is_longer_than_any_in_the_example() -> None:
    assert "`````text\n" in page()
    assert page().count("`````\n") == 1


def test_the_index_links_to_an_anchor_that_the_page_has() -> None:
    """Renderers make an anchor of a heading without its dots."""
    index = rule_index(RULES)
    assert "| [chat.bad](chat.md#chatbad) | fail | The `a_b` of \\<x\\> \\| y" in index
    headings = re.findall(r"^## (.+)$", page(), re.MULTILINE)
    assert [h.replace(".", "") for h in headings] == ["chatbad"]


def test_every_rule_has_a_page_and_a_line_in_the_index() -> None:
    rules = register()
    headings = {
        heading
        for _, text in rule_pages(rules)
        for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)
    }
    assert headings == set(rules)
    index = rule_index(rules)
    assert all(f"| [{rule_id}](" in index for rule_id in rules)


def test_a_table_has_as_many_cells_in_each_row() -> None:
    for text in (rule_index(RULES), profile_page([ACME], RULES)):
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_a_profile_is_told_in_full() -> None:
    text = profile_page([ACME], RULES)
    assert "## acme\n\n**Acme.** A vendor.\n" in text
    assert "- Also called: `acme-old`" in text
    assert (
        "- Recognised by: host `acme.example`; header `x-acme`, `server: acme/…`; "
        "system_fingerprint `fp_acme…`; id `a-…`; member `x_acme`\n"
    ) in text
    assert "- `a` may be answered by `b`\n- Its extensions: `x_acme`\n" in text
    assert (
        "| [chat.bad](rules/chat.md#chatbad) | fail → warn "
        "| finish-length; words (empty), `odd`; models `acme-2*` | so it is |"
    ) in text
    assert "| [chat.bad](rules/chat.md#chatbad) | known \\| for it |" in text


def test_a_profile_without_marks_is_chosen_by_name() -> None:
    text = profile_page([Profile("x", "X")], RULES)
    assert "- Recognised by: nothing; choose it by name" in text
