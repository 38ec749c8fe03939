"""Markdown: what a server or a user wrote stays text."""

from __future__ import annotations

from teeline.proxy.probe.report.markdown import code, render, text
from teeline.proxy.reports.model import Style
from tests.proxy.probe.report.outcomes import HOSTILE, KEY, faulty


def test_the_report_has_a_table_and_a_heading_a_finding() -> None:
    made = render(faulty(), Style())
    assert "| ChatCompletionsProtocol | 15 | 80 | fail | `chat.object-wrong` -15" in made
    assert "## fail: `chat.object-wrong`" in made
    assert KEY not in made


def test_no_markup_comes_out_of_a_server_s_text() -> None:
    assert text("<b>[x](y)|*") == r"\<b\>\[x\]\(y\)\|\*"
    assert "<script>" not in text(HOSTILE)


def test_a_code_span_is_longer_than_the_backticks_in_it() -> None:
    assert code("a") == "`a`"
    assert code("a``b") == "``` a``b ```"
