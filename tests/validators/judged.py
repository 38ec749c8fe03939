"""Every member of an answer with the rules that its breaches carry: tables, and what checks judge themselves.

What belongs here: the field tables of validators/fields put together for one object, and rows for members
that checks judge without a table, so that whoever needs to know an object can (the oracle of the official
types, values and faults made from tables). What doesn't: order, and relations between members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from teeline.validators.fields.embeddings import EMBEDDING, EMBEDDINGS
from teeline.validators.fields.items import CALLS, ITEMS
from teeline.validators.fields.models import MODEL_LIST
from teeline.validators.fields.parts import ANNOTATIONS, MESSAGE_PARTS
from teeline.validators.fields.respevents import (
    DELTA_EVENTS,
    EVENTS,
    LOGPROBS_EVENTS,
    OBJECT_DELTAS,
    Act,
)
from teeline.validators.fields.responses import INCOMPLETE_REASONS
from teeline.validators.fields.table import (
    ARRAY,
    INTEGER,
    OBJECT,
    STRING,
    Field,
    Table,
    optional,
    required,
)
from teeline.validators.fields.usage import (
    COMPLETION_COUNTERS,
    EMBEDDINGS_KEYS,
    PROMPT_COUNTERS,
    UsageTable,
)
from teeline.validators.fields.words import TOOL_TYPES

Fields = tuple[Field, ...]


def typed(words: Iterable[str], rule: str, outside: str = "") -> Field:
    """The member ``type`` with one word, or with those of an enum; ``outside``: the rule of others."""
    return required("type", STRING, rule, values=frozenset(words), outside=outside)


def _with(table: Table, *judged: Field) -> Fields:
    """The fields of a table, some of them as checks judge them."""
    names = {field.name for field in judged}
    return (*(field for field in table.fields if field.name not in names), *judged)


# -- embeddings and models: checks/embeddings.py, checks/models.py ---------------------------------

_EMPTY = "embeddings.data-empty"
EMBEDDINGS_LIST: Fields = _with(
    EMBEDDINGS,
    Field("data", ARRAY, absent=_EMPTY, wrong=_EMPTY),
    Field("usage", OBJECT, absent="embeddings.usage-missing", wrong="usage.not-object"),
)
ONE_EMBEDDING: Fields = _with(
    EMBEDDING, required("embedding", ARRAY | STRING, "embeddings.vector-type")
)
MODELS: Fields = _with(
    MODEL_LIST, Field("data", ARRAY, absent="models.data-not-array", wrong="models.data-not-array")
)


# -- calls of chat: checks/tools.py, checks/toolstream.py ------------------------------------------

FUNCTION: Fields = (
    required("name", STRING, "tools.name-missing"),
    required("arguments", STRING, "tools.args-type"),
)
DELTA_CALL: Fields = (
    # the first entry of a call owes more than the others
    required("index", INTEGER, "chatstream.tool-index-type"),
    optional("id", STRING, "tools.id-missing"),
    optional("type", STRING, "tools.type-unknown", values=TOOL_TYPES),
    optional("function", OBJECT, "chatstream.tool-function-missing"),
)
DELTA_FUNCTION: Fields = (
    optional("name", STRING, "tools.name-missing"),
    optional("arguments", STRING, "chatstream.tool-args-type"),
)


def chat_call(kind: str) -> Fields:
    return (
        required("id", STRING, "tools.id-missing"),
        typed({kind} & TOOL_TYPES, "tools.type-missing", "tools.type-unknown"),
        required(kind, OBJECT, "tools.name-missing"),
    )


# -- usage: checks/usage.py ------------------------------------------------------------------------


def _count(name: str, rule: str, wrong: str) -> Field:
    return Field(name, INTEGER, absent=rule, wrong=wrong)


def usage(table: UsageTable) -> Fields:
    """The counters, and the two objects with details."""
    details = (table.prompt_details, table.completion_details)
    absent = "usage.responses-details-missing" if table.counters_required else ""
    return (
        *(_count(name, "usage.keys-missing", "usage.not-integer") for name in table.keys),
        *(Field(name, OBJECT, absent=absent, wrong="usage.details-type") for name in details),
    )


EMBEDDINGS_USAGE: Fields = tuple(
    _count(name, "usage.keys-missing", "usage.not-integer") for name in EMBEDDINGS_KEYS
)
CHAT_PROMPT_DETAILS: Fields = tuple(_count(n, "", "usage.details-type") for n in PROMPT_COUNTERS)
CHAT_COMPLETION_DETAILS: Fields = tuple(
    _count(n, "", "usage.details-type") for n in COMPLETION_COUNTERS
)
_NEEDED = "usage.responses-counter-missing"
RESPONSES_INPUT_DETAILS: Fields = (
    _count("cached_tokens", _NEEDED, "usage.details-type"),
    Field(
        "cache_write_tokens",
        INTEGER,
        absent="usage.cache-write-missing",
        wrong="usage.details-type",
        nullable=True,
    ),
)
RESPONSES_OUTPUT_DETAILS: Fields = (_count("reasoning_tokens", _NEEDED, "usage.details-type"),)


# -- items, parts and annotations: checks/items.py -------------------------------------------------


def item(kind: str, *, final: bool = True) -> Fields:
    """An item of a known type; before it is over it owes less."""
    known = ITEMS[kind]
    payload = known.payload.fields if final else ()
    calls = _call(kind) if final and kind in CALLS else ()
    kind_row = typed({kind}, "responses.item-type-missing", "responses.item-type-unknown")
    return (*known.state.fields, *payload, *calls, kind_row)


def _call(kind: str) -> Fields:
    custom = kind == "custom_tool_call"
    return (
        required("call_id", STRING, "tools.call-id-missing"),
        required("name", STRING, "tools.custom-shape" if custom else "tools.name-missing"),
        required(CALLS[kind], STRING, "tools.custom-shape" if custom else "tools.args-type"),
    )


def part(kind: str) -> Fields:
    rules = ("responses.content-part-type", "responses.content-part-unknown")
    return (*MESSAGE_PARTS[kind].fields, typed({kind}, *rules))


def annotation(kind: str) -> Fields:
    known = ANNOTATIONS.get(kind)
    return (*(known.fields if known else ()), typed({kind}, "responses.annotation-shape"))


INCOMPLETE_DETAILS: Fields = (
    optional(
        "reason",
        STRING,
        "responses.incomplete-reason-unknown",
        values=INCOMPLETE_REASONS,
        outside="responses.incomplete-reason-unknown",
    ),
)


# -- events: checks/respstream.py ------------------------------------------------------------------


def event(kind: str) -> Fields:
    """An event of a known type."""
    return (*EVENTS[kind].fields, *_beside(kind))


def _beside(kind: str) -> Iterator[Field]:
    """What the rows of events leave out."""
    yield typed({kind}, "respstream.type-missing", "respstream.type-unknown")
    number = "respstream.seq-missing"
    yield Field("sequence_number", INTEGER, absent=number, wrong="respstream.seq-type")
    if kind in DELTA_EVENTS:
        wanted = OBJECT if kind in OBJECT_DELTAS else STRING
        yield required("delta", wanted, "respstream.delta-type")
    if kind in LOGPROBS_EVENTS:
        yield Field("logprobs", ARRAY, absent="respstream.logprobs-missing")
    if kind == "response.function_call_arguments.done":
        yield Field("name", STRING, absent="respstream.args-done-name-missing")
    if EVENTS[kind].act is Act.LIFECYCLE:
        yield required("response", OBJECT, "respstream.response-missing")
    if EVENTS[kind].act in (Act.ITEM_ADDED, Act.ITEM_DONE):
        yield required("item", OBJECT, "respstream.item-null")


SKELETONS: Mapping[str, Fields] = {
    "message": (required("content", ARRAY, "respstream.item-skeleton-incomplete"),),
    "function_call": (required("arguments", STRING, "respstream.item-skeleton-incomplete"),),
}
"""What an added item holds already: accumulators append to it."""


ERROR_EVENT: Fields = (
    typed({"error"}, "respstream.error-malformed"),
    required("message", STRING, "respstream.error-malformed"),
    optional("code", STRING),
    optional("param", STRING),
)
