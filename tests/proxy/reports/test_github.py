"""Workflow commands say what is wrong, and nothing that a peer wrote becomes one."""

from __future__ import annotations

import re

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.github import render
from teeline.proxy.reports.model import Report, Style
from teeline.validators.model import Severity
from tests.proxy.reports.examples_of_findings import evil, reported, violation

COMMAND = re.compile(r"::(error|warning|notice) file=([^:,]*),line=(\d+),title=([^:,]*)::(.*)\Z")


def unescaped(text: str) -> str:
    """As the runner reads a property."""
    for escape, character in (
        ("%2C", ","),
        ("%3A", ":"),
        ("%0A", "\n"),
        ("%0D", "\r"),
        ("%25", "%"),
    ):
        text = text.replace(escape, character)
    return text


def test_a_finding_is_a_command_with_its_place_and_its_remedy() -> None:
    command, last = render(Report([reported(violation(), line=7)], {}), Style()).splitlines()
    match = COMMAND.match(command)
    assert match is not None
    assert match.groups()[:4] == ("error", "in/a.json", "7", "teeline chat.bad")
    assert unescaped(match[5]) == (
        "one: It is bad.\n"
        'response, event 3, byte 1204, /choices/0/delta (seen: "object": 7)\n'
        "Fix: Mend it: {always}."
    )
    assert last == "teeline: 1 exchanges: 1 fail, 0 warn, 0 pass"


def test_a_path_is_the_repository_s() -> None:
    assert "file=in/a.json," in render(
        Report([reported(violation(), file="./in/a.json")], {}), Style()
    )


def test_severities_are_the_commands_that_there_are() -> None:
    found = [violation("chat.a", severity) for severity in Severity]
    shown = render(Report([reported(*found)], {}), Style(show_info=True))
    assert [line.split()[0] for line in shown.splitlines()[:3]] == [
        "::error",
        "::warning",
        "::notice",
    ]
    assert "::notice" not in render(Report([reported(*found)], {}), Style())


def test_a_hint_and_a_note_are_told() -> None:
    found = violation("chat.gemini-shape", note="so it is")
    shown = render(Report([reported(found)], {}), Style())
    assert "%0ANote: so it is" in shown
    assert "::notice file=in/a.json,line=1,title=teeline hint::This is an answer of the" in shown


def test_what_was_not_checked_is_an_error() -> None:
    report = Report([], {}, problems=[Problem("a,b:c.json", "not 100% JSON")])
    command = render(report, Style(quiet=True)).rstrip("\n")
    match = COMMAND.match(command)
    assert match is not None
    assert unescaped(match[2]) == "a,b:c.json"
    assert match[5] == "not 100%25 JSON"


def test_nothing_that_others_wrote_becomes_a_command() -> None:
    """Neither a line of its own, nor the older form in the middle of one, nor another property."""
    lines = render(evil(), Style()).splitlines()
    assert len(lines) == 3
    assert all(COMMAND.match(line) for line in lines[:2])
    assert not any("##[" in line for line in lines)
    assert not any(c in "".join(lines) for c in "\x1b\x00\x07\r\u202e\u2028\udc80")
