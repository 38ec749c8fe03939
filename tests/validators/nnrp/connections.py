"""Conversations for tests of the NNRP inspector: the rules' examples, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from teeline.validators.checks.reporter import Reporter
from teeline.validators.events import Closed, Found, Opened, Output, SchemaCheck, SchemaResult
from teeline.validators.model import Ended, Exchange, Side, Violation
from teeline.validators.nnrp.bridge import Bridge, Front, HttpEnd
from teeline.validators.nnrp.capabilities import capabilities_of, check_capabilities
from teeline.validators.nnrp.examples import (
    Conversation,
    conversation,
    document,
    http_side,
    is_document,
)
from teeline.validators.nnrp.inspector import End, NnrpInspector
from teeline.validators.nnrp.recipes import check_recipe
from teeline.validators.wire.nnrp import (
    Message,
    Packet,
    Splitter,
)
from teeline.validators.wire.nnrplayout import (
    payload_start,
    prelude_of,
)
from tests.validators.exchanges import NOW, Cut, whole

ORDER = {
    "client": (Side.REQUEST, Side.RESPONSE),
    "server": (Side.RESPONSE, Side.REQUEST),
    "lost": (Side.REQUEST, Side.RESPONSE),
    "none": (Side.REQUEST, Side.RESPONSE),
}
ENDS = {"lost": End.LOST, "none": End.UNKNOWN}


def inspector_of(wanted: Conversation, *, timed: bool = True) -> NnrpInspector:
    capabilities = None if wanted.capabilities is None else capabilities_of(wanted.capabilities)
    return NnrpInspector(Exchange, wanted.limits, capabilities, timed=timed)


def outputs(wanted: Conversation, cut: Cut = whole, *, timed: bool = True) -> list[Output]:
    """Everything that comes to light of a conversation fed in the pieces that ``cut`` makes."""
    inspector = inspector_of(wanted, timed=timed)
    found: list[Output] = []
    at = NOW
    for side, data, seconds in wanted.sent:
        at = NOW + seconds
        for piece in cut(data):
            found += inspector.feed(side, piece, at)
    for side in ORDER[wanted.close]:
        found += inspector.finish(side, at, ENDS.get(wanted.close, End.ORDERLY))
    found += inspector.close(at, Ended.COMPLETE)
    found += _schemas(inspector, found, at)
    return found


def _schemas(inspector: NnrpInspector, found: Sequence[Output], at: float) -> list[Output]:
    answered: list[Output] = []
    for output in found:
        if isinstance(output, SchemaCheck):
            answered += inspector.schema_result(output.exchange, output.ticket, SchemaResult(), at)
    return answered


def exchanges(found: Sequence[Output]) -> list[Exchange]:
    """The exchanges in the order in which they were opened; each was closed once."""
    opened = [output.exchange for output in found if isinstance(output, Opened)]
    closed = [output.exchange for output in found if isinstance(output, Closed)]
    assert sorted(map(id, opened)) == sorted(map(id, closed))
    told = [id(output.violation) for output in found if isinstance(output, Found)]
    assert sorted(told) == sorted(id(v) for e in opened for v in e.violations)
    return opened


def inspect(example: Mapping[str, Any], cut: Cut = whole, *, timed: bool = True) -> list[Exchange]:
    """The exchanges of an example's conversation, and of its comparison where it is a bridge's."""
    if is_document(example):
        exchange = Exchange()
        data, form = document(example)
        if form == "recipe":
            check_recipe(Reporter(exchange), data)
        else:
            check_capabilities(Reporter(exchange), data, form)
        return [exchange]
    seen = exchanges(outputs(conversation(example), cut, timed=timed))
    http = http_side(example)
    return seen if http is None else [*seen, compared(http, conversation(example))]


def compared(http: Mapping[str, Any], wanted: Conversation) -> Exchange:
    """The two sides of a bridge against each other."""
    exchange = Exchange()
    bridge = Bridge(exchange, Front[http["front"].upper()], wanted.limits)
    method, _, target = http["request"].partition(" ")
    bridge.http_request(method, target, encoded(http["body"]) if "body" in http else b"")
    at = NOW
    splitters = {side: Splitter(wanted.limits.body) for side in Side}
    for side, data, seconds in wanted.sent:
        at = NOW + seconds
        for packet in splitters[side].feed(data):
            _tell(bridge, packet, at)
    bridge.http_answer(http["status"])
    for event in http.get("events", ()):
        bridge.http_event(encoded(event))
    if "events" in http:
        bridge.http_event(b"[DONE]")
    if "answer" in http:
        bridge.http_body(encoded(http["answer"]))
    end = HttpEnd.LEFT if "left" in http else HttpEnd[http.get("end", "whole").upper()]
    bridge.http_ended(end, NOW + http.get("left", 0.0))
    bridge.close(at)
    return exchange


def encoded(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _tell(bridge: Bridge, packet: Packet, at: float) -> None:
    if packet.type == Message.FRAME_SUBMIT:
        bridge.submitted(_payload(packet))
    elif packet.type == Message.PARTIAL_RESULT:
        bridge.event(packet.body)
    elif packet.type == Message.CANCEL:
        bridge.cancelled()
    elif packet.type == Message.RESULT_PUSH:
        bridge.ended(_payload(packet), at)
    elif packet.type == Message.RESULT_DROP_REASON:
        bridge.ended(None, at)


def _payload(packet: Packet) -> bytes:
    prelude = prelude_of(packet.body)
    return packet.body[payload_start(prelude) :] if prelude is not None else b""


def violations(
    example: Mapping[str, Any], cut: Cut = whole, *, timed: bool = True
) -> list[Violation]:
    """All that is said of an example, in the order of the exchanges."""
    return [v for exchange in inspect(example, cut, timed=timed) for v in exchange.violations]


def rules(example: Mapping[str, Any], cut: Cut = whole, *, timed: bool = True) -> set[str]:
    return {violation.rule.id for violation in violations(example, cut, timed=timed)}
