"""Which exchanges a page shows: from the parameters of its address to a test of a row, and to the same
question to the index.

What belongs here: what each parameter means, for rows that happen now and for those of the past. What
doesn't: how the index is asked (proxy/audit/query.py, history.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from teeline.proxy.audit.index import VERDICTS
from teeline.proxy.audit.query import Filters
from teeline.proxy.monitor.rows import Row

NAMES: Final = ("upstream", "model", "operation", "verdict", "rule", "status", "text")
"""The parameters, all of which the page's own address may hold too."""
SHORTEST_ID: Final = 6
"""Digits of an id that find it; fewer are looked for in messages only."""

_STATUS = re.compile(r"([1-5])xx\Z|([1-9]\d\d)\Z")
_VALUES: Final = 16
_LENGTH: Final = 256


class BadFilterError(ValueError):
    """A parameter can't be what it says; the text is one line that repeats no value."""


class Parameters(Protocol):
    """A query's parameters, as aiohttp has them."""

    def getall(self, name: str, default: list[str]) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What is shown; empty is all. Values of one kind are alternatives, kinds add up.

    ``status`` holds codes, and 1 to 5 for a class. ``rule`` holds ids or families. ``text`` is the
    beginning of an id, a request id, or part of a violation's message; in which case the violation must
    also be one of ``rule``.
    """

    upstream: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    rule: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    text: str = ""

    @property
    def everything(self) -> bool:
        return self == Asked()

    def matches(self, row: Row) -> bool:
        """Whether a row is shown."""
        return (
            (not self.upstream or row["upstream"] in self.upstream)
            and (not self.model or row["model"] in self.model)
            and (not self.operation or row["operation"] in self.operation)
            and (not self.verdict or row["verdict"] in self.verdict)
            and (not self.status or self._has_status(row["status"]))
            and (not (self.rule or self.text) or self._is_named(row))
        )

    def filters(self, until: float | None = None, *, request_id: str = "") -> Filters:
        """The same as a question to the index; ``text`` as part of a message, unless it is a request
        id."""
        return Filters(
            until=until,
            upstream=self.upstream,
            model=self.model,
            operation=self.operation,
            verdict=self.verdict,
            status=self.status,
            rules=self.rule,
            request_id=request_id,
            message="" if request_id else self.text,
        )

    def without_text(self) -> Asked:
        return Asked(
            self.upstream, self.model, self.operation, self.verdict, self.rule, self.status
        )

    def _has_status(self, status: int | None) -> bool:
        return status is not None and (status in self.status or status // 100 in self.status)

    def _is_named(self, row: Row) -> bool:
        if self.text and self._is_id(row):
            return not self.rule or any(self._of_rule(each["rule"]) for each in row["broken"])
        text = self.text.lower()
        return any(
            (not self.rule or self._of_rule(each["rule"])) and text in each["message"].lower()
            for each in row["broken"]
        )

    def _is_id(self, row: Row) -> bool:
        if row["request_id"] == self.text:
            return True
        return len(self.text) >= SHORTEST_ID and str(row["id"]).startswith(self.text)

    def _of_rule(self, rule: str) -> bool:
        return rule in self.rule or rule.partition(".")[0] in self.rule


def asked(parameters: Parameters) -> Asked:
    """What a query asks for; BadFilterError."""
    given = {name: _values(parameters, name) for name in NAMES}
    if not set(given["verdict"]) <= set(VERDICTS):
        raise BadFilterError("verdict is pass, warn or fail")
    return Asked(
        given["upstream"],
        given["model"],
        given["operation"],
        given["verdict"],
        tuple(rule.removesuffix(".*") for rule in given["rule"]),
        tuple(_status(text) for text in given["status"]),
        " ".join(given["text"]).strip(),
    )


def _values(parameters: Parameters, name: str) -> tuple[str, ...]:
    values = tuple(value for value in parameters.getall(name, []) if value)
    if len(values) > _VALUES or any(len(value) > _LENGTH for value in values):
        raise BadFilterError(f"{name} takes at most {_VALUES} values of {_LENGTH} characters")
    return values


def _status(text: str) -> int:
    match = _STATUS.match(text.lower())
    if match is None:
        raise BadFilterError("status is a code like 429, or a class like 5xx")
    return int(match[1] or match[2])
