"""One item of a Responses stream: its parts, its texts in every telling, its phases, its own events."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from teeline.validators.checks.respitems import ITEM_TEXTS, MISMATCH, PART_KINDS, kept
from teeline.validators.fields.items import ITEMS
from tests.validators.answers import everything, finding, ids
from tests.validators.exchanges import byte_by_byte, findings
from tests.validators.respscript import (
    EVERY,
    HOSTED,
    Json,
    call,
    custom,
    ended,
    message,
    opened,
    output_text,
    reasoning,
    refusal,
    response,
    script,
    streamed,
    told,
)

WRONG = "Something else"


def about(item: Json, events: list[Json]) -> set[str]:
    """What is found where these events tell one item, and the terminal output has it."""
    return ids(streamed([*opened(), *events, ended(item)]))


def named(item: Json, index: int = 0) -> dict[str, Json]:
    """The events of an item by the last two words of their type; of several deltas the first one."""
    events: dict[str, Json] = {}
    for event in told(item, index):
        events.setdefault(event["type"].removeprefix("response."), event)
    return events


# -- every type, whole -----------------------------------------------------------------------------


def test_there_is_an_item_of_every_type() -> None:
    assert [item["type"] for item in EVERY] == list(dict.fromkeys(i["type"] for i in EVERY))
    assert {item["type"] for item in EVERY} == set(ITEMS)


@pytest.mark.parametrize("item", EVERY, ids=lambda item: item["type"])
def test_an_item_told_in_the_documented_order_is_clean(item: Json) -> None:
    seen = streamed(script(item))
    assert not {rule for rule in everything(seen) if rule.startswith(("respstream", "responses"))}
    assert ids(seen) == set() and seen.inspection == "full"
    assert findings(streamed(script(item), cut=byte_by_byte)) == findings(seen)


@pytest.mark.parametrize("item", EVERY, ids=lambda item: item["type"])
def test_an_item_may_come_with_its_first_and_last_event_alone(item: Json) -> None:
    first, *_, last = told(item)
    assert about(item, [first, last]) == set()


@pytest.mark.parametrize("item", EVERY, ids=lambda item: item["type"])
def test_a_text_may_come_in_one_piece_or_none(item: Json) -> None:
    """The deltas may be absent altogether, or empty, or one character each."""
    for pieces in (lambda text: (), lambda text: ("", text), lambda text: tuple(text)):
        assert ids(streamed(script(item, pieces=pieces))) == set()


def test_an_item_that_failed_has_a_phase_for_it() -> None:
    failed = {**next(i for i in HOSTED if i["type"] == "mcp_call"), "error": {"type": "x"}}
    assert "response.mcp_call.failed" in [event["type"] for event in told(failed)]
    assert ids(streamed(script(failed))) == set()


# -- a text told differently -----------------------------------------------------------------------

TEXTS: dict[str, Json] = {
    "text": message("Hello there"),
    "refusal": message(refusal("I can not")),
    "reasoning": reasoning(texts=["Think hard"]),
    "summary": reasoning("A greeting"),
    "args": call('{"a": 1}'),
    "custom": custom("ls -l"),
    "mcp": next(item for item in HOSTED if item["type"] == "mcp_call"),
    "code": next(item for item in HOSTED if item["type"] == "code_interpreter_call"),
}
"""An item with one text of each kind."""
OTHER: dict[str, str] = {"args": '{"b": 2}', "mcp": '{"b": 2}'}
_MEMBERS = ("delta", "text", "refusal", "arguments", "input", "code")


def told_by(event: Json) -> list[Json]:
    """The objects in an event that hold the text whole or in part, each with one of ``_MEMBERS``."""
    output = event.get("response", {}).get("output", [])
    holders = [event, event.get("part", {}), event.get("item", {}), *output]
    inner = [p for h in holders for name in ("content", "summary") for p in h.get(name, ())]
    return [
        h
        for h in [*holders, *inner]
        if any(isinstance(h.get(name), str) and h[name] for name in _MEMBERS)
    ]


def differing(kind: str) -> list[tuple[str, list[Json]]]:
    """Streams of one item in which one event tells its text differently, by the type of that event."""
    made = []
    events = script(TEXTS[kind])
    for n, event in enumerate(events):
        for at in range(len(told_by(event))):
            broken = copy.deepcopy(events)
            holder = told_by(broken[n])[at]
            name = next(m for m in _MEMBERS if isinstance(holder.get(m), str))
            holder[name] = OTHER.get(kind, WRONG)
            made.append((event["type"], broken))
    return made


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_that_one_telling_has_differently_is_found_wherever_that_is(kind: str) -> None:
    streams = differing(kind)
    parts = 1 if kind in PART_KINDS.values() or kind == "summary" else 0
    assert len(streams) == 5 + parts, [name for name, _ in streams]
    for name, events in streams:
        assert MISMATCH[kind] in everything(streamed(events)), name


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_without_deltas_is_compared_all_the_same(kind: str) -> None:
    for name, events in differing(kind):
        rest = [event for event in events if not event["type"].endswith(".delta")]
        expected = (
            {MISMATCH[kind]} if len(rest) == len(events) - 2 and "delta" not in name else set()
        )
        assert {MISMATCH[kind]} & everything(streamed(rest)) == expected, name


@pytest.mark.parametrize("kind", TEXTS)
def test_the_last_telling_is_enough_to_find_a_difference(kind: str) -> None:
    """Only the added item, its deltas and the terminal output: what accumulators compare."""
    item = TEXTS[kind]
    events = [e for e in script(item) if not e["type"].endswith(".done")]
    found = everything(streamed(events))
    assert MISMATCH[kind] not in found and "respstream.item-done-missing" in found


def test_every_kind_of_text_is_covered() -> None:
    kinds = {*PART_KINDS.values(), "summary", *(kind for kind, _ in ITEM_TEXTS.values())}
    assert kinds == set(TEXTS) == set(MISMATCH)


def test_texts_of_several_parts_are_kept_apart() -> None:
    item = message("Hello", refusal("No"), output_text("there"), "")
    assert ids(streamed(script(item))) == set()
    swapped = message("there", refusal("No"), output_text("Hello"), "")
    assert about(swapped, told(item)) == {"respstream.text-mismatch"}


def test_encrypted_content_is_no_text() -> None:
    """Official reasoning items carry another one in each telling."""
    tellings = [reasoning("A greeting", encrypted_content=text) for text in "abc"]
    events = told(tellings[0])
    events[0]["item"] |= {"encrypted_content": "b"}
    assert about(tellings[2], events) == set()


# -- what is checked when ----------------------------------------------------------------------


@pytest.mark.parametrize("item", EVERY, ids=lambda item: item["type"])
def test_an_item_owes_its_state_when_it_is_added_and_the_rest_when_it_is_done(item: Json) -> None:
    kind = ITEMS[item["type"]]
    for field in (*kind.state.fields, *kind.payload.fields):
        if not field.absent or field.name in ("content", "arguments"):
            continue  # see the skeletons
        first, *inner, last = told(item)
        bare = {name: v for name, v in first["item"].items() if name != field.name}
        found = about(item, [{**first, "item": bare}, *inner, last])
        assert found == ({field.absent} if field in kind.state.fields else set()), field.name


def test_a_part_is_checked_in_its_own_events() -> None:
    """Clients build the message from these; the item that is done comes too late for them."""
    for at in (1, -2):
        for change, rule in (
            ({"type": "text"}, "responses.content-part-type"),
            ({"text": None}, "responses.text-type"),
            ({"annotations": None}, "responses.annotations-missing"),
        ):
            events = copy.deepcopy(told(message("Hello")))
            events[at]["part"] |= change
            seen = streamed([*opened(), *events, ended(message("Hello"))])
            assert finding(seen, rule).place.pointer.startswith("/part/")
            assert rule in ids(seen) and len(ids(seen)) == 1


@pytest.mark.parametrize("value", [None, {"a": 1}, 5])
def test_arguments_that_only_the_terminal_output_lacks_are_found(value: Any) -> None:
    assert about({**call(), "arguments": value}, told(call())) == {"tools.args-type"}
    lacking = call()
    del lacking["arguments"]
    assert about(lacking, told(call())) == {"tools.args-type"}


# -- parts -----------------------------------------------------------------------------------------

TWO_PARTS = message("Hello", "there")


def test_a_delta_behind_the_end_of_its_part_is_found() -> None:
    """Also where the text itself has no done event, or none of its own."""
    events = told(TEXTS["text"])
    late = [*events[:-1], events[2], events[-1]]
    assert "respstream.delta-after-done" in about(TEXTS["text"], late)
    endless = [event for event in late if event["type"] != "response.output_text.done"]
    assert "respstream.delta-after-done" in about(TEXTS["text"], endless)
    summary = told(TEXTS["summary"])
    late = [*summary[:-1], summary[2], summary[-1]]
    late = [event for event in late if not event["type"].endswith("text.done")]
    assert "respstream.delta-after-done" in about(TEXTS["summary"], late)


@pytest.mark.parametrize("kind", ["args", "custom", "mcp", "code"])
def test_a_delta_behind_the_end_of_its_item_is_found(kind: str) -> None:
    events = told(TEXTS[kind])
    delta = next(event for event in events if event["type"].endswith(".delta"))
    rest = [e for e in events if not e["type"].endswith(("delta", "arguments.done", "input.done"))]
    assert about(TEXTS[kind], [*rest, delta]) == {"respstream.delta-after-done"}


@pytest.mark.parametrize("index", [1, 5, -1, 2**40])
def test_a_first_part_starts_at_0(index: int) -> None:
    events = told(message("Hello"))
    events[1]["content_index"] = index
    assert "respstream.content-index-wrong" in about(message("Hello"), events)


def test_a_text_of_no_part_takes_the_comparison_away_and_nothing_else() -> None:
    """Whose text it was is not known (P9)."""
    events = told(TWO_PARTS)
    wrong = next(e for e in events if e["type"].endswith("output_text.delta"))
    wrong["content_index"] = 7
    assert about(TWO_PARTS, events) == {"respstream.content-index-wrong"}


def test_a_part_that_was_never_added_is_found_once_and_its_text_still_compared() -> None:
    events = [e for e in told(message("Hello")) if e["type"] != "response.content_part.added"]
    assert about(message("Hello"), events) == {"respstream.part-added-missing"}
    assert about(message("Bye"), events) == {
        "respstream.part-added-missing",
        "respstream.text-mismatch",
    }


def test_reasoning_of_open_models_may_come_without_parts() -> None:
    events = [e for e in told(TEXTS["reasoning"]) if "content_part" not in e["type"]]
    assert about(TEXTS["reasoning"], events) == set()


def test_the_parts_of_newer_types_are_followed_without_being_known() -> None:
    item = message({"type": "output_audio", "transcript": "Hello"})
    item["content"].append(output_text("there"))
    first, *_, last = told(message("Hello", "there"))
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {**where, "part": item["content"][0]}
    added = [
        {"type": "response.content_part.added", **part},
        {"type": "response.content_part.done", **part},
    ]
    text = [e for e in told(message("Hello", "there")) if e.get("content_index") == 1]
    events = [first, *added, *text, {**last, "item": item}]
    assert about(item, events) == {"responses.content-part-unknown"}


# -- whose events ----------------------------------------------------------------------------------

INNER = {
    event["type"]: event
    for item in EVERY
    for event in told(item)[1:-1]
    if "item_id" in event or "command_index" in event
}
BEGUN = {item["type"]: told(item)[0]["item"] for item in EVERY}
TEXT_PARTS = frozenset({"response.content_part.added", "response.content_part.done"})


@pytest.mark.parametrize("name", sorted(INNER))
def test_an_event_belongs_to_items_of_its_own_type(name: str) -> None:
    """Every event inside items against an item of every type."""
    fits = set()
    for kind, begun in BEGUN.items():
        event = {**INNER[name], "item_id": begun.get("id")}
        added = {"type": "response.output_item.added", "output_index": 0, "item": begun}
        if "respstream.event-kind-mismatch" not in ids(streamed([*opened(), added, event])):
            fits.add(kind)
    owner = next(i["type"] for i in EVERY if name in [e["type"] for e in told(i)])
    both = {"message", "reasoning"} if name in TEXT_PARTS else set()
    shell = {"shell_call", "shell_call_output"} if "shell_call_output" in name else set()
    assert fits == {owner} | both | shell


def test_of_an_item_of_an_unknown_type_nothing_is_known() -> None:
    """Vendors send their own items with events that they borrow."""
    item = {"id": "x_1", "type": "x_search_call", "status": "completed", "input": "q"}
    borrowed = [e for e in told(custom()) if e["type"].startswith("response.custom")]
    events = [{**event, "item_id": "x_1"} for event in borrowed]
    assert about(item, [told(item)[0], *events, told(item)[-1]]) == set()


@pytest.mark.parametrize("name", ["id", "type", "call_id"])
def test_an_item_keeps_its_identity_to_its_end(name: str) -> None:
    first, *inner, last = told(call())
    last = copy.deepcopy(last)
    last["item"][name] = "custom_tool_call" if name == "type" else "other"
    assert "respstream.item-id-changes" in about(last["item"], [first, *inner, last])


@pytest.mark.parametrize("last", ["fc_1", "fc_2", "fc_3"])
def test_an_identity_that_changed_is_not_compared_again_at_the_end(last: str) -> None:
    """Which of the two the terminal output has is no fault of its own (P9)."""
    events = told(call(id="fc_1", call_id="call_1"))
    events[-1]["item"] = {**call(id="fc_2", call_id="call_1")}
    whole = call(id=last, call_id="call_1")
    assert about(whole, events) == {"respstream.item-id-changes"}


def test_a_searched_tool_gets_its_call_id_late() -> None:
    """Official tool_search_call items of clients; the terminal output agrees with the last one."""
    search = next(item for item in HOSTED if item["type"] == "tool_search_call")
    first, last = told({**search, "call_id": "call_a"})
    last["item"] = {**search, "call_id": "call_b"}
    assert about(last["item"], [first, last]) == set()
    assert about({**search, "call_id": "call_a"}, [first, last]) == {
        "respstream.final-output-differs"
    }


def test_the_place_of_a_foreign_event_is_its_own() -> None:
    events = [*opened(), *told(message("Hello")), ended(message("Hello"))]
    events[4]["item_id"] = "msg_2"
    seen = streamed(events)
    found = finding(seen, "respstream.item-id-mismatch")
    assert (found.place.index, found.place.pointer, found.count) == (5, "/item_id", 1)
    assert found.evidence == '"item_id": "<str 5>"'


def test_names_are_compared_whole_and_kept_short() -> None:
    """Some relays encrypt ids into long blobs, another one for each event."""
    long = "x" * 5_000
    assert kept(long + "a") == kept(long + "a") != kept(long + "b")
    assert kept(None) is kept(5) is kept({"id": []}) is None
    assert len(kept(long) or "") < 400
    for change in ("", "b"):
        item = message("Hello", id=long + "a")
        events = [*told(item)[:-1], {**told(item)[-1], "item": {**item, "id": long + "a" + change}}]
        found = about(events[-1]["item"], events)
        assert found == ({"respstream.item-id-changes"} if change else set())


# -- phases ----------------------------------------------------------------------------------------

PHASED = [
    item
    for item in HOSTED
    if any(event["type"] == f"response.{item['type']}.in_progress" for event in told(item))
]


@pytest.mark.parametrize("item", PHASED, ids=lambda item: item["type"])
def test_a_tool_does_not_go_back_a_phase(item: Json) -> None:
    """Every two phases exchanged; the same one twice is no step back."""
    prefix = f"response.{item['type']}."
    names = [n for n in named(item) if f"response.{n}".startswith(prefix) and "call_code" not in n]
    first, *inner, last = told(item)
    for a, b in itertools.combinations(names, 2):
        order = [e for e in inner if e["type"].removeprefix("response.") in (a, b)]
        assert about(item, [first, *order, *order[-1:], last]) == set()
        backwards = [first, *reversed(order), last]
        assert "respstream.tool-phase-order" in about(item, backwards), (a, b)


def test_partial_images_are_counted_upwards() -> None:
    image = next(item for item in HOSTED if item["type"] == "image_generation_call")
    for order, expected in (((0, 0), set()), ((3, 7), set()), ((1, 0), True)):
        events = told(image)
        partial = [event for event in events if event["type"].endswith("partial_image")]
        for event, number in zip(partial, order, strict=True):
            event["partial_image_index"] = number
        found = about(image, events)
        assert found == ({"respstream.partial-image-index"} if expected else set())


# -- skeletons -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", {}, 0])
def test_accumulators_need_a_list_and_a_string_to_append_to(value: Any) -> None:
    for item, member in ((message("Hello"), "content"), (call(), "arguments")):
        events = told(item)
        events[0]["item"][member] = value
        legal = member == "arguments" and value == ""
        expected = set() if legal else {"respstream.item-skeleton-incomplete"}
        assert about(item, events) == expected


def test_what_was_added_complete_may_be_repeated_but_not_appended_to() -> None:
    for item in (message("Hello"), call(), custom(), reasoning("A greeting")):
        events = told(item)
        events[0]["item"] = {**item}
        assert about(item, events) == {"respstream.item-prefilled"}
        whole = [event for event in events if not event["type"].endswith(".delta")]
        assert about(item, whole) == set()


def test_the_response_may_repeat_no_item_that_it_does_not_have() -> None:
    """A broken element of the terminal output has a rule of its own, and is compared with nothing."""
    events = [*opened(), *told(message("Hello")), ended()]
    events[-1]["response"] = response("Hello")  # type: ignore[arg-type]
    assert ids(streamed(events)) == {"responses.item-not-object"}
