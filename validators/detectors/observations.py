"""What a probe sees in an answer that is no breach of the protocol: whether the question was answered.

What belongs here: rules ``probe.*``, which exist for the relay check alone since only a question of our own
says what an answer should hold, and the functions that find their breaches. What doesn't: everything that
live traffic is held against, too (rules/, checks/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from teeline.validators.detectors.model import Expect, Probe, ProtocolFamily
from teeline.validators.model import Ended, Rule, RuleSource, Severity

FEWEST_EVENTS: Final = 8
"""Events that a stream must have before it says anything about how they came."""
_WAITED: Final = 1.0
"""Seconds after which a stream that came in one piece was held back rather than fast."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as far as a question is concerned.

    ``document`` is the whole JSON value, None for streams and what is no JSON. ``usable`` is false where
    what came is no answer of the protocol at all. ``error`` is the error that a 2xx answer held.
    """

    status: int | None
    document: Any = None
    usable: bool = True
    error: str | None = None
    ended: Ended = Ended.COMPLETE
    events: int = 0
    reads: int = 0
    seconds: float = 0.0


class Observation(NamedTuple):
    """A ``probe.*`` rule that an answer breaks. ``detail`` is our own text."""

    rule: Rule
    detail: str = ""


def _rule(name: str, severity: Severity, summary: str, why: str, fix: str) -> Rule:
    source = RuleSource("The relay check's own question")
    return Rule(f"probe.{name}", severity, summary, why, fix, source, bad={}, good={})


_ALL: Final = (
    _rule(
        "no-answer",
        Severity.FAIL,
        "No whole answer came back.",
        "The client waits until its timeout, or gets a connection error.",
        "Keep the connection until the answer is whole; answer failures with a status of their own.",
    ),
    _rule(
        "request-failed",
        Severity.FAIL,
        "A request that the API takes was not answered with 2xx.",
        "Clients raise an error where the official API answers.",
        "Serve this path and these members, as the answer's own words say what is missing.",
    ),
    _rule(
        "error-answered",
        Severity.FAIL,
        "The answer is an error inside a 2xx.",
        "The client has paid for a stream that holds no answer.",
        "Answer with an error status where nothing was generated.",
    ),
    _rule(
        "answer-unusable",
        Severity.FAIL,
        "What came is no answer of this protocol.",
        "The SDK gives an object without members, or raises a JSON error.",
        "Translate answers of the model server into the protocol of the path.",
    ),
    _rule(
        "text-missing",
        Severity.FAIL,
        "A plain question was answered without text.",
        "The client shows an empty answer.",
        "Pass the generated text on where the protocol puts it.",
    ),
    _rule(
        "pong-missing",
        Severity.WARN,
        "The answer to `Reply with exactly: pong` has no pong.",
        "The model may not follow plain instructions, or the question did not reach it.",
        "Check that the messages reach the model unchanged; small models may be excused.",
    ),
    _rule(
        "tool-not-called",
        Severity.WARN,
        "No call of the tool, neither freely nor when it was named.",
        "Agents on this model never act.",
        "Enable tool calls for this model, with its template.",
    ),
    _rule(
        "tools-refused",
        Severity.WARN,
        "A request with tools was refused.",
        "Agents get an error with each request.",
        "Enable tool calls for this model.",
    ),
    _rule(
        "format-refused",
        Severity.WARN,
        "A request for JSON of a schema was refused.",
        "`parse()` and structured output of frameworks raise an error.",
        "Pass the schema on to a model server that can keep to one.",
    ),
    _rule(
        "option-refused",
        Severity.INFO,
        "An optional feature was refused with an error status.",
        "Clients that use it get a clear error.",
        "None is needed; support it where the model can.",
    ),
    _rule(
        "bad-key-accepted",
        Severity.WARN,
        "A request with a wrong key was answered.",
        "Anybody who reaches the server spends its owner's tokens.",
        "Check the key of each request and answer 401 with an error of code `invalid_api_key`.",
    ),
    _rule(
        "bad-model-accepted",
        Severity.WARN,
        "A request for a model that does not exist was answered.",
        "A misspelled model goes unnoticed; the client gets answers of another one.",
        "Answer 404 with an error of code `model_not_found`.",
    ),
    _rule(
        "bad-json-accepted",
        Severity.WARN,
        "A request body that is no JSON was answered with 2xx.",
        "Broken requests go unnoticed, and what they meant is guessed.",
        "Answer 400 with an error of type `invalid_request_error`.",
    ),
    _rule(
        "bad-request-5xx",
        Severity.WARN,
        "The client's mistake was answered with a server error.",
        "SDKs repeat the request after 5xx, so that each mistake is sent three times.",
        "Answer 400, 401 or 404 with an error of type `invalid_request_error`.",
    ),
    _rule(
        "one-burst",
        Severity.INFO,
        "The events of a stream came all at once, after a wait.",
        "The user sees nothing until the end, as without streaming.",
        "Turn response buffering off in the relay and in the proxies before it.",
    ),
)

PROBE_RULES: Final[Mapping[str, Rule]] = {rule.id: rule for rule in _ALL}
"""The rules of the relay check's own, by id."""


def observe(probe: Probe, answer: Answer) -> Iterator[Observation]:
    """What is to be said of an answer to this probe."""
    if answer.status is None or answer.ended is not Ended.COMPLETE:
        yield _seen("no-answer", answer.ended.value)
    elif probe.expect is Expect.REFUSAL:
        yield from _refused(probe, answer.status)
    elif not 200 <= answer.status < 300:
        yield from _failed(probe, answer.status)
    elif not answer.usable:
        yield _seen("answer-unusable")
    elif answer.error is not None:
        yield _seen("error-answered")
    else:
        yield from _answered(probe, answer)


def _seen(name: str, detail: str = "") -> Observation:
    return Observation(PROBE_RULES[f"probe.{name}"], detail)


def _refused(probe: Probe, status: int) -> Iterator[Observation]:
    detail = f"status {status}"
    if 200 <= status < 300:
        kind = "key" if probe.bad_key else "model" if probe.bad_model else "json"
        yield _seen(f"bad-{kind}-accepted", detail)
    elif status >= 500:
        yield _seen("bad-request-5xx", detail)


_REFUSALS: Final = {
    Expect.CALL: "tools-refused",
    Expect.JSON: "format-refused",
    Expect.OPTION: "option-refused",
}


def _failed(probe: Probe, status: int) -> Iterator[Observation]:
    """A model may lack a feature, and 4xx is the way to say so; 5xx is not."""
    name = _REFUSALS.get(probe.expect) if 400 <= status < 500 and status != 429 else None
    yield _seen(name or "request-failed", f"status {status}")


def _answered(probe: Probe, answer: Answer) -> Iterator[Observation]:
    if probe.expect is Expect.PONG and probe.family is not None:
        text = text_of(probe.family, answer.document)
        if not text.strip():
            yield _seen("text-missing")
        elif "pong" not in text.lower():
            yield _seen("pong-missing", f"{len(text)} characters, no pong")
    elif probe.expect is Expect.CALL and not has_call(answer.document):
        yield _seen("tool-not-called")
    elif probe.stream and _came_at_once(answer):
        detail = f"{answer.events} events in {answer.reads} reads after {answer.seconds:.1f} s"
        yield _seen("one-burst", detail)


def _came_at_once(answer: Answer) -> bool:
    return answer.events >= FEWEST_EVENTS and answer.reads <= 1 and answer.seconds >= _WAITED


# -- where the protocols put things ---------------------------------------------------------------------


def text_of(family: ProtocolFamily, document: Any) -> str:
    """All text of an answer's document; empty where it has none."""
    found = (
        _response_texts(document) if family is ProtocolFamily.RESPONSES else _chat_texts(document)
    )
    return "".join(text for text in found if isinstance(text, str))


def _objects(value: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects in an array that is a member of an object; none where anything is otherwise."""
    found = value.get(name) if isinstance(value, dict) else None
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _messages(document: Any) -> list[Mapping[str, Any]]:
    messages = (choice.get("message") for choice in _objects(document, "choices"))
    return [message for message in messages if isinstance(message, dict)]


def _chat_texts(document: Any) -> Iterator[Any]:
    for message in _messages(document):
        yield message.get("content")


def _response_texts(document: Any) -> Iterator[Any]:
    for item in _objects(document, "output"):
        for part in _objects(item, "content"):
            yield part.get("text")


def has_call(document: Any) -> bool:
    """Whether the document of either protocol holds a call of a function, of whatever shape."""
    if any(item.get("type") == "function_call" for item in _objects(document, "output")):
        return True
    return any(m.get("tool_calls") or m.get("function_call") for m in _messages(document))


def is_event_of(family: ProtocolFamily, document: Any) -> bool:
    """Whether an event's document is one of this protocol's."""
    if not isinstance(document, dict):
        return False
    kind = document.get("type")
    if family is ProtocolFamily.RESPONSES:
        return isinstance(kind, str) and kind.startswith("response.")
    return "choices" in document
