"""The report for people says what is wrong, where and what to do, and can't be made to lie."""

from __future__ import annotations

import re

import pytest

from teeline.proxy.reports.model import Report, ReportedExchange, Style
from teeline.proxy.reports.text import place_words, render
from teeline.validators.model import (
    Exchange,
    Place,
    Rule,
    RuleSource,
    Severity,
    Side,
    Unit,
    Violation,
)

PLACE = Place(Side.RESPONSE, Unit.EVENT, 3, 1204, "/choices/0/delta")


def rule(rule_id: str = "chat.bad", severity: Severity = Severity.FAIL) -> Rule:
    return Rule(
        id=rule_id,
        severity=severity,
        summary="Something is bad.",
        why=f"A client breaks over {rule_id}.",
        fix=f"Mend {rule_id}.",
        source=RuleSource("a specification"),
        bad={},
        good={},
    )


def violation(
    rule_id: str = "chat.bad",
    severity: Severity = Severity.FAIL,
    *,
    message: str = "It is bad.",
    evidence: str = '"object": 7',
    place: Place = PLACE,
    count: int = 1,
) -> Violation:
    return Violation(rule(rule_id, severity), severity, message, place, evidence, 0.0, count)


def reported(
    *violations: Violation, file: str = "a.json", name: str = "", inspection: str = "full"
) -> ReportedExchange:
    exchange = Exchange(operation="chat", status=200, inspection=inspection)
    exchange.violations = list(violations)
    return ReportedExchange(name, file, exchange)


def text(*exchanges: ReportedExchange, **style: bool | int) -> str:
    return render(Report(exchanges, {}), Style(**style))  # type: ignore[arg-type]


def test_a_finding_has_rule_place_evidence_and_what_to_do() -> None:
    assert text(reported(violation(count=2))) == (
        "FAIL  a.json  chat, 200\n"
        "      fail  chat.bad  response, event 3, byte 1204, /choices/0/delta  2 times\n"
        "            what  It is bad.\n"
        '            seen  "object": 7\n'
        "            why   A client breaks over chat.bad.\n"
        "            fix   Mend chat.bad.\n"
        "\n"
        "1 exchange: 1 fail, 0 warn, 0 pass\n"
        "teeline rules ID shows a rule with its source and examples\n"
    )


def test_the_profile_and_its_reason_stand_beside_the_exchange() -> None:
    exchange = reported()
    exchange.exchange.profile, exchange.exchange.profile_reason = "mistral", "header x"
    assert text(exchange).startswith("PASS  a.json  chat, 200  profile mistral (header x)\n")
    exchange.exchange.profile, exchange.exchange.profile_reason = "", "none: marks of a and b"
    assert "  profile none: marks of a and b\n" in text(exchange)


def test_what_the_policy_has_to_say_of_a_finding_stands_beneath_it() -> None:
    lowered = violation(severity=Severity.WARN)
    lowered.note = "fail lowered to warn by profile mistral: so it is"
    assert "            note  fail lowered to warn by profile mistral: so it is\n" in text(
        reported(lowered)
    )


def test_a_hint_comes_before_the_findings() -> None:
    shown = text(reported(violation("chat.gemini-shape")))
    assert shown.index("      hint  This is an answer of the native Gemini API") < shown.index(
        "chat.gemini-shape"
    )


def test_a_clean_exchange_is_one_line() -> None:
    assert text(reported()) == "PASS  a.json  chat, 200\n1 exchange: 0 fail, 0 warn, 1 pass\n"


def test_the_worst_finding_comes_first() -> None:
    shown = text(reported(violation("chat.mild", Severity.WARN), violation("chat.grave")))
    assert shown.index("chat.grave") < shown.index("chat.mild")


def test_a_rule_is_explained_once_and_named_every_time() -> None:
    shown = text(reported(violation()), reported(violation(), file="b.json"))
    assert shown.count("fail  chat.bad  ") == 2
    assert shown.count("A client breaks over chat.bad.") == 1


def test_info_findings_are_counted_and_shown_on_demand() -> None:
    exchange = reported(violation("chat.note", Severity.INFO))
    assert "chat.note" not in text(exchange)
    assert "1 info finding hidden (--show-info)" in text(exchange)
    assert "chat.note" in text(exchange, show_info=True)
    assert "hidden" not in text(exchange, show_info=True)


def test_quiet_leaves_findings_alone() -> None:
    shown = text(reported(file="clean.json"), reported(violation()), quiet=True)
    assert shown.startswith("FAIL  a.json")
    assert "clean.json" not in shown
    assert "exchanges:" not in shown


def test_the_clients_own_fault_stands_beside_the_relays_verdict() -> None:
    fault = violation("request.bad", place=Place(Side.REQUEST, Unit.BODY))
    assert text(reported(fault)).startswith("PASS  a.json  chat, 200  client: FAIL\n")


def test_what_was_not_inspected_is_said_at_the_exchange_and_in_the_sum() -> None:
    shown = text(reported(inspection="partial (body-limit)"))
    assert "PASS  a.json  chat, 200  inspection: partial (body-limit)\n" in shown
    assert "1 not inspected in full" in shown


def test_a_name_is_shown_where_the_file_does_not_say_it() -> None:
    assert "a.json  second  chat" in text(reported(name="second"))
    assert "a.json  chat" in text(reported(name="a"))


@pytest.mark.parametrize("color", [False, True])
def test_nothing_that_others_wrote_controls_the_terminal(color: bool) -> None:
    """Escape sequences, line breaks, direction marks and markup are text like any other."""
    evil = "\x1b[31mred\x1b]0;title\x07\r\nPASS \u202e\u2028\x9b2J [bold]x[/bold] :smile: \udc80"
    place = Place(Side.RESPONSE, Unit.BODY, 0, 0, "/" + evil)
    fault = violation(message=evil, evidence=evil, place=place)
    shown = text(
        reported(fault, file=evil, name=evil, inspection=evil), color=color, show_info=True
    )
    ours = re.sub(r"\x1b\[[0-9;]*m", "", shown) if color else shown
    assert not any(c in ours for c in "\x1b\x07\r\u202e\u2028\x9b\udc80")
    assert not any(line.startswith("PASS") for line in ours.splitlines())
    assert shown.count("\x1b]") == 0
    assert "[bold]x[/bold] :smile:" in ours
    assert "\\u202e" in ours


def test_colour_changes_nothing_but_the_colour() -> None:
    exchanges = (reported(violation()), reported(violation("chat.mild", Severity.WARN)))
    colored = text(*exchanges, color=True)
    plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).split("\n"))
    assert colored.startswith(
        "\x1b[1;31mFAIL\x1b[0m  \x1b[1ma.json\x1b[0m\x1b[2m  chat, 200\x1b[0m\n"
    )
    assert plain == text(*exchanges)


def test_long_words_of_ours_wrap_under_their_label() -> None:
    lines = text(reported(violation(message="word " * 40)), width=60).splitlines()
    start = next(at for at, line in enumerate(lines) if "what" in line)
    assert all(len(line) <= 60 for line in lines[start : start + 4])
    assert lines[start + 1].startswith(" " * 18 + "word")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (PLACE, "response, event 3, byte 1204, /choices/0/delta"),
        (Place(Side.REQUEST, Unit.HEAD), "request, head"),
        (Place(Side.RESPONSE, Unit.BODY, 0, 7), "response, body, byte 7"),
    ],
)
def test_a_place_in_words_has_what_it_has(place: Place, words: str) -> None:
    assert place_words(place) == words
