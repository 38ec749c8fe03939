"""What was the case where a rule was broken, noted for the vendor profiles that ask for it.

What belongs here: the conditions and words that are noted, for which rules, and how several places of
one rule add up: a condition holds for a violation where it held at each of its places; its words are
those of all of them. What doesn't: which vendor is forgiven what (config/profiles), severities
(policy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from teeline.validators import evidence
from teeline.validators.model import NO_CIRCUMSTANCES, OTHER_WORD, Circumstances, Exchange
from teeline.validators.wire.json import JsonFaultKind, decode

_MAX_WORDS = 16
_MAX_DEPTH = 64
_PART_TYPES = frozenset({"text", "thinking"})

Test = Callable[[str, Any, Any, Exchange], bool]
"""A condition: (pointer, the value that broke the rule, the reporter's subject, the exchange)."""


def _finished(subject: Any, reason: str) -> bool:
    return isinstance(subject, dict) and subject.get("finish_reason") == reason


def _choice_finish_length(_: str, __: Any, subject: Any, ___: Exchange) -> bool:
    return _finished(subject, "length")


def _choice_finish_content_filter(_: str, __: Any, subject: Any, ___: Exchange) -> bool:
    return _finished(subject, "content_filter")


def _all_finish_length(_: str, __: Any, ___: Any, exchange: Exchange) -> bool:
    return bool(exchange.finish) and all(word == "length" for word in exchange.finish)


def _only_completion_tokens(pointer: str, _: Any, __: Any, ___: Exchange) -> bool:
    return pointer.endswith("/completion_tokens")


def _typed_parts(_: str, value: Any, __: Any, ___: Exchange) -> bool:
    """Content as an array of text and thinking parts."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(part, dict)
            and isinstance(part.get("type"), str)
            and part["type"] in _PART_TYPES
            for part in value
        )
    )


def _whole_entry(_: str, __: Any, subject: Any, ___: Exchange) -> bool:
    """A streamed tool call that came in one piece: its name, and arguments that are one JSON object."""
    if not isinstance(subject, dict) or not isinstance(function := subject.get("function"), dict):
        return False
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name or not isinstance(arguments, str):
        return False
    document = decode(arguments.encode("utf-8", "surrogatepass"), _MAX_DEPTH)
    trailing = any(fault.kind is JsonFaultKind.TRAILING for fault in document.faults)
    return document.ok and isinstance(document.value, dict) and not trailing


TESTS: Mapping[str, Mapping[str, Test]] = {
    "chat.message-missing": {
        "finish-length": _choice_finish_length,
        "finish-content-filter": _choice_finish_content_filter,
    },
    "usage.keys-missing": {
        "finish-length": _all_finish_length,
        "only-completion-tokens": _only_completion_tokens,
    },
    "chat.content-not-string": {"typed-parts": _typed_parts},
    "chatstream.content-not-string": {"typed-parts": _typed_parts},
    "chatstream.tool-index-type": {"whole-entry": _whole_entry},
}
"""Rule -> the conditions that are noted for it."""


def _last_token(pointer: str, _: Any) -> Iterable[Any]:
    return (pointer.rpartition("/")[2],)


def _missing(pointer: str, value: Any) -> Iterable[Any]:
    """The name of a member that is not there; one that is there, with another type, is another fault."""
    gone = value is None or value is evidence.ABSENT
    return _last_token(pointer, value) if gone else (OTHER_WORD,)


def _names(_: str, value: Any) -> Iterable[Any]:
    return value if isinstance(value, dict) else (OTHER_WORD,)


def _itself(_: str, value: Any) -> Iterable[Any]:
    return (value,)


WORDS: Mapping[str, Callable[[str, Any], Iterable[Any]]] = {
    "chat.finish-unknown": _itself,
    "chatstream.finish-unknown": _itself,
    "chatstream.object-wrong": _itself,
    "responses.item-field-missing": _missing,
    "chat.unknown-field": _last_token,
    "responses.unknown-field": _last_token,
    "usage.vendor-fields": _names,
}
"""Rule -> the words that are noted for it: the value that stood there, or the names of members."""

WATCHED = frozenset(TESTS) | frozenset(WORDS)
"""Rules whose every place is looked at, not the first alone."""


def circumstances(
    rule: str, pointer: str, value: Any, *, subject: Any, exchange: Exchange
) -> Circumstances:
    """What is the case at one place. Never raises."""
    if rule not in WATCHED:
        return NO_CIRCUMSTANCES
    tests = TESTS.get(rule, {})
    held = frozenset(
        name for name, test in tests.items() if test(pointer, value, subject, exchange)
    )
    found = WORDS[rule](pointer, value) if rule in WORDS else ()
    return Circumstances(held, frozenset(map(_word, found)))


def _word(value: Any) -> str:
    """A word that evidence may show: it gets into records."""
    shown = isinstance(value, str) and evidence.word(value) == f'"{value}"'
    return value if shown else OTHER_WORD


def joined(before: Circumstances, now: Circumstances) -> Circumstances:
    """Two places of one rule together."""
    held = before.held & now.held
    words = before.words if now.words <= before.words else before.words | now.words
    if len(words) > _MAX_WORDS:
        words = frozenset(sorted(words)[:_MAX_WORDS]) | {OTHER_WORD}
    return Circumstances(held, words)
