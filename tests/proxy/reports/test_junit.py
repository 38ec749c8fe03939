"""The JUnit report is XML whatever stands in it, in the structure that its readers expect."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.junit import render
from teeline.proxy.reports.model import Report, ReportedExchange, Style
from teeline.validators.model import Severity
from tests.proxy.reports.examples_of_findings import evil, reported, violation

OUTCOMES = {"failure", "error", "skipped"}


def parsed(*exchanges: ReportedExchange, style: Style | None = None, **more: object) -> ET.Element:
    report = Report(exchanges, {}, **more)  # type: ignore[arg-type]
    return ET.fromstring(render(report, style or Style()))


def only(root: ET.Element, tag: str) -> ET.Element:
    (found,) = root.iter(tag)
    return found


def test_a_file_is_a_suite_and_an_exchange_a_case() -> None:
    root = parsed(
        reported(violation(), name="a", line=4),
        reported(name="b"),
        reported(name="c", file="other.json"),
    )
    assert root.tag == "testsuites"
    assert root.attrib == {
        "name": "teeline",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    assert [(s.get("name"), s.get("tests")) for s in root] == [
        ("in/a.json", "2"),
        ("other.json", "1"),
    ]
    case = root[0][0]
    assert case.attrib == {
        "classname": "teeline.chat",
        "name": "a",
        "file": "in/a.json",
        "line": "4",
        "time": "0.250",
    }


def test_a_failing_case_has_one_failure_that_holds_all_findings() -> None:
    found = (violation("chat.a"), violation("chat.b"), violation("chat.c", Severity.WARN))
    root = parsed(reported(*found))
    failure = only(root, "failure")
    assert failure.get("message") == "chat.a: It is bad. and 1 more"
    assert failure.get("type") == "chat.a"
    assert failure.text is not None
    assert failure.text.splitlines()[:3] == [
        "fail chat.a: It is bad.",
        "  where: response, event 3, byte 1204, /choices/0/delta",
        '  seen:  "object": 7',
    ]
    assert "fail chat.b" in failure.text
    assert only(root, "system-out").text is not None
    assert "warn chat.c" in (only(root, "system-out").text or "")


def test_the_threshold_says_what_is_a_failure() -> None:
    warned = reported(violation("chat.c", Severity.WARN))
    assert parsed(warned).get("failures") == "0"
    assert parsed(warned, threshold=Severity.WARN).get("failures") == "1"
    assert parsed(reported(violation()), threshold=None).get("failures") == "0"


def test_info_findings_come_on_demand() -> None:
    told = reported(violation("chat.i", Severity.INFO))
    assert list(parsed(told).iter("system-out")) == []
    assert "chat.i" in (only(parsed(told, style=Style(show_info=True)), "system-out").text or "")


def test_what_was_not_inspected_is_skipped_unless_something_was_found() -> None:
    assert parsed(reported(inspection="none (no body)")).get("skipped") == "1"
    found = parsed(reported(violation(), inspection="none"))
    assert (found.get("skipped"), found.get("failures")) == ("0", "1")
    assert parsed(reported(inspection="partial (body-limit)")).get("skipped") == "0"


def test_what_could_not_be_read_is_an_error() -> None:
    root = parsed(problems=[Problem("x.json", "not JSON")])
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    assert only(root, "error").get("message") == "not JSON"


def test_a_hint_stands_with_the_failure() -> None:
    failure = only(parsed(reported(violation("chat.gemini-shape"))), "failure")
    assert "hint: This is an answer of the native Gemini API" in (failure.text or "")


def test_a_case_has_one_outcome_at_most_and_the_counts_are_true() -> None:
    root = parsed(
        reported(violation()), reported(), reported(inspection="none"), problems=[Problem("x", "y")]
    )
    cases = list(root.iter("testcase"))
    assert all(len([c for c in case if c.tag in OUTCOMES]) <= 1 for case in cases)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert root.get(attribute) == str(sum(1 for _ in root.iter(tag)))
        assert root.get(attribute) == str(sum(int(suite.get(attribute) or "") for suite in root))


def test_nothing_that_others_wrote_breaks_the_document() -> None:
    """Characters that XML can't hold, ends of elements and of sections are text like any other."""
    text = render(evil(), Style())
    root = ET.fromstring(text)
    assert len(list(root.iter("testcase"))) == 2
    assert not any(c in text for c in "\x1b\x00\x07\r\u202e\u2028\ufffe\udc80")
    assert "</failure>]]>" in (only(root, "failure").text or "")
