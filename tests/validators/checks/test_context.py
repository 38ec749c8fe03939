"""What all checks share: the answer's fields, what could not be inspected, and schema checks under way."""

from __future__ import annotations

import pytest

from teeline.validators.checks.context import Context, SchemaRules, field_values
from teeline.validators.events import Found, ResponseHead, SchemaCheck, SchemaError, SchemaResult
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange, Headers, Place, Side, Unit
from teeline.validators.operation import Operation

HEADERS: Headers = (("Content-Type", "a"), ("X-A", "1"), ("x-a", "2"), ("X-a", ""))


def context(headers: Headers = ()) -> Context:
    ctx = Context(Exchange(id="x"), Operation.CHAT, DEFAULT_LIMITS)
    ctx.answers(ResponseHead(200, headers))
    return ctx


def test_a_fields_values_come_in_order_whatever_the_case_of_its_name() -> None:
    assert field_values(HEADERS, "x-a") == ["1", "2", ""]
    assert field_values(HEADERS, "x-b") == []


def test_the_first_value_of_a_field_counts() -> None:
    ctx = context(HEADERS)
    assert (ctx.header("content-type"), ctx.header("x-a"), ctx.header("x-b")) == ("a", "1", "")


def test_headers_that_were_not_recorded_are_not_known() -> None:
    """P8."""
    assert context(HEADERS).headers_known and not context().headers_known


def test_the_first_reason_for_a_partial_inspection_stays() -> None:
    ctx = context()
    ctx.partial("depth-limit")
    ctx.partial("body-limit")
    assert ctx.exchange.inspection == "partial (depth-limit)"


RULES = SchemaRules("tools.args-schema-mismatch", "arguments")


def asked(ctx: Context) -> SchemaCheck:
    """A schema check that is asked for at event 3."""
    ctx.report.place(Unit.EVENT, 3, 99)
    ctx.check_schema({"type": "object"}, {"a": 1}, "/arguments", RULES)
    [output] = ctx.report.drain()
    assert isinstance(output, SchemaCheck)
    return output


def test_a_schema_check_goes_out_with_schema_document_and_a_ticket_of_its_own() -> None:
    ctx = context()
    first, second = asked(ctx), asked(ctx)
    assert (first.schema, first.document) == ({"type": "object"}, {"a": 1})
    assert first.exchange is ctx.exchange
    assert first.ticket != second.ticket and ctx.waiting == 2


def test_a_result_that_comes_late_is_reported_where_the_document_stood() -> None:
    ctx = context()
    check = asked(ctx)
    ctx.report.place(Unit.BODY, 0, 7)
    ctx.schema_result(check.ticket, SchemaResult((SchemaError("/a", "type"),)))
    assert ctx.waiting == 0
    [found] = ctx.report.drain()
    assert isinstance(found, Found)
    assert found.violation.place == Place(Side.RESPONSE, Unit.EVENT, 3, 99, "/arguments")
    assert found.violation.evidence == "type at /a of the arguments"


def test_members_too_many_break_a_rule_of_their_own_where_there_is_one() -> None:
    ctx = context()
    rules = SchemaRules("structured.schema-violation", "text", "structured.extra-properties")
    ctx.check_schema({}, {}, "", rules)
    [check] = ctx.report.drain()
    assert isinstance(check, SchemaCheck)
    errors = (SchemaError("/a", "additionalProperties"), SchemaError("/b", "type"))
    ctx.schema_result(check.ticket, SchemaResult(errors))
    found = [o.violation.rule.id for o in ctx.report.drain() if isinstance(o, Found)]
    assert found == ["structured.extra-properties", "structured.schema-violation"]


def test_results_may_come_in_any_order() -> None:
    ctx = context()
    first, second = asked(ctx), asked(ctx)
    ctx.schema_result(second.ticket, SchemaResult())
    assert [ticket for ticket, _ in ctx.wanted_checks()] == [first.ticket]
    ctx.schema_result(first.ticket, SchemaResult())
    assert ctx.waiting == 0


@pytest.mark.parametrize("reason", ["timeout", "too-large", "remote-reference", "bad-schema"])
def test_what_could_not_be_checked_is_said_and_not_reported(reason: str) -> None:
    ctx = context()
    check = asked(ctx)
    ctx.schema_result(check.ticket, SchemaResult(unchecked=reason))
    assert ctx.report.drain() == []
    assert ctx.exchange.inspection == f"partial (schema-{reason})"


def test_a_ticket_is_good_once() -> None:
    ctx = context()
    check = asked(ctx)
    ctx.schema_result(check.ticket, SchemaResult())
    for ticket in (check.ticket, 77):
        with pytest.raises(KeyError):
            ctx.schema_result(ticket, SchemaResult())
