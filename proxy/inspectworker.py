"""A process that inspects large documents: ``python -m`` this module.

It answers over its standard input and output until the input ends. A question is four lengths (4 bytes
each, big-endian), then so many bytes of a task's kind, header, request and body; an answer is one length
and a report, empty where it would be too long. The first answer, empty and unasked, says that the process
is ready.

What belongs here: that conversation. What doesn't: inspection (validators/replay.py), queueing, time limits
and replacement (inspectpool.py, workers.py), which must hold even if this process hangs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Final

from teeline.proxy.schemaworker import limit_process, renew_cpu_limit
from teeline.validators.events import Task
from teeline.validators.limits import Limits
from teeline.validators.replay import perform

_PIECE: Final = 256 * 1024


def main(arguments: list[str]) -> int:
    """Runs until the input ends. ``arguments``: memory in bytes, CPU seconds a task, limits as JSON."""
    memory, seconds, limits = arguments
    limit_process(int(memory))
    serve(
        sys.stdin.buffer,
        sys.stdout.buffer,
        Limits(**json.loads(limits)),
        before=partial(renew_cpu_limit, int(seconds)),
    )
    return 0


def serve(
    questions: BinaryIO, answers: BinaryIO, limits: Limits, before: Callable[[], None]
) -> None:
    """Answers question after question; ends where the input ends, within a question too.

    ``before`` is called before each task. A failure ends the process: whoever asked knows what that means.
    """
    send(answers, b"")
    while (task := read_task(questions)) is not None:
        before()
        send(answers, perform(task, limits))


def read_task(questions: BinaryIO) -> Task | None:
    """The next task; None where the input ends."""
    head = questions.read(16)
    if len(head) < 16:
        return None
    lengths = [int.from_bytes(head[at : at + 4], "big") for at in range(0, 16, 4)]
    kind, header, request = (questions.read(length) for length in lengths[:3])
    pieces = []
    left = lengths[3]
    while left and (piece := questions.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return None if left else Task(kind.decode("ascii"), header, request, pieces)


def send(answers: BinaryIO, data: bytes) -> None:
    answers.write(len(data).to_bytes(4, "big") + data)
    answers.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
