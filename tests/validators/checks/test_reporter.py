"""A rule is reported once an exchange, at its first place, with a count, and its place leads somewhere."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from teeline.validators.checks.reporter import Reporter
from teeline.validators.events import Found
from teeline.validators.evidence import MAX_LENGTH
from teeline.validators.exchangefile import parse
from teeline.validators.model import Exchange, Place, Severity, Side, Unit, Violation
from teeline.validators.rules import register
from tests.validators.answers import completion, dumps, inspected, streamed
from tests.validators.exchanges import cases, examples, inspect
from tests.validators.mutations import Mutator

ROLE, DONE = "chatstream.role-missing", "chatstream.done-missing"


def reporter() -> Reporter:
    report = Reporter(Exchange(id="x"))
    report.at = 5.0
    report.place(Unit.EVENT, 2, 40)
    return report


def test_a_finding_has_the_rules_severity_and_summary_and_the_time_of_the_read() -> None:
    report = reporter()
    report(ROLE, "/choices/0/delta/role", None)
    [found] = report.drain()
    assert isinstance(found, Found) and found.exchange is report.exchange
    violation = found.violation
    assert violation.rule is register()[ROLE]
    assert (violation.severity, violation.message) == (Severity.WARN, violation.rule.summary)
    assert violation.place == Place(Side.RESPONSE, Unit.EVENT, 2, 40, "/choices/0/delta/role")
    assert (violation.evidence, violation.at, violation.count) == ('"role": null', 5.0, 1)
    assert report.exchange.violations == [violation]


def test_the_same_rule_again_counts_and_stays_at_its_first_place() -> None:
    report = reporter()
    report(ROLE, "/a")
    report.place(Unit.EVENT, 9, 90)
    report(ROLE, "/b")
    report(DONE)
    report(ROLE, "/c")
    outputs = report.drain()
    assert [o.violation.rule.id for o in outputs if isinstance(o, Found)] == [ROLE, DONE]
    first = report.exchange.violations[0]
    assert (first.count, first.place.index, first.place.pointer) == (3, 2, "/a")


def test_an_offset_that_is_known_better_wins() -> None:
    report = reporter()
    report(ROLE, byte=47)
    report(DONE, byte=0)
    assert [v.place.byte for v in report.exchange.violations] == [47, 0]


def test_text_of_our_own_takes_the_place_of_the_excerpt_and_is_bounded() -> None:
    report = reporter()
    report(ROLE, "/role", "x", detail="d" * 500)
    assert report.exchange.violations[0].evidence == "d" * MAX_LENGTH


def test_what_was_drained_is_gone() -> None:
    report = reporter()
    report(ROLE)
    assert len(report.drain()) == 1 and report.drain() == []


def test_it_knows_what_was_reported_before() -> None:
    report = reporter()
    report(ROLE)
    assert report.has(ROLE) and report.has(DONE, ROLE) and not report.has(DONE) and not report.has()


def test_places_on_the_request_end_with_their_block_even_if_it_fails() -> None:
    report = reporter()
    with pytest.raises(ZeroDivisionError), report.on_request():
        report(ROLE, "/model")
        raise ZeroDivisionError
    report(DONE)
    first, second = (v.place for v in report.exchange.violations)
    assert first == Place(Side.REQUEST, Unit.BODY, 0, 0, "/model")
    assert second == Place(Side.RESPONSE, Unit.EVENT, 2, 40, "")


def test_a_rule_that_is_not_declared_can_not_be_reported() -> None:
    with pytest.raises(KeyError):
        reporter()("chat.no-such-rule")


# -- the places and evidence of everything that is ever reported -----------------------------------

EXCHANGES = {**cases(), **dict(examples())}


def variants(seed: int, count: int) -> list[dict[str, Any]]:
    mutator, documents = Mutator(seed), list(EXCHANGES.values())
    return [mutator.variant(documents[n % len(documents)]) for n in range(count)]


HOSTILE_NAMES = ("\x1b[31m", "a" * 5000, "\ud800", "a/b~c", "\n", "é" * 40, "sk-" + "a" * 40)


def hostile() -> list[Exchange]:
    """Answers whose members' names are a peer's: at the top, in a choice, in a delta, in usage."""
    seen = []
    for name in HOSTILE_NAMES:
        choice = {**completion()["choices"][0], name: 1}
        usage = {**completion()["usage"], name: 1}
        answer = completion(choices=[choice], usage=usage) | {name: 1}
        body = json.dumps(answer).encode()
        seen.append(inspected(body))
        twice = body.replace(b"{", b'{"\\u001b/":1,"\\u001b/":2,', 1)
        seen.append(inspected(twice))
    return seen


def violations() -> list[Violation]:
    documents = [*EXCHANGES.values(), *variants(7, 600)]
    seen = [*map(inspect, documents), *hostile()]
    return [violation for exchange in seen for violation in exchange.violations]


def test_whatever_a_peer_sends_findings_are_bounded_printable_and_can_be_written_down() -> None:
    for violation in violations():
        assert len(violation.evidence) <= MAX_LENGTH
        assert len(violation.place.pointer) <= 1200, violation.rule.id
        for text in (violation.evidence, violation.place.pointer):
            assert text.isprintable(), (violation.rule.id, text[:80])
            text.encode()


def test_no_finding_names_a_key_that_stood_where_a_name_was_due() -> None:
    for exchange in hostile():
        for violation in exchange.violations:
            assert "sk-" not in violation.place.pointer + violation.evidence, violation.rule.id


def body_of(document: dict[str, Any]) -> bytes:
    return b"".join(parse(document).reads)


def documents_of(document: dict[str, Any], place: Place) -> list[Any]:
    """The JSON values that a pointer may lead into; none where the bytes hold none there."""
    body = body_of(document)
    if place.unit is Unit.BODY:
        texts = [body.removeprefix(b"\xef\xbb\xbf")]
    elif place.unit is Unit.EVENT:
        block = re.split(rb"\r\n\r\n|\n\n|\r\r", body[place.byte :])[0]
        lines = [
            re.sub(rb"^\s*data: ?", b"", line) for line in block.splitlines() if b"data" in line
        ]
        texts = [*lines, b"".join(lines)]
    else:
        return []
    values = []
    for text in texts:
        try:
            values.append(json.JSONDecoder().raw_decode(text.decode(errors="replace").lstrip())[0])
        except ValueError:
            continue
    return values


def leads_somewhere(value: Any, pointer: str) -> bool:
    """RFC 6901, and the last token may name a member that is absent."""
    tokens = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
    for n, token in enumerate(tokens):
        last = n == len(tokens) - 1
        if isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        elif isinstance(value, dict) and token in value:
            value = value[token]
        else:
            # A name that can't be shown stands there by its length.
            return last and isinstance(value, dict) and not token.isdigit()
    return True


@pytest.mark.parametrize(
    "name", sorted(name for name in EXCHANGES if "gzip" not in name and "encoding" not in name)
)
def test_a_pointer_leads_into_the_document_at_the_place(name: str) -> None:
    document = EXCHANGES[name]
    for violation in inspect(document).violations:
        place = violation.place
        asked = place.side is Side.REQUEST
        values = [document.get("request")] if asked else documents_of(document, place)
        if place.pointer and any(values):
            assert any(leads_somewhere(value, place.pointer) for value in values), (
                violation.rule.id,
                place,
            )


def test_the_pointer_of_a_choice_goes_by_its_position_and_not_by_its_index() -> None:
    """The second choice of a stream stands alone in its chunks: at /choices/0."""
    first = [_chunk(0, {"role": "assistant", "content": "a"}), _chunk(0, {}, "stop")]
    second = [_chunk(1, {"role": "assistant", "content": ""}), _chunk(1, {}, "tool_calls")]
    seen = streamed(*first, *second, request={"stream": True, "n": 2})
    pointer = next(
        v.place.pointer for v in seen.violations if v.rule.id == "tools.finish-without-calls"
    )
    assert leads_somewhere(second[1], pointer)


def _chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000}
    return {**head, "model": "m", "choices": [choice]}


def test_the_pointer_of_a_custom_call_leads_into_custom() -> None:
    call = {"id": "call_1", "type": "custom", "custom": {"name": "a b", "input": ""}}
    body = completion({"content": None, "tool_calls": [call]})
    body["choices"][0]["finish_reason"] = "tool_calls"
    tools = [{"type": "custom", "custom": {"name": "c"}}]
    seen = inspected(dumps(body), {"model": "gpt-4o-mini", "messages": [1], "tools": tools})
    told = (v for v in seen.violations if v.rule.family not in ("http", "request"))
    pointers = {v.rule.id: v.place.pointer for v in told}
    assert "tools.name-pattern" in pointers and "cross.tool-name-unknown" in pointers
    assert [r for r, pointer in pointers.items() if not leads_somewhere(body, pointer)] == []
