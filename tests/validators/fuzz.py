"""``python -m tests.validators.fuzz [COUNT] [SEED]``: variants by the hundred thousand, by hand.

What the test suite does with a few thousand variants, for as many as wanted: none raises, and none gives
other findings when it is cut at random. Variants are made of the cases, of the rules' examples, and of
answers of every family made up at random.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

from tests.validators.answers import JSON_HEADERS, SSE_HEADERS
from tests.validators.exchanges import cases, examples, findings, inspect, partition, whole
from tests.validators.generate import Answer, Generator
from tests.validators.generate_lists import ListGenerator
from tests.validators.generate_responses import ResponsesGenerator
from tests.validators.mutations import Mutator
from tests.validators.streams import DISORDERED

MADE = 400
"""Answers of each family to make variants of."""


def made_up(seed: int) -> Iterator[dict[str, Any]]:
    """Answers of every family as exchange files."""
    chat, responses, lists = Generator(seed), ResponsesGenerator(seed), ListGenerator(seed)
    for make in (chat.document, chat.stream, responses.document, responses.stream, lists.answer):
        yield from (_exchange(make()) for _ in range(MADE))


def _exchange(answer: Answer) -> dict[str, Any]:
    method = getattr(answer, "method", "POST")
    body = base64.b64encode(answer.body()).decode("ascii")
    headers = SSE_HEADERS if answer.streamed else JSON_HEADERS
    return {
        "method": method,
        "endpoint": answer.endpoint,
        "request": answer.request if method == "POST" else None,
        "response": {"status": 200, "headers": dict(headers), "body_base64": body},
    }


def main(count: int, seed: int) -> int:
    written = [*cases().values(), *(document for _, document in examples())]
    exchanges = [*written, *DISORDERED, *made_up(seed)]
    mutator = Mutator(seed)
    failed = 0
    for n in range(count):
        document = mutator.variant(exchanges[n % len(exchanges)])
        try:
            same = findings(inspect(document, whole)) == findings(inspect(document, partition(n)))
        except Exception as error:  # noqa: BLE001  whatever it is, it is what we look for
            same = False
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        if not same:
            failed += 1
            sys.stdout.write(json.dumps(document) + "\n")
    sys.stderr.write(f"{count} variants, seed {seed}: {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*(numbers + [200_000, 1][len(numbers) :])))
