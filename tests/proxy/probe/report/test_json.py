"""The report for machines: one ASCII document with everything that the other formats tell."""

from __future__ import annotations

import json

from teeline.proxy.probe.report.json import render
from teeline.proxy.reports.model import Style
from tests.proxy.probe.report.outcomes import HOSTILE, KEY, faulty


def test_the_document_holds_scores_findings_and_cost() -> None:
    document = json.loads(render(faulty(), Style()))
    assert (document["v"], document["band"], document["result"]) == (1, "excellent", "fail")
    scores = {d["name"]: (d["score"], d["result"]) for d in document["detectors"]}
    assert scores["ChatCompletionsProtocol"] == (80, "fail")
    assert scores["ToolCalling"] == (None, "skip")
    assert document["findings"][0]["rule"] == "chat.object-wrong"
    assert document["by_protocol"]["responses"]["result"] == "pass"
    assert document["cost"]["requests"] == 5
    assert document["api_key_masked"] == "sk-...1234"


def test_the_document_is_ascii_whatever_a_server_says() -> None:
    text = render(faulty(HOSTILE), Style())
    assert text.isascii()
    assert "\x1b" not in text
    assert KEY not in text
    assert json.loads(text)["findings"]
