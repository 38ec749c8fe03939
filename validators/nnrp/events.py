"""Stream events: their members, the text they add up to, and usage.

What belongs here: one event by itself, and what is kept of it for the end. What doesn't: the order of
events (partial.py), the life of a tool call (tools.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from teeline.validators import evidence
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import (
    CHAT_COUNTS,
    COUNTS,
    DELTA,
    EVENTS,
    FAILED,
    KNOWN_MEMBERS,
    TEXT,
    TOOL_EVENTS,
    USAGE,
    is_count,
    is_filled,
)
from teeline.validators.nnrp.operation import Operation
from teeline.validators.nnrp.tools import check_tool_event

_SUM: Final = ("input_tokens", "output_tokens", "total_tokens")


def check_event(op: Operation, kind: str, event: Mapping[str, Any]) -> None:
    """Checks a stream event of a known type."""
    tool = kind in TOOL_EVENTS
    if kind == DELTA and "tool_call" in event and not _has_all(kind, event):
        op.report("nnrp.tool-legacy-shape", "/tool_call", event["tool_call"])
        op.tool_events = True
        return
    _check_members(op, kind, event)
    if "openai_chunk" in event:
        _check_chunk(op, event, tool=tool)
    if kind == TEXT:
        _text(op, event)
    elif kind == USAGE:
        op.usages += 1
        if op.usages > 1:
            op.report("nnrp.usage-repeated", "/type", kind, words=True)
        if isinstance(event.get("usage"), dict):
            _usage(op, event["usage"])
    elif tool:
        check_tool_event(op, kind, event)


def _has_all(kind: str, event: Mapping[str, Any]) -> bool:
    return all(member.name in event for member in EVENTS[kind])


def _check_members(op: Operation, kind: str, event: Mapping[str, Any]) -> None:
    report = op.report
    for name, right, wrong in EVENTS[kind]:
        value = event.get(name, ABSENT)
        if value is ABSENT:
            report("nnrp.event-field-missing", f"/{name}")
        elif not right(value):
            report(wrong, f"/{name}", value)
        elif kind == FAILED and name == "error" and not _whole_error(value):
            report(wrong, f"/{name}", value, words=True)
    known = KNOWN_MEMBERS[kind]
    if not event.keys() <= known:
        for name in event:
            if name not in known:
                pointer = f"/{evidence.token(name)}"
                report("nnrp.event-field-unknown", pointer, event[name])


def _whole_error(error: Mapping[str, Any]) -> bool:
    return all(is_filled(error.get(name)) for name in ("type", "code", "message"))


# -- the chunk that an event came from -----------------------------------------------------------------


def _check_chunk(op: Operation, event: Mapping[str, Any], *, tool: bool) -> None:
    chunk = event["openai_chunk"]
    if not isinstance(chunk, dict):
        rule = "nnrp.tool-openai-chunk-not-object" if tool else "nnrp.openai-chunk-not-object"
        op.report(rule, "/openai_chunk", chunk)
        return
    told = event.get("arguments_delta", event.get("delta"))
    if isinstance(told, str) and told:
        texts = [*chunk_texts(chunk)]
        if texts and told not in texts:
            detail = f"a delta of {len(told)} characters is not in it"
            op.report("nnrp.openai-chunk-contradicts", "/openai_chunk", detail=detail)


def chunk_texts(chunk: Mapping[str, Any]) -> list[str]:
    """The texts and arguments that a chunk of chat or an event of Responses adds."""
    found: list[Any] = [chunk.get("delta")]
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            continue
        found += [delta.get("content"), delta.get("refusal")]
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            found.append(function.get("arguments") if isinstance(function, dict) else None)
    return [text for text in found if isinstance(text, str)]


# -- text and usage ------------------------------------------------------------------------------------


def _text(op: Operation, event: Mapping[str, Any]) -> None:
    index, delta = event.get("index"), event.get("delta")
    key = index if is_count(index) else None
    if key not in op.texts:
        if len(op.texts) >= op.limits.choices:
            op.ctx.partial("choice-limit")
            return
        op.texts[key] = op.text("text")
    if not isinstance(delta, str):
        op.texts[key].partial = True
        return
    if not delta:
        op.report("nnrp.text-delta-empty", "/delta", delta)
    op.texts[key].add(delta)


def _usage(op: Operation, usage: Mapping[str, Any]) -> None:
    report = op.report
    op.usage = usage
    for name in COUNTS:
        chat = CHAT_COUNTS.get(name, "")
        if name in usage:
            if not is_count(usage[name]):
                report("nnrp.usage-count-invalid", f"/usage/{name}", usage[name])
        elif chat in usage:
            report("nnrp.usage-names-openai", f"/usage/{chat}", usage[chat])
            if not is_count(usage[chat]):
                report("nnrp.usage-count-invalid", f"/usage/{chat}", usage[chat])
        else:
            report("nnrp.usage-counts-missing", f"/usage/{name}")
    counts = counts_of(usage)
    if counts is not None:
        op.exchange.usage = dict(zip(_SUM, counts, strict=True))
        if counts[0] + counts[1] != counts[2]:
            detail = f"{counts[0]} + {counts[1]} is not {counts[2]}"
            report("nnrp.usage-total-wrong", "/usage/total_tokens", detail=detail)


def counts_of(usage: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Input, output and total by either of their names; None where one can't be told."""
    found = [usage.get(name, usage.get(CHAT_COUNTS.get(name, name))) for name in COUNTS]
    if not all(isinstance(n, int) and is_count(n) for n in found):
        return None
    return (found[0], found[1], found[2])
