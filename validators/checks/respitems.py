"""One output item of a Responses stream, from output_item.added to output_item.done.

What belongs here: an item's parts, texts, phases, and whether its events belong to it. What the events
of a stream share (numbers, the lifecycle, the end) is in respstream.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.joined import Joined
from teeline.validators.evidence import ABSENT
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


class _Part:
    """A content or summary part."""

    __slots__ = ("closed", "joined", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.joined = Joined()
        self.closed = False


class StreamedItem:
    """The state of one output_index.

    ``announced`` is false for an item that no output_item.added told of: what it has lacked so far is
    not known.
    """

    def __init__(self, ctx: Context, value: Mapping[str, Any], *, announced: bool) -> None:
        self._ctx = ctx
        self._announced = announced
        self._parts: dict[int, _Part] = {}
        self._summaries: dict[int, _Part] = {}
        self._texts: dict[str, Joined] = {}
        self._phase = 0
        self._image = -1
        self._prefilled = False
        self.identity = {name: value.get(name) for name in IDENTITY}
        self.done = False
        self.said = False
        self.place = (ctx.report.index, ctx.report.byte)

    @property
    def type(self) -> str:
        kind = self.identity["type"]
        return kind if isinstance(kind, str) else ""

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
        for part in self._parts.values():
            if not part.closed and part.kind in ("text", "refusal") and self._announced:
                self._ctx.report(
                    "respstream.part-done-missing", "/item/content", detail="part never done"
                )
            if part.kind == "text" and part.joined.deltas and not part.joined.final:
                detail = f"{part.joined.deltas} deltas, no response.output_text.done"
                self._ctx.report("respstream.text-done-missing", "/item/content", detail=detail)
        self.compare(value, "/item")

    def _same(self, value: Mapping[str, Any]) -> None:
        for name in ("id", "type", "call_id"):
            before, now = self.identity[name], value.get(name)
            searched = name == "call_id" and self.type == "tool_search_call"
            if isinstance(before, str) and isinstance(now, str) and before != now and not searched:
                self._ctx.report("respstream.item-id-changes", f"/item/{name}", now)
            if isinstance(now, str):
                self.identity[name] = now
        self.identity["name"] = value.get("name", self.identity["name"])

    def compare(self, value: Mapping[str, Any], pointer: str) -> None:
        """The texts of a whole item against what was told of them before."""
        if value.get("type") != self.type:
            return
        for kind, index, text, at in texts_of(value, pointer):
            if isinstance(text, str):
                self.said = self.said or bool(text)
                self._agree(self._known(kind, index), kind, text, at)

    def _known(self, kind: str, index: int) -> Joined:
        if kind == "summary":
            return self._summaries.setdefault(index, _Part(kind)).joined
        if kind in PART_MEMBERS:
            return self._parts.setdefault(index, _Part(kind)).joined
        return self._texts.setdefault(kind, Joined())

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
        if isinstance(told, str) and isinstance(mine, str) and told != mine:
            self._ctx.report("respstream.item-id-mismatch", "/item_id", told)
        if row.items and self.type and self.type not in row.items:
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
        kind = PART_KINDS.get(str(part.get("type")), "text")
        known = self._parts.get(index)
        if added:
            if index != len(self._parts) and self._announced:
                self._ctx.report("respstream.content-index-wrong", "/content_index", index)
            if known is None:
                self._open(self._parts, index, kind)
            return
        if known is None:
            if self._announced:
                self._ctx.report("respstream.content-index-wrong", "/content_index", index)
            known = self._open(self._parts, index, kind)
        known.closed = True
        member = PART_MEMBERS[kind]
        if kind == known.kind and isinstance(part.get(member), str):
            self._agree(known.joined, kind, part[member], f"/part/{member}")

    def _summary_part(self, value: Mapping[str, Any], *, added: bool) -> None:
        index, part = value["summary_index"], value["part"]
        known = self._summaries.get(index) or self._open(self._summaries, index, "summary")
        if not added:
            known.closed = True
            if isinstance(part.get("text"), str):
                self._agree(known.joined, "summary", part["text"], "/part/text")

    def _open(self, parts: dict[int, _Part], index: int, kind: str) -> _Part:
        if len(parts) >= self._ctx.limits.tool_calls:
            self._ctx.partial("part-limit")
            return _Part(kind)
        parts[index] = part = _Part(kind)
        part.joined.broken = not self._announced
        return part

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
        else:
            joined.broken = True

    def _delta(self, joined: Joined, delta: Any) -> None:
        report = self._ctx.report
        if joined.final or self.done:
            report("respstream.delta-after-done", "/delta", delta)
            return
        if self._prefilled:
            report(
                "respstream.item-prefilled",
                "/delta",
                detail="deltas for an item that was added complete",
            )
        if isinstance(delta, str):
            self.said = self.said or bool(delta)
            joined.add(delta)
        else:
            joined.broken = True

    def open_text(self, row: EventRow, value: Mapping[str, Any]) -> Joined | None:
        """The text that a delta event, taken without a finding, has carried on, if another delta may."""
        if row.kind == "summary":
            part = self._summaries.get(value["summary_index"])
        elif row.kind in PART_MEMBERS:
            part = self._parts.get(value["content_index"])
        else:
            return self._texts.get(row.kind)
        return part.joined if part is not None else None

    def _joined(self, row: EventRow, value: Mapping[str, Any]) -> Joined | None:
        """The text that a delta or final event belongs to; its part is opened where it should be."""
        if row.kind == "summary":
            return self._summary_text(value["summary_index"])
        if row.kind not in PART_MEMBERS:
            joined = self._texts.setdefault(row.kind, Joined())
            joined.broken = joined.broken or not self._announced
            return joined
        index = value["content_index"]
        part = self._parts.get(index)
        if part is None:
            if row.kind != "reasoning" and self._announced:
                if self._parts:
                    self._misplaced(index)
                    return None
                self._ctx.report("respstream.part-added-missing", "/content_index", index)
            part = self._open(self._parts, index, row.kind)
            part.closed = True  # it never was announced: its end is not missed either
        elif part.kind != row.kind:
            self._ctx.report(
                "respstream.event-kind-mismatch", "/type", value.get("type"), words=True
            )
            return None
        return part.joined

    def _misplaced(self, index: int) -> None:
        """A text for a part that is not there: whose it was, and so what the parts say, is not known."""
        self._ctx.report("respstream.content-index-wrong", "/content_index", index)
        for part in self._parts.values():
            part.joined.broken = part.joined.final = True

    def _summary_text(self, index: int) -> Joined:
        part = self._summaries.get(index)
        if part is None:
            if self._announced:
                self._ctx.report("respstream.summary-part-added-missing", "/summary_index", index)
            part = self._open(self._summaries, index, "summary")
        return part.joined

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
