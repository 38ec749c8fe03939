"""The profile's events are written as its own rules want them."""

from __future__ import annotations

import json

import pytest

from teeline.proxy.nnrp import documents
from teeline.proxy.nnrp.documents import Problem


def test_only_the_first_event_of_a_chunk_carries_it_and_as_it_was_written() -> None:
    events = [documents.text(0, "a"), documents.text(1, "b")]
    first, second = documents.with_chunk(iter(events), b' {"n" : 1.50} ')
    assert first.endswith(b',"openai_chunk":{"n" : 1.50}}')
    assert second == events[1]


def test_a_chunk_of_several_lines_comes_on_one() -> None:
    (event,) = documents.with_chunk(iter([documents.text(0, "a")]), b'{\r\n"n":1\n}\n')
    assert event.endswith(b',"openai_chunk":{  "n":1 }}')


def test_a_chunk_that_may_hold_half_a_pair_is_left_out() -> None:
    event = documents.text(0, "a")
    assert list(documents.with_chunk(iter([event]), b'{"n":"\\uD83D"}')) == [event]


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        ({"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}, (2, 3, 5)),
        ({"input_tokens": 2, "output_tokens": 3, "total_tokens": 5, "x": 1}, (2, 3, 5)),
        ({"prompt_tokens": 2, "completion_tokens": 3}, (2, 3, 5)),
    ],
)
def test_usage_has_the_profile_s_names(told: dict[str, int], counts: tuple[int, int, int]) -> None:
    (event,) = documents.usage(told)
    names = ("input_tokens", "output_tokens", "total_tokens")
    assert json.loads(event)["usage"] == dict(zip(names, counts, strict=True))


@pytest.mark.parametrize("told", [None, [], {}, {"prompt_tokens": "2", "completion_tokens": 3}])
def test_usage_that_counts_nothing_is_no_event(told: object) -> None:
    assert list(documents.usage(told)) == []


def test_an_error_keeps_what_else_its_server_said() -> None:
    problem = Problem("t", "c", "m", 400, {"param": "model"})
    assert json.loads(problem.document) == {
        "type": "response.error",
        "error": {"type": "t", "code": "c", "message": "m", "param": "model"},
    }


def test_a_completed_body_is_embedded_byte_for_byte() -> None:
    body = b'{"n" : 12345678901234567890123, "f":1.50}'
    assert documents.completed(body) == b'{"type":"response.completed","body":' + body + b"}"


def test_half_a_surrogate_pair_is_written_as_what_stands_for_it() -> None:
    assert json.loads(documents.written({"a": "x\ud83d"}).decode()) == {"a": "x\ufffd"}
