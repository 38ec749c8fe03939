"""JUnit: a detector is a case, and the document is well-formed whatever a server says."""

from __future__ import annotations

from xml.etree import ElementTree

from teeline.proxy.probe.report.junit import render
from teeline.proxy.reports.model import Style
from tests.proxy.probe.report.outcomes import HOSTILE, faulty


def test_a_failed_detector_is_a_failure_and_a_skipped_one_is_skipped() -> None:
    (suite,) = ElementTree.fromstring(render(faulty(HOSTILE), Style()))
    assert suite.get("failures") == "1"
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert len(cases) == 10
    failure = cases["ChatCompletionsProtocol"].find("failure")
    assert failure is not None
    assert failure.get("message") == "chat.object-wrong"
    assert cases["ToolCalling"].find("skipped") is not None
    assert len(cases["ModelsEndpoint"]) == 0


def test_warnings_do_not_fail_a_case() -> None:
    (suite,) = ElementTree.fromstring(render(faulty(), Style()))
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    out = cases["ChatCompletionsProtocol"].find("system-out")
    assert out is not None
    assert "chat.id-empty" in (out.text or "")
