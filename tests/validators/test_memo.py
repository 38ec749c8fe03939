"""A memo changes how long something takes, holds little whoever asks it, and nothing else."""

from __future__ import annotations

from teeline.validators.memo import LONGEST, MOST, Memo


def test_a_result_is_made_once() -> None:
    asked: list[str] = []

    def upper(text: str) -> str:
        asked.append(text)
        return text.upper()

    memo = Memo(upper, len)
    assert [memo("a"), memo("b"), memo("a")] == ["A", "B", "A"]
    assert asked == ["a", "b"]


def test_a_result_that_is_false_is_a_result() -> None:
    asked: list[str] = []

    def nothing(text: str) -> None:
        asked.append(text)

    memo = Memo(nothing, len)
    memo("a")
    memo("a")
    assert asked == ["a"]


def test_it_holds_no_more_than_its_bounds() -> None:
    memo: Memo[str, str] = Memo(str, len)
    for n in range(10 * MOST):
        assert memo(str(n)) == str(n)
    assert len(memo) <= MOST


def test_what_is_too_long_is_made_each_time() -> None:
    memo: Memo[str, str] = Memo(str, len)
    assert memo("x" * LONGEST) and len(memo) == 1
    assert memo("x" * (LONGEST + 1)) and len(memo) == 1
