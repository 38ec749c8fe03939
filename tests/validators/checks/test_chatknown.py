"""An answer that is taken for like an earlier one gets what the full check says of it, and no other."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from teeline.validators.checks.chatknown import KnownChat
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended, Exchange, Headers, Verdict
from tests.validators import streams
from tests.validators.answers import ASKED, CREATED, TOOLS, completion, dumps, ids
from tests.validators.exchanges import NOW, findings
from tests.validators.schemas import answer_schema_checks

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


def inspected(
    history: History, path: str, request: bytes, headers: Headers, answer: bytes
) -> Exchange:
    inspector = Inspector(Exchange(id="x"), history=history)
    outputs = list(inspector.request_head(RequestHead("POST", path, (("a", "b"),)), NOW))
    outputs += inspector.request_body(request, NOW)
    outputs += inspector.request_end(NOW)
    outputs += inspector.response_head(ResponseHead(200, headers), NOW)
    outputs += inspector.response_body(answer, NOW)
    outputs += inspector.end(Ended.COMPLETE, NOW)
    answer_schema_checks(inspector, outputs, NOW)
    return inspector.exchange


def seen(exchange: Exchange) -> tuple[Any, ...]:
    names = [name for name in Exchange.__slots__ if name != "violations"]
    return findings(exchange), {name: getattr(exchange, name) for name in names}


class Taken:
    """Answers that were taken for known ones, and those that were only like them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.accepted = self.refused = 0
        accept = KnownChat.accept

        def counted(*args: Any) -> bool:
            accepted = accept(*args)
            self.accepted += accepted
            self.refused += not accepted
            return accepted

        patch.setattr(KnownChat, "accept", counted)


def test_it_says_what_the_full_check_says(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    for seed in range(300):
        talk, quick, full = Talk(seed), History(), History()
        full.answers = {}
        for _ in range(25):
            exchange = talk.exchange()
            assert seen(inspected(quick, *exchange)) == seen(inspected(full, *exchange)), exchange
    assert taken.accepted > 1000
    assert taken.refused > 500


def test_answers_of_one_form_need_one_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    history = History()
    for n in range(50):
        body = dumps(completion({"content": f'word {n}\n"é"'}, id=f"chatcmpl-{n}x"))
        exchange = inspected(history, PATHS[0], dumps({**ASKED, "temperature": n / 50}), JSON, body)
        assert exchange.verdict is Verdict.PASS
    assert (taken.accepted, taken.refused) == (49, 0)


def test_an_upstreams_answers_say_nothing_of_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    for n in range(3):
        inspected(History(), PATHS[0], dumps(ASKED), JSON, dumps(completion(id=f"chatcmpl-{n}x")))
    assert taken.accepted == 0


def test_an_id_that_came_before_is_found_in_a_known_answer_too() -> None:
    history = History()
    for n in (1, 2):
        inspected(history, PATHS[0], dumps(ASKED), JSON, dumps(completion(id=f"chatcmpl-abc{n}")))
    again = inspected(history, PATHS[0], dumps(ASKED), JSON, dumps(completion(id="chatcmpl-abc2")))
    assert "cross.duplicate-id" in ids(again)
