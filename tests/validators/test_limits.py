"""Each limit ends what it bounds exactly where it says, and the facts of an exchange are bounded too."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from teeline.validators.limits import DEFAULT_LIMITS, Limits
from tests.validators.answers import (
    ASKED,
    STREAMED,
    TOOLS,
    chunk,
    completion,
    dumps,
    ids,
    inspected,
    opening,
    spoken,
    stream,
    streamed,
)

MIB = 1024 * 1024


def test_limits_are_positive_and_can_not_be_changed() -> None:
    assert all(getattr(DEFAULT_LIMITS, field.name) > 0 for field in dataclasses.fields(Limits))
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT_LIMITS.body = 1  # type: ignore[misc]


def test_documents_are_bounded_where_the_design_says() -> None:
    assert DEFAULT_LIMITS.body == 16 * MIB
    assert DEFAULT_LIMITS.arguments == MIB // 4
    assert DEFAULT_LIMITS.choices == 128


@pytest.mark.parametrize(("over", "inspection"), [(0, "full"), (1, "partial (body-limit)")])
def test_a_document_may_be_as_large_as_its_limit(over: int, inspection: str) -> None:
    body = dumps(completion())
    seen = inspected(body, limits=Limits(body=len(body) - over))
    assert seen.inspection == inspection and ids(seen) == set()


@pytest.mark.parametrize(("over", "inspection"), [(0, "full"), (1, "partial (request-limit)")])
def test_a_request_may_be_as_large_as_its_limit(over: int, inspection: str) -> None:
    request = dumps({**ASKED, "n": 2, "padding": "x" * 1000})
    seen = inspected(
        dumps(completion()), None, request_body=request, limits=Limits(body=len(request) - over)
    )
    assert seen.inspection == inspection
    # P7: what was not fully read asks for nothing.
    assert ids(seen) == ({"cross.choices-too-few"} if over == 0 else set())


@pytest.mark.parametrize(("count", "inspection"), [(4, "full"), (5, "partial (choice-limit)")])
def test_a_stream_may_have_as_many_choices_as_its_limit(count: int, inspection: str) -> None:
    events = [opening(index=n) for n in range(count)]
    events += [chunk({"content": "x"}, "stop", index=n) for n in range(count)]
    seen = streamed(*events, request={**STREAMED, "n": count}, limits=Limits(choices=4))
    assert seen.inspection == inspection


def calls(*entries: Any) -> bytes:
    return stream(
        opening(),
        *(chunk({"tool_calls": [entry]}) for entry in entries),
        chunk(finish="tool_calls"),
    )


def call(index: int, arguments: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


@pytest.mark.parametrize(("count", "inspection"), [(3, "full"), (4, "partial (tool-call-limit)")])
def test_a_choice_may_have_as_many_calls_as_its_limit(count: int, inspection: str) -> None:
    body = calls(*(call(n, "{}") for n in range(count)))
    seen = inspected(body, {**STREAMED, **TOOLS}, limits=Limits(tool_calls=3))
    assert seen.inspection == inspection


@pytest.mark.parametrize(("over", "inspection"), [(0, "full"), (1, "partial (arguments-limit)")])
def test_arguments_may_be_as_long_as_their_limit(over: int, inspection: str) -> None:
    arguments = json.dumps({"a": "x" * 500})
    pieces = [arguments[n : n + 7] for n in range(0, len(arguments), 7)]
    entries = [call(0, ""), *({"index": 0, "function": {"arguments": p}} for p in pieces)]
    limits = Limits(arguments=len(arguments) - over)
    seen = inspected(calls(*entries), {**STREAMED, **TOOLS}, limits=limits)
    assert seen.inspection == inspection and ids(seen) == set()


@pytest.mark.parametrize(("depth", "inspection"), [(9, "full"), (8, "partial (depth-limit)")])
def test_a_document_may_be_as_deep_as_its_limit(depth: int, inspection: str) -> None:
    body = dumps(completion(metadata={"a": [[[[[[[1]]]]]]]}))
    assert inspected(body, limits=Limits(depth=depth)).inspection == inspection


def test_an_event_stream_is_no_document_whatever_it_is_read_in() -> None:
    """A body of more than one document's size is a stream all the same: ``body`` bounds documents."""
    body = stream(*spoken("Hello", *["x" * 50] * 40))
    seen = inspected(body, STREAMED, limits=Limits(body=2_000))
    assert seen.inspection == "full" and seen.events == 43


def test_the_first_limit_that_was_hit_is_the_one_that_is_named() -> None:
    limits = Limits(arguments=10, choices=1)
    events = [opening(), chunk({"tool_calls": [call(0, "x" * 20)]}), opening(index=1)]
    assert streamed(*events, limits=limits).inspection == "partial (arguments-limit)"


def test_the_texts_among_the_facts_are_bounded() -> None:
    """A record is written of each exchange: no name makes it grow without bound."""
    long = "m" * 5_000
    choice = {"index": 0, "finish_reason": long, "message": {"role": "assistant", "content": "x"}}
    body = dumps(completion(id=long, model=long, choices=[choice]))
    seen = inspected(body, {**ASKED, "model": long}, headers=(("x-request-id", long),))
    facts = [seen.model, seen.response_model, seen.response_id, seen.request_id]
    assert [len(fact or "") for fact in facts] == [256] * 4
    assert [len(word) for word in seen.finish] == [32]


def test_the_number_of_facts_is_bounded() -> None:
    """No more finish reasons are kept than a request may ask choices for."""
    message = {"role": "assistant", "content": "x"}
    choices = [{"index": n, "finish_reason": "stop", "message": message} for n in range(300)]
    kept = len(inspected(dumps(completion(choices=choices))).finish)
    assert 0 < kept <= DEFAULT_LIMITS.choices
