"""Questions to our own processes: each gets its own answer, in whatever pieces, or a word why not.

What becomes of processes that hang, die or don't start is tested where they are in use
(test_schemapool.py, test_inspectpool.py).
"""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from teeline.proxy.workers import Answer, Kind, Lane, WorkerError
from teeline.validators.aside import REQUEST, request_facts, task
from teeline.validators.events import RequestHead
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange

LONG = 120.0
HEADER = task(REQUEST, request_facts(Exchange(), RequestHead("POST", "/v1/responses", ())), b"", [])


def kind(max_answer: int = 1_000_000) -> Kind:
    memory, limits = str(1 << 30), json.dumps({"depth": DEFAULT_LIMITS.depth})
    return Kind("teeline.proxy.inspectworker", (memory, "60", limits), "test", max_answer)


def question(*pieces: bytes) -> list[bytes]:
    sizes = (len(REQUEST), len(HEADER.header), 0, sum(map(len, pieces)))
    head = b"".join(size.to_bytes(4, "big") for size in sizes)
    return [head + REQUEST.encode(), HEADER.header, *pieces]


async def asked(lane: Lane, *questions: list[bytes]) -> list[Answer]:
    try:
        return await asyncio.gather(*map(lane.ask, questions))
    finally:
        await lane.close()


def test_a_question_of_many_pieces_and_more_than_a_pipe_holds_is_one() -> None:
    model = b"m" * 100
    pieces = [b'{"model": "' + model, b'", "input": "', b"x" * 3_000_000, b'"}']
    [answer] = asyncio.run(asked(Lane(1, LONG, LONG, kind()), question(*pieces)))
    assert json.loads(answer.data)["outline"]["document"]["model"] == model.decode()


def test_questions_side_by_side_get_each_their_own_answer() -> None:
    questions = [question(b'{"model": "%d"}' % n) for n in range(20)]
    answers = asyncio.run(asked(Lane(2, LONG, LONG, kind()), *questions))
    models = [json.loads(answer.data)["outline"]["document"]["model"] for answer in answers]
    assert models == [str(n) for n in range(20)]


def test_an_answer_beyond_its_bound_is_none() -> None:
    [answer] = asyncio.run(asked(Lane(1, LONG, LONG, kind(max_answer=10)), question(b"{}")))
    assert answer == Answer(failed="crashed")


def test_a_lane_that_is_closed_asks_nobody() -> None:
    async def test() -> None:
        lane = Lane(1, LONG, LONG, kind())
        await lane.close()
        with pytest.raises(WorkerError, match="closed"):
            await lane.ask(question(b"{}"))

    asyncio.run(test())


def test_a_process_ends_when_its_server_is_gone() -> None:
    """It reads until its input ends, which a server that was killed ends, too."""

    async def test() -> int:
        lane = Lane(1, LONG, LONG, kind())
        await lane.start()
        process = lane._workers[0]._process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        code = await asyncio.wait_for(process.wait(), LONG)
        await lane.close()
        return code

    assert asyncio.run(test()) == os.EX_OK
