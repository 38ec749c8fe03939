"""A Responses stream: typed, numbered events from response.created to one terminal event.

What belongs here: what the events of one stream share. A single output item is in respitems.py, the
response object of a terminal event in responses.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.errors import check_error_object
from teeline.validators.checks.items import check_item
from teeline.validators.checks.joined import Texts
from teeline.validators.checks.respdeltas import PartText, Usual, holes_of, usual
from teeline.validators.checks.respitems import IDENTITY, StreamedItem, kept, texts_of
from teeline.validators.checks.responses import check_response_object
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.respevents import (
    DELTA_EVENTS,
    EVENTS,
    FORMER_EVENTS,
    KEEPALIVES,
    LOGPROBS_EVENTS,
    OBJECT_DELTAS,
    STATUSES,
    STEERING,
    TERMINAL,
    Act,
    EventRow,
    is_vendors,
)
from teeline.validators.fields.table import INTEGER, Table, has_type, walk

_TABLES = {name: Table(name, row.fields) for name, row in EVENTS.items()}
_PLACES = {
    name: tuple(f for f in row.fields if f.name not in (row.member, "item_id"))
    for name, row in EVENTS.items()
    if any(f.name == "output_index" for f in row.fields)
}
"""The members that say which item and which part of it an event is about."""


class ResponsesStream:
    """Takes the events of one answer of the Responses API. ``socket``: they come as frames."""

    def __init__(self, ctx: Context, *, socket: bool = False) -> None:
        self._ctx = ctx
        self._socket = socket
        self.numbers = _Numbers(ctx)
        self._texts = Texts(ctx)
        self._items: dict[int, StreamedItem] = {}
        self._last_index = -1
        # GET with starting_after resumes in the middle: what came before is not known
        self._resumed = ctx.exchange.method == "GET"
        self.events = 0
        self._created = False
        self._running = False
        self._id: str | None = None
        self._model: str | None = None
        self._terminal = ""
        self._over = False
        self._lost = False  # an event could not be read: it may have been any
        self._keyless = False  # an item could not be told from the others
        self._done = 0
        self._before: Usual | None = None  # the last event, where the next may be like it
        self._checked = 0  # items whose members were checked when they were done

    @property
    def ended(self) -> bool:
        return bool(self._terminal)

    def done(self) -> None:
        """``[DONE]``, which is no part of this protocol."""
        self._before = None
        self._done += 1
        if not self._over:
            rule = "respstream.done-marker" if self._terminal else "respstream.done-early"
            self._ctx.report(rule, detail="data: [DONE] on a Responses stream")

    def unreadable(self) -> None:
        self._before = None
        self._lost = True
        self._texts.losses += 1
        self.numbers.lost()

    def event(self, value: Any, name: str) -> None:
        """One event's document; ``name`` is its ``event`` field."""
        before, report = self._before, self._ctx.report
        if before is not None and before.goes_on(value, name, report):
            return
        breaches = report.breaches
        self._before = None
        self._event(value, name)
        if report.breaches == breaches and isinstance(value, dict):
            self._before = self._usual(value, name)

    def _event(self, value: Any, name: str) -> None:
        report = self._ctx.report
        if not isinstance(value, dict):
            report("respstream.event-not-object", "", value)
            self.unreadable()
            return
        kind = value.get("type")
        if self._error(value, kind):
            return
        if _is_chat_chunk(value):
            report("respstream.chat-chunks", "/object", value.get("object"), words=True)
            self._over = True
            return
        if self._over:
            return
        if not isinstance(kind, str):
            report("respstream.type-missing", "/type", value.get("type", ABSENT))
            self.unreadable()
            self.numbers.take(value, required=False)
            return
        self._named(value, kind, name)

    def _named(self, value: Mapping[str, Any], kind: str, name: str) -> None:
        report = self._ctx.report
        if not self._socket:
            self._event_field(value, kind, name)
        row = EVENTS.get(kind)
        self.numbers.take(value, required=row is not None)
        if kind in KEEPALIVES:
            report("respstream.keepalive", "/type", kind, words=True)
        elif self._terminal:
            self._after_terminal(kind)
        elif row is not None:
            self._known(kind, row, value)
        else:
            self._unknown(kind)

    def _event_field(self, value: Mapping[str, Any], kind: str, name: str) -> None:
        report = self._ctx.report
        if not name:
            report("respstream.event-name-missing", "", detail="no event: line")
        elif name != kind:
            report("respstream.event-name-mismatch", "/type", kind, words=True)
        if "stream_id" in value:
            report("respstream.stream-id", "/stream_id", value["stream_id"])

    def _after_terminal(self, kind: str) -> None:
        terminal = kind in TERMINAL
        rule = "respstream.terminal-repeated" if terminal else "respstream.event-after-terminal"
        self._ctx.report(rule, "/type", kind, words=True)

    def _unknown(self, kind: str) -> None:
        report = self._ctx.report
        if self._socket and kind.startswith(STEERING):
            return
        if kind == "response.cancelled":
            report("respstream.cancelled-event", "/type", kind, words=True)
            self._terminal = kind
        elif is_vendors(kind):
            report("respstream.vendor-event", "/type", kind, words=True)
        else:
            report("respstream.type-unknown", "/type", kind, words=kind in FORMER_EVENTS)

    # -- errors ----------------------------------------------------------------------------------------

    def _error(self, value: Mapping[str, Any], kind: Any) -> bool:
        """Whether an event is an error, in any of its shapes; nothing is checked behind it but errors."""
        if kind != "error" and not (kind is None and _is_bare_error(value)):
            return False
        error = value.get("error")
        report = self._ctx.report
        self._ctx.exchange.error_type = "error"
        if kind == "error" and isinstance(error, dict):
            report("respstream.error-nested", "/error", error)
            check_error_object(self._ctx, error, "/error")
        elif kind == "error" and isinstance(value.get("message"), str) and value["message"]:
            report("respstream.error-flat", "", value, words=True)
        else:
            report("respstream.error-malformed", "", value)
        self._over = True
        return True

    # -- known events -----------------------------------------------------------------------------------

    def _known(self, kind: str, row: EventRow, value: Mapping[str, Any]) -> None:
        report = self._ctx.report
        self.events += 1
        first = self.events == 1 and not (self._resumed or self._lost)
        if first and kind != "response.created":
            report("respstream.created-not-first", "/type", kind, words=True)
        typed = self._members(kind, value)
        if row.act is Act.LIFECYCLE:
            self._lifecycle(kind, value)
        elif row.act in (Act.ITEM_ADDED, Act.ITEM_DONE):
            self._item(row, value)
        elif kind in _PLACES:
            self._inner(kind, row, value, typed=typed)

    def _members(self, kind: str, value: Mapping[str, Any]) -> bool:
        """Checks an event's own members; True says that all those of its row are of their types."""
        report = self._ctx.report
        typed = walk(_TABLES[kind], value, "", report)
        if kind in DELTA_EVENTS:
            wanted = dict if kind in OBJECT_DELTAS else str
            if not isinstance(value.get("delta"), wanted):
                report("respstream.delta-type", "/delta", value.get("delta", ABSENT))
        if kind in LOGPROBS_EVENTS and value.get("logprobs") is None:
            report("respstream.logprobs-missing", "/logprobs", value.get("logprobs", ABSENT))
        if kind == "response.function_call_arguments.done" and value.get("name") is None:
            report("respstream.args-done-name-missing", "/name", value.get("name", ABSENT))
        return typed

    def _lifecycle(self, kind: str, value: Mapping[str, Any]) -> None:
        report = self._ctx.report
        if kind == "response.created":
            if self._created:
                report("respstream.created-repeated", "/type", kind, words=True)
            self._created = True
        self._running = self._running or kind == "response.in_progress"
        response = value.get("response")
        if not isinstance(response, dict):
            report("respstream.response-missing", "/response", value.get("response", ABSENT))
            if kind in TERMINAL:
                self._terminal = kind
            return
        self._identity(response)
        status = response.get("status")
        if isinstance(status, str) and status not in STATUSES[kind]:
            report("respstream.status-contradicts-event", "/response/status", status, words=True)
        if kind in TERMINAL:
            self._terminated(kind, response)
            return
        check_response_object(self._ctx, response, "/response", final=False)
        output = response.get("output")
        if isinstance(output, list) and output:
            report("respstream.initial-output-not-empty", "/response/output", output)

    def _identity(self, response: Mapping[str, Any]) -> None:
        made, model = response.get("id"), response.get("model")
        if isinstance(made, str):
            if self._id is not None and made != self._id:
                self._ctx.report("respstream.response-id-changes", "/response/id", made)
            self._id = self._id or made
        if isinstance(model, str):
            if self._model is not None and model != self._model:
                self._ctx.report(
                    "respstream.response-model-changes", "/response/model", model, words=True
                )
            self._model = self._model or model

    # -- items ------------------------------------------------------------------------------------------

    @property
    def _followed(self) -> bool:
        """Whether every item that was added is known: only then can one be missing."""
        return not (self._resumed or self._lost or self._keyless)

    def _unassigned(self) -> None:
        """An event of an item that can't be told from the others (its own rule has been reported)."""
        self._keyless = True
        self._texts.losses += 1

    def _item(self, row: EventRow, value: Mapping[str, Any]) -> None:
        report = self._ctx.report
        index: Any = value.get("output_index")
        item = value.get("item")
        typed = has_type(index, INTEGER)
        if not isinstance(item, dict):
            report("respstream.item-null", "/item", value.get("item", ABSENT))
            if row.act is Act.ITEM_DONE and typed and index in self._items:
                self._items[index].done = True  # its end came, if without the item
            else:
                self._unassigned()
        elif not typed:
            self._unassigned()  # respstream.field-missing has it
        elif row.act is Act.ITEM_ADDED:
            self._added(index, item)
        else:
            known = self._items.get(index) or self._unannounced(index, item)
            known.finish(item)
            self._checked += 1
            check_item(self._ctx, item, "/item", final=True)

    def _added(self, index: int, item: Mapping[str, Any]) -> None:
        if index in self._items:
            self._ctx.report("respstream.output-index-reused", "/output_index", index)
            self._unassigned()
        elif index != self._last_index + 1 and self._followed:
            self._ctx.report("respstream.output-index-gap", "/output_index", index)
        self._open(index, item, announced=True).added(item)
        check_item(self._ctx, item, "/item", final=False)

    def _open(self, index: int, item: Mapping[str, Any], *, announced: bool) -> StreamedItem:
        self._last_index = max(self._last_index, index)
        made = StreamedItem(self._ctx, self._texts, item, announced=announced)
        if index in self._items or len(self._items) < self._ctx.limits.tool_calls:
            self._items[index] = made
        else:
            self._ctx.partial("item-limit")
            self._unassigned()
        return made

    def _unannounced(self, index: int, item: Mapping[str, Any]) -> StreamedItem:
        """An item that no output_item.added told of; after a fault only what follows is checked."""
        if self._followed:
            self._ctx.report("respstream.item-added-missing", "/output_index", index)
        return self._open(index, item, announced=False)

    def _inner(self, kind: str, row: EventRow, value: Mapping[str, Any], *, typed: bool) -> None:
        """An event of an item. One whose place can't be read takes texts out of the comparison."""
        if not (typed or all(has_type(value.get(f.name), f.type) for f in _PLACES[kind])):
            self._texts.losses += 1
            return
        index: int = value["output_index"]
        item = self._items.get(index) or self._unannounced(index, {"id": value.get("item_id")})
        item.event(row, value)

    # -- an event like the one before -----------------------------------------------------------------

    def _usual(self, value: Mapping[str, Any], name: str) -> Usual | None:
        """What the next event is compared with, where this one, of which nothing was found, carried on a
        text."""
        to = self.open_text(value) if isinstance(value.get("delta"), str) else None
        return None if to is None else usual(value, name, to)

    # -- the fast path --------------------------------------------------------------------------------

    def open_text(self, value: Mapping[str, Any]) -> PartText | None:
        """The open part that the event before, taken without a finding, has carried on."""
        kind = value.get("type")
        row = EVENTS.get(kind) if isinstance(kind, str) else None
        if self._over or self._terminal or row is None or row.act is not Act.DELTA:
            return None
        item = self._items.get(value["output_index"])
        joined = item.open_text(row, value) if item is not None else None
        if item is None or joined is None:
            return None
        return PartText(self, item, joined, holes_of(value))

    # -- the end --------------------------------------------------------------------------------------

    def _terminated(self, kind: str, response: Mapping[str, Any]) -> None:
        report = self._ctx.report
        self._terminal = kind
        if kind == "response.incomplete":
            report("respstream.incomplete", "/type", kind, words=True)
        elif kind == "response.failed":
            report("respstream.failed", "/type", kind, words=True)
        if not (self._running or self._resumed or self._lost):
            report("respstream.in-progress-missing", "", detail="no response.in_progress")
        if kind == "response.completed" and not (self._lost or self._keyless):
            self._unfinished()
        output = response.get("output")
        if not isinstance(output, list):
            report(
                "respstream.final-output-missing",
                "/response/output",
                response.get("output", ABSENT),
            )
        elif kind != "response.failed" and self._followed:
            self._final_output(output)
        check_response_object(self._ctx, response, "/response", final=True, streamed=self._checked)
        if kind == "response.completed" and isinstance(output, list):
            self._silence(output)

    def _unfinished(self) -> None:
        report = self._ctx.report
        place = (report.unit, report.index, report.byte)
        for index, item in self._items.items():
            if not item.done:
                report.place(report.unit, *item.place)
                detail = f"output_index {index} was added and never done"
                report("respstream.item-done-missing", "/output_index", detail=detail)
        report.place(*place)

    def _final_output(self, output: list[Any]) -> None:
        """The terminal output against the items that were done, or added where one was never done."""
        report = self._ctx.report
        items = [item for _, item in sorted(self._items.items())]
        done = [item for item in items if item.done]
        if not output and items:
            report("respstream.final-output-empty", "/response/output", output)
        elif len(output) == len(done):
            self._final_items(output, done)
        elif len(output) == len(items) and report.has("respstream.item-done-missing"):
            self._final_items(output, items)
        elif not report.has("respstream.item-done-missing"):
            detail = f"{len(output)} items, {len(done)} were done"
            report("respstream.final-output-differs", "/response/output", detail=detail)

    def _final_items(self, output: list[Any], items: list[StreamedItem]) -> None:
        for n, (told, item) in enumerate(zip(output, items, strict=True)):
            if isinstance(told, dict):
                self._final_item(told, item, f"/response/output/{n}")

    def _final_item(self, told: Mapping[str, Any], item: StreamedItem, pointer: str) -> None:
        for name in IDENTITY:
            before, now = item.identity[name], kept(told.get(name))
            if before is not None and now is not None and before != now:
                self._ctx.report("respstream.final-output-differs", f"{pointer}/{name}", told[name])
                return
        item.compare(told, pointer)

    def _silence(self, output: list[Any]) -> None:
        """A completed response whose messages are all empty, and that holds nothing else."""
        items = self._items.values()
        silent = all(item.type == "message" and not item.said for item in items)
        if items and output and silent and not self._texts.losses and not _speaks(output):
            self._ctx.report(
                "respstream.no-text", "/response/output", detail="messages without text"
            )

    def close(self, *, cut: bool) -> None:
        """The stream is over. ``cut``: it was broken off, which has a rule of its own (P9)."""
        if cut or self._over or self._terminal or self._lost or self._done:
            return
        self._ctx.report(
            "respstream.terminal-missing",
            "",
            detail=f"{self.events} events, none of them terminal",
        )


class _Numbers:
    """sequence_number: an integer, one more with each event."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.last = -1
        self._first = True
        self._unknown = False
        self._resumed = ctx.exchange.method == "GET"

    def lost(self) -> None:
        """An event's number could not be read."""
        self._unknown = True

    def take(self, value: Mapping[str, Any], *, required: bool) -> None:
        report = self._ctx.report
        number = value.get("sequence_number")
        if number is None:
            if required:
                report(
                    "respstream.seq-missing",
                    "/sequence_number",
                    value.get("sequence_number", ABSENT),
                )
            self._unknown = True
            return
        if isinstance(number, bool) or not isinstance(number, int):
            report("respstream.seq-type", "/sequence_number", number)
            self._unknown = True
            return
        self._order(number)
        self.last = number
        self._first = False
        self._unknown = False

    def _order(self, number: int) -> None:
        report = self._ctx.report
        if self._first:
            if number not in (0, 1) and not self._resumed and not self._unknown:
                report("respstream.seq-start", "/sequence_number", number)
        elif number <= self.last:
            report("respstream.seq-order", "/sequence_number", detail=f"{number} after {self.last}")
        elif number > self.last + 1 and not self._unknown:
            report("respstream.seq-gap", "/sequence_number", detail=f"{number} after {self.last}")


def _speaks(output: list[Any]) -> bool:
    """Whether any item says anything, or is anything but a message."""
    return not all(
        isinstance(item, dict)
        and item.get("type") == "message"
        and not any(text for _, _, text, _ in texts_of(item, ""))
        for item in output
    )


def _is_bare_error(value: Mapping[str, Any]) -> bool:
    """An error without a type of its own."""
    said = value.get("message", value.get("msg"))
    return bool(value.get("error")) or ("code" in value and isinstance(said, str))


def _is_chat_chunk(value: Mapping[str, Any]) -> bool:
    return value.get("object") == "chat.completion.chunk" or (
        "type" not in value and isinstance(value.get("choices"), list)
    )
