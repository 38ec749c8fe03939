"""What is probably the matter with a whole exchange, in a sentence, and what to do about it.

What belongs here: causes that many findings have in common (a wrong base URL, another API's answer), and
how each is told by the rules that it breaks. What doesn't: the rules' own words (validators/rules).

A row is a topic, the rules of which one must have been broken, a test of the exchange, and the sentence.
Of each topic the first row that fits speaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from teeline.validators.model import Exchange

_VERSIONED = re.compile(r"/(v\d+[a-z0-9]*|openai)(/|\Z)", re.I)
_TWICE = re.compile(r"/v1/(.*/)?v1(/|\Z)")
_OPERATION = r"(chat/completions|completions|responses|embeddings|models)"
_BEHIND_OPERATION = re.compile(rf"/{_OPERATION}/(v1/)?{_OPERATION}\Z")


class Row(NamedTuple):
    """One cause. ``rules``: any of these; ``fits``: whether the exchange looks like it."""

    topic: str
    rules: frozenset[str]
    fits: Callable[[Exchange], bool]
    text: str


def hints(exchange: Exchange) -> Sequence[str]:
    """The sentences for a closed exchange, in the order of the table; none for most."""
    broken = {violation.rule.id for violation in exchange.violations}
    spoken: dict[str, str] = {}
    for row in TABLE:
        if row.topic not in spoken and broken & row.rules and row.fits(exchange):
            spoken[row.topic] = row.text
    return list(spoken.values())


def _always(_: Exchange) -> bool:
    return True


def _is_not_found(exchange: Exchange) -> bool:
    return exchange.status in (404, 405)


def _has_v1_twice(exchange: Exchange) -> bool:
    return bool(_TWICE.search(exchange.path))


def _is_behind_operation(exchange: Exchange) -> bool:
    return bool(_BEHIND_OPERATION.search(exchange.path))


def _lacks_v1(exchange: Exchange) -> bool:
    found = exchange.status == 200 or _is_not_found(exchange)
    return found and not _VERSIONED.search(exchange.path)


def _is_edge(exchange: Exchange) -> bool:
    """A page, by a status that gateways and their CDNs answer with."""
    kinds = [
        value.lower() for name, value in exchange.marks.headers if name.lower() == "content-type"
    ]
    html = any(kind.startswith("text/html") for kind in kinds)
    status = exchange.status or 0
    return 520 <= status <= 530 or (html and status in (403, 429, 502, 503, 504))


def _is_ollama(exchange: Exchange) -> bool:
    members = exchange.marks.members
    return "done" in members and bool(members & {"message", "response"})


def _changes_response_id(exchange: Exchange) -> bool:
    return any(v.rule.id == "respstream.response-id-changes" for v in exchange.violations)


_NO_API: Final = frozenset(
    {
        "http.html-200",
        "error.not-json",
        "error.no-envelope",
        "error.string",
        "error.top-level-message",
    }
)
"""What comes back from an address that is none of the API's."""

TABLE: Final = (
    Row(
        "address",
        _NO_API,
        _has_v1_twice,
        "The path holds /v1 twice: the base URL ends in /v1, and so does what is put before it. "
        "Take one of them away.",
    ),
    Row(
        "address",
        _NO_API,
        _is_behind_operation,
        "The path holds an operation twice: the base URL probably ends in one, such as "
        "/chat/completions. End it at /v1.",
    ),
    Row(
        "address",
        _NO_API,
        _lacks_v1,
        "The path has no /v1: the base URL probably lacks it. Write https://HOST/v1.",
    ),
    Row(
        "address",
        frozenset({"http.html-200"}),
        _always,
        "A web page came back: the base URL probably names a site or a console and not the API, or a "
        "login stands before it. Compare it with the relay's documentation.",
    ),
    Row(
        "address",
        frozenset({"http.redirect"}),
        _always,
        "The relay sends the client elsewhere: the base URL probably has http for https, another host, "
        "or a slash too many. Use the address that it redirects to.",
    ),
    Row(
        "edge",
        frozenset({"error.not-json"}),
        _is_edge,
        "The page is probably one of a CDN or a reverse proxy in front of the relay (the edge), not one "
        "of the relay: look there first.",
    ),
    Row(
        "address",
        _NO_API,
        _is_not_found,
        "The relay has nothing at this path: it probably doesn't serve this operation, or serves it "
        "under another base URL.",
    ),
    Row(
        "shape",
        frozenset({"chat.responses-shape", "chatstream.responses-events"}),
        _always,
        "This is an answer of the Responses API: the relay probably passes chat requests on to an "
        "upstream's /responses and doesn't translate back. Use a channel of type chat, or call "
        "/v1/responses.",
    ),
    Row(
        "shape",
        frozenset(
            {
                "chat.anthropic-shape",
                "chatstream.anthropic-events",
                "responses.anthropic-shape",
                "error.anthropic-shape",
            }
        ),
        _always,
        "This is an answer of Anthropic's Messages API: the relay probably passes it on as it came. "
        "Set the channel to OpenAI's format, or call /v1/messages with a client for it.",
    ),
    Row(
        "shape",
        frozenset({"responses.chat-shape", "respstream.chat-chunks"}),
        _always,
        "This is an answer of Chat Completions: the relay probably passes /v1/responses on to an "
        "upstream's chat and doesn't translate back. Use a channel with the Responses API, or call "
        "/v1/chat/completions.",
    ),
    Row(
        "shape",
        frozenset({"completions.chat-shape"}),
        _always,
        "This is an answer of Chat Completions: the relay probably sends legacy completions to a chat "
        "endpoint. Call /v1/chat/completions.",
    ),
    Row(
        "shape",
        frozenset({"chat.gemini-shape"}),
        _always,
        "This is an answer of the native Gemini API: the relay probably passes it on as it came. "
        "Google's own OpenAI-compatible base URL ends in /v1beta/openai.",
    ),
    Row(
        "shape",
        frozenset({"chat.choices-not-array", "chatstream.choices-not-array"}),
        _is_ollama,
        "This is an answer of Ollama's native API: something probably calls /api/chat. Ollama's "
        "OpenAI-compatible base URL is http://HOST:11434/v1.",
    ),
    Row(
        "shape",
        frozenset({"sse.no-event-stream"}),
        _always,
        "The body is no event stream. If it is lines of JSON, it is probably of Ollama's native API, "
        "whose OpenAI-compatible base URL is http://HOST:11434/v1.",
    ),
    Row(
        "shape",
        frozenset({"chat.legacy-completion-shape"}),
        _always,
        "This is an answer of the legacy completions API: the relay probably sends chat requests to "
        "/completions. Give the model a chat endpoint.",
    ),
    Row(
        "backend",
        frozenset({"respstream.final-output-empty"}),
        _always,
        "ChatGPT's Codex backend ends its streams so: it probably stands behind this relay, which must "
        "put the streamed items into the terminal response.",
    ),
    Row(
        "backend",
        frozenset({"respstream.item-id-mismatch", "respstream.item-id-changes"}),
        _changes_response_id,
        "All ids change from event to event, as GitHub Copilot's backend has it: it probably stands "
        "behind this relay, which must give each item one id.",
    ),
    Row(
        "shape",
        frozenset({"chat.wrapped-body"}),
        _always,
        "The answer is wrapped into an envelope of the relay's own: the base URL probably names its "
        "console's API. Look for the OpenAI-compatible one in its documentation.",
    ),
)
