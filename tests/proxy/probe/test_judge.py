"""An answer is judged as live traffic is, and by the probe's own question."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from teeline.proxy.demo.relay import filled
from teeline.proxy.probe.client import RawResponse, Read
from teeline.proxy.probe.judge import Judge, is_usable, observed
from teeline.proxy.schemapool import SchemaPool
from teeline.validators.detectors.probes import PROBES, sent_document
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Ended, Exchange, Severity
from teeline.validators.policy import UnknownRuleError
from tests.proxy.probe.relays import Exchange as Asked
from tests.proxy.probe.relays import document

BY_NAME = {probe.name: probe for probe in PROBES}
NOW = 1_796_000_000.0


def response(name: str, body: bytes | None = None, **more: Any) -> RawResponse:
    """The answer of a conforming server to a probe, or another body."""
    probe = BY_NAME[name]
    asked = sent_document(probe, "clean") or {}
    answer = filled(Asked(f"/v1{probe.path}", asked).conforming(), f"made-{name}", "clean")
    data = b"".join(answer.pieces) if body is None else body
    head = ResponseHead(200, (("content-type", answer.content_type), ("x-request-id", "r")))
    request = RequestHead(probe.method, f"http://x/v1{probe.path}?v=1", ())
    sent = json.dumps(asked).encode() if asked else b""
    return RawResponse(
        request, sent, head, NOW, NOW, [Read(NOW, data)] if data else [], end_at=NOW, **more
    )


def judged(*responses: RawResponse, ignore: tuple[str, ...] = ()) -> list[Exchange]:
    async def run() -> list[Exchange]:
        async with SchemaPool(timeout=5.0, patience=60.0) as pool:
            judge = Judge(pool, ignore=ignore)
            return [await judge.exchange(r) for r in responses]

    return asyncio.run(run())


def rules(exchange: Exchange) -> dict[str, Severity]:
    return {v.rule.id: v.severity for v in exchange.violations if v.severity > Severity.INFO}


@pytest.mark.parametrize("name", ["models", "chat-create", "chat-stream", "responses-stream"])
def test_a_right_answer_is_clean_and_usable(name: str) -> None:
    came = response(name)
    (exchange,) = judged(came)
    assert rules(exchange) == {}
    assert is_usable(BY_NAME[name], exchange, came)
    assert observed(BY_NAME[name], exchange, came) == []


def test_schemas_are_checked_and_strict_ones_must_be_kept() -> None:
    """In live traffic a model may be to blame; the probe's own format is strict."""
    wrong = document(
        {
            **json.loads(response("chat-structured").content),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": '{"city":1}', "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
        }
    )
    (exchange,) = judged(response("chat-structured", b"".join(wrong.pieces)))
    assert rules(exchange) == {"structured.schema-violation": Severity.FAIL}


def test_a_model_is_held_against_the_list_that_came_before() -> None:
    listed = (
        b'{"object":"list","data":[{"id":"other","object":"model","created":1,"owned_by":"x"}]}'
    )
    _, exchange = judged(response("models", listed), response("chat-create"))
    assert "models.requested-model-unlisted" in rules(exchange)


def test_a_stream_without_an_event_of_its_protocol_is_no_answer() -> None:
    """Unknown events are no fault one by one; a stream of nothing else is."""
    foreign = b'event: message_start\ndata: {"type":"message_start"}\n\n' * 3
    came = response("responses-stream", foreign)
    (exchange,) = judged(came)
    probe = BY_NAME["responses-stream"]
    assert not is_usable(probe, exchange, came)
    assert "probe.answer-unusable" in {v.rule.id for v in observed(probe, exchange, came)}


def test_another_shape_is_named_once() -> None:
    """The rule that says what came is enough; the detector of plain questions has its own word."""
    body = b'{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn","usage":{}}'
    create, basic = response("chat-create", body), response("chat-basic", body)
    first, second = judged(create, basic)
    assert "chat.anthropic-shape" in rules(first)
    assert observed(BY_NAME["chat-create"], first, create) == []
    seen = observed(BY_NAME["chat-basic"], second, basic)
    assert [v.rule.id for v in seen] == ["probe.answer-unusable"]


def test_an_answer_that_broke_off_is_judged_as_far_as_it_came() -> None:
    came = response("chat-create", b'{"id":', ended=Ended.UPSTREAM_ABORTED)
    (exchange,) = judged(came)
    assert "http.truncated" in rules(exchange)


def test_rules_can_be_left_out_the_probe_s_own_included() -> None:
    body = response("chat-basic").content.replace(b"pong", b"ping")

    async def run() -> list[str]:
        async with SchemaPool(timeout=5.0, patience=60.0) as pool:
            judge = Judge(pool, ignore=("probe.pong-missing",))
            came = response("chat-basic", body)
            exchange = await judge.exchange(came)
            own = observed(BY_NAME["chat-basic"], exchange, came)
            assert [v.rule.id for v in own] == ["probe.pong-missing"]
            return [v.rule.id for v in judge.chosen(own)]

    assert asyncio.run(run()) == []


def test_a_rule_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownRuleError):
        Judge(SchemaPool(), ignore=("no.such-rule",))
