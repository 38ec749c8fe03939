"""Each line of the report is a document of its own."""

from __future__ import annotations

import json

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports import json as whole
from teeline.proxy.reports.jsonl import render
from teeline.proxy.reports.model import Report, Style
from tests.proxy.reports.examples_of_findings import evil, reported, violation


def test_exchanges_problems_and_a_summary_are_lines() -> None:
    report = Report([reported(violation())], {}, "auto", [Problem("x", "not JSON")])
    exchange, problem, summary = map(json.loads, render(report, Style()).splitlines())
    assert (exchange["v"], exchange["kind"], exchange["verdict"]) == (1, "exchange", "fail")
    assert problem == {"v": 1, "kind": "problem", "file": "x", "line": 0, "message": "not JSON"}
    assert summary["kind"] == "summary"
    assert summary["summary"] == {"exchanges": 1, "pass": 0, "warn": 0, "fail": 1}
    assert (summary["profile"], summary["tool"]["name"]) == ("auto", "teeline")


def test_an_exchange_is_the_same_object_as_in_the_whole_report() -> None:
    report = Report([reported(violation())], {})
    line = json.loads(render(report, Style()).splitlines()[0])
    (exchange,) = json.loads(whole.render(report, Style()))["exchanges"]
    assert line == {"v": 1, "kind": "exchange", **exchange}


def test_nothing_that_others_wrote_begins_a_line() -> None:
    text = render(evil(), Style())
    assert text.isascii()
    assert len(text.split("\n")) == 4
    assert "\x1b" not in text
