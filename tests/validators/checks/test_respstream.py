"""A whole Responses stream: what follows from its order, and what a fault must not drag along with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from teeline.validators.fields.respevents import EVENTS, FORMER_EVENTS, STATUSES
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Unit, Verdict
from tests.validators.answers import everything, finding, ids
from tests.validators.exchanges import byte_by_byte, findings, partition, whole
from tests.validators.mutations import ODD_VALUES
from tests.validators.respscript import (
    ASKED,
    EVERY,
    TARGET,
    Json,
    call,
    custom,
    ended,
    message,
    numbered,
    opened,
    reasoning,
    refusal,
    response,
    script,
    streamed,
    told,
    written,
)

ANSWER = script(reasoning("A greeting"), message("Hello there"), call(), custom())
"""Several items, one after the other."""
PLACES = range(len(ANSWER))
HEADERS_MISSING = {"http.processing-ms-missing", "http.ratelimit-missing"}
NESTED = {
    "type": "error",
    "error": {"type": "server_error", "code": None, "message": "Broken", "param": None},
}
FLAT = {"type": "error", "code": "server_error", "message": "Broken", "param": None}


def worth(events: Iterable[Any], **more: Any) -> set[str]:
    """Everything that is found but the header fields that no test sends."""
    return everything(streamed(events, **more)) - HEADERS_MISSING


def without(events: Iterable[Json], *kinds: str) -> list[Json]:
    return [event for event in events if event["type"].removeprefix("response.") not in kinds]


# -- what else may stand in a stream ---------------------------------------------------------------


@pytest.mark.parametrize("at", [*PLACES, len(ANSWER)])
def test_a_keepalive_may_come_anywhere_with_a_number_or_without(at: int) -> None:
    for beat in ({"type": "keepalive"}, {"type": "response.keep_alive"}):
        assert worth([*ANSWER[:at], beat, *ANSWER[at:]]) == {"respstream.keepalive"}
        numberless = [*numbered(ANSWER[:at]), written([beat]), *numbered(ANSWER[at:], at)]
        assert worth(numberless) == {"respstream.keepalive"}


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("codex.rate_limits", "respstream.vendor-event"),
        ("vendor:queue", "respstream.vendor-event"),
        ("response.rate_limits", "respstream.vendor-event"),
        ("response.metadata", "respstream.type-unknown"),
        (min(FORMER_EVENTS), "respstream.type-unknown"),
    ],
)
def test_events_of_vendors_and_of_other_times_may_come_anywhere_before_the_end(
    kind: str, rule: str
) -> None:
    event = {"type": kind, "output_index": 77, "item_id": "x", "delta": {"a": 1}}
    for at in PLACES:
        assert worth([*ANSWER[:at], event, *ANSWER[at:]]) == {rule}


def test_items_may_be_open_at_the_same_time() -> None:
    items = [reasoning("A greeting"), message("Hello"), call(), message("there", id="msg_2")]
    queues = [told(item, n) for n, item in enumerate(items)]
    events = [queue.pop(0) for queue in queues]
    while any(queues):
        events += [queue.pop(0) for queue in reversed(queues) if queue]
    assert worth([*opened(), *events, ended(*items)]) == set()


def test_items_that_end_in_another_order_stand_in_the_order_of_their_index() -> None:
    first, second = message("a", id="msg_1"), message("b", id="msg_2")
    begun = [told(first)[:-1], told(second, 1)[:-1]]
    events = [*begun[0], *begun[1], told(second, 1)[-1], told(first)[-1]]
    assert worth([*opened(), *events, ended(first, second)]) == set()
    assert worth([*opened(), *events, ended(second, first)]) == {"respstream.final-output-differs"}


# -- how a stream begins and ends ------------------------------------------------------------------


def test_a_background_response_waits_in_a_queue_first() -> None:
    request = {**ASKED, "background": True}
    item = message("Hello")
    events = [*opened(queued=True), *told(item), ended(item)]
    assert worth(events, request=request) == set()
    again = [events[0], events[1], events[1], *events[2:]]
    assert worth(again, request=request) == set()


@pytest.mark.parametrize("kind", sorted(STATUSES))
@pytest.mark.parametrize("status", sorted({s for words in STATUSES.values() for s in words}))
def test_a_lifecycle_event_carries_its_own_status(kind: str, status: str) -> None:
    events = [*opened(), {"type": kind, "response": response(status=status)}]
    said = "respstream.status-contradicts-event" in worth(events)
    assert said == (status not in STATUSES[kind])


@pytest.mark.parametrize("how", ["completed", "incomplete", "failed"])
def test_every_terminal_event_is_an_end(how: str) -> None:
    said = set() if how == "completed" else {f"respstream.{how}"}
    assert worth(script(message("Hello"), how=how)) == said


def test_what_a_cut_answer_left_undone_is_no_fault() -> None:
    """An incomplete response breaks off in an item, and says so; a failed one may hold nothing of it."""
    events = [*opened(), *told(message("Hello"))[:4]]
    assert worth([*events, ended(how="failed")]) == {"respstream.failed"}
    half = message("Hel", status="incomplete")
    assert worth(script(half, how="incomplete")) == {"respstream.incomplete"}
    cut = call('{"a": ', status="incomplete")
    told_of = {"respstream.incomplete", "tools.args-truncated"}
    assert worth(script(cut, how="incomplete")) == told_of


def test_a_warm_up_generates_nothing_on_purpose() -> None:
    events = [*opened(), ended()]
    assert worth(events, request={**ASKED, "generate": False}) == set()
    assert worth(events) == {"responses.output-empty"}


def test_a_response_with_nothing_but_empty_messages_says_nothing() -> None:
    for item in (message(""), message(refusal("")), {**message(), "content": []}):
        assert worth(script(item)) == {"respstream.no-text"}
    assert worth(script(message(""), call())) == set()
    assert worth(script({**reasoning(), "summary": []}, message(""))) == set()
    assert worth(script(message(""), how="incomplete")) == {"respstream.incomplete"}


def test_cancelled_is_a_status_and_no_event_but_ends_the_stream_all_the_same() -> None:
    events = [*ANSWER[:-1], {"type": "response.cancelled", "response": response()}]
    assert worth(events) == {"respstream.cancelled-event"}


# -- errors (P3) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize(
    ("error", "rule"), [(NESTED, "respstream.error-nested"), (FLAT, "respstream.error-flat")]
)
def test_an_error_may_come_anywhere_and_nothing_is_due_behind_it(
    at: int, error: Json, rule: str
) -> None:
    """Alone, or followed by response.failed: the two captures of official errors."""
    assert worth([*ANSWER[:at], error]) == {rule}
    assert worth([*ANSWER[:at], error, ended(how="failed")]) == {rule}
    assert streamed([*ANSWER[:at], error]).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error"},
        {"type": "error", "message": ""},
        {"type": "error", "error": "Broken"},
        {"error": {"message": "Broken"}},
        {"code": 500, "msg": "Broken"},
    ],
)
def test_an_error_without_a_reason_that_clients_see_is_malformed(error: Json) -> None:
    assert ids(streamed([*opened(), error])) == {"respstream.error-malformed"}


def test_a_member_called_error_of_an_ordinary_event_is_a_vendors_own() -> None:
    """Known events have a type: only those without one are errors by what they hold."""
    values: tuple[Any, ...] = ({"message": "x"}, "x", True, [])
    for value in values:
        assert ids(streamed([{**event, "error": value} for event in ANSWER])) == set()


def test_the_members_of_a_nested_error_are_those_of_every_error() -> None:
    error = {"type": "error", "error": {"code": 500}}
    assert worth([*opened(), error]) == {
        "respstream.error-nested",
        "error.message-missing",
        "error.type-missing",
        "error.code-type",
        "error.param-missing",
    }


# -- one event that can't be read (P9) -------------------------------------------------------------


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (b"data: {oops\n\n", "sse.data-invalid-json"),
        (b"data: [1]\n\n", "respstream.event-not-object"),
        (b"data: {}\n\n", "respstream.type-missing"),
        (b'data: {"type":["x"]}\n\n', "respstream.type-missing"),
    ],
)
def test_whatever_a_lost_event_was_it_drags_nothing_along(
    at: int, broken: bytes, rule: str
) -> None:
    """The beginning, a part, a fragment, an end: each may have been in it."""
    events = numbered(ANSWER)
    events[at] = broken
    assert ids(streamed(events)) == {rule}


@pytest.mark.parametrize("at", PLACES)
def test_several_lost_events_drag_nothing_along_either(at: int) -> None:
    events = numbered(ANSWER)
    events[at : at + 6] = [b"data: {oops\n\n"] * 6
    assert ids(streamed(events)) == {"sse.data-invalid-json"}


@pytest.mark.parametrize("at", PLACES)
def test_chunks_of_chat_are_another_protocol(at: int) -> None:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []}
    assert ids(streamed([*ANSWER[:at], chunk])) == {"respstream.chat-chunks"}
    bare = {"id": "chatcmpl-1", "choices": []}
    assert ids(streamed([*ANSWER[:at], bare, *ANSWER[at:]])) == {"respstream.chat-chunks"}


PLACED = [
    (n, name)
    for n, event in enumerate(ANSWER)
    for name in ("output_index", "content_index", "summary_index", "item", "part")
    if name in event
]


@pytest.mark.parametrize(("at", "name"), PLACED)
def test_an_event_without_its_place_is_found_by_that_alone(at: int, name: str) -> None:
    rule = "respstream.item-null" if name == "item" else "respstream.field-missing"
    values: tuple[Any, ...] = (None, "0", True, [])
    for value in values:
        events = [*ANSWER[:at], {**ANSWER[at], name: value}, *ANSWER[at + 1 :]]
        seen = streamed(events)
        assert ids(seen) == {rule}
        place = finding(seen, rule).place
        assert (place.index, place.pointer) == (at + 1, f"/{name}")


# -- the end that never came (P2) ------------------------------------------------------------------


@pytest.mark.parametrize("at", PLACES)
def test_a_client_that_leaves_misses_nothing(at: int) -> None:
    for how in (Ended.CLIENT_CLOSED, Ended.TIMEOUT, Ended.SHUTDOWN):
        assert ids(streamed(ANSWER[:at], ended=how)) == set()


@pytest.mark.parametrize("at", PLACES)
def test_a_connection_that_breaks_is_the_only_fault(at: int) -> None:
    assert ids(streamed(ANSWER[:at], ended=Ended.UPSTREAM_ABORTED)) == {"http.truncated"}


@pytest.mark.parametrize("at", PLACES)
def test_a_stream_without_its_end_is_found(at: int) -> None:
    assert ids(streamed(ANSWER[:at])) == {"respstream.terminal-missing"}


# -- resumed streams -------------------------------------------------------------------------------

FETCHED: Json = {"method": "GET", "target": f"{TARGET}/resp_1?stream=true&starting_after=7"}


@pytest.mark.parametrize("item", EVERY, ids=lambda item: item["type"])
def test_a_stream_may_be_resumed_behind_any_event(item: Json) -> None:
    """What came before is not known, and the request neither (P7)."""
    events = numbered(script(message("Hello"), item))
    for at in range(len(events)):
        assert worth(events[at:], request=None, **FETCHED) == set()


@pytest.mark.parametrize("at", PLACES[1:])
def test_a_stream_that_was_asked_for_does_not_start_in_the_middle(at: int) -> None:
    assert "respstream.created-not-first" in worth(numbered(ANSWER)[at:])


def test_what_a_resumed_stream_tells_twice_is_compared() -> None:
    item = message("Hello there")
    rest = numbered([*opened(), *told(item), ended(message("Bye"))])[5:]
    assert worth(rest, request=None, **FETCHED) == set()  # one telling, as far as it can be known
    broken = numbered([*opened(), *told(item)[:-1], told(message("Bye"))[-1], ended(item)])[5:]
    assert worth(broken, request=None, **FETCHED) == {"respstream.text-mismatch"}


def test_a_resumed_stream_counts_on() -> None:
    rest = numbered(ANSWER[:9])[7:] + numbered(ANSWER[9:], 10)
    assert worth(rest, request=None, **FETCHED) == {"respstream.seq-gap"}


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "rules"),
    [
        ((0, 1, 2), set()),
        ((1, 2, 3), set()),
        ((2, 3, 4), {"respstream.seq-start"}),
        ((-1, 0, 1), {"respstream.seq-start"}),
        ((0, 1, 3), {"respstream.seq-gap"}),
        ((0, 0, 1), {"respstream.seq-order"}),
        ((None, None, None), {"respstream.seq-missing"}),
        ((0, None, 2), {"respstream.seq-missing"}),
        ((0, None, 7), {"respstream.seq-missing"}),
        ((0, None, 0), {"respstream.seq-missing", "respstream.seq-order"}),
        ((0, "1", 2), {"respstream.seq-type"}),
        ((0, True, 2), {"respstream.seq-type"}),
        ((0, 1.0, 2), {"respstream.seq-type"}),
        (("0", 5, 6), {"respstream.seq-type"}),
    ],
)
def test_events_are_numbered_one_by_one(numbers: tuple[Any, ...], rules: set[str]) -> None:
    """A number that can't be read says nothing about those around it."""
    events = [*opened(), ended(how="failed")]
    for event, number in zip(events, numbers, strict=True):
        event["sequence_number"] = number
    assert ids(streamed(events)) == rules


# -- items and the terminal output -----------------------------------------------------------------

PAIR = (message("a", id="msg_1"), message("b", id="msg_2"))


@pytest.mark.parametrize("undone", [0, 1])
def test_an_item_that_is_never_done_is_found_at_the_event_that_added_it(undone: int) -> None:
    events = script(*PAIR)
    events.remove(told(PAIR[undone], undone)[-1])
    seen = streamed(events)
    assert ids(seen) == {"respstream.item-done-missing"}
    place = finding(seen, "respstream.item-done-missing").place
    assert place.index == events.index(told(PAIR[undone], undone)[0]) + 1
    assert (place.unit, place.pointer) == (Unit.EVENT, "/output_index")


@pytest.mark.parametrize(
    ("output", "rule"),
    [
        ([], "final-output-empty"),
        ([PAIR[0]], "final-output-differs"),
        ([PAIR[1]], "final-output-differs"),
        ([*PAIR, call()], "final-output-differs"),
        ([PAIR[1], PAIR[0]], "final-output-differs"),
        ([PAIR[0], {**PAIR[1], "id": "msg_3"}], "final-output-differs"),
        ([PAIR[0], {**PAIR[1], "type": "newer"}], "final-output-differs"),
        ([PAIR[0], message("c", id="msg_2")], "text-mismatch"),
    ],
)
def test_the_terminal_output_holds_the_items_that_were_done(output: list[Json], rule: str) -> None:
    events = [*script(*PAIR)[:-1], ended(*output)]
    assert ids(streamed(events)) == {f"respstream.{rule}"}


@pytest.mark.parametrize("value", [None, "", {}, 0, False])
def test_a_terminal_output_that_is_no_list_is_found_by_that_alone(value: Any) -> None:
    events = [*script(*PAIR)[:-1], ended(*PAIR, output=value)]
    assert ids(streamed(events)) == {"respstream.final-output-missing"}


def test_indexes_of_items_count_up_from_0() -> None:
    def started(*indexes: int) -> set[str]:
        items = [message("a", id=f"msg_{n}") for n in range(len(indexes))]
        events = [e for item, n in zip(items, indexes, strict=True) for e in told(item, n)]
        return ids(streamed([*opened(), *events, ended(*items)]))

    assert started(0, 1, 2) == set()
    assert started(1) == started(0, 2) == started(-1) == {"respstream.output-index-gap"}
    assert started(0, 0) == {"respstream.output-index-reused"}


def test_an_item_nobody_added_is_found_once() -> None:
    events = without(script(*PAIR), "output_item.added")
    seen = streamed(events)
    assert ids(seen) == {"respstream.item-added-missing"}
    assert finding(seen, "respstream.item-added-missing").count == 2


def test_response_objects_are_checked_in_every_event_that_has_one() -> None:
    for at, event in enumerate(ANSWER):
        if "response" not in event:
            continue
        events = copy.deepcopy(ANSWER)
        events[at]["response"]["object"] = "chat.completion"
        seen = streamed(events)
        assert ids(seen) == {"responses.object-wrong"}
        place = finding(seen, "responses.object-wrong").place
        assert (place.index, place.pointer) == (at + 1, "/response/object")


# -- names, the marker of chat, places -------------------------------------------------------------


def test_event_names_are_those_of_the_data() -> None:
    body = written(numbered(ANSWER), named=False)
    assert ids(streamed([body])) == {"respstream.event-name-missing"}
    other = written(numbered(ANSWER)).replace(b"event: response.created", b"event: message")
    assert ids(streamed([other])) == {"respstream.event-name-mismatch"}


def test_done_is_no_part_of_this_stream() -> None:
    done = b"data: [DONE]\n\n"
    assert ids(streamed([*ANSWER, done])) == {"respstream.done-marker"}
    assert ids(streamed([*ANSWER[:5], done])) == {"respstream.done-early"}
    assert worth([*opened(), NESTED, done]) == {"respstream.error-nested"}


@pytest.mark.parametrize("again", ["response.completed", "response.failed"])
def test_there_is_one_end(again: str) -> None:
    events = [*ANSWER, {"type": again, "response": response(status=again.rpartition(".")[2])}]
    assert ids(streamed(events)) == {"respstream.terminal-repeated"}
    late = [*ANSWER, *told(message("More", id="msg_9"), 4)]
    assert ids(streamed(late)) == {"respstream.event-after-terminal"}


def test_places_are_the_number_and_the_first_byte_of_the_event() -> None:
    events = copy.deepcopy(ANSWER)
    at = next(n for n in PLACES if "delta" in events[n])
    events[at]["delta"] = 5
    data = len(written(numbered(events)[:at])) + len(f"event: {events[at]['type']}\n")
    for cut in (whole, byte_by_byte, partition(3)):
        place = finding(streamed(events, cut=cut), "respstream.delta-type").place
        assert (place.index, place.byte, place.pointer) == (at + 1, data, "/delta")


# -- nothing depends on cuts, nothing grows, nothing raises ----------------------------------------


def variants() -> Iterator[list[Any]]:
    """Faults of every sort."""
    yield ANSWER
    yield ANSWER[3:]
    yield [event for event in ANSWER if not event["type"].endswith(".added")]
    yield [event for event in ANSWER if not event["type"].endswith(".done")]
    yield [*reversed(ANSWER)]
    yield [*ANSWER[:5], b"data: {oops\n\n", *ANSWER[5:], NESTED]
    yield [*ANSWER, *ANSWER]
    yield [event for pair in zip(ANSWER, ANSWER, strict=True) for event in pair]


def test_findings_do_not_depend_on_the_cut() -> None:
    for n, events in enumerate(variants()):
        expected = findings(streamed(events))
        assert findings(streamed(events, cut=byte_by_byte)) == expected
        assert findings(streamed(events, cut=partition(n))) == expected


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_any_value_may_stand_in_any_member_of_any_event(kind: str) -> None:
    """The rows of every type, each member with every odd value: nothing raises."""
    model = next((e for item in EVERY for e in script(item) if e["type"] == kind), {"type": kind})
    members = {*model, *(f.name for f in EVENTS[kind].fields)}
    events = [{**model, name: value} for name in sorted(members) for value in ODD_VALUES]
    begin = written([*opened(), *told(message())[:2]])
    body = begin + b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
    assert streamed([body]).events == 4 + len(events)


SMALL = Limits(tool_calls=3, texts=4)


@pytest.mark.parametrize(("count", "inspection"), [(3, "full"), (4, "partial (item-limit)")])
def test_the_items_of_a_stream_are_bounded(count: int, inspection: str) -> None:
    """Beyond the limit nothing is compared, and nothing is missed either."""
    items = [message("Hello", id=f"msg_{n}") for n in range(count)]
    seen = streamed(script(*items), limits=SMALL)
    assert seen.inspection == inspection and ids(seen) == set()


@pytest.mark.parametrize(("count", "inspection"), [(4, "full"), (5, "partial (part-limit)")])
def test_the_texts_of_a_stream_are_bounded(count: int, inspection: str) -> None:
    for item in (message(*["a"] * count), reasoning(*["a"] * count)):
        for events in (script(item), [*opened(), told(item)[0], told(item)[-1], ended(item)]):
            seen = streamed(events, limits=SMALL)
            assert seen.inspection == inspection and ids(seen) == set()
    assert streamed(script(*EVERY)).inspection == "full"
