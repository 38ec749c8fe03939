"""``teeline rules`` lists and explains what can be reported."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.rules import nearest, rules
from teeline.validators.exchangefile import RecordedExchange, parse
from teeline.validators.rules import register


def run(*arguments: str) -> Result:
    return CliRunner().invoke(rules, arguments)


def test_the_list_has_a_line_for_every_rule() -> None:
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == len(register())
    for line, rule in zip(lines, register().values(), strict=True):
        assert line.split()[:2] == [rule.id, rule.severity.word]
        assert line.endswith(rule.summary)


def test_a_family_lists_its_rules_alone() -> None:
    ids = [line.split()[0] for line in run("--family", "chatstream").stdout.splitlines()]
    assert ids == [rule.id for rule in register().values() if rule.family == "chatstream"]
    assert ids


def test_a_rule_is_explained_with_source_and_both_examples() -> None:
    rule = register()["chatstream.done-missing"]
    result = run(rule.id)
    assert result.exit_code == 0
    assert result.stdout.startswith("chatstream.done-missing  fail\n")
    words = " ".join(result.stdout.split())
    for said in (rule.summary, rule.why, rule.fix, rule.source.text):
        assert " ".join(said.split()) in words
    wrong, _, right = result.stdout.partition("\nwrong\n")[2].partition("\nright\n")
    assert "  > (nothing)\n" in wrong
    assert "[DONE]" in right


def test_every_rule_can_be_explained() -> None:
    for rule_id in register():
        assert run(rule_id).exit_code == 0, rule_id


def test_json_has_every_field_and_examples_that_check_can_read() -> None:
    document = json.loads(run("--format", "json", "--family", "chatstream").stdout)
    assert document["v"] == 1
    shown = next(rule for rule in document["rules"] if rule["id"] == "chatstream.done-missing")
    rule = register()[shown["id"]]
    assert shown["source"] == {
        "text": rule.source.text,
        "section": rule.source.section,
        "deduction": rule.source.deduction,
    }
    fields = ("severity", "summary", "why", "fix", "family", "core", "side", "bad", "good")
    assert all(field in shown for field in fields)
    assert isinstance(parse(shown["bad"]), RecordedExchange)


def test_json_of_one_rule_is_a_list_of_one() -> None:
    document = json.loads(run("chatstream.done-missing", "--format", "json").stdout)
    assert [rule["id"] for rule in document["rules"]] == ["chatstream.done-missing"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["chatstream.done-mising"],
            "no rule is called 'chatstream.done-mising' (did you mean chatstream.done-missing?)",
        ),
        (["done-missing"], "(did you mean chatstream.done-missing?)"),
        (["--family", "chatstraem"], "(did you mean chatstream?)"),
        (["\x1b[2J"], "no rule is called '\\\\x1b[2J'"),
        (["chatstream.done-missing", "--family", "chat"], "exclude each other"),
    ],
)
def test_an_unknown_word_is_a_usage_error_that_names_the_nearest(
    arguments: list[str], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_nothing_is_suggested_where_nothing_is_like_it() -> None:
    assert nearest("zzzz", ["chat.body-not-object"]) == ""


def test_a_rule_of_the_relay_check_is_explained_and_not_listed() -> None:
    """It has no examples: only a question of the check's own shows it."""
    explained = CliRunner().invoke(rules, ["probe.pong-missing"])
    assert explained.exit_code == 0
    assert "pong" in explained.stdout
    assert "wrong" not in explained.stdout.splitlines()
    assert "probe." not in CliRunner().invoke(rules, []).stdout
