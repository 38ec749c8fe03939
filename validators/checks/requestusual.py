"""The usual chat request, told in one pass: nothing is to be said of it, and its facts are taken in.

What belongs here: what makes a request one of which the full check (requestrules.py, requestmessages.py,
request.py, settings.py) reports nothing, by their tables. What doesn't: every doubt, which is for the full
check. Texts, numbers within their bounds, and members that nobody looks at; no tools, no formats, nothing
that clashes with anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from teeline.validators.checks.context import Context
from teeline.validators.checks.cross import REPLACEMENT
from teeline.validators.checks.request import RequestFacts
from teeline.validators.checks.requestmessages import is_plain
from teeline.validators.checks.requestrules import has_credential, looked_at
from teeline.validators.checks.settings import LARGEST, NUMBERS, WORDS, settings_of
from teeline.validators.fields.request import BOUNDS
from teeline.validators.heads import FieldNames, content_type
from teeline.validators.model import Exchange, Headers
from teeline.validators.operation import Operation

_CHAT: Final = Operation.CHAT
_RARE: Final = (
    looked_at(_CHAT) | WORDS.keys() | {"functions", "n", "response_format", "stop", "text", "tools"}
)
"""Members that the full check looks at more closely, or takes facts from."""
_NUMERIC: Final = frozenset({int, float})
_MODEL_LENGTH: Final = 256
_UNKEPT: Final = [{"role": "user", "content": ""}]
"""What stands for messages that were looked at and are not kept."""


def _ranges() -> Mapping[str, tuple[str, float, float]]:
    """What a member is called among the settings (empty: it is none), and between what it has to be."""
    ranges: dict[str, tuple[str, float, float]] = {
        member: (name, -LARGEST, LARGEST) for member, name in NUMBERS.items()
    }
    for row in BOUNDS:
        name = NUMBERS.get(row.member, "")
        ranges[row.member] = (name, max(row.low, -LARGEST), min(row.high, LARGEST))
    return ranges


_RANGES: Final = _ranges()


def take_usual(ctx: Context, document: Any) -> bool:
    """Takes in what a request asks for, where the full check would find nothing; else does nothing.

    ``document`` was decoded without a fault.
    """
    exchange = ctx.exchange
    if ctx.operation is not _CHAT or exchange.request_bytes > ctx.limits.large_request:
        return False
    if not is_head_usual(ctx.request_headers, ctx.request_names):
        return False
    if not note_usual(exchange, document):
        return False
    facts = ctx.request = RequestFacts(known=True, document=document, stream=exchange.stream)
    if exchange.stream:
        _let_go(facts, document)
    return True


def _let_go(facts: RequestFacts, document: dict[str, Any]) -> None:
    """Keeps of a conversation what an answer is compared with: a stream is open for long."""
    texts = [message["content"] for message in document["messages"]]
    facts.unkept = sum(map(len, texts))
    facts.replaced = any(REPLACEMENT in text for text in texts)
    document["messages"] = _UNKEPT


def note_usual(exchange: Exchange, document: Any) -> bool:
    """Takes in what a chat request's document asks for, where the full check would find nothing in it."""
    if type(document) is not dict or not _RARE.isdisjoint(document):
        return False
    model, messages = document.get("model"), document.get("messages")
    if type(model) is not str or not model or type(messages) is not list or not messages:
        return False
    settings = _settings(document)
    if settings is None or not all(map(is_plain, messages)):
        return False
    exchange.stream = document.get("stream") is True
    exchange.settings = settings
    exchange.model = model[:_MODEL_LENGTH]
    return True


def _settings(document: Mapping[str, Any]) -> dict[str, int | float | str] | None:
    """What ``settings_of`` gives, of numbers within their bounds; None where one isn't."""
    found: dict[str, int | float | str] = {}
    members = document.keys() & _RANGES.keys()
    for member in members:
        value = document[member]
        name, low, high = _RANGES[member]
        if type(value) not in _NUMERIC or not low <= value <= high:
            return None
        if name:
            found[name] = value
    return found if len(members) < 2 else settings_of(document)  # which has an order of its own


def is_head_usual(headers: Headers, names: FieldNames) -> bool:
    """Whether a request's head says that the body is JSON, and who asks."""
    if names.type < 0:
        return False
    if content_type[headers[names.type][1]].media != "application/json":
        return False
    return has_credential(headers, names)
