"""The body of response.completed against the events that came before it.

What belongs here: text, tool calls and usage told twice. What doesn't: the body by itself, which the
OpenAI rules of its operation judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from teeline.validators.fields.nnrp import COUNTS, DONE, is_filled
from teeline.validators.nnrp.events import counts_of
from teeline.validators.nnrp.operation import Operation


class BodyCall(NamedTuple):
    """A tool call of a completed body."""

    id: Any
    name: Any
    arguments: Any


def _objects(value: Any, name: str) -> list[Mapping[str, Any]]:
    members = value.get(name) if isinstance(value, dict) else None
    return [m for m in members if isinstance(m, dict)] if isinstance(members, list) else []


def finish_cut(body: Mapping[str, Any] | None) -> bool:
    """Whether a choice ended by its length."""
    details = body.get("incomplete_details") if body else None
    cut = isinstance(details, dict) and details.get("reason") == "max_output_tokens"
    return cut or any(c.get("finish_reason") == "length" for c in _objects(body, "choices"))


def _chat_texts(body: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for choice in _objects(body, "choices"):
        message = choice.get("message")
        if not isinstance(message, dict):
            continue  # named by the rules of the body
        content = message.get("content")
        if isinstance(content, str) or content is None:
            yield choice.get("index"), content or ""


def _holds_text(body: Mapping[str, Any]) -> bool:
    if any(text for _, text in _chat_texts(body)):
        return True
    return any(
        part.get("type") == "output_text" and bool(part.get("text"))
        for item in _objects(body, "output")
        for part in _objects(item, "content")
    )


def _calls(body: Mapping[str, Any]) -> list[BodyCall]:
    found = []
    for choice in _objects(body, "choices"):
        for call in _objects(choice.get("message"), "tool_calls"):
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            found.append(BodyCall(call.get("id"), function.get("name"), function.get("arguments")))
    for item in _objects(body, "output"):
        if item.get("type") == "function_call":
            found.append(BodyCall(item.get("call_id"), item.get("name"), item.get("arguments")))
    return found


def check_completed(op: Operation, body: Mapping[str, Any] | None) -> None:
    """Compares a success with its stream; ``body`` None: there was no completed body to compare."""
    if body is None:
        if op.known and op.stream and not (op.texts or op.tool_events or op.completed_events):
            op.report("nnrp.stream-empty", detail="neither text nor tool calls")
        return
    calls = _calls(body)
    if op.known and op.stream:
        _check_streamed(op, body, calls)
    if op.texts:
        _check_text(op, body)
    if op.tool_events:
        _check_calls(op, body, calls)
    if op.usage is not None:
        _check_usage(op, body.get("usage"))


def _check_streamed(op: Operation, body: Mapping[str, Any], calls: list[BodyCall]) -> None:
    """A stream that told nothing of what its end holds."""
    report, declared = op.report, op.declared
    text = _holds_text(body)
    if text and not op.texts:
        promised = declared is not None and declared.streaming is True
        rule = "nnrp.declared-streaming-missing" if promised else "nnrp.stream-without-events"
        report(rule, "/body", detail="text in the body, no text delta came")
    if calls and not op.tool_events:
        promised = declared is not None and declared.tool_calls is True
        rule = "nnrp.tool-events-missing" if promised else "nnrp.tool-events-missing-undeclared"
        report(rule, "/body", detail=f"{len(calls)} tool calls in the body, no tool event came")
    if not (text or calls or op.texts or op.tool_events):
        report("nnrp.stream-empty", "/body", detail="neither text nor tool calls")


def _check_text(op: Operation, body: Mapping[str, Any]) -> None:
    for n, (index, text) in enumerate(_chat_texts(body)):
        if not isinstance(index, int | str):
            continue
        joined = op.texts.get(index)
        agree = joined.agrees(text) if joined is not None else not text
        if not agree and None not in op.texts:
            detail = f"{len(text)} characters in the body, {joined.deltas if joined else 0} deltas"
            op.report("nnrp.completed-text-mismatch", f"/body/choices/{n}", detail=detail)


def _check_calls(op: Operation, body: Mapping[str, Any], calls: list[BodyCall]) -> None:
    """The calls of the body are those that completed; calls in error may be there or not."""
    if not (calls or _objects(body, "choices") or _objects(body, "output")):
        return
    told = {call.id: call for call in calls if isinstance(call.id, str)}
    done = {key: call for key, call in op.calls.items() if call.ended == DONE}
    missing = len(done.keys() - told.keys())
    extra = len(told.keys() - op.calls.keys())
    changed = sum(
        (is_filled(call.named) and told[key].name != call.named)
        or (isinstance(told[key].arguments, str) and not call.whole.agrees(told[key].arguments))
        for key, call in done.items()
        if key in told
    )
    if missing or extra or changed:
        detail = (
            f"of the body's {len(told)} calls {extra} are new, {changed} differ, {missing} lack"
        )
        op.report("nnrp.completed-tools-mismatch", "/body", detail=detail)


def _check_usage(op: Operation, usage: Any) -> None:
    ours = counts_of(op.usage) if op.usage is not None else None
    theirs = counts_of(usage) if isinstance(usage, dict) else None
    if ours is None or theirs is None or ours == theirs:
        return
    words = (f"{n} {a} and {b}" for n, a, b in zip(COUNTS, ours, theirs, strict=True) if a != b)
    op.report("nnrp.completed-usage-mismatch", "/body/usage", detail=", ".join(words))
