"""A code works once and for minutes; a session ends; guesses are few."""

from __future__ import annotations

import pytest

from teeline.proxy.monitor.access import (
    CODE_SECONDS,
    GUESSES,
    SESSION_SECONDS,
    SESSIONS,
    Sessions,
    TooManyGuessesError,
)
from tests.proxy.audit.logs import Clock

TOKEN = "t0ken-" + "x" * 20


def test_a_code_begins_one_session_and_no_second() -> None:
    sessions = Sessions(TOKEN)
    code = sessions.code()
    session = sessions.begin(code)
    assert session is not None
    assert sessions.holds({"c": session}, "c")
    assert sessions.begin(code) is None


def test_a_code_that_is_too_old_begins_none() -> None:
    clock = Clock(0.0)
    sessions = Sessions(TOKEN, clock=clock)
    code = sessions.code()
    clock.now = CODE_SECONDS
    assert sessions.begin(code) is None


def test_the_token_begins_a_session_any_number_of_times() -> None:
    sessions = Sessions(TOKEN)
    first, second = sessions.begin(TOKEN), sessions.begin(TOKEN)
    assert first and second and first != second
    assert not sessions.holds({"c": TOKEN}, "c")


def test_a_session_ends_by_itself_and_when_it_is_ended() -> None:
    clock = Clock(0.0)
    sessions = Sessions(TOKEN, clock=clock)
    first, second = sessions.begin(TOKEN), sessions.begin(TOKEN)
    assert first and second
    sessions.end(first)
    sessions.end("unknown")
    assert not sessions.holds({"c": first}, "c")
    assert sessions.holds({"c": second}, "c")
    clock.now = SESSION_SECONDS
    assert not sessions.holds({"c": second}, "c")


@pytest.mark.parametrize("wrong", ["", "x", TOKEN + "x", TOKEN[:-1], "\ud800", "é" * 1000])
def test_anything_else_begins_none(wrong: str) -> None:
    sessions = Sessions(TOKEN)
    assert sessions.begin(wrong) is None
    assert not sessions.holds({"c": wrong}, "c")
    assert not sessions.holds({}, "c")


def test_after_ten_wrong_guesses_nothing_is_compared_for_a_minute() -> None:
    clock = Clock(0.0)
    sessions = Sessions(TOKEN, clock=clock)
    for _ in range(GUESSES):
        assert sessions.begin("wrong") is None
    with pytest.raises(TooManyGuessesError):
        sessions.begin(TOKEN)
    clock.now = 61.0
    assert sessions.begin(TOKEN) is not None


def test_sessions_are_bounded_and_the_oldest_ends() -> None:
    sessions = Sessions(TOKEN)
    made = [sessions.begin(TOKEN) or "" for _ in range(SESSIONS + 1)]
    assert not sessions.holds({"c": made[0]}, "c")
    assert sessions.holds({"c": made[1]}, "c")


def test_neither_codes_nor_sessions_are_kept_as_they_are() -> None:
    sessions = Sessions(TOKEN)
    code, session = sessions.code(), sessions.begin(TOKEN)
    kept = repr(vars(sessions))
    assert code not in kept and str(session) not in kept and TOKEN not in kept
