"""What spans and log records say about an exchange and its violations, as attributes.

What belongs here: the choice and bounding of attributes. What doesn't: their names (names.py),
building spans and records around them (spans.py, logs.py).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from teeline.proxy.telemetry import names
from teeline.proxy.text import SHOWN, int64, printable
from teeline.validators.model import Ended, Exchange, Timing, Violation

Value = str | bool | int | float | list[str]
Attributes = dict[str, Value]
Server = tuple[str, int]
"""Host and port of an upstream."""

_MODELS = 100
"""Model names that may stand in span names; span names are indexed, so there must be few."""
_ERROR_TYPES = 50
_FINISH_REASONS = 16
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,63}\Z")
_FAILED = frozenset({Ended.UPSTREAM_ABORTED, Ended.REFUSED, Ended.TIMEOUT})
_DOUBLES = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"})
OTHER_ERROR: Final = "_OTHER"
"""The value that the conventions give to errors that aren't told apart."""


class Folding:
    """A bounded set of values: the first ``limit`` that were admitted stay, others fold away."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def admit(self, value: str) -> bool:
        """Whether ``value`` is one of the set, after trying to make it one."""
        if value in self._seen:
            return True
        if len(self._seen) >= self._limit or not _TOKEN.match(value):
            return False
        self._seen.add(value)
        return True

    def __contains__(self, value: str) -> bool:
        return value in self._seen


class Describer:
    """Turns exchanges and violations into attributes; used by one thread at a time.

    ``length`` bounds each string value, in characters. ``servers`` gives the address of an upstream
    by its name.
    """

    def __init__(self, servers: Mapping[str, Server] | None = None, length: int = SHOWN) -> None:
        self._servers = servers or {}
        self._length = max(4, length)
        self._models = Folding(_MODELS)
        self._error_types = Folding(_ERROR_TYPES)

    def text(self, text: str) -> str:
        return printable(text, self._length)

    def span_name(self, exchange: Exchange) -> str:
        """``chat gpt-4o-mini``; ``chat`` alone for a model that this relay never served.

        A client can make up any number of model names, so only names that a success vouches for are
        admitted.
        """
        name = operation_name(exchange)
        model = self.model(exchange, exchange.model)
        return name if model is None or model == names.OTHER else f"{name} {model}"

    def model(self, exchange: Exchange, model: str | None) -> str | None:
        """A model's name where it may stand in an index, ``other`` where it may not."""
        if not model:
            return None
        served = exchange.status is not None and 200 <= exchange.status < 300
        known = self._models.admit(model) if served else model in self._models
        return model if known else names.OTHER

    def error_type(self, exchange: Exchange) -> str | None:
        """Why the operation failed; None where it didn't. Violations are no failure."""
        if exchange.ended in _FAILED:
            return exchange.ended.value
        if exchange.status is not None and exchange.status >= 400:
            return str(exchange.status)
        if exchange.error_type is None:
            return None
        known = self._error_types.admit(exchange.error_type)
        return exchange.error_type if known else OTHER_ERROR

    def span(self, exchange: Exchange) -> Attributes:
        """All that is known of a closed exchange."""
        error = self.error_type(exchange)
        return {**self.own(exchange), **self.shared(exchange, error)}

    def own(self, exchange: Exchange) -> Attributes:
        """What differs from exchange to exchange."""
        found: Attributes = {names.EXCHANGE_ID: exchange.id}
        if exchange.response_id:
            found[names.RESPONSE_ID] = self.text(exchange.response_id)
        first = exchange.timing.first_event
        if exchange.stream and first is not None:
            found[names.RESPONSE_TIME_TO_FIRST_CHUNK] = max(0.0, first - exchange.timing.start)
        for name, count in exchange.usage.items():
            attribute = counter(name)
            if attribute is not None:
                found[attribute] = int64(count)
        return found

    def shared(self, exchange: Exchange, error: str | None) -> Attributes:
        """What comes back from exchange to exchange: it follows from ``shape``, once ``error`` does."""
        found = self._who(exchange)
        found.update(self._answer(exchange))
        found[names.VERDICT] = exchange.verdict.value
        found[names.CLIENT_VERDICT] = exchange.client_verdict.value
        found[names.VIOLATIONS] = len(exchange.violations)
        found[names.INSPECTION] = self.text(exchange.inspection)
        if exchange.ended is not None:
            found[names.ENDED] = exchange.ended.value
        if exchange.profile:
            found[names.PROFILE] = self.text(exchange.profile)
        if error is not None:
            found[names.ERROR_TYPE] = error
        return found

    def violation(self, violation: Violation) -> Attributes:
        """The rule and the place; the span event carries the same as the log record."""
        place = violation.place
        return {
            names.RULE: violation.rule.id,
            names.SEVERITY: violation.severity.word,
            names.SIDE: place.side.value,
            names.PLACE_UNIT: place.unit.value,
            names.PLACE_INDEX: int64(place.index),
            names.PLACE_BYTE: int64(place.byte),
            names.PLACE_POINTER: self.text(place.pointer),
            names.EVIDENCE: self.text(violation.evidence),
        }

    def event(self, violation: Violation) -> Attributes:
        """A violation's, as its exchange's span has it."""
        found = self.violation(violation)
        found[names.COUNT] = int64(violation.count)
        found[names.MESSAGE] = self.text(violation.message)
        return found

    def log(self, exchange: Exchange, violation: Violation) -> Attributes:
        """A violation's, and what finds its exchange where logs are read without spans."""
        found: Attributes = {names.EXCHANGE_ID: exchange.id}
        return {**found, **self._who(exchange), **self.violation(violation)}

    def audit(self, exchange: Exchange) -> Attributes:
        """What an audit record is found by where logs are indexed; the rest stands in its body."""
        found: Attributes = {names.EXCHANGE_ID: exchange.id, **self._who(exchange)}
        found[names.VERDICT] = exchange.verdict.value
        found[names.CLIENT_VERDICT] = exchange.client_verdict.value
        if exchange.status is not None:
            found[names.HTTP_RESPONSE_STATUS_CODE] = int64(exchange.status)
        if exchange.ended is not None:
            found[names.ENDED] = exchange.ended.value
        return found

    def _who(self, exchange: Exchange) -> Attributes:
        found: Attributes = {
            names.UPSTREAM: self.text(exchange.upstream),
            names.PROVIDER_NAME: names.PROVIDER_OPENAI,
            names.OPERATION_NAME: operation_name(exchange),
        }
        if exchange.model:
            found[names.REQUEST_MODEL] = self.text(exchange.model)
        server = self._servers.get(exchange.upstream)
        if server is not None:
            found[names.SERVER_ADDRESS], found[names.SERVER_PORT] = server
        return found

    def _answer(self, exchange: Exchange) -> Attributes:
        found: Attributes = {names.REQUEST_STREAM: exchange.stream}
        found.update(_settings(exchange))
        if exchange.operation in names.API_TYPES:
            found[names.OPENAI_API_TYPE] = names.API_TYPES[exchange.operation]
        if exchange.status is not None:
            found[names.HTTP_RESPONSE_STATUS_CODE] = int64(exchange.status)
        if exchange.response_model:
            found[names.RESPONSE_MODEL] = self.text(exchange.response_model)
        if exchange.finish:
            shown = exchange.finish[:_FINISH_REASONS]
            found[names.RESPONSE_FINISH_REASONS] = [self.text(reason) for reason in shown]
        if exchange.service_tier:
            found[names.OPENAI_RESPONSE_SERVICE_TIER] = exchange.service_tier
        if _TOKEN.match(exchange.marks.fingerprint):
            found[names.OPENAI_RESPONSE_SYSTEM_FINGERPRINT] = exchange.marks.fingerprint
        return found


def operation_name(exchange: Exchange) -> str:
    """The operation by its name in the conventions, or by teeline's where they have none."""
    operation = exchange.operation or "other"
    return names.OPERATIONS.get(operation, operation)


def _settings(exchange: Exchange) -> Iterator[tuple[str, Value]]:
    """What the request set, under the conventions' names and in their types."""
    for name, value in exchange.settings.items():
        attribute = names.SETTINGS.get(name)
        if attribute is None or (name == "choices" and value == 1):
            continue  # the conventions leave a choice count of one out
        if name == "encoding_format":
            yield attribute, [str(value)]
        elif name in _DOUBLES:
            yield attribute, float(value)
        else:
            yield attribute, int(value) if isinstance(value, float) else value


@lru_cache(maxsize=256)
def counter(name: str) -> str | None:
    """The attribute of a counter by its wire name, of which there are few."""
    return names.USAGE.get(name.rpartition(".")[2])


def shape(exchange: Exchange) -> tuple[Hashable, ...]:
    """All values of an exchange that ``Describer.shared``, its name and its error go by; few of them
    come in many combinations.
    """
    violations = exchange.violations
    return (
        exchange.upstream,
        exchange.operation,
        exchange.model,
        exchange.stream,
        tuple(exchange.settings.items()),
        exchange.status,
        exchange.response_model,
        tuple(exchange.finish),
        exchange.service_tier,
        exchange.marks.fingerprint,
        (exchange.verdict, exchange.client_verdict, len(violations)) if violations else 0,
        exchange.inspection,
        exchange.ended,
        exchange.profile,
        exchange.error_type,
    )


def end_of(timing: Timing) -> float:
    """The end of a span, which is never before its start."""
    end = timing.end if timing.end is not None else timing.last_byte
    return timing.start if end is None else max(end, timing.start)


def nanoseconds(at: float) -> int:
    """Unix seconds as the integer nanoseconds that OTLP wants, within its unsigned 64 bits."""
    count = int(at * 1e9 + 0.5)
    return count if 0 <= count < 2**64 else 0 if count < 0 else 2**64 - 1
