"""What is known of an operation, and of an exchange that belongs to somebody else."""

from __future__ import annotations

from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange, Side, Unit
from teeline.validators.nnrp.capabilities import capabilities_of
from teeline.validators.nnrp.operation import Operation, Trail
from teeline.validators.wire.nnrp import Packet
from tests.validators.exchanges import NOW
from tests.validators.nnrp.steps import Steps

PACKET = Packet(7, 1234, 1, 0, 0x38, 0, 40, 2, 1, 1)


def test_a_new_exchange_is_nnrp_s_and_begins_now() -> None:
    exchange = Exchange()
    trail = Trail(exchange, DEFAULT_LIMITS, NOW)
    assert (exchange.method, exchange.timing.start) == ("NNRP", NOW)
    assert exchange.timeline is trail.timeline.entries


def test_somebody_else_s_exchange_keeps_its_method_times_and_timeline() -> None:
    exchange = Exchange(method="GET")
    exchange.timing.start = NOW - 5
    entries = exchange.timeline
    trail = Trail.of(exchange, DEFAULT_LIMITS)
    trail.look_at(Side.RESPONSE, PACKET, NOW)
    trail.report("nnrp.magic-wrong", detail="x")
    assert (exchange.method, exchange.timing.start) == ("GET", NOW - 5)
    assert exchange.timeline is entries == []
    (found,) = exchange.violations
    assert (found.place.unit, found.place.index, found.place.byte) == (Unit.PACKET, 7, 1234)


def test_nothing_is_declared_without_a_name_or_a_document() -> None:
    declared = capabilities_of(b'{"operations":[{"name":"x","streaming":true}]}')
    op = Operation(Exchange(), DEFAULT_LIMITS, NOW, declared)
    assert op.declared is None
    op.name = "x"
    assert op.declared is not None and op.declared.streaming is True
    assert op.declared.tool_calls is None
    op.name = "y"
    assert op.declared is None
    assert Operation(Exchange(), DEFAULT_LIMITS, NOW, None).declared is None


def test_an_operation_is_active_until_it_ends_or_is_cancelled() -> None:
    assert Steps().op.active
    assert not Steps().ends().op.active
    assert not Steps().client("FRAME_CANCEL").op.active
    assert not Steps().client("CANCEL", frame=0, op=0).op.active


def test_open_calls_are_those_that_were_started_and_have_not_ended() -> None:
    steps = Steps()
    steps.tool("started", "a", name="f").tool("started", "b", name="f").tool("delta", "c")
    steps.tool("completed", "b", name="f", arguments="")
    assert [call.name for call in steps.op.open_calls] == ["f"]
