"""Which clean streams are remembered, and what of them: no text, and nothing that others could differ in."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.checks.context import Context
from teeline.validators.checks.streamknown import KnownStream, Recorder, known_stream
from teeline.validators.history import History
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange
from teeline.validators.operation import Operation
from tests.validators import streams

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
ROLE = {"role": "assistant", "content": ""}
FRAMED = streams.framed


def context() -> Context:
    return Context(Exchange(usage=dict(USAGE)), Operation.CHAT, DEFAULT_LIMITS, History())


def usage_chunk(**more: Any) -> dict[str, Any]:
    return {**streams.chunk({}), "choices": [], "usage": USAGE, **more}


def blocks(
    first: Any = ROLE,
    texts: tuple[Any, ...] = ({"content": "one"}, {"content": "two"}),
    *,
    finish: str = "stop",
    closing: tuple[dict[str, Any], ...] = (),
    **more: Any,
) -> list[bytes]:
    deltas = [streams.chunk(delta, **more) for delta in (first, *texts)]
    last = streams.chunk({}, finish=finish, **more)
    return [*FRAMED([*deltas, last, *closing]), streams.DONE]


def remembered(made: list[bytes]) -> KnownStream | None:
    found = known_stream(context(), made)
    return None if found is None else found[1]


@pytest.mark.parametrize(
    "made",
    [
        blocks(),
        blocks({"role": "assistant"}),
        blocks(closing=(usage_chunk(),)),
        blocks(obfuscation="x1"),
        blocks(system_fingerprint=None),
    ],
)
def test_a_usual_stream_is_remembered(made: list[bytes]) -> None:
    assert remembered(made) is not None


@pytest.mark.parametrize(
    "made",
    [
        blocks()[:-1],
        blocks()[1:],
        [*blocks()[:1], *blocks()[3:]],
        blocks(finish="length"),
        blocks({"role": "assistant", "content": "Hi"}),
        blocks(texts=({"content": "one"}, {"content": "two", "refusal": None})),
        blocks(texts=({"content": "one", "reasoning_content": "hm"},)),
        blocks(texts=({"content": "one"}, {"tool_calls": []})),
        blocks(closing=(usage_chunk(), usage_chunk())),
        blocks(closing=(usage_chunk(usage={**USAGE, "prompt_tokens": 3.0}),)),
        blocks(closing=(usage_chunk(id="chatcmpl-other"),)),
        blocks(obfuscation="x", p="y"),
        blocks(logprobs={"content": []}),
        blocks(id="chatcmpl-\\u00e9"),
        blocks(moderation={}),
        [blocks()[0].replace(b"data: ", b"data:"), *blocks()[1:]],
        [blocks()[0].replace(b"\n\n", b"\r\n\r\n"), *blocks()[1:]],
        [b"event: x\n" + blocks()[0], *blocks()[1:]],
    ],
)
def test_an_unusual_stream_is_not(made: list[bytes]) -> None:
    assert remembered(made) is None


def test_texts_of_two_forms_are_not_one() -> None:
    other = streams.framed([streams.chunk({"content": "two"})], streams.SPACED)
    made = blocks()
    assert remembered([*made[:2], *other, *made[3:]]) is None


def test_what_is_remembered_holds_no_text_and_no_id() -> None:
    known = remembered(blocks(texts=({"content": "secret"},), closing=(usage_chunk(),)))
    assert known is not None
    template = known.template((b"id-1", b"1760000001", b"fp-1"))
    ends = b"".join(template.ends)
    assert b"id-1" in ends and b"fp-1" in ends
    assert b"secret" not in ends and b"chatcmpl-B" not in ends


def test_the_first_event_is_written_with_what_stood_in_its_holes() -> None:
    known = remembered(blocks(obfuscation="x1"))
    assert known is not None
    first = blocks(obfuscation="other")[0]
    constants = (b"chatcmpl-BxYz0123456789AbCdEf0123", b"1760000000", b"fp_44709d6fcb")
    assert known.first((*constants, b"other")) == first


def test_a_recorder_gives_up_on_what_is_long_or_torn() -> None:
    for kept, learns in (
        ([(block, True) for block in blocks()], True),
        ([(block, block is not streams.DONE) for block in blocks()], False),
        ([(block, True) for block in blocks(texts=({"content": "x"},) * 9)], False),
        ([(block, True) for block in blocks(texts=({"content": "x" * 20_000},))], False),
    ):
        ctx = context()
        recorder = Recorder(ctx)
        for block, whole in kept:
            recorder.keep(block, whole=whole)
        recorder.learn()
        assert ctx.history is not None
        found = ctx.history.streams[False].find(blocks()[0][6:-2])
        assert (found is not None) is learns
