"""A prompt's token count against the size of the request: an observation for people, never a score.

What belongs here: the estimate (four characters a token) and when it can be made at all. What doesn't: the
counters of a usage object and what holds between them (usage.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.fields.request import INHERITED, TOOL_MEMBERS
from teeline.validators.fields.words import REASONING_MEMBERS

_FACTOR = 3
_CHARACTERS = 4
"""Of one token, on average."""
_TEMPLATE = 512
"""Tokens that a server may add by itself: a chat template, a short system text, how to call tools."""
_FURTHER_INPUT = (*INHERITED, "web_search_options", "prediction", "modalities", "audio")
_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})
_ITEMS = frozenset({"message", "function_call", "function_call_output"})


def check_prompt_tokens(ctx: Context, prompt: int, pointer: str) -> None:
    """Reports a prompt that can't be the one that was sent: cut short, or with a lot added."""
    document = ctx.request.document
    if (
        not prompt
        or not ctx.request.known
        or _is_plausible(ctx, prompt)
        or not _is_all_text(document)
    ):
        return
    cached = sum(n for name, n in ctx.exchange.usage.items() if name.endswith(".cached_tokens"))
    least = _least(sum(map(len, _texts(document))) + ctx.request.unkept)
    # Some count what came from a cache beside the prompt.
    too_many = prompt > _most(ctx) and not ctx.request_names.coded
    if prompt + cached < least or too_many:
        detail = f"{prompt} tokens for a request of {ctx.exchange.request_bytes} bytes"
        ctx.report("cross.prompt-tokens-implausible", pointer, detail=detail)


def _is_plausible(ctx: Context, prompt: int) -> bool:
    size, choices = ctx.exchange.request_bytes, ctx.request.choices
    return not ctx.request_names.coded and is_plausible(prompt, size, choices)


def is_plausible(prompt: int, size: int, choices: int = 1) -> bool:
    """Whether a count needs no look at the texts: no text has more characters than the request has bytes.

    ``size`` is that of the request's body, in no content coding.
    """
    tokens = size // _CHARACTERS
    most = tokens * _FACTOR * choices + _TEMPLATE
    return tokens // _FACTOR - _TEMPLATE <= prompt <= most


def _most(ctx: Context) -> int:
    characters = ctx.exchange.request_bytes // _CHARACTERS
    return characters * _FACTOR * ctx.request.choices + _TEMPLATE


def _least(characters: int) -> int:
    return characters // _CHARACTERS // _FACTOR - _TEMPLATE


def _is_all_text(document: Mapping[str, Any]) -> bool:
    """Whether everything that becomes the prompt is in the request, as text."""
    if any(document.get(name) for name in _FURTHER_INPUT):
        return False
    tools = document.get("tools")
    if isinstance(tools, list) and not all(map(_is_described, tools)):
        return False
    return all(map(_is_text, _entries(document)))


def _is_described(tool: Any) -> bool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind in TOOL_MEMBERS


def _entries(document: Mapping[str, Any]) -> Iterator[Any]:
    """Messages, input items and texts of a request."""
    for name in ("messages", "input", "prompt"):
        value = document.get(name)
        yield from value if isinstance(value, list) else () if value is None else (value,)


def _is_text(entry: Any) -> bool:
    if isinstance(entry, str):
        return True
    if not isinstance(entry, dict) or any(entry.get(name) for name in REASONING_MEMBERS):
        return False
    kind = entry.get("type", "message")
    if not isinstance(kind, str) or kind not in _ITEMS or entry.get("audio"):
        return False
    return all(_is_text_part(part) for part in _content(entry))


def text_size(entry: Any) -> int | None:
    """The characters of a message or an input item that is nothing but text; None for others."""
    if not isinstance(entry, dict) or not _is_text(entry):
        return None
    return sum(map(len, _texts({"input": [entry]})))


def _is_text_part(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind in _PARTS


def _content(entry: Mapping[str, Any]) -> list[Any]:
    """The parts of a message's or a tool's content; none where it is a string."""
    value = entry.get("content", entry.get("output"))
    return value if isinstance(value, list) else []


def _texts(document: Mapping[str, Any]) -> Iterator[str]:
    """The texts that are certainly a part of the prompt."""
    for entry in (*_entries(document), document.get("instructions")):
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            whole = entry.get("content", entry.get("output"))
            if isinstance(whole, str):
                yield whole
            for part in _content(entry):
                text = part.get("text") if isinstance(part, dict) else None
                if isinstance(text, str):
                    yield text
