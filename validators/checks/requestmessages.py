"""The messages of a request: who speaks, in which parts, and whether every tool call has its answer.

What belongs here: ``messages`` of chat and the messages among the ``input`` items of Responses. What
doesn't: the tools that were sent (requesttools.py), messages of an answer (chat.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.request import (
    CHAT_MESSAGES,
    CONTENT_REQUIRED,
    RESPONSES_MESSAGES,
    MessageForm,
)
from teeline.validators.fields.words import REASONING_MEMBERS

_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "audio", "refusal", *REASONING_MEMBERS)
_SPEAKING = ("system", "developer", "user", "assistant", "function")
"""Roles of chat whose messages answer no call."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_DATA_URL = re.compile(r"data:[\w.+\-/]+(?:;[\w.\-]+=[^;,]*+)*+;base64,", re.I)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-\s]++(?:=[=\s]*+)?\Z")


def check_messages(ctx: Context) -> None:
    """Checks the ``messages`` of a chat request."""
    document = ctx.request.document
    messages = document.get("messages", ABSENT)
    if not isinstance(messages, list) or not messages:
        # Where ``input`` stands instead, the other API was meant, which has a rule of its own.
        if not (document.get("messages") is None and document.get("input") is not None):
            ctx.report("request.messages-missing", "/messages", messages)
        return
    turns = None  # until a message may have to do with calls
    for n, message in enumerate(messages):
        if turns is None:
            if _is_plain(message):
                continue
            turns = ToolTurns(ctx)
        pointer = f"/messages/{n}"
        if not isinstance(message, dict):
            ctx.report("request.message-role", pointer, message)
            continue
        role = _check_role(ctx, message, pointer, CHAT_MESSAGES)
        if role:
            _check_chat_content(ctx, role, message, f"{pointer}/content")
        turns.message(role, message, pointer)
    if turns is not None:
        turns.close()


def _is_plain(message: Any) -> bool:
    """A text of somebody who neither calls tools nor answers a call: nothing is to be said of it."""
    return (
        type(message) is dict
        and type(message.get("content")) is str
        and message.get("role") in _SPEAKING
        and message.get("tool_calls") is None
    )


def check_input_items(ctx: Context) -> None:
    """Checks the messages among the ``input`` items of a Responses request."""
    items = ctx.request.document.get("input")
    for n, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, dict) or not _is_message(item):
            continue
        role = _check_role(ctx, item, f"/input/{n}", RESPONSES_MESSAGES)
        if role:
            content = item.get("content", ABSENT)
            _check_content(ctx, role, content, f"/input/{n}/content", RESPONSES_MESSAGES)


def _is_message(item: Mapping[str, Any]) -> bool:
    """An item without a type is a message, or a reference that has an id alone."""
    kind = item.get("type")
    return kind == "message" or (kind is None and ("role" in item or "content" in item))


def _check_role(ctx: Context, message: Mapping[str, Any], pointer: str, form: MessageForm) -> str:
    """The role of a message; empty where it has none that the API knows."""
    role = message.get("role", ABSENT)
    if isinstance(role, str) and role in form.roles:
        return role
    ctx.report("request.message-role", f"{pointer}/role", role, words=True)
    return ""


# -- content ------------------------------------------------------------------------------------------


def _check_chat_content(ctx: Context, role: str, message: Mapping[str, Any], pointer: str) -> None:
    content = message.get("content", ABSENT)
    if content is not None and content is not ABSENT:
        _check_content(ctx, role, content, pointer, CHAT_MESSAGES)
        return
    silent = role == "assistant" and not any(message.get(name) for name in _INSTEAD_OF_CONTENT)
    if role in CONTENT_REQUIRED or silent:
        ctx.report("request.message-content", pointer, content)


def _check_content(ctx: Context, role: str, content: Any, pointer: str, form: MessageForm) -> None:
    """Content is a string, or a list of parts that the role may send."""
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        ctx.report("request.message-content", pointer, content)
        return
    for n, part in enumerate(content):
        at = f"{pointer}/{n}"
        kind = part.get("type", ABSENT) if isinstance(part, dict) else ABSENT
        if not isinstance(kind, str):
            ctx.report("request.message-content", at, part)
        elif role not in form.parts.get(kind, form.roles):
            ctx.report("request.message-content", f"{at}/type", kind, words=True)
        elif kind in form.texts and not isinstance(part.get("text"), str):
            ctx.report("request.message-content", f"{at}/text", part.get("text", ABSENT))
        elif kind == form.image:
            _check_image(ctx, part, at, form)


def _check_image(ctx: Context, part: Mapping[str, Any], pointer: str, form: MessageForm) -> None:
    """An image is a URL, or a file that was uploaded before."""
    image = part.get("image_url", ABSENT)
    nested = form is CHAT_MESSAGES and isinstance(image, dict)
    at = f"{pointer}/image_url"
    holder = image if nested else part
    if isinstance(holder.get("file_id"), str) or isinstance(part.get("file_id"), str):
        return
    url, at = (image.get("url", ABSENT), f"{at}/url") if nested else (image, at)
    if not isinstance(url, str):
        ctx.report("request.image-part", at, url)
    elif fault := _url_fault(url):
        ctx.report("request.image-part", at, detail=f"{fault}, {len(url)} characters")


def _url_fault(url: str) -> str:
    """What keeps a text from being the URL of an image; empty for nothing."""
    if not _SCHEME.match(url):
        return "no URL"
    if url[:5].lower() != "data:":
        return ""
    head = _DATA_URL.match(url)
    if head is None:
        return "a data URL without ;base64,"
    return "" if _BASE64.match(url, head.end()) else "a data URL that is not base64"


# -- tool calls and their answers ---------------------------------------------------------------------


class ToolTurns:
    """Tool messages against the calls of the assistant's message before them.

    An assistant's message with calls opens a turn; each of its calls is answered by a tool message, then
    the conversation goes on. Calls without ids can't be told apart: such a turn is not looked at.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._asked: frozenset[str] | None = (
            frozenset()
        )  # of the last assistant; None: can't be told
        self._open: set[str] = set()
        self._pointer = ""

    def message(self, role: str, message: Mapping[str, Any], pointer: str) -> None:
        """The next message; ``role`` is empty for one that has a role rule against it."""
        if not role:
            self._open.clear()  # it may have been meant as an answer
            return
        if role == "tool":
            self._answer(message, pointer)
            return
        self.close()
        if role == "assistant":
            self._pointer = f"{pointer}/tool_calls"
            self._asked = _ids(message.get("tool_calls"))
            self._open = set(self._asked or ())

    def _answer(self, message: Mapping[str, Any], pointer: str) -> None:
        answered = message.get("tool_call_id", ABSENT)
        if isinstance(answered, str) and (self._asked is None or answered in self._asked):
            self._open.discard(answered)
            return
        self._ctx.report("request.tool-message-orphan", f"{pointer}/tool_call_id", answered)
        # Which call it was meant for can't be told: none of them is called unanswered, too.
        self._open.clear()

    def close(self) -> None:
        """The turn is over: what is still open stays without an answer."""
        if self._open and self._asked is not None:
            detail = f"{len(self._open)} of {len(self._asked)} calls not answered"
            self._ctx.report("request.tool-call-unanswered", self._pointer, detail=detail)
        self._open = set()


def _ids(calls: Any) -> frozenset[str] | None:
    """The ids of an assistant's calls; None where one of them has none."""
    if calls is None:
        return frozenset()
    if not isinstance(calls, list):
        return None
    found = list(_strings(calls))
    return frozenset(found) if len(found) == len(calls) else None


def _strings(calls: list[Any]) -> Iterator[str]:
    for call in calls:
        made = call.get("id") if isinstance(call, dict) else None
        if isinstance(made, str):
            yield made
