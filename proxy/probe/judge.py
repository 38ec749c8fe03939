"""An answer to a probe, held against the rules that live traffic is held against.

What belongs here: feeding an inspector, and what the detectors want to know of an answer. What doesn't: the
rules, the detectors, the points (validators).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from teeline.proxy.probe.client import RawResponse
from teeline.proxy.schemapool import SchemaPool
from teeline.validators.detectors.costs import SEVERITIES, envelope_of, unusable
from teeline.validators.detectors.model import Probe
from teeline.validators.detectors.observations import (
    PROBE_RULES,
    Answer,
    Observation,
    is_event_of,
    observe,
)
from teeline.validators.events import Closed, Output, RequestHead, SchemaCheck
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.model import Exchange, Place, Side, Unit, Violation
from teeline.validators.operation import path_of
from teeline.validators.policy import Policy
from teeline.validators.rules import register


class Judge:
    """Judges answers one by one; remembers what earlier ones showed.

    ``select`` and ``ignore`` are patterns of rules as policies take them; UnknownRuleError for others.
    """

    def __init__(
        self, pool: SchemaPool, select: Sequence[str] = (), ignore: Sequence[str] = ()
    ) -> None:
        self._pool = pool
        rules = {**register(), **PROBE_RULES}
        self._policy = Policy(rules, select, ignore, SEVERITIES)
        self._history = History()

    async def exchange(self, response: RawResponse) -> Exchange:
        """The exchange as its inspector leaves it, schemas checked, findings after policy."""
        inspector = Inspector(Exchange(), history=self._history)
        outputs: Sequence[Output] = _fed(inspector, response)
        while checks := [output for output in outputs if isinstance(output, SchemaCheck)]:
            answered: list[Output] = []
            for wanted in checks:
                result = await self._pool.check(wanted.schema, wanted.document)
                answered += inspector.schema_result(wanted.ticket, result, response.end_at)
            outputs = answered
        exchange = inspector.exchange
        self._policy.apply([Closed(exchange)])
        return exchange

    def chosen(self, violations: list[Violation]) -> list[Violation]:
        """Those of the probes' own findings that are reported, as policy has it."""
        holder = Exchange(violations=violations)
        self._policy.apply([Closed(holder)])
        return holder.violations


def _fed(inspector: Inspector, response: RawResponse) -> list[Output]:
    request = response.request
    # The inspector knows request lines as they are on the wire: the path, without scheme and host.
    path = path_of(request.target) + ("?" + request.target.partition("?")[2]).rstrip("?")
    started = response.started
    head = RequestHead(request.method, path, request.headers)
    outputs = list(inspector.request_head(head, started))
    if response.request_body:
        outputs += inspector.request_body(response.request_body, started)
    outputs += inspector.request_end(started)
    outputs += inspector.response_head(response.head, response.head_at)
    for read in response.reads:
        outputs += inspector.response_body(read.data, read.at)
    outputs += inspector.end(response.ended, max(response.end_at, response.head_at))
    return outputs


def is_usable(probe: Probe, exchange: Exchange, response: RawResponse) -> bool:
    """Whether the answer is one of its protocol, so that more can be said of it."""
    return not _ruled_out(probe, exchange) and not _is_foreign(probe, exchange, response)


def _ruled_out(probe: Probe, exchange: Exchange) -> bool:
    return any(unusable(v.rule, v.severity, probe) for v in exchange.violations)


def _is_foreign(probe: Probe, exchange: Exchange, response: RawResponse) -> bool:
    """Whether a stream has events, and none of them is of its protocol.

    Servers may send events of their own, so that no single one of them is a fault.
    """
    if probe.family is None or not exchange.events or exchange.error_type is not None:
        return False
    documents = (event.json for event in response.events())
    return not any(is_event_of(probe.family, document) for document in documents)


def observed(probe: Probe, exchange: Exchange, response: RawResponse) -> list[Violation]:
    """What the probe's own question found, as violations beside those of the rules."""
    if _ruled_out(probe, exchange) and probe.detector == envelope_of(probe):
        return []  # the rule that says what came instead has said it all
    answer = Answer(
        status=response.status_code,
        document=None if exchange.events else response.json,
        usable=is_usable(probe, exchange, response),
        error=exchange.error_type,
        ended=response.ended,
        events=exchange.events,
        reads=len(response.reads),
        seconds=(response.reads[0].at - response.started) if response.reads else 0.0,
    )
    return [violation(seen, response.head_at) for seen in observe(probe, answer)]


def violation(seen: Observation, at: float) -> Violation:
    """An observation in the form of every other finding."""
    place = Place(Side.RESPONSE, Unit.BODY)
    rule = seen.rule
    return Violation(rule, rule.severity, rule.summary, place, seen.detail, at)


def for_usage(probe: Probe, name: str) -> Probe:
    """The probe as one whose findings count for another detector."""
    return replace(probe, detector=name)
