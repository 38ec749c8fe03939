"""Refusals, retries and failures look to a program as they do without teeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from teeline.validators.model import Ended
from tests.clients import sdk
from tests.clients.conftest import Start
from tests.clients.peers import Loop, breaches
from tests.clients.sdk import saying
from tests.ports import free_port
from tests.proxy.raw import RawUpstream, Wire, answering, raw_upstream

REQUEST = {"model": "gpt-4o-mini", "messages": saying("Hi")}

EXCEPTIONS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
}

GOOD = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_760_000_000,
    "model": "gpt-4o-mini",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello.", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def answer(status: int, document: object, *fields: str) -> bytes:
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} Said So", "Content-Type: application/json", "x-request-id: req_1"]
    lines += [*fields, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def refusal(status: int) -> bytes:
    """As the API documents it; the hint keeps the SDK from waiting longer before it asks again."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": "No.", "type": kind, "param": None, "code": "no"}
    return answer(status, {"error": error}, "Retry-After: 1", "retry-after-ms: 1")


@contextmanager
def upstream(loop: Loop, *answers: bytes) -> Iterator[tuple[str, RawUpstream]]:
    with loop.within(answering(*answers)) as up:
        yield up.url + "/v1", up


@pytest.mark.parametrize("status", EXCEPTIONS)
def test_a_refusal_raises_what_it_raises_without_teeline(
    status: int, loop: Loop, teeline: Start
) -> None:
    """Status, code, text, fields and body; and a well-formed refusal is no breach."""
    with upstream(loop, refusal(status)) as (url, _):
        through = teeline(url)
        errors = [_status_error(url), _status_error(through.base_url)]
    assert errors[0] == errors[1]
    assert errors[0][:2] == (EXCEPTIONS[status], status)
    exchange = through.exchange()
    assert (exchange.status, exchange.ended) == (status, Ended.COMPLETE)
    assert breaches(exchange) == set()


def _status_error(base_url: str) -> tuple[object, ...]:
    with sdk.client(base_url) as client, pytest.raises(sdk.openai.APIStatusError) as caught:
        client.chat.completions.create(model="gpt-4o-mini", messages=saying("Hi"))
    error = caught.value
    kept = list(error.response.headers.multi_items())
    shown = (error.status_code, error.code, error.param, error.type, error.request_id)
    return (type(error).__name__, *shown, str(error), error.body, kept)


def test_retries_are_the_clients_and_each_is_an_exchange(loop: Loop, teeline: Start) -> None:
    """teeline passes on 503 and 429 with their hints; the SDK asks again, and at last gets 200."""
    script = (refusal(503), refusal(429), answer(200, GOOD))
    with upstream(loop, *script) as (url, up):
        through = teeline(url)
        counts = []
        for base_url in (url, through.base_url):
            with sdk.client(base_url, max_retries=2) as client:
                got = client.chat.completions.create(model="gpt-4o-mini", messages=saying("Hi"))
            assert got.choices[0].message.content == "Hello."
            counts.append([m.value(b"x-stainless-retry-count") for m in up.requests])
            up.requests.clear()
    assert counts == [[b"0", b"1", b"2"]] * 2
    assert [e.status for e in through.exchanges(3)] == [503, 429, 200]


def test_teeline_retries_nothing(loop: Loop, teeline: Start) -> None:
    with upstream(loop, refusal(503)) as (url, up):
        through = teeline(url)
        assert sdk.ask(through.base_url, REQUEST).exception == "InternalServerError"
        assert len(up.requests) == 1


def test_a_relay_that_hangs_up_before_it_answers_is_an_error_of_the_api(
    loop: Loop, teeline: Start
) -> None:
    """The one place where a program sees teeline: there is no answer to pass on, so it says so."""

    async def hang_up(wire: Wire) -> None:
        await wire.read_message()

    with loop.within(raw_upstream(hang_up)) as up:
        through = teeline(up.url)
        assert sdk.ask(up.url + "/v1", REQUEST).exception == "APIConnectionError"
        assert _own_answer(through.base_url) == (502, "upstream_closed")
    assert through.exchange().ended is Ended.REFUSED


def test_an_unreachable_relay_is_an_error_of_the_api(teeline: Start) -> None:
    through = teeline(f"http://127.0.0.1:{free_port()}/v1")
    assert _own_answer(through.base_url) == (502, "upstream_unreachable")
    exchange = through.exchange()
    assert (exchange.status, exchange.ended) == (None, Ended.REFUSED)


def _own_answer(base_url: str) -> tuple[int, str | None]:
    with sdk.client(base_url) as client, pytest.raises(sdk.openai.InternalServerError) as caught:
        client.chat.completions.create(model="gpt-4o-mini", messages=saying("Hi"))
    assert caught.value.type == "teeline_error"
    assert caught.value.response.headers["teeline-error"] == caught.value.code
    return caught.value.status_code, caught.value.code


def test_a_clients_own_timeout_ends_its_exchange(loop: Loop, teeline: Start) -> None:
    """A relay that never answers: the SDK gives up, and the relay comes to know."""

    async def never(wire: Wire) -> None:
        await wire.read_message()
        await wire.ended()

    with loop.within(raw_upstream(never)) as up:
        through = teeline(up.url)
        with sdk.client(through.base_url, timeout=0.05) as client:
            with pytest.raises(sdk.openai.APITimeoutError):
                client.chat.completions.create(model="gpt-4o-mini", messages=saying("Hi"))
            exchange = through.exchange()
        loop.run(_finished(up))
    assert (exchange.ended, exchange.status) == (Ended.CLIENT_CLOSED, None)
    assert breaches(exchange) == set()


async def _finished(up: RawUpstream) -> None:
    for task in up.tasks:
        await task
