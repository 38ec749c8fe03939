"""Exchanges with one upstream by a seed: usual ones and others, for what stands for the full check."""

from __future__ import annotations

import json
import random
from typing import Any

from teeline.validators.model import Headers
from tests.validators import streams
from tests.validators.answers import ASKED, CREATED, TOOLS, completion, dumps
from tests.validators.exchanges import NOW

JSON: Headers = (("content-type", "application/json"), ("x-request-id", "r"))
KINDS: tuple[Headers, ...] = (
    JSON,
    JSON,
    (),
    (("content-type", "text/plain"),),
    (("content-type", "text/event-stream"),),
    (*JSON, ("content-encoding", "identity")),
)
REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"temperature": 0.5},
    {"n": 1},
    {"n": 2},
    {"n": True},
    {"max_tokens": 4},
    {"max_completion_tokens": 100},
    {"max_completion_tokens": 0, "max_tokens": 2},
    {"stop": ["STOP"]},
    dict(TOOLS),
    {"tool_choice": "required"},
    {"logprobs": True},
    {"response_format": {"type": "json_object"}},
    {"stream": True},
    {"stream": False},
    {"store": True},
    {"model": "other"},
    {"model": 5},
    {"messages": [{"role": "user", "content": "\ufffd" * 20}]},
    {"messages": [{"role": "user", "content": "word " * 2000}]},
)
TEXTS = (*streams.TEXTS, "", "<think>x", " \n<think>", "\\", 'a\\"', "x" * 5000, '","refusal":null')
DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0},
}
PATHS = ("/v1/chat/completions",) * 6 + (
    "/openai/deployments/x/chat/completions",
    "/v1/chat/completions?a=b",
)


class Talk:
    """Exchanges with one upstream, usual ones and others, by a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._writer = self._chance.choice(streams.WRITERS)
        self._details: dict[str, Any] = self._chance.choice(({}, DETAILS))
        self._fingerprint: dict[str, Any] = self._chance.choice(
            ({}, {"system_fingerprint": "fp_1"}, {"system_fingerprint": None})
        )
        self._answers = 0

    def exchange(self) -> tuple[str, bytes, Headers, bytes]:
        """Path, request, the answer's fields and the answer."""
        chance = self._chance
        odd = chance.random() < 0.3
        request = {**ASKED, **(chance.choice(REQUESTS) if chance.random() < 0.4 else {})}
        body = self._writer(self._answer(odd=odd)).encode("utf-8", "surrogatepass")
        if chance.random() < 0.15:
            body = self._damaged(body)
        path = chance.choice(PATHS) if odd else PATHS[0]
        return path, dumps(request), chance.choice(KINDS) if odd else JSON, body

    def _answer(self, *, odd: bool) -> dict[str, Any]:
        chance = self._chance
        self._answers += 1
        usage = self._usage(odd=odd)
        answer = completion(
            {"content": chance.choice(TEXTS)},
            id=f"chatcmpl-{self._answers if not odd else chance.choice(('7', 'é', '', 'x' * 150))}",
            created=chance.choice((CREATED, 0, 10**10, int(NOW) + 10**6)) if odd else CREATED,
            usage=usage,
            **self._fingerprint,
        )
        if odd:
            self._change(answer)
        return answer

    def _usage(self, *, odd: bool) -> dict[str, Any]:
        chance = self._chance
        prompt: Any = chance.randint(5, 20)
        generated: Any = chance.randint(1, 20)
        total = prompt + generated
        if odd:
            prompt, generated = chance.choice(
                ((0, generated), (prompt, 0), (10**6, 1), (prompt, 1), (prompt, -1), (prompt, 2.0))
            )
        usage = {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": total}
        details = json.loads(json.dumps(self._details))
        for counters in details.values():
            for name in counters:
                if counters[name] or (odd and chance.random() < 0.3):
                    counters[name] = chance.choice((0, 1, 3, 30) if odd else (0, 1))
        return {**usage, **details}

    def _change(self, answer: dict[str, Any]) -> None:
        chance = self._chance
        choice = answer["choices"][0]
        for holder, name, value in chance.sample(
            [
                (answer, "model", "gpt-4o-mini-2024-07-18"),
                (answer, "system_fingerprint", "fp_" + "x" * 200),
                (answer, "service_tier", "default"),
                (answer, "vendor", 1),
                (choice, "finish_reason", "length"),
                (choice, "index", 1),
                (choice["message"], "content", None),
                (choice["message"], "refusal", "no"),
                (choice["message"], "reasoning_content", "hm"),
            ],
            k=chance.choice((0, 0, 0, 1, 2)),
        ):
            holder[name] = value

    def _damaged(self, body: bytes) -> bytes:
        chance = self._chance
        at = chance.randrange(len(body))
        odd = chance.choice(
            (b"", b"\\", b'"', b"\xff", b"\n", b" ", b"0", b"\\ud800", b"\xef\xbf\xbd")
        )
        return body[:at] + odd + body[at + chance.randint(0, 1) :]
