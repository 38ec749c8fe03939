"""Conversations for tests of the NNRP inspector: the rules' examples, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from teeline.validators.checks.reporter import Reporter
from teeline.validators.events import Closed, Found, Opened, Output, SchemaCheck, SchemaResult
from teeline.validators.model import Ended, Exchange, Side, Violation
from teeline.validators.nnrp.capabilities import capabilities_of, check_capabilities
from teeline.validators.nnrp.examples import Conversation, conversation, document, is_document
from teeline.validators.nnrp.inspector import End, NnrpInspector
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
    """The exchanges of an example's conversation."""
    if is_document(example):
        exchange = Exchange()
        data, form = document(example)
        check_capabilities(Reporter(exchange), data, form)
        return [exchange]
    return exchanges(outputs(conversation(example), cut, timed=timed))


def violations(
    example: Mapping[str, Any], cut: Cut = whole, *, timed: bool = True
) -> list[Violation]:
    """All that is said of an example, in the order of the exchanges."""
    return [v for exchange in inspect(example, cut, timed=timed) for v in exchange.violations]


def rules(example: Mapping[str, Any], cut: Cut = whole, *, timed: bool = True) -> set[str]:
    return {violation.rule.id for violation in violations(example, cut, timed=timed)}
