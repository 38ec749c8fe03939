"""What each broken rule takes from its detector, and which detector a rule belongs to.

What belongs here: the tables, one a detector, and the way a finding finds its table. What doesn't: adding
up (scoring.py). docs/probe.md shows the same tables; a test holds the two together.

A rule's cost is the one in its detector's table; else the deduction in its own declaration; else what its
detector takes for its severity. Info costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from teeline.validators import detectors as d
from teeline.validators.detectors.model import Cost, Expect, Probe, ProtocolFamily, once
from teeline.validators.model import Rule, Severity

ALL: Final = 100
FREE: Final = once(0)

_NO_DOCUMENT: Final = {
    rule: once(ALL)
    for rule in (
        *("http.body-empty", "http.html-200", "http.json-invalid", "http.json-trailing"),
        *("http.utf8-invalid", "http.encoding-mismatch", "http.truncated", "http.redirect"),
    )
}
"""What makes an answer worth nothing on every endpoint: no client can read it."""

_NO_ANSWER: Final = {
    rule: once(ALL)
    for rule in (
        "probe.no-answer",
        "probe.request-failed",
        "probe.error-answered",
        "probe.answer-unusable",
    )
}

_NO_STREAM: Final = _NO_DOCUMENT | {
    rule: once(ALL)
    for rule in (
        *("cross.stream-answered-with-json", "sse.no-event-stream", "sse.separator-missing"),
        *("sse.utf8-invalid", "sse.field-name-malformed"),
    )
}


@dataclass(frozen=True, slots=True)
class CostTable:
    """One detector's costs: for severities in general, and for single rules."""

    fail: int
    warn: int
    rules: Mapping[str, Cost] = field(default_factory=dict)


COSTS: Final[Mapping[str, CostTable]] = {
    d.MODELS: CostTable(
        fail=10,
        warn=5,
        rules={
            **_NO_ANSWER,
            **_NO_DOCUMENT,
            "models.body-not-object": once(ALL),
            "models.error-in-200": once(ALL),
            "models.data-not-array": once(ALL),
            "models.data-null": once(ALL),
            "models.object-wrong": once(15),
            "models.item-object-wrong": once(15),
            "models.requested-model-unlisted": once(10),
        },
    ),
    d.BASIC: CostTable(
        fail=ALL,
        warn=0,
        rules={**_NO_ANSWER, "probe.text-missing": once(ALL), "probe.pong-missing": once(ALL)},
    ),
    d.RESPONSES: CostTable(
        fail=10,
        warn=5,
        rules={
            **_NO_ANSWER,
            **_NO_DOCUMENT,
            "cross.json-answered-with-stream": once(ALL),
            "responses.body-not-object": once(ALL),
            "responses.chat-shape": once(ALL),
            "responses.anthropic-shape": once(ALL),
            "responses.error-in-200": once(ALL),
            "responses.item-field-missing": Cost(10, 50),
            "responses.item-type-missing": Cost(10, 50),
        },
    ),
    d.RESPONSES_STREAM: CostTable(
        fail=10,
        warn=5,
        rules={
            **_NO_ANSWER,
            **_NO_STREAM,
            "sse.data-invalid-json": Cost(10, 30),
            "sse.several-json-values": Cost(10, 30),
            "respstream.event-not-object": Cost(10, 30),
            "respstream.chat-chunks": once(ALL),
            "respstream.created-not-first": once(20),
            "respstream.terminal-missing": once(20),
            "respstream.no-text": once(20),
            "respstream.item-added-missing": once(20),
            "respstream.item-done-missing": once(20),
            "respstream.text-mismatch": once(25),
            "respstream.args-mismatch": once(25),
            "respstream.refusal-mismatch": once(25),
            "respstream.final-output-differs": once(25),
            "respstream.final-output-empty": once(25),
            "respstream.final-output-missing": once(25),
            "respstream.type-missing": once(20),
        },
    ),
    d.CHAT: CostTable(
        fail=15,
        warn=5,
        rules={
            **_NO_ANSWER,
            **_NO_DOCUMENT,
            "cross.json-answered-with-stream": once(ALL),
            "chat.body-not-object": once(ALL),
            "chat.responses-shape": once(ALL),
            "chat.anthropic-shape": once(ALL),
            "chat.gemini-shape": once(ALL),
            "chat.legacy-completion-shape": once(ALL),
            "chat.wrapped-body": once(ALL),
            "chat.error-in-200": once(ALL),
            "chat.choices-not-array": once(30),
            "chat.choices-empty": once(30),
            "chat.choice-not-object": once(30),
            "chat.message-missing": once(30),
            "chat.delta-instead-of-message": once(30),
        },
    ),
    d.CHAT_STREAM: CostTable(
        fail=15,
        warn=5,
        rules={
            **_NO_ANSWER,
            **_NO_STREAM,
            "sse.data-invalid-json": Cost(10, 30),
            "sse.several-json-values": Cost(10, 30),
            "chatstream.chunk-not-object": Cost(10, 30),
            "chatstream.no-chunks": once(ALL),
            "chatstream.responses-events": once(ALL),
            "chatstream.anthropic-events": once(ALL),
            "chatstream.full-completion-as-chunk": once(ALL),
            "chatstream.choices-not-array": once(30),
            "chatstream.delta-missing": once(30),
            "chatstream.message-instead-of-delta": once(30),
            "chatstream.no-content": once(20),
            "chatstream.finish-missing": once(20),
            "chatstream.finish-unknown": once(20),
            "chatstream.finish-foreign": once(20),
            "chatstream.content-cumulative": once(25),
            "chatstream.usage-missing": once(10),
            "chatstream.done-missing": once(15),
        },
    ),
    d.TOOLS: CostTable(
        fail=25,
        warn=10,
        rules={
            **_NO_ANSWER,
            "probe.tool-not-called": once(40),
            "probe.tools-refused": once(40),
            "tools.args-strict-schema-mismatch": once(20),
            "tools.args-schema-mismatch": once(10),
            "tools.args-invalid-json": once(30),
            "cross.tools-unrequested": once(25),
            # Consequences of a tool that was not called, which has been paid for.
            "cross.tool-choice-named": FREE,
            "cross.tool-choice-required": FREE,
        },
    ),
    d.STRUCTURED: CostTable(
        fail=50,
        warn=50,
        rules={
            **_NO_ANSWER,
            "probe.format-refused": once(50),
            "structured.invalid-json": once(ALL),
            "structured.fenced": once(75),
            "structured.schema-violation": once(50),
            "structured.extra-properties": once(25),
        },
    ),
    d.USAGE: CostTable(
        fail=25,
        warn=10,
        rules={
            **_NO_ANSWER,
            "usage.missing": once(50),
            "usage.responses-missing": once(50),
            "usage.foreign-keys": once(50),
            "usage.not-object": once(50),
        },
    ),
    d.EXTENDED: CostTable(fail=0, warn=0),
}

SEVERITIES: Final[Mapping[str, Severity]] = {
    "tools.args-invalid-json": Severity.FAIL,
    "structured.invalid-json": Severity.FAIL,
    "structured.fenced": Severity.FAIL,
    "structured.schema-violation": Severity.FAIL,
    "structured.extra-properties": Severity.FAIL,
}
"""Severities that are higher here than in live traffic.

There a model may be to blame. The check's own tool and format are strict, which promises that the text is
generated within the schema: what breaks it was not passed on. Arguments that are JSON but not of the schema
keep their severity: they say something about the capability alone.
"""


def cost(detector: str, rule: Rule, severity: Severity) -> Cost:
    """What this rule takes, broken at this severity."""
    table = COSTS[detector]
    if severity is Severity.INFO:
        return FREE
    listed = table.rules.get(rule.id)
    if listed is not None:
        return listed
    if rule.source.deduction and detector != d.EXTENDED:
        return once(rule.source.deduction)
    return once(table.fail if severity is Severity.FAIL else table.warn)


_TOPICS: Final = {
    "models": d.MODELS,
    "tools": d.TOOLS,
    "structured": d.STRUCTURED,
    "usage": d.USAGE,
    "embeddings": d.EXTENDED,
    "timing": d.EXTENDED,
}
_ABOUT_CALLS: Final = frozenset(
    (
        *("cross.tool-name-unknown", "cross.tools-unrequested", "cross.function-call-for-tools"),
        *("cross.tool-choice-none", "cross.tool-choice-required", "cross.tool-choice-named"),
        *(
            "cross.parallel-tool-calls",
            "chat.finish-without-function-call",
            "chat.function-call-shape",
        ),
    )
)
_PROTOCOLS: Final = {
    (ProtocolFamily.RESPONSES, False): d.RESPONSES,
    (ProtocolFamily.RESPONSES, True): d.RESPONSES_STREAM,
    (ProtocolFamily.CHAT_COMPLETIONS, False): d.CHAT,
    (ProtocolFamily.CHAT_COMPLETIONS, True): d.CHAT_STREAM,
}


def detector_of(rule: Rule, probe: Probe) -> str:
    """The detector that a finding counts for: a rule has one, whichever request showed it.

    Else one fault would be paid for once a request.
    """
    if rule.family == "probe":
        return probe.detector
    if probe.expect is Expect.REFUSAL:
        return d.EXTENDED  # an error object was asked for, and no detector asks for one
    if rule.id in _ABOUT_CALLS or rule.id.partition(".")[2].startswith("tool-"):
        return d.TOOLS
    if rule.family == "cross" and probe.expect is Expect.OPTION:
        return d.EXTENDED  # an option that is passed over breaks no object
    topic = _TOPICS.get(rule.family)
    return topic if topic is not None else envelope_of(probe)


def envelope_of(probe: Probe) -> str:
    """The detector of what surrounds every answer to this probe: its object or its stream."""
    if probe.family is None:
        return probe.detector
    return _PROTOCOLS[probe.family, probe.stream]


def unusable(rule: Rule, severity: Severity, probe: Probe) -> bool:
    """Whether an answer that breaks this rule is none at all, so that nothing else can be judged."""
    return (
        rule.family != "probe"
        and severity is Severity.FAIL
        and cost(envelope_of(probe), rule, severity).most >= ALL
    )
