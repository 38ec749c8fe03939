"""The families of rules as one table: how many rules each has, and what they are about.

What belongs here: a line for each family and the table's layout. What doesn't: the rules themselves
(validators/rules), their pages (markdown.py), writing files (proxy/docs.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from teeline.validators.model import Rule, Severity

FAMILIES: Final = {
    "http": "statuses, content types, lengths, codings; a page instead of an answer, a body cut off",
    "sse": "event streams: lines, separators, encodings, what a parser can't read",
    "error": "errors without an envelope, with a wrong one, or inside a 200",
    "chat": "chat completions: members, types, finish reasons, answers of other APIs",
    "chatstream": "chunks: `[DONE]`, finish reasons, roles, indexes, repeated or merged texts",
    "completions": "legacy completions, streamed or not",
    "responses": "response objects: items, parts, annotations, what is echoed of the request",
    "respstream": "events of the Responses API: order, sequence numbers, texts that don't add up",
    "tools": "tool calls: ids, names, arguments that are no JSON or not what the schema says",
    "structured": "answers that were asked to be JSON and aren't, or don't match the schema",
    "usage": "token counts that are missing, contradict each other or don't add up",
    "cross": "answers that aren't to what was asked: other model, choices, format, stream or not",
    "embeddings": "vectors: encoding, order, dimensions, numbers",
    "models": "model lists and single models",
    "request": "the client's side: what a request gets wrong; never counts against the relay",
    "timing": "observations: slow first bytes, silences, streams held back",
    "nnrp": "NNRP: packets, sessions, operations and the OpenAI bodies in them",
}
"""What each family is about, in the order in which they are shown."""


def family_table(rules: Mapping[str, Rule], pages: str) -> str:
    """A Markdown table; ``pages`` is the path of the rules' pages. KeyError: a family has no line."""
    counts = Counter(rule.family for rule in rules.values())
    fails = Counter(rule.family for rule in rules.values() if rule.severity is Severity.FAIL)
    order = {family: place for place, family in enumerate(FAMILIES)}
    lines = ["| family | rules | fail | what breaks |", "|---|---|---|---|"]
    for family in sorted(counts, key=order.__getitem__):
        name = f"[{family}]({pages}/{family}.md)"
        lines.append(f"| {name} | {counts[family]} | {fails[family]} | {FAMILIES[family]} |")
    lines.append(f"| | {counts.total()} | {fails.total()} | |")
    return "\n".join(lines)
