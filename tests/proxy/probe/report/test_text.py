"""The report for a terminal: plain without colour, and nothing of a server's gets at the terminal."""

from __future__ import annotations

from teeline.proxy.probe.report.text import render
from teeline.proxy.reports.model import Style
from teeline.validators.rules import register
from tests.proxy.probe.report.outcomes import HOSTILE, KEY, faulty, outcome


def test_each_finding_has_place_excerpt_why_fix_and_curl() -> None:
    text = render(faulty(), Style(width=100))
    rule = register()["chat.object-wrong"]
    for words in ("chat-create: response, body, /object", '"object": "x"', "curl -sS -i"):
        assert words in text
    assert rule.why.split()[0] in text
    assert rule.fix.split()[0] in text
    assert KEY not in text


def test_a_clean_check_is_short() -> None:
    text = render(outcome(), Style(width=100))
    assert "total: 100  excellent, result pass" in text
    assert len(text.splitlines()) < 25


def test_no_escape_sequence_without_colour_and_none_of_a_server_s_with_it() -> None:
    for color in (False, True):
        text = render(faulty(HOSTILE), Style(width=100, color=color))
        assert ("\x1b[" in text) is color
        assert "\x1b[31m\u202e" not in text
        assert "\u202e" not in text
