"""What is shown of a rule's examples is where they differ, and little else."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.proxy.reports.examples import MAX_LINES, Line, compared, lines
from teeline.validators.rules import register

WIDTH = 96
STREAM = {"on": "chat-stream"}


def marked(shown: object) -> list[str]:
    assert isinstance(shown, list)
    return [line.text for line in shown if line.differs]


def test_a_stream_is_its_lines_under_its_heads() -> None:
    shown = lines(STREAM)
    assert shown[0] == "POST /v1/chat/completions"
    assert "HTTP 200" in shown
    assert "data: [DONE]" in shown


def test_a_missing_line_shows_as_a_gap_on_the_side_that_lacks_it() -> None:
    wrong, right = compared({**STREAM, "done": False}, STREAM, WIDTH)
    assert marked(wrong) == ["(nothing)"]
    assert "data: [DONE]" in marked(right)


def test_a_long_line_is_cut_around_its_first_difference() -> None:
    bad = {**STREAM, "set": {"/4/choices/0/finish_reason": '"eos"'}}
    wrong, right = compared(bad, STREAM, WIDTH)
    (shown,) = marked(wrong)
    assert '"finish_reason":"eos"' in shown
    assert shown.startswith("...")
    assert all(len(line.text) <= WIDTH for line in (*wrong, *right))


def test_a_connection_that_broke_is_part_of_the_example() -> None:
    wrong, _ = compared({**STREAM, "connection": "aborted"}, STREAM, WIDTH)
    assert marked(wrong) == ["(connection: aborted)"]


def test_what_an_example_depends_on_is_part_of_it() -> None:
    """Earlier exchanges, limits and times make the difference where the exchange itself has none."""
    varied: list[dict[str, Any]] = [
        {"before": [{"on": "chat"}]},
        {"limits": {"large_request": 66}},
        {"times": [31.0, 32.5]},
        {"request_body": "not JSON"},
    ]
    shown = [marked(compared({"on": "chat", **more}, {"on": "chat"}, WIDTH)[0]) for more in varied]
    assert shown[0][0] == "(before: POST /v1/chat/completions)"
    assert shown[1] == ["(limits: large_request 66)"]
    assert shown[2] == ["(head after 31 s, reads after 32.5 s)"]
    assert shown[3] == ["not JSON"]


def test_what_is_left_out_shows_as_dots() -> None:
    wrong, _ = compared({**STREAM, "done": False}, STREAM, WIDTH)
    assert wrong[0] == Line("...", False)


def test_equal_examples_show_their_beginning() -> None:
    wrong, right = compared(STREAM, STREAM, WIDTH)
    assert wrong == right
    assert wrong[0].text == "POST /v1/chat/completions"


def test_bytes_that_are_no_text_show_as_escapes() -> None:
    raw: dict[str, Any] = {"on": "chat", "body_base64": "/xsK"}
    wrong, _ = compared(raw, {"on": "chat"}, WIDTH)
    assert "\\xff\\x1b" in [line.text for line in wrong]


def test_an_example_of_another_kind_is_shown_as_declared() -> None:
    assert lines({"packet": "NNRP", "length": 40}) == ['packet = "NNRP"', "length = 40"]


@pytest.mark.parametrize("width", [40, WIDTH])
def test_the_examples_of_every_rule_fit_and_differ(width: int) -> None:
    for rule in register().values():
        wrong, right = compared(rule.bad, rule.good, width)
        assert any(line.differs for line in (*wrong, *right)), rule.id
        for shown in (wrong, right):
            assert 0 < len(shown) <= 2 * MAX_LINES, rule.id
            assert all(len(line.text) <= width for line in shown), rule.id
            assert all(line.text.isprintable() for line in shown), rule.id
