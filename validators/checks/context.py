"""What all checks of one exchange share: the reporter, both heads, the request's facts, the limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from teeline.validators import evidence
from teeline.validators.checks.reporter import Reporter
from teeline.validators.checks.request import UNKNOWN_REQUEST, RequestFacts
from teeline.validators.events import ResponseHead, SchemaCheck, SchemaError, SchemaResult
from teeline.validators.fields.structured import EXTRA_KEYWORDS
from teeline.validators.heads import ContentType, FieldNames, content_type, names_of
from teeline.validators.history import History
from teeline.validators.limits import Limits
from teeline.validators.model import Exchange, Headers, Place
from teeline.validators.operation import Operation


class SchemaRules(NamedTuple):
    """What errors of a schema check break: data, since the document may have been read elsewhere.

    ``of`` names the document in the evidence; ``extra`` is the rule of members too many, where they have
    one of their own.
    """

    rule: str
    of: str
    extra: str = ""


class WantedCheck(NamedTuple):
    """A schema check that has no result yet."""

    rules: SchemaRules
    place: Place
    schema: Any
    document: Any


def field_values(headers: Headers, name: str) -> list[str]:
    """All values of a header field, in order; ``name`` in lower case."""
    return [value for n, value in headers if n.lower() == name]


class Context:
    """One exchange as its checks see it. What most exchanges never change is the class's."""

    beta = False
    reading = False
    """The request is being read elsewhere."""
    identified = False
    """The answer's id was compared with earlier ones."""
    joined = False
    """The answer is what a stream that owes no usage adds up to."""
    request: RequestFacts = UNKNOWN_REQUEST
    request_headers: Headers = ()
    request_names: FieldNames = names_of(())
    response: ResponseHead = ResponseHead(0, ())
    names: FieldNames = request_names
    """Those of the answer's fields."""
    content_type: ContentType = content_type[""]
    """What the answer says that its body is."""
    _given = 0

    def __init__(
        self,
        exchange: Exchange,
        operation: Operation,
        limits: Limits,
        history: History | None = None,
    ) -> None:
        self.exchange = exchange
        self.operation = operation
        self.limits = limits
        self.history = history
        self.report = Reporter(exchange)
        self._tickets: dict[int, WantedCheck] = {}

    def asks(self, headers: Headers, names: FieldNames | None = None) -> None:
        """Takes the request's fields in."""
        self.request_headers = headers
        self.request_names = names or names_of(headers)

    def answers(self, head: ResponseHead) -> None:
        """Takes the answer's head in."""
        self.response = head
        headers = head.headers
        self.names = names = head.names or names_of(headers)
        self.content_type = content_type[headers[names.type][1] if names.type >= 0 else ""]

    def header(self, name: str) -> str:
        """The first value of a field of the answer, empty where there is none."""
        values = self.fields(name)
        return values[0] if values else ""

    def fields(self, name: str) -> Sequence[str]:
        """All values of a field of the answer, in order; ``name`` in lower case."""
        return self.names.values(self.response.headers, name)

    def asked(self, name: str) -> Sequence[str]:
        """All values of a field of the request, in order; ``name`` in lower case."""
        return self.request_names.values(self.request_headers, name)

    @property
    def body_due(self) -> bool:
        """Whether a 2xx answer to this request must have a body that is checked."""
        return self.operation is not Operation.OTHER and self.exchange.method != "DELETE"

    @property
    def headers_known(self) -> bool:
        """P8: header rules run only where the headers of that side are in the record."""
        return bool(self.response.headers)

    def partial(self, reason: str) -> None:
        """Something could not be inspected: the first reason stays."""
        if self.exchange.inspection == "full":
            self.exchange.inspection = f"partial ({reason})"

    def finished(self, reason: str) -> None:
        """Notes how a choice or a response ended, as many as there may be choices."""
        if len(self.exchange.finish) < self.limits.choices:
            self.exchange.finish.append(reason[:32])

    @property
    def waiting(self) -> int:
        """Schema checks that have no result yet."""
        return len(self._tickets)

    # -- schemas that came in the request are checked elsewhere ---------------------------------------

    def check_schema(self, schema: Any, document: Any, pointer: str, rules: SchemaRules) -> None:
        """Asks for a schema check; its errors break ``rules`` at the place of now."""
        report = self.report
        place = Place(report.side, report.unit, report.index, report.byte, pointer)
        self.want_check(WantedCheck(rules, place, schema, document))

    def want_check(self, wanted: WantedCheck) -> None:
        self._given += 1
        self._tickets[self._given] = wanted
        self.report.out.append(
            SchemaCheck(self.exchange, self._given, wanted.schema, wanted.document)
        )

    def wanted_checks(self) -> Iterator[tuple[int, WantedCheck]]:
        """The schema checks without a result, by their tickets."""
        yield from self._tickets.items()

    def schema_result(self, ticket: int, result: SchemaResult) -> None:
        """Takes a result in; KeyError for a ticket that was not given out, or not any more."""
        wanted = self._tickets.pop(ticket)
        report = self.report
        report.side, report.unit, report.index, report.byte = wanted.place[:4]
        if result.unchecked:
            self.partial(f"schema-{result.unchecked}")
            return
        rules, pointer = wanted.rules, wanted.place.pointer
        extra = [e for e in result.errors if rules.extra and e.keyword in EXTRA_KEYWORDS]
        self._report_first(rules.extra, extra, pointer, rules.of)
        other = [error for error in result.errors if error not in extra]
        self._report_first(rules.rule, other, pointer, rules.of)

    def _report_first(
        self, rule: str, errors: Sequence[SchemaError], pointer: str, of: str
    ) -> None:
        if errors:
            at = evidence.path(errors[0].pointer)
            self.report(rule, pointer, detail=f"{errors[0].keyword} at {at} of the {of}")
