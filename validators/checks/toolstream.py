"""Tool calls of one streamed choice: fragments in, whole calls out.

What belongs here: the order of a call's fragments (index, id, name, type, arguments). What holds for a
whole call is in tools.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.tools import Call, check_type
from teeline.validators.evidence import ABSENT
from teeline.validators.model import Unit
from teeline.validators.wire.json import JsonFaultKind, decode


class _Open:
    """A call that is being put together."""

    __slots__ = (
        "arguments",
        "custom",
        "event",
        "fragments",
        "id",
        "judged",
        "name",
        "pointer",
        "size",
        "too_large",
        "type_seen",
    )

    def __init__(self, pointer: str, event: tuple[int, int]) -> None:
        self.pointer = pointer
        self.event = event
        self.id: str | None = None
        self.name: str | None = None
        self.type_seen = False
        self.arguments: list[str] | None = None
        self.size = 0
        self.fragments = 0
        self.custom = False
        self.judged = False
        self.too_large = False


class ToolStream:
    """The calls of one choice, keyed by ``index``. ``unreadable``: something came that is no call."""

    __slots__ = ("_calls", "_ctx", "_last", "unreadable")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._calls: dict[int, _Open] = {}
        self._last = -1
        self.unreadable = False

    def __len__(self) -> int:
        return len(self._calls)

    def feed(self, value: Any, pointer: str) -> bool:
        """Takes ``delta.tool_calls``; whether it carried anything of a call."""
        report = self._ctx.report
        if not isinstance(value, list):
            report("tools.calls-not-array", pointer, value)
            self.unreadable = True
            return False
        if not value:
            report("tools.calls-empty-array", pointer, value)
        for n, entry in enumerate(value):
            at = f"{pointer}/{n}"
            if isinstance(entry, dict):
                self._entry(entry, at)
            else:
                report("tools.calls-not-array", at, entry)
                self.unreadable = True
        return bool(value)

    def _entry(self, entry: Mapping[str, Any], pointer: str) -> None:
        call = self._call_of(entry, pointer)
        if call is None:
            return
        first = call.fragments == 0
        call.fragments += 1
        self._nulls(entry, pointer)
        self._type(call, entry.get("type"), pointer)
        self._id(call, entry, pointer, first=first)
        if "custom" in entry or entry.get("type") == "custom":
            call.custom = True
            described = entry.get("custom")
        else:
            described = entry.get("function")
        if isinstance(described, dict):
            self._function(call, described, pointer, first=first)
        elif not call.custom and not self._flat(call, entry, pointer):
            self._ctx.report("chatstream.tool-function-missing", f"{pointer}/function", described)

    def _call_of(self, entry: Mapping[str, Any], pointer: str) -> _Open | None:
        """The call that a fragment belongs to; a new one where its index is new."""
        report = self._ctx.report
        index = entry.get("index", ABSENT)
        if isinstance(index, bool) or not isinstance(index, int):
            report.subject = entry
            report("chatstream.tool-index-type", f"{pointer}/index", index)
            # Without an index, an id opens a call and anything else belongs to the last one.
            index = len(self._calls) if entry.get("id") or not self._calls else self._last
        elif index not in self._calls and index != len(self._calls):
            report("chatstream.tool-index-gap", f"{pointer}/index", index)
        call = self._calls.get(index)
        if call is None:
            if len(self._calls) >= self._ctx.limits.tool_calls:
                self._ctx.partial("tool-call-limit")
                return None
            call = self._calls[index] = _Open(pointer, (report.index, report.byte))
        elif index < self._last:
            report("chatstream.tool-interleaved", f"{pointer}/index", index)
        self._last = max(index, self._last)
        return call

    def _flat(self, call: _Open, entry: Mapping[str, Any], pointer: str) -> bool:
        """The shape of the Responses API: name and arguments beside the id."""
        if "name" not in entry and "arguments" not in entry:
            return False
        self._ctx.report("tools.flat-shape", pointer, entry)
        call.judged = True
        return True

    def _nulls(self, entry: Mapping[str, Any], pointer: str) -> None:
        function = entry.get("function")
        inner = function if isinstance(function, dict) else {}
        for path, holder, name in (
            ("", entry, "id"),
            ("", entry, "type"),
            ("/function", inner, "name"),
            ("/function", inner, "arguments"),
        ):
            if name in holder and holder[name] is None:
                self._ctx.report("chatstream.tool-null-member", f"{pointer}{path}/{name}", None)

    def _type(self, call: _Open, value: Any, pointer: str) -> None:
        if isinstance(value, str):
            call.type_seen = True
            check_type(self._ctx, value, f"{pointer}/type")

    def _id(self, call: _Open, entry: Mapping[str, Any], pointer: str, *, first: bool) -> None:
        value = entry.get("id")
        if not isinstance(value, str):
            return
        report, at = self._ctx.report, f"{pointer}/id"
        if not call.id:
            if value and not first:
                report("chatstream.tool-id-or-name-late", at, value)
            elif not value and not first:
                report("chatstream.tool-id-name-empty", at, value)
            call.id = value
        elif not value:
            report("chatstream.tool-id-name-empty", at, value)
        elif value == call.id:
            report("chatstream.tool-id-repeated", at, value)
        else:
            report("chatstream.tool-id-changed", at, value)
            call.judged = True  # two calls in one: name and arguments follow from that

    def _function(
        self, call: _Open, function: Mapping[str, Any], pointer: str, *, first: bool
    ) -> None:
        path = "custom" if call.custom else "function"
        name = function.get("name")
        if isinstance(name, str):
            self._name(call, name, f"{pointer}/{path}/name", first=first)
        elif name is not None:
            rule = "tools.custom-shape" if call.custom else "tools.name-missing"
            self._ctx.report(rule, f"{pointer}/{path}/name", name)
            call.judged = True
        member = "input" if call.custom else "arguments"
        value = function.get(member)
        if isinstance(value, str):
            self._arguments(call, value)
        elif value is not None:
            self._ctx.report("chatstream.tool-args-type", f"{pointer}/{path}/{member}", value)
            call.judged = True

    def _name(self, call: _Open, value: str, at: str, *, first: bool) -> None:
        report = self._ctx.report
        if not call.name:
            if value and not first and not call.judged:
                report("chatstream.tool-id-or-name-late", at, value)
            elif not value and not first:
                report("chatstream.tool-id-name-empty", at, value)
            call.name = value
        elif not value:
            report("chatstream.tool-id-name-empty", at, value)
        elif call.judged:
            return
        elif value == call.name:
            report("chatstream.tool-name-repeated", at, value)
        else:
            report("chatstream.tool-name-changed", at, value)

    def _arguments(self, call: _Open, value: str) -> None:
        if call.arguments is None:
            call.arguments = []
        if call.too_large or not value:
            return
        call.size += len(value)
        if call.size > self._ctx.limits.arguments:
            self._ctx.partial("arguments-limit")
            call.too_large = True
            call.arguments = []
            return
        call.arguments.append(value)

    def finish(self, finish: str | None) -> list[Call]:
        """The whole calls, once the choice is over."""
        calls = []
        for call in self._calls.values():
            self._ctx.report.place(Unit.EVENT, *call.event)
            if not call.type_seen and not call.judged:
                self._ctx.report("chatstream.tool-type-missing", f"{call.pointer}/type")
            joined = "".join(call.arguments) if call.arguments is not None else ABSENT
            call.arguments = None
            if call.custom:
                self._custom(call, joined)
            elif isinstance(joined, str) and finish == "tool_calls":
                self._doubled(call, joined)
            calls.append(
                Call(
                    call.pointer,
                    id=ABSENT if call.id is None else call.id,
                    name=ABSENT if call.name is None else call.name,
                    arguments=joined,
                    custom=call.custom,
                    inside="/custom" if call.custom else "/function",
                    event=call.event,
                    judged=call.judged or call.too_large,
                )
            )
        return calls

    def _custom(self, call: _Open, joined: Any) -> None:
        """A custom call has a name and an input, be it an empty one."""
        if not call.judged and (not call.name or not isinstance(joined, str)):
            self._ctx.report("tools.custom-shape", f"{call.pointer}/custom")

    def _doubled(self, call: _Open, joined: str) -> None:
        """Several complete JSON values in a row."""
        if call.judged or not joined:
            return
        data = joined.encode("utf-8", "surrogatepass")
        document = decode(data, self._ctx.limits.depth)
        for fault in document.faults:
            if fault.kind is JsonFaultKind.TRAILING and document.ok:
                rest = decode(data[fault.byte :], self._ctx.limits.depth)
                if rest.ok:
                    pointer = f"{call.pointer}/function/arguments"
                    self._ctx.report("chatstream.tool-args-doubled", pointer, joined)
                    call.judged = True
                return
