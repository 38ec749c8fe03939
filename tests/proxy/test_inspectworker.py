"""The conversation with a process that inspects: whole questions are answered, half ones end it."""

from __future__ import annotations

import io
import json

from teeline.proxy.inspectpool import _lengths
from teeline.proxy.inspectworker import read_task, serve
from teeline.validators.aside import REQUEST, request_facts, task
from teeline.validators.events import RequestHead, Task
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange

HEAD = RequestHead("POST", "/v1/chat/completions", ())
TASK = task(REQUEST, request_facts(Exchange(), HEAD), b"", [b'{"mod', b'el": "m"}'])


def written(question: Task) -> bytes:
    return b"".join((_lengths(question), question.header, question.request, *question.pieces))


def answers(questions: bytes) -> list[bytes]:
    out = io.BytesIO()
    serve(io.BytesIO(questions), out, DEFAULT_LIMITS, before=lambda: None)
    data, found = out.getvalue(), []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def test_a_task_arrives_as_it_was_sent() -> None:
    read = read_task(io.BytesIO(written(TASK)))
    assert read is not None
    assert (read.kind, read.header, read.request) == (TASK.kind, TASK.header, TASK.request)
    assert b"".join(read.pieces) == b"".join(TASK.pieces)


def test_each_task_is_answered_after_the_word_that_the_process_is_ready() -> None:
    ready, *reports = answers(written(TASK) * 2)
    assert ready == b""
    assert [json.loads(r)["outline"]["document"] for r in reports] == [{"model": "m"}] * 2


def test_a_question_that_is_cut_off_ends_the_process() -> None:
    whole = written(TASK)
    for end in (0, 3, 15, 16, len(whole) - 1):
        assert answers(whole[:end]) == [b""]
