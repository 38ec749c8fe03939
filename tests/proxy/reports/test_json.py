"""The JSON report has the documented members, and every JSON reader can read it."""

from __future__ import annotations

from typing import Any

import orjson

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.json import render
from teeline.proxy.reports.model import Report, ReportedExchange, Style
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

RULE = Rule("chat.bad", Severity.FAIL, "Bad.", "why", "fix", RuleSource("x"), {}, {})
PLACE = Place(Side.RESPONSE, Unit.EVENT, 3, 1204, "/choices/0")


def reported(*violations: Violation, name: str = "n", file: str = "a.json") -> ReportedExchange:
    exchange = Exchange(operation="chat")
    exchange.violations = list(violations)
    return ReportedExchange(name, file, exchange)


def document(*exchanges: ReportedExchange, profile: str | None = None) -> dict[str, Any]:
    text = render(Report(exchanges, {"chat.bad": RULE}, profile), Style())
    assert text.endswith("\n")
    assert text.isascii()
    loaded: dict[str, Any] = orjson.loads(text)
    return loaded


def test_every_member_of_the_format_is_there() -> None:
    found = Violation(RULE, Severity.WARN, "It is bad.", PLACE, '"a": 1', 0.0, 2)
    whole = document(reported(found), reported(), profile="azure")
    assert whole["v"] == 1
    assert whole["profile"] == "azure"
    assert whole["tool"]["name"] == "teeline"
    assert whole["tool"]["version"]
    assert len(whole["tool"]["rules"]) == 12
    assert whole["summary"] == {"exchanges": 2, "pass": 1, "warn": 1, "fail": 0}
    assert whole["exchanges"][0] == {
        "name": "n",
        "file": "a.json",
        "line": 1,
        "operation": "chat",
        "verdict": "warn",
        "client_verdict": "pass",
        "inspection": "full",
        "profile": None,
        "hints": [],
        "violations": [
            {
                "rule": "chat.bad",
                "severity": "warn",
                "message": "It is bad.",
                "count": 2,
                "place": {
                    "side": "response",
                    "unit": "event",
                    "index": 3,
                    "byte": 1204,
                    "pointer": "/choices/0",
                },
                "evidence": '"a": 1',
                "note": "",
            }
        ],
    }
    assert whole["exchanges"][1]["violations"] == []
    assert whole["problems"] == []


def test_the_profile_of_an_exchange_stands_with_its_reason() -> None:
    recognised, torn = reported(), reported()
    recognised.exchange.profile, recognised.exchange.profile_reason = "mistral", "header x"
    torn.exchange.profile_reason = "none: marks of a and b"
    first, second = document(recognised, torn)["exchanges"]
    assert first["profile"] == {"name": "mistral", "reason": "header x"}
    assert second["profile"] == {"name": None, "reason": "none: marks of a and b"}


def test_what_could_not_be_checked_is_part_of_the_report() -> None:
    report = Report([], {}, problems=[Problem("a.jsonl", "line 3: not JSON", 3)])
    assert orjson.loads(render(report, Style()))["problems"] == [
        {"file": "a.jsonl", "line": 3, "message": "line 3: not JSON"}
    ]


def test_a_report_of_nothing_is_a_report() -> None:
    whole = document()
    assert whole["exchanges"] == []
    assert whole["profile"] is None


def test_text_that_others_wrote_is_ascii_and_read_by_strict_readers() -> None:
    """Controls, direction marks, DEL and half surrogate pairs are escapes in the document."""
    evil = "\x1b[2J\x7f\u202e\udc80\n"
    place = PLACE._replace(pointer=evil)
    found = Violation(RULE, Severity.FAIL, evil, place, evil, 0.0)
    text = render(Report([reported(found, name=evil, file=evil)], {}), Style())
    assert not any(c in text for c in "\x1b\x7f")
    (exchange,) = document(reported(found, name=evil, file=evil))["exchanges"]
    assert exchange["file"] == "\x1b[2J\x7f\u202e\\udc80\n"
    assert exchange["violations"][0]["evidence"] == exchange["file"]
