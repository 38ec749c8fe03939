"""A request that is taken for usual gets what the full check says of it: nothing, and the same facts."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from teeline.validators import inspector
from teeline.validators.checks.context import Context
from teeline.validators.checks.request import RequestFacts
from teeline.validators.checks.requestusual import take_usual
from teeline.validators.events import Aside, Report, RequestHead, ResponseHead
from teeline.validators.inspector import Inspector
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Headers
from teeline.validators.operation import Operation
from teeline.validators.replay import perform
from tests.validators import streams
from tests.validators.answers import completion, dumps
from tests.validators.exchanges import NOW
from tests.validators.requests import chat, user

HEAD: Headers = (("content-type", "application/json"), ("authorization", "Bearer x"))
HEADS: tuple[Headers, ...] = (
    *(HEAD,) * 24,
    (("Content-Type", "application/json; charset=utf-8"), ("X-Api-Key", "k")),
    HEAD[:1],
    HEAD[1:],
    (*HEAD[:1], ("authorization", "Bearer ")),
    (("content-type", "text/plain"), *HEAD[1:]),
    (("content-type", "application/x+json"), *HEAD[1:]),
    (),
)
TARGETS = ("/v1/chat/completions",) * 18 + (
    "/openai/deployments/x/chat/completions?api-key=k",
    "/v1/completions",
    "/v1/responses",
)
ODD: tuple[Any, ...] = (-3, 10**6, 2**53, 2**60, 1e300, True, None, "1", [], {})
NUMBERS = (0, 1, 1, 0.5, 0.5, -1, 2, 2.0, 2.5, *ODD)
MEMBERS: dict[str, tuple[Any, ...]] = {
    "temperature": NUMBERS,
    "top_p": NUMBERS,
    "frequency_penalty": NUMBERS,
    "presence_penalty": NUMBERS,
    "max_tokens": NUMBERS,
    "max_completion_tokens": NUMBERS,
    "top_logprobs": NUMBERS,
    "logprobs": (True, False, None),
    "seed": NUMBERS,
    "n": NUMBERS,
    "dimensions": NUMBERS,
    "stream": (True, False, None, 1, "true"),
    "stream_options": ({"include_usage": True}, None),
    "user": ("u", None, 5),
    "store": (True, False),
    "metadata": ({"a": "b"},),
    "stop": ("s", ["a"] * 5, ["a", "b"], None),
    "service_tier": ("auto", "WHAT", 5),
    "encoding_format": ("float",),
    "response_format": ({"type": "json_object"}, {"type": "json_schema"}, None),
    "text": ({"format": {"type": "text"}},),
    "tools": ([], [{"type": "function", "function": {"name": "f"}}], None),
    "tool_choice": ("auto", "required"),
    "functions": ([{"name": "f"}],),
    "parallel_tool_calls": (True,),
    "input": ("Hi", None),
    "model": ("", None, 5, "m" * 300),
    "messages": ([], None, "Hi", [5], [user([{"type": "text", "text": "Hi"}])]),
}
MESSAGES = (
    user("Hi"),
    user("Hi"),
    {"role": "system", "content": "Be brief."},
    {"role": "assistant", "content": "Yes?", "refusal": None},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function"}]},
    {"role": "tool", "content": "4", "tool_call_id": "c"},
    {"role": "nobody", "content": "Hi"},
    {"role": 5, "content": "Hi"},
    {"role": "user"},
    user(None),
)
SPOILS = (*[""] * 18, " ", "\n", "\ufeff", "x", "cut", "twice")


def made(chance: random.Random) -> bytes:
    """A request's body: as a client writes it, with a few members and now and then a fault."""
    messages = [chance.choice(MESSAGES) for _ in range(chance.choice((1, 1, 2, 3)))]
    request = chat(*(messages if chance.random() < 0.3 else messages[:0]))
    for name in chance.sample(sorted(MEMBERS), chance.choice((0, 0, 1, 1, 2, 3))):
        request[name] = chance.choice(MEMBERS[name])
    text = json.dumps(request)
    spoil = chance.choice(SPOILS)
    if spoil == "cut":
        return text[: chance.randrange(len(text))].encode()
    if spoil == "twice":
        return text.replace('"model"', '"model": "first", "model"', 1).encode()
    return (spoil + text).encode()


def inspected(head: RequestHead, body: bytes, limits: Limits) -> tuple[Inspector, list[Any]]:
    fed = Inspector(Exchange(), limits)
    outputs = [*fed.request_head(head, NOW), *fed.request_body(body, NOW), *fed.request_end(NOW)]
    return fed, [type(output) for output in outputs]


def known(facts: RequestFacts) -> tuple[Any, ...]:
    """All facts, of a stream's conversation how long its texts are and whether U+FFFD is among them."""
    if not facts.stream:
        return facts, 0, False
    messages = [m for m in facts.document.get("messages") or () if isinstance(m, dict)]
    texts = [m["content"] for m in messages if isinstance(m.get("content"), str)]
    document = {**facts.document, "messages": bool(messages)}
    left = replace(facts, document=document, unkept=0, replaced=False)
    size = facts.unkept + sum(map(len, texts))
    return left, size, facts.replaced or any("\ufffd" in text for text in texts)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_differs_from_what_the_full_check_leaves(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    cases = [
        (RequestHead("POST", chance.choice(TARGETS), chance.choice(HEADS)), made(chance))
        for _ in range(1500)
    ]
    limits = [chance.choice((Limits(), Limits(), Limits(large_request=80))) for _ in cases]
    taken: list[bool] = []

    def noted(ctx: Context, document: Any) -> bool:
        taken.append(take_usual(ctx, document))
        return taken[-1]

    monkeypatch.setattr(inspector, "take_usual", noted)
    quick = [inspected(*case, limit) for case, limit in zip(cases, limits, strict=True)]
    monkeypatch.setattr(inspector, "take_usual", lambda *_: False)
    full = [inspected(*case, limit) for case, limit in zip(cases, limits, strict=True)]
    for case, (one, said), (other, told) in zip(cases, quick, full, strict=True):
        assert said == told, case
        assert one.exchange == other.exchange, case
        assert list(one.exchange.settings) == list(other.exchange.settings), case
        assert known(one.context.request) == known(other.context.request), case
    assert 200 < sum(taken) < len(taken), "neither way was taken often enough to compare anything"


def test_the_usual_request_is_taken_and_its_facts_are_what_it_says() -> None:
    body = chat(user("Hi"), temperature=0.5, max_completion_tokens=9, stream=True)
    fed, _ = inspected(
        RequestHead("POST", "/v1/chat/completions", HEAD), json.dumps(body).encode(), Limits()
    )
    exchange, context = fed.exchange, fed.context
    assert context.operation is Operation.CHAT and context.request.known and exchange.stream
    assert exchange.model == "gpt-4o-mini"
    assert exchange.settings == {"temperature": 0.5, "max_tokens": 9}
    assert (context.request.unkept, context.request.replaced) == (2, False)
    assert take_usual(context, body)


@pytest.mark.parametrize("said", ["word " * 4000, "\ufffd" * 20_000])
@pytest.mark.parametrize("large", [False, True])
def test_an_answer_is_compared_with_texts_that_are_not_kept(
    said: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their length and U+FFFD in them, also where the answer is a document that is inspected elsewhere."""
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    chunks = [
        streams.chunk({"role": "assistant", "content": "\ufffd"}),
        streams.chunk({}, finish="stop"),
        {**streams.chunk({}), "choices": [], "usage": usage},
    ]
    body = b"".join([*streams.framed(chunks), streams.DONE])
    if large:
        body = dumps(completion({"content": "\ufffd" * 200_000}, usage=usage))
    request = chat(user(said), stream=True)
    quick = answered(request, body)
    monkeypatch.setattr(inspector, "take_usual", lambda *_: False)
    assert quick == answered(request, body)
    assert "cross.prompt-tokens-implausible" in quick
    assert ("cross.replacement-characters" in quick) is ("\ufffd" not in said)


def answered(request: dict[str, Any], answer: bytes) -> list[str]:
    """The rules that an exchange breaks whose large documents are inspected elsewhere."""
    fed = Inspector(Exchange(), aside=True)
    fed.request_head(RequestHead("POST", "/v1/chat/completions", HEAD), NOW)
    fed.request_body(json.dumps(request).encode(), NOW)
    fed.request_end(NOW)
    fed.response_head(ResponseHead(200, (("x-request-id", "r"),)), NOW)
    outputs = [*fed.response_body(answer, NOW), *fed.end(Ended.COMPLETE, NOW)]
    given = [output for output in outputs if isinstance(output, Aside)]
    assert len(given) == (len(answer) > Limits().in_place)
    for output in given:
        fed.inspected(Report(perform(output.task, Limits())), NOW)
    return sorted(violation.rule.id for violation in fed.exchange.violations)


@pytest.mark.parametrize("member", ["tools", "response_format", "stop", "n", "stream_options"])
def test_a_request_that_asks_for_a_relation_is_the_full_checks(member: str) -> None:
    body = chat(user("Hi"))
    fed, _ = inspected(
        RequestHead("POST", "/v1/chat/completions", HEAD), json.dumps(body).encode(), Limits()
    )
    assert take_usual(fed.context, body)
    assert not take_usual(fed.context, {**body, member: None})
