"""Structured output: a text that was asked to be JSON, against that and against its schema.

What belongs here: what was asked for, and whole texts of either API, streamed or not. What doesn't: the
validation against a schema (a pool of processes does it), the arguments of tools (tools.py). A turn that
calls tools owes no JSON: what it says beside the calls is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teeline.validators.checks.context import Context, SchemaRules
from teeline.validators.fields.structured import (
    FORMAT_PLACES,
    HOSTED_ITEMS,
    JSON_FORMATS,
)
from teeline.validators.wire.json import Document, JsonFaultKind, decode

_FENCE = "```"
_SCHEMA_RULES = SchemaRules("structured.schema-violation", "text", "structured.extra-properties")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+-]{0,24}[ \t]*\r?\n?")
_WORDS_OF_NONFINITE = (b"NaN", b"Inf", b"-Inf")


@dataclass(frozen=True, slots=True)
class WantedFormat:
    """What the text was asked to be. ``schema`` is None where none came or it need not be kept to."""

    kind: str
    name: Any
    schema: Any


def wanted_format(ctx: Context) -> WantedFormat | None:
    """The JSON format that the request asked for; None for text, or where the request is not known."""
    place = FORMAT_PLACES.get(ctx.operation)
    if place is None or not ctx.request.known:
        return None
    form = _at(ctx.request.document, place.path)
    kind = form.get("type")
    if not isinstance(kind, str) or kind not in JSON_FORMATS:
        return None
    described = _at(form, place.described)
    schema = described.get("schema") if described.get("strict") is True else None
    return WantedFormat(
        kind, described.get("name"), schema if isinstance(schema, dict | bool) else None
    )


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    for name in path:
        value = document.get(name)
        document = value if isinstance(value, dict) else {}
    return document


# -- a whole answer -----------------------------------------------------------------------------------


def check_answer(
    ctx: Context, text: Any, pointer: str, *, finish: str | None, refused: bool, called: bool
) -> None:
    """Checks what one choice or message says as a whole.

    ``finish`` is its finish_reason (Responses: ``stop`` for a completed response, ``length`` for one that
    a token limit ended); ``refused``: there is a refusal; ``called``: there are calls of tools.
    """
    wanted = wanted_format(ctx)
    if wanted is None or called:
        return
    if refused:
        ctx.report("structured.refusal", pointer, detail=f"a refusal in place of {wanted.kind}")
    elif finish == "length":
        ctx.report("structured.truncated", pointer, detail=f"{wanted.kind} cut by a length limit")
    elif finish == "stop" and isinstance(text, str) and text:
        _check_text(ctx, wanted, text, pointer)


class JoinedText:
    """A text that comes in pieces, kept as far as it can be checked when it is whole."""

    __slots__ = ("_ctx", "_pieces", "_size")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, text: str) -> None:
        self._size += len(text)
        if self._size <= self._ctx.limits.text:
            self._pieces.append(text)
        else:
            self._ctx.partial("text-limit")
            self._pieces.clear()

    @property
    def text(self) -> str:
        """All of it; empty where it was too large."""
        return "".join(self._pieces)


def joined_text(ctx: Context) -> JoinedText | None:
    """Keeps a streamed text where the request makes it worth keeping; else None."""
    return JoinedText(ctx) if wanted_format(ctx) is not None else None


def _check_text(ctx: Context, wanted: WantedFormat, text: str, pointer: str) -> None:
    if len(text) > ctx.limits.text:
        ctx.partial("text-limit")
        return
    data = text.encode("utf-8", "surrogatepass")
    document = decode(data, ctx.limits.depth)
    if any(fault.kind is JsonFaultKind.DEPTH for fault in document.faults):
        ctx.partial("depth-limit")
    elif _is_json(document, data):
        if wanted.schema is not None:
            ctx.check_schema(wanted.schema, document.value, pointer, _SCHEMA_RULES)
    elif _is_fenced(text, ctx.limits.depth):
        ctx.report("structured.fenced", pointer, detail=f"{wanted.kind} inside a ``` fence")
    else:
        detail = f"{wanted.kind} was asked for, {len(text)} characters that are no JSON came"
        ctx.report("structured.invalid-json", pointer, detail=detail)


def _is_json(document: Document, data: bytes) -> bool:
    """Whether a text is one JSON value and nothing else. A number beyond a double is JSON, NaN is not."""
    if not document.ok:
        return False
    for fault in document.faults:
        if fault.kind in (JsonFaultKind.TRAILING, JsonFaultKind.BOM):
            return False
        if fault.kind is JsonFaultKind.NONFINITE and data.startswith(
            _WORDS_OF_NONFINITE, fault.byte
        ):
            return False
    return True


def _is_fenced(text: str, depth: int) -> bool:
    """Whether a text is nothing but JSON inside a Markdown fence, closed or not."""
    text = text.strip()
    if not text.startswith(_FENCE):
        return False
    language = _LANGUAGE.match(text, len(_FENCE))
    inner = text[language.end() if language else len(_FENCE) :].removesuffix(_FENCE)
    data = inner.encode("utf-8", "surrogatepass")
    return _is_json(decode(data, depth), data)


# -- Responses ----------------------------------------------------------------------------------------


def check_response_format(ctx: Context, response: Mapping[str, Any], pointer: str) -> None:
    """Checks a whole response: its text, and whether it echoes the format. Streams: the terminal one.

    Its text is that of its last item, a message: those before it may be comments on the work.
    """
    wanted = wanted_format(ctx)
    if wanted is None:
        return
    _check_echo(ctx, wanted, response, pointer)
    output = response.get("output")
    if not isinstance(output, list) or not output or not isinstance(output[-1], dict):
        return
    said = _said(output[-1])
    if said is not None:
        at, text, refused = said
        check_answer(
            ctx,
            text,
            f"{pointer}/output/{len(output) - 1}/content/{at}",
            finish=finish_of(response),
            refused=refused,
            called=not all(map(is_hosted, output)),
        )


def _said(message: Mapping[str, Any]) -> tuple[int, Any, bool] | None:
    """The one part of a message that speaks: its place, its text, and whether it is a refusal."""
    content = message.get("content")
    if message.get("type") != "message" or message.get("phase") == "commentary":
        return None
    parts = [
        (n, part)
        for n, part in enumerate(content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") in ("output_text", "refusal")
    ]
    if len(parts) != 1:
        return None
    at, part = parts[0]
    return at, part.get("text"), part["type"] == "refusal"


def is_hosted(item: Any) -> bool:
    """Whether an output item leaves nothing to do for the client."""
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind in HOSTED_ITEMS


def finish_of(response: Mapping[str, Any]) -> str | None:
    """How a response ended, in the words of ``check_answer``."""
    status = response.get("status")
    if status == "completed":
        return "stop"
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return "length" if status == "incomplete" and reason == "max_output_tokens" else None


def _check_echo(
    ctx: Context, wanted: WantedFormat, response: Mapping[str, Any], pointer: str
) -> None:
    """``text.format`` of the response against the request's: its type, and a schema's name."""
    form = _at(response, ("text", "format"))
    named = isinstance(wanted.name, str)
    if form.get("type") != wanted.kind or (named and form.get("name") != wanted.name):
        at = f"{pointer}/text/format"
        ctx.report("structured.text-format-not-echoed", at, detail=f"{wanted.kind} was asked for")
