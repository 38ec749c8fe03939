"""Requests of chat, responses, completions and embeddings: what clients get wrong, as rows.

What belongs here: bounds, members that exclude or need each other, members of the other API, roles and the
parts that a role may send. A member that is in no row is never reported: the API grows, and servers take
more than is documented. What doesn't belong: reading a request (checks/requestrules.py and its like).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from teeline.validators.operation import Operation

CHAT: Final = frozenset({Operation.CHAT})
RESPONSES: Final = frozenset({Operation.RESPONSES})
COUNTED: Final = frozenset({Operation.CHAT, Operation.COMPLETIONS})
"""The operations that give several choices."""
GENERATING: Final = COUNTED | RESPONSES

# -- bounds -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number and what it must lie between, both ends included."""

    member: str
    low: float
    high: float
    operations: frozenset[Operation]


BOUNDS: Final = (
    Bounds("n", 1, 128, COUNTED),
    Bounds("temperature", 0, 2, GENERATING),
    Bounds("top_p", 0, 1, GENERATING),
    Bounds("frequency_penalty", -2, 2, GENERATING),
    Bounds("presence_penalty", -2, 2, GENERATING),
    Bounds("top_logprobs", 0, 20, CHAT | RESPONSES),
)
MOST_STOPS: Final = 4

# -- members that must not be there, given the others ---------------------------------------------------

Document = Mapping[str, Any]
Test = Callable[[Document], bool]


def _always(_: Document) -> bool:
    return True


def _absent(name: str) -> Test:
    return lambda document: document.get(name) is None


def _present(name: str) -> Test:
    return lambda document: document.get(name) is not None


def _off(name: str) -> Test:
    return lambda document: document.get(name) is not True


def _waits_for_hours(document: Document) -> bool:
    options = document.get("background_options")
    window = options.get("completion_window") if isinstance(options, dict) else None
    return window in ("2h", "8h") and document.get("stream") is True


def _alternatives_alone(document: Document) -> bool:
    # 0 asks for nothing, with or without log probabilities.
    return document.get("top_logprobs") != 0 and document.get("logprobs") is not True


@dataclass(frozen=True, slots=True)
class Clash:
    """A member that must not be there (null is as good as absent) where ``when`` holds."""

    rule: str
    operations: frozenset[Operation]
    member: str
    """JSON Pointer; objects on the way that are none hold nothing."""
    when: Test = _always


CLASHES: Final = (
    Clash("request.messages-on-responses", RESPONSES, "/messages", _absent("input")),
    Clash("request.input-on-chat", CHAT, "/input", _absent("messages")),
    Clash("request.response-format-on-responses", RESPONSES, "/response_format"),
    Clash("request.response-format-on-responses", CHAT, "/text/format"),
    Clash("request.stream-options-without-stream", GENERATING, "/stream_options", _off("stream")),
    Clash("request.include-usage-on-responses", RESPONSES, "/stream_options/include_usage"),
    Clash("request.top-logprobs-without-logprobs", CHAT, "/top_logprobs", _alternatives_alone),
    Clash("request.max-tokens-both", CHAT, "/max_tokens", _present("max_completion_tokens")),
    Clash("request.deprecated", CHAT, "/functions"),
    Clash("request.deprecated", CHAT, "/function_call"),
    Clash("request.deprecated", CHAT, "/max_tokens"),
    Clash("request.deprecated", CHAT | RESPONSES, "/user"),
    Clash(
        "request.background-stream-window",
        RESPONSES,
        "/background_options/completion_window",
        _waits_for_hours,
    ),
    Clash(
        "request.previous-and-conversation",
        RESPONSES,
        "/previous_response_id",
        _present("conversation"),
    ),
)

# -- messages -----------------------------------------------------------------------------------------

_INSTRUCTING = frozenset({"developer", "system"})
_ANSWERING = frozenset({"assistant"})
_ASKING = frozenset({"user"})
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The messages of one API: roles, and who may send which part.

    ``parts`` has the documented parts and, sent by nobody, those of the other API. A part that is not in
    it is a vendor's.
    """

    roles: frozenset[str]
    parts: Mapping[str, frozenset[str]]
    texts: frozenset[str]
    """The parts whose ``text`` is a string."""
    image: str
    """The part that shows an image, in ``image_url``."""


_WRITING = _INSTRUCTING | _ASKING
CHAT_MESSAGES: Final = MessageForm(
    roles=_WRITING | _ANSWERING | {"tool", "function"},
    parts={
        "text": _WRITING | _ANSWERING | {"tool"},
        "image_url": _ASKING,
        "input_audio": _ASKING,
        "file": _ASKING,
        "refusal": _ANSWERING,
        **dict.fromkeys(("input_text", "input_image", "input_file", "output_text"), _NOBODY),
    },
    texts=frozenset({"text"}),
    image="image_url",
)
RESPONSES_MESSAGES: Final = MessageForm(
    roles=_WRITING | _ANSWERING,
    parts={
        "input_text": _WRITING,
        "input_image": _WRITING,
        "input_file": _WRITING,
        "output_text": _ANSWERING,
        "refusal": _ANSWERING,
        **dict.fromkeys(("text", "image_url", "file"), _NOBODY),
    },
    texts=frozenset({"input_text", "output_text"}),
    image="input_image",
)
CONTENT_REQUIRED: Final = frozenset({"developer", "system", "user", "tool"})
"""Chat roles whose message must have content; an assistant's may hold calls instead."""

# -- tools --------------------------------------------------------------------------------------------

TOOL_MEMBERS: Final = ("function", "custom")
"""Tool types of which chat puts the description into a member of that name, and Responses doesn't."""
FOREIGN_CHOICES: Final = frozenset({"auto", "any", "none", "tool"})
"""Types of a ``tool_choice`` object in Anthropic's API; here the first three are plain strings."""
INHERITED: Final = ("prompt", "previous_response_id", "conversation")
"""Members through which a Responses request may have tools that are not in it."""
