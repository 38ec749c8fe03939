"""One output item of a Responses stream, from output_item.added to output_item.done.

What belongs here: an item's parts, texts, phases, and whether its events belong to it. What the events
of a stream share (numbers, the lifecycle, the end) is in respstream.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.items import check_part
from teeline.validators.checks.joined import Joined, Texts
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.items import ITEMS
from teeline.validators.fields.respevents import Act, EventRow

MISMATCH = {
    "text": "respstream.text-mismatch",
    "refusal": "respstream.refusal-mismatch",
    "args": "respstream.args-mismatch",
    "custom": "respstream.custom-input-mismatch",
    "code": "respstream.code-mismatch",
    "mcp": "respstream.mcp-args-mismatch",
    "reasoning": "respstream.reasoning-mismatch",
    "summary": "respstream.summary-mismatch",
}
"""A kind of text -> what it breaks to tell it differently."""

PART_KINDS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "reasoning"}
PART_MEMBERS = {"text": "text", "refusal": "refusal", "reasoning": "text", "summary": "text"}
ITEM_TEXTS = {
    "function_call": ("args", "arguments"),
    "custom_tool_call": ("custom", "input"),
    "mcp_call": ("mcp", "arguments"),
    "code_interpreter_call": ("code", "code"),
}
SKELETONS = {"message": ("content", list), "function_call": ("arguments", str)}
"""What an added item must hold already, be it empty: accumulators append to it."""
IDENTITY = ("id", "type", "call_id", "name")

Text = tuple[str, int, Any, str]
"""Kind, index of the part (0 outside of parts), the text as it stands there, its pointer."""

_LONGEST_NAME = 256


class StreamedItem:
    """The state of one output_index.

    ``announced`` is false for an item that no output_item.added told of: what it has lacked so far is
    not known.
    """

    def __init__(
        self, ctx: Context, texts: Texts, value: Mapping[str, Any], *, announced: bool
    ) -> None:
        self._ctx = ctx
        self._texts = texts
        self._announced = announced
        self._since = texts.losses
        self._parts: dict[int, Joined] = {}
        self._summaries: dict[int, Joined] = {}
        self._whole: dict[str, Joined] = {}
        self._phase = 0
        self._image = -1
        self._prefilled = False
        self.identity = {name: kept(value.get(name)) for name in IDENTITY}
        self.done = False
        self.said = False
        self.place = (ctx.report.index, ctx.report.byte)

    @property
    def type(self) -> str:
        return self.identity["type"] or ""

    @property
    def _followed(self) -> bool:
        """Whether everything that was told of it has been seen: only then can anything be missing."""
        return self._announced and self._since == self._texts.losses

    # -- added and done --------------------------------------------------------------------------------

    def added(self, value: Mapping[str, Any]) -> None:
        """The item as output_item.added has it: a skeleton that deltas fill."""
        member, wanted = SKELETONS.get(self.type, ("", object))
        held = value.get(member, ABSENT)
        if member and not isinstance(held, wanted):
            self._ctx.report("respstream.item-skeleton-incomplete", f"/item/{member}", held)
        self._prefilled = any(
            isinstance(text, str) and text for _, _, text, _ in texts_of(value, "/item")
        )

    def finish(self, value: Mapping[str, Any]) -> None:
        """The item as output_item.done has it: the one that was added, and all that was told of it."""
        self._same(value)
        self.done = True
        if self._followed:
            for part in self._parts.values():
                self._ended(part)
        self.compare(value, "/item")

    def _ended(self, part: Joined) -> None:
        """What a part of a message owes by the end of its item."""
        if not part.closed and part.kind in ("text", "refusal"):
            detail = "part never done"
            self._ctx.report("respstream.part-done-missing", "/item/content", detail=detail)
        if part.kind == "text" and part.deltas and not part.final:
            detail = f"{part.deltas} deltas, no response.output_text.done"
            self._ctx.report("respstream.text-done-missing", "/item/content", detail=detail)

    def _same(self, value: Mapping[str, Any]) -> None:
        for name in ("id", "type", "call_id"):
            before, now = self.identity[name], kept(value.get(name))
            searched = name == "call_id" and self.type == "tool_search_call"
            changed = before is not None and now is not None and before != now and not searched
            if changed:
                self._ctx.report("respstream.item-id-changes", f"/item/{name}", value[name])
            # Which of the two the terminal output has says nothing more (P9).
            self.identity[name] = None if changed else now or before
        self.identity["name"] = kept(value.get("name")) or self.identity["name"]

    def compare(self, value: Mapping[str, Any], pointer: str) -> None:
        """The texts of a whole item against what was told of them before."""
        if kept(value.get("type")) != self.identity["type"]:
            return
        for kind, index, text, at in texts_of(value, pointer):
            if isinstance(text, str):
                self.said = self.said or bool(text)
                self._agree(self._known(kind, index), kind, text, at)

    def _known(self, kind: str, index: int) -> Joined:
        """The text that a whole item has at a place."""
        if kind not in PART_MEMBERS:
            return self._whole.get(kind) or self._texts.open(self._whole, kind, kind)
        parts = self._summaries if kind == "summary" else self._parts
        return parts.get(index) or self._texts.open(parts, index, kind)

    def _agree(self, joined: Joined, kind: str, text: str, pointer: str) -> None:
        if not joined.agrees(text):
            detail = (
                f"{len(text)} characters that are not the ones told before ({joined.deltas} deltas)"
            )
            self._ctx.report(MISMATCH[kind], pointer, detail=detail)

    # -- inner events ------------------------------------------------------------------------------------

    def event(self, row: EventRow, value: Mapping[str, Any]) -> None:
        """An event of this item, its members typed."""
        told = value.get("item_id")
        mine = self.identity["id"]
        if isinstance(told, str) and mine is not None and kept(told) != mine:
            self._ctx.report("respstream.item-id-mismatch", "/item_id", told)
        if row.items and self.type in ITEMS and self.type not in row.items:
            self._ctx.report(
                "respstream.event-kind-mismatch", "/type", value.get("type"), words=True
            )
            return
        match row.act:
            case Act.DELTA | Act.FINAL:
                self._text(row, value)
            case Act.PART_ADDED | Act.PART_DONE:
                self._part(value, added=row.act is Act.PART_ADDED)
            case Act.SUMMARY_ADDED | Act.SUMMARY_DONE:
                self._summary_part(value, added=row.act is Act.SUMMARY_ADDED)
            case Act.PHASE:
                self._next_phase(row, value)

    def _part(self, value: Mapping[str, Any], *, added: bool) -> None:
        index, part = value["content_index"], value["part"]
        if self.type == "message" and not self._ctx.beta:
            check_part(self._ctx, part, "/part")
        kind = PART_KINDS.get(str(part.get("type")), "text")
        known = self._parts.get(index)
        if added:
            if index != len(self._parts) and self._followed:
                self._ctx.report("respstream.content-index-wrong", "/content_index", index)
            if known is None:
                self._open(self._parts, index, kind)
            return
        if known is None:
            if self._followed:
                self._ctx.report("respstream.content-index-wrong", "/content_index", index)
            known = self._open(self._parts, index, kind)
        self._close(known, kind, part)

    def _summary_part(self, value: Mapping[str, Any], *, added: bool) -> None:
        index = value["summary_index"]
        known = self._summaries.get(index) or self._open(self._summaries, index, "summary")
        if not added:
            self._close(known, "summary", value["part"])

    def _close(self, known: Joined, kind: str, part: Mapping[str, Any]) -> None:
        """A part is over: as it stands in its done event."""
        known.closed = True
        member = PART_MEMBERS[kind]
        if kind == known.kind and isinstance(part.get(member), str):
            self._agree(known, kind, part[member], f"/part/{member}")

    def _open(self, parts: dict[int, Joined], index: int, kind: str) -> Joined:
        return self._texts.open(parts, index, kind, partial=not self._followed)

    def _text(self, row: EventRow, value: Mapping[str, Any]) -> None:
        joined = self._joined(row, value)
        if joined is None:
            return
        if row.act is Act.DELTA:
            self._delta(joined, value.get("delta"))
            return
        joined.final = True
        text = value.get(row.member)
        if isinstance(text, str):
            self.said = self.said or bool(text)
            self._agree(joined, row.kind, text, f"/{row.member}")

    def _delta(self, joined: Joined, delta: Any) -> None:
        report = self._ctx.report
        if joined.final or joined.closed or self.done:
            report("respstream.delta-after-done", "/delta", delta)
            return
        if self._prefilled:
            detail = "deltas for an item that was added complete"
            report("respstream.item-prefilled", "/delta", detail=detail)
        if isinstance(delta, str):
            self.said = self.said or bool(delta)
            joined.add(delta)
        else:
            joined.partial = True

    def open_text(self, row: EventRow, value: Mapping[str, Any]) -> Joined | None:
        """The text that a delta event, taken without a finding, has carried on, if another delta may."""
        if row.kind == "summary":
            return self._summaries.get(value["summary_index"])
        if row.kind in PART_MEMBERS:
            return self._parts.get(value["content_index"])
        return self._whole.get(row.kind)

    def _joined(self, row: EventRow, value: Mapping[str, Any]) -> Joined | None:
        """The text that a delta or final event belongs to; its part is opened where it should be."""
        if row.kind == "summary":
            return self._summary_text(value["summary_index"])
        if row.kind not in PART_MEMBERS:
            known = self._whole.get(row.kind)
            return known or self._texts.open(
                self._whole, row.kind, row.kind, partial=not self._followed
            )
        part = self._parts.get(value["content_index"])
        if part is None:
            return self._unopened(row, value["content_index"])
        if part.kind != row.kind:
            self._ctx.report(
                "respstream.event-kind-mismatch", "/type", value.get("type"), words=True
            )
            return None
        return part

    def _unopened(self, row: EventRow, index: int) -> Joined | None:
        """A text for a part that is not there. Reasoning of open models comes without parts at times."""
        if row.kind == "reasoning" or not self._followed:
            return self._open(self._parts, index, row.kind)
        if self._parts:
            # Whose text it was, and so what the parts say, is not known from here on.
            self._ctx.report("respstream.content-index-wrong", "/content_index", index)
            self._texts.losses += 1
            return None
        self._ctx.report("respstream.part-added-missing", "/content_index", index)
        self._announced = False  # the end of what never began is not missed either
        return self._texts.open(self._parts, index, row.kind)

    def _summary_text(self, index: int) -> Joined:
        part = self._summaries.get(index)
        if part is None:
            if self._followed:
                self._ctx.report("respstream.summary-part-added-missing", "/summary_index", index)
            part = self._open(self._summaries, index, "summary")
        return part

    def _next_phase(self, row: EventRow, value: Mapping[str, Any]) -> None:
        if row.phase < self._phase:
            self._ctx.report("respstream.tool-phase-order", "/type", value.get("type"), words=True)
        self._phase = max(self._phase, row.phase)
        image = value.get("partial_image_index")
        if isinstance(image, int):
            if image < self._image:
                self._ctx.report("respstream.partial-image-index", "/partial_image_index", image)
            self._image = image


def texts_of(item: Mapping[str, Any], pointer: str) -> Iterator[Text]:
    """Every text of a whole item that a stream tells in pieces, too."""
    kind = item.get("type")
    if isinstance(kind, str) and kind in ITEM_TEXTS:
        name, member = ITEM_TEXTS[kind]
        yield name, 0, item.get(member), f"{pointer}/{member}"
    for member, fixed in (("content", ""), ("summary", "summary")):
        parts = item.get(member)
        for n, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict):
                found = fixed or PART_KINDS.get(str(part.get("type")), "")
                if found:
                    at = f"{pointer}/{member}/{n}/{PART_MEMBERS[found]}"
                    yield found, n, part.get(PART_MEMBERS[found]), at


def kept(value: Any) -> str | None:
    """A name to compare others with: None for what is none, and no more of a long one than it takes."""
    if not isinstance(value, str) or len(value) <= _LONGEST_NAME:
        return value if isinstance(value, str) else None
    return f"{value[:_LONGEST_NAME]}{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()}"
