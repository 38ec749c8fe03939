"""The outcome reads well on a terminal, and line by line everywhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from teeline.proxy.demo.table import first_sentence, show, totals
from teeline.validators.rules import register
from tests.proxy.demo.test_findings import outcome

_OUTCOMES = [
    outcome("clean-json"),
    outcome("tool-args-broken", "tools.args-invalid-json"),
    outcome("no-done", "chatstream.done-missing"),
]


def _shown(terminal: bool, width: int = 100, no_color: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=terminal,
        width=width,
        no_color=no_color,
        color_system="standard" if terminal else None,
        _environ={},
    )
    show(_OUTCOMES, console)
    return out.getvalue()


def test_without_a_terminal_every_answer_and_every_finding_is_a_line() -> None:
    """``grep ^fail`` gives the failed answers, ``grep chatstream`` the findings."""
    lines = _shown(terminal=False).splitlines()
    assert lines[0] == "pass  clean-json        answers in JSON as documented"
    verdicts = [line.split()[0] for line in lines if line[0] != " "]
    assert verdicts == ["pass", "warn", "fail"]
    assert "      fail  chatstream.done-missing  event 3 byte 120 /choices/0" in lines


def test_without_a_terminal_there_is_no_escape_sequence() -> None:
    """A file or a pipe gets text and nothing else, in lines that fit."""
    text = _shown(terminal=False)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_client_s_damage_is_told_with_every_finding() -> None:
    """People learn why a rule matters where they meet it."""
    why = first_sentence(register()["chatstream.done-missing"].why)
    assert why in " ".join(_shown(terminal=False).split())


@pytest.mark.parametrize("width", [80, 100, 160])
def test_on_a_terminal_names_verdicts_and_rules_stay_whole(width: int) -> None:
    """However narrow, what people search for is not broken over lines."""
    text = _shown(terminal=True, width=width)
    for whole in ("tool-args-broken", "chatstream.done-missing", "tools.args-invalid-json"):
        assert whole in text


def test_verdicts_have_their_colours_and_none_with_no_color() -> None:
    """Green, yellow, red; NO_COLOR takes the colours and leaves the table."""
    coloured = _shown(terminal=True)
    for code in ("32mpass", "33mwarn", "31mfail"):
        assert code in coloured
    plain = _shown(terminal=True, no_color=True)
    assert "32m" not in plain
    assert "31m" not in plain
    assert "verdict" in plain


def test_the_totals_count_what_crossed_unchanged() -> None:
    """One exchange that was changed is missing from the count."""
    changed = outcome("clean-json", differences=("answer: other header fields arrived",))
    assert totals(_OUTCOMES).startswith("3 of 3 exchanges crossed the proxy unchanged")
    assert totals([*_OUTCOMES, changed]).startswith("3 of 4 exchanges")
    assert "30 body bytes out, 60 back" in totals(_OUTCOMES)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("Reads `a.b` first. Then more.", "Reads `a.b` first."),
        ("Only one, e.g. this", "Only one, e.g. this"),
        ("Broken\n over lines.  `x` follows.", "Broken over lines."),
    ],
)
def test_the_first_sentence_of_a_rule_is_its_short_form(text: str, first: str) -> None:
    """Cut at a sentence's end, not at any dot."""
    assert first_sentence(text) == first
