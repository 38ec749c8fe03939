"""The id of an answer against those that the same upstream gave before, and what became of kept answers.

What belongs here: rules that need earlier exchanges. All of it is off where nobody remembers those
(``ctx.history`` is None). What doesn't: the memory itself (history.py), ids within one answer
(chatstream.py).
"""

from __future__ import annotations

import re
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.history import History, client_of
from teeline.validators.model import Ended, Unit
from teeline.validators.operation import Operation, asks_in_body

_ONE_OF_FEW = re.compile(r"chatcmpl-\d{1,3}\Z")
_COMPLETE = Ended.COMPLETE
_RESPONSES = Operation.RESPONSES
_NO_CHANCE = 3
"""Ollama draws an id out of a thousand: the same one so many times in a row is a constant."""
_ONE_ANSWER = re.compile(r"/(?:responses|chat/completions)/([^/]+)/?\Z")


def check_identity(ctx: Context, value: Any) -> None:
    """Looks at an answer's id once it is known; call it after each document or event was checked."""
    made = ctx.exchange.response_id
    if made is None or ctx.history is None or ctx.identified:
        return
    ctx.identified = True
    pointer = _pointer(value, made)
    if pointer is None:
        return
    if asks_in_body(ctx.exchange.method, ctx.exchange.path):
        check_new(ctx, ctx.history, made, pointer)
    elif _fetched(ctx) == made and _kept(ctx, made) is False:
        ctx.report("cross.store-id", pointer, detail='asked for with "store": false, and fetched')


def _pointer(value: Any, made: str) -> str | None:
    """Where the id stands; None where it was cut for the exchange's facts, or stands elsewhere."""
    if not isinstance(value, dict):
        return None
    if value.get("id") == made:
        return "/id"
    inner = value.get("response")
    return "/response/id" if isinstance(inner, dict) and inner.get("id") == made else None


def check_new(ctx: Context, history: History, made: str, pointer: str) -> None:
    """A new answer has a new id, save one that the client asked to be repeated."""
    before, in_a_row = history.made(made)
    if not before or (in_a_row < _NO_CHANCE and _ONE_OF_FEW.match(made)):
        return
    if not ctx.asked("idempotency-key"):
        ctx.report("cross.duplicate-id", pointer, made)


# -- answers that are kept ----------------------------------------------------------------------------


def check_fetched(ctx: Context) -> None:
    """A kept answer that is gone; call it with the response's head."""
    if ctx.exchange.method not in ("GET", "DELETE"):
        return
    asked = _fetched(ctx)
    if asked and ctx.response.status == 404 and _kept(ctx, asked) is True:
        ctx.report.place(Unit.HEAD)
        ctx.report("cross.store-id", detail="asked to be stored, and status 404 when it is fetched")
    if ctx.history is not None and ctx.exchange.method == "DELETE" and ctx.response.status < 300:
        match = _ONE_ANSWER.search(ctx.exchange.path)
        if match is not None:
            ctx.history.deleted(match[1])


def note_kept(ctx: Context, ended: Ended) -> None:
    """Remembers whether a whole answer was to be kept; call it at the end."""
    made = ctx.exchange.response_id
    if ctx.history is None or made is None or ended is not _COMPLETE:
        return
    if ctx.operation is not _RESPONSES and "store" not in ctx.request.document:
        return  # nobody asked
    asked = _asks_to_keep(ctx)
    if asked is None:
        return
    if asks_in_body(ctx.exchange.method, ctx.exchange.path):
        ctx.history.keep(made, client_of(ctx.request_headers), kept=asked)


def _asks_to_keep(ctx: Context) -> bool | None:
    """Whether an answer is to be stored; Responses are unless asked not to be."""
    if not ctx.request.known:
        return None
    store = ctx.request.document.get("store")
    if store is None and ctx.operation is Operation.RESPONSES:
        return True
    return store if isinstance(store, bool) else None


def _fetched(ctx: Context) -> str:
    """The id of the answer that a request fetches; empty where it fetches none."""
    match = _ONE_ANSWER.search(ctx.exchange.path) if ctx.exchange.method == "GET" else None
    return match[1] if match is not None else ""


def _kept(ctx: Context, answer_id: str) -> bool | None:
    if ctx.history is None:
        return None
    return ctx.history.kept(answer_id, client_of(ctx.request_headers))
