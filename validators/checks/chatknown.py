"""A whole chat answer that is like an earlier one of its upstream: what may differ, and what must hold then.

What belongs here: which members of an accepted ``chat.completion`` may have another value, and the relations
that the full check (chat.py) would look at, as far as they hold at a glance. What doesn't: bytes and
patterns (likeness.py), and every doubt, which is for the full check. Only the usual answer is remembered:
one choice with a text, to a request without tools, formats or anything else that asks for a relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from teeline.validators.checks.chat import DAY
from teeline.validators.checks.context import Context
from teeline.validators.checks.cross import REPLACEMENT
from teeline.validators.checks.estimate import is_plausible
from teeline.validators.checks.marks import MAX_MEMBERS, MAX_TEXT
from teeline.validators.fields.usage import CHAT_USAGE
from teeline.validators.likeness import PLAIN, TEXT, Hole, Path, decoded
from teeline.validators.model import Exchange

_ASKING: Final = frozenset(
    {
        "function_call",
        "functions",
        "logprobs",
        "modalities",
        "response_format",
        "stop",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)
"""Members of a request that ask for something which a full check looks for in the answer."""
_TOKENS: Final = ("max_completion_tokens", "max_tokens")
_LIMITS: Final = frozenset({*_TOKENS, "n"})
"""And those of which it is enough to look at the counts."""

_ID: Final = "chatcmpl-"
LONGEST_ID: Final = 128
COUNT: Final = rb"(?:0|[1-9][0-9]{0,9}+)"
TIME: Final = rb"[1-9][0-9]{9}"
EARLIEST: Final = 1_000_000_000
_ID_PATH: Final[Path] = ("id",)
_CONTENT_PATH: Final[Path] = ("choices", 0, "message", "content")
_FINGERPRINT: Final = "system_fingerprint"


class KnownChat:
    """An accepted answer. ``holes`` are the id, the time, the text, the counters, and the fingerprint."""

    __slots__ = (
        "_behind",
        "_counters",
        "_details",
        "_finish",
        "_members",
        "_model",
        "_path",
        "_tier",
        "_usage",
        "_wanted",
        "holes",
    )

    def __init__(
        self, exchange: Exchange, asked: Asked, value: Mapping[str, Any], counters: tuple[str, ...]
    ) -> None:
        self._wanted = asked.model
        self._path = exchange.path
        self._model = exchange.response_model
        self._tier = exchange.service_tier
        self._members = frozenset(value)
        self._finish: str = value["choices"][0]["finish_reason"]
        self._usage = dict(exchange.usage)
        self._counters = counters
        # So many of the counters behind the first three are the prompt's, and here all of them end.
        self._details = sum(counter.startswith(CHAT_USAGE.prompt_details) for counter in counters)
        self._behind = 3 + len(counters)
        fingerprint = value.get(_FINGERPRINT)
        self.holes: tuple[Hole, ...] = (
            Hole(_ID_PATH, _ID.encode() + PLAIN),
            Hole(("created",), TIME),
            Hole(_CONTENT_PATH, TEXT),
            *(Hole(("usage", *counter.split(".")), COUNT) for counter in counters),
            *([Hole((_FINGERPRINT,), PLAIN)] if isinstance(fingerprint, str) else []),
        )

    def id_in(self, holes: tuple[bytes, ...]) -> str:
        """The answer's id."""
        return holes[0].decode()

    def accept(self, exchange: Exchange, asked: Asked, holes: tuple[bytes, ...], at: float) -> bool:
        """Whether the full check would report nothing of this answer; it then leaves the same facts.

        ``at`` is the time of now, in Unix seconds.
        """
        model, limit = asked
        if self._wanted != model or self._path != exchange.path:
            return False
        made, content = holes[0], holes[2]
        created, prompt, completion, total, *parts = map(int, holes[1:2] + holes[3 : self._behind])
        if len(made) > LONGEST_ID or not EARLIEST <= created <= at + DAY:
            return False
        if not (prompt and completion and total == prompt + completion):
            return False
        if parts:
            # The sum of all parts is within the whole: so is each that the full check looks at.
            details = self._details
            if sum(parts[:details]) > prompt or sum(parts[details:]) > completion:
                return False
        if limit is not None and completion > limit:
            return False
        if not (is_plausible(prompt, exchange.request_bytes) and _is_harmless(content)):
            return False
        counts = (prompt, completion, total, *parts)
        exchange.usage = self._usage | dict(zip(self._counters, counts))  # noqa: B905
        marks = exchange.marks
        exchange.response_id = marks.id = made.decode()
        exchange.response_model = self._model
        exchange.service_tier = self._tier
        exchange.finish.append(self._finish)
        marks.members = self._members
        if len(holes) > self._behind:
            marks.fingerprint = holes[-1][:MAX_TEXT].decode()
        return True


def _is_harmless(content: bytes) -> bool:
    """Whether a text is one, without anything in it that the full check would look for."""
    text = decoded(content)
    return not (not text or REPLACEMENT in text or text.lstrip().startswith("<think>"))


class Asked(NamedTuple):
    """What an answer is looked at for, of a request that asks for nothing that needs the full check.

    ``limit``: tokens of the answer, at most; None for no limit.
    """

    model: str
    limit: int | None


def asked_plainly(document: Mapping[str, Any]) -> Asked | None:
    """What a request asks for, where that is one text in one document; None where it is anything else."""
    if not _ASKING.isdisjoint(document):
        return None
    model = document.get("model")
    if type(model) is not str:
        return None
    if _LIMITS.isdisjoint(document):
        return Asked(model, None)
    choices = document.get("n", 1)
    if type(choices) is not int or choices != 1:
        return None
    limits = [document.get(name) for name in _TOKENS]
    return Asked(model, next((limit for limit in limits if type(limit) is int and limit), None))


def asked_of(ctx: Context) -> Asked | None:
    """The same of an exchange whose request was read."""
    facts = ctx.request
    plain = facts.known and not facts.stream and not ctx.request_names.coded
    return asked_plainly(facts.document) if plain else None


def known_chat(ctx: Context, value: Any) -> KnownChat | None:
    """What is to be remembered of an answer that the full check accepted; None for an unusual one."""
    asked = asked_of(ctx)
    if asked is None:
        return None
    if len(value) > MAX_MEMBERS or any(len(name) > MAX_TEXT for name in value):
        return None
    choices = value["choices"]
    message = choices[0].get("message") if len(choices) == 1 else None
    if choices[0].get("finish_reason") != "stop" or message is None:
        return None
    content, made = message.get("content"), value["id"]
    usual = isinstance(content, str) and content and made.startswith(_ID)
    counters = counters_of(value.get("usage"), ctx.exchange.usage) if usual else None
    return None if counters is None else KnownChat(ctx.exchange, asked, value, counters)


def counters_of(usage: Any, counted: Mapping[str, int]) -> tuple[str, ...] | None:
    """The names of the counters that may differ; None where one is no integer.

    Of the details only those that are not 0 here: most of them always are.
    """
    if [*islice(counted, 3)] != [*CHAT_USAGE.keys]:
        return None
    for name in counted:
        holder, _, counter = name.rpartition(".")
        value = usage[holder][counter] if holder else usage[name]
        if type(value) is not int:
            return None
    return tuple(name for name, count in counted.items() if count or name in CHAT_USAGE.keys)
