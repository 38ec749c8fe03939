"""What teeline says of each object of an answer: its field tables, beside the official type.

What belongs here: pairs of types and tables, and rows for the members that checks judge without a table.
What doesn't: comparing them (differences.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from openai.pagination import SyncPage
from openai.types import (
    Completion,
    CompletionChoice,
    CompletionUsage,
    CreateEmbeddingResponse,
    Embedding,
    completion_choice,
    completion_usage,
    create_embedding_response,
)
from openai.types import Model as ListedModel
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionAudio,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionTokenLogprob,
    chat_completion,
    chat_completion_chunk,
    chat_completion_message,
    chat_completion_message_custom_tool_call,
    chat_completion_message_function_tool_call,
    chat_completion_token_logprob,
)
from openai.types.responses import (
    Response,
    ResponseError,
    ResponseErrorEvent,
    ResponseOutputItem,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseStreamEvent,
    ResponseUsage,
    response,
    response_usage,
)

from teeline.validators.fields.chat import (
    CHOICE,
    CHUNK,
    CHUNK_CHOICE,
    COMPLETION,
    DELTA,
    DELTA_FUNCTION_CALL,
    FUNCTION_CALL,
    MESSAGE,
)
from teeline.validators.fields.completions import (
    COMPLETION_CHOICE,
    COMPLETION_CHUNK_CHOICE,
    TEXT_COMPLETION,
)
from teeline.validators.fields.embeddings import EMBEDDING, EMBEDDINGS
from teeline.validators.fields.items import CALLS, ITEMS
from teeline.validators.fields.models import LISTED_MODEL, MODEL_LIST, RETRIEVED_MODEL
from teeline.validators.fields.parts import ANNOTATIONS, MESSAGE_PARTS
from teeline.validators.fields.respevents import (
    DELTA_EVENTS,
    EVENTS,
    LOGPROBS_EVENTS,
    OBJECT_DELTAS,
    Act,
)
from teeline.validators.fields.responses import INCOMPLETE_REASONS, RESPONSE
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
from teeline.validators.fields.tools import CUSTOM_CALL
from teeline.validators.fields.usage import (
    CHAT_USAGE,
    COMPLETION_COUNTERS,
    EMBEDDINGS_KEYS,
    PROMPT_COUNTERS,
    RESPONSES_USAGE,
    UsageTable,
)
from teeline.validators.fields.words import TOOL_TYPES
from tests.oracle.official import Model, by_type

MODEL_PAGE = cast(Model, SyncPage[ListedModel])


class Pair(NamedTuple):
    """An official type, and the members that teeline knows of it."""

    official: Model
    fields: Mapping[str, Field]


def _pair(official: Model, *tables: Table | tuple[Field, ...]) -> Pair:
    known = [f for t in tables for f in (t.fields if isinstance(t, Table) else t)]
    return Pair(official, {field.name: field for field in known})


def _inner(table: Table, name: str) -> Table:
    """The table of an object member, or of the elements of an array member."""
    field = next(field for field in table.fields if field.name == name)
    found = field.items.table if field.items else field.table
    assert found is not None, name
    return found


def _type(words: Iterable[str], rule: str) -> Field:
    return required("type", STRING, rule, values=frozenset(words), outside=rule)


# -- members that checks judge without a table -----------------------------------------------------


def _call(kind: str) -> tuple[Field, ...]:
    """checks/tools.py, whole calls."""
    return (
        required("id", STRING, "tools.id-missing"),
        _type({kind} & TOOL_TYPES, "tools.type-unknown"),
        required(kind, OBJECT, "tools.name-missing"),
    )


_FUNCTION = (
    required("name", STRING, "tools.name-missing"),
    required("arguments", STRING, "tools.args-type"),
)
_DELTA_CALL = (
    # checks/toolstream.py: the first entry of a call owes more than the others
    required("index", INTEGER, "chatstream.tool-index-type"),
    optional("id", STRING, "tools.id-missing"),
    optional("type", STRING, "tools.type-unknown", values=TOOL_TYPES),
    optional("function", OBJECT, "chatstream.tool-function-missing"),
)
_DELTA_FUNCTION = (
    optional("name", STRING, "tools.name-missing"),
    optional("arguments", STRING, "chatstream.tool-args-type"),
)


def _counters(names: Iterable[str], needed: Iterable[str] = ()) -> tuple[Field, ...]:
    """checks/usage.py, details."""
    return tuple(
        required(name, INTEGER, "usage.responses-counter-missing")
        if name in needed
        else optional(name, INTEGER, "usage.details-type")
        for name in names
    )


def _usage(table: UsageTable) -> tuple[Field, ...]:
    """checks/usage.py."""
    details = (table.prompt_details, table.completion_details)
    rule = "usage.responses-details-missing" if table.counters_required else ""
    return (
        *(required(name, INTEGER, "usage.keys-missing") for name in table.keys),
        *(Field(name, OBJECT, absent=rule, wrong="usage.details-type") for name in details),
    )


def _responses_call(kind: str) -> tuple[Field, ...]:
    """checks/items.py, calls for the client."""
    rule = "tools.custom-shape" if kind == "custom_tool_call" else "tools.name-missing"
    return (
        required("call_id", STRING, "tools.call-id-missing"),
        required("name", STRING, rule),
        required(CALLS[kind], STRING, "tools.args-type"),
    )


def _event(kind: str) -> Iterator[Field]:
    """checks/respstream.py: what the rows of events leave out."""
    yield _type({kind}, "respstream.type-missing")
    yield required("sequence_number", INTEGER, "respstream.seq-missing")
    if kind in DELTA_EVENTS:
        wanted = OBJECT if kind in OBJECT_DELTAS else STRING
        yield required("delta", wanted, "respstream.delta-type")
    if kind in LOGPROBS_EVENTS:
        yield required("logprobs", ARRAY, "respstream.logprobs-missing")
    if kind == "response.function_call_arguments.done":
        yield required("name", STRING, "respstream.args-done-name-missing")
    if EVENTS[kind].act is Act.LIFECYCLE:
        yield required("response", OBJECT, "respstream.response-missing")
    if EVENTS[kind].act in (Act.ITEM_ADDED, Act.ITEM_DONE):
        yield required("item", OBJECT, "respstream.item-null")


_ERROR_EVENT = (
    _type({"error"}, "respstream.error-malformed"),
    required("message", STRING, "respstream.error-malformed"),
    optional("code", STRING),
    optional("param", STRING),
)


# -- all of them -----------------------------------------------------------------------------------


def chat() -> Iterator[Pair]:
    tokens = _inner(_inner(CHOICE, "logprobs"), "content")
    annotation = _inner(MESSAGE, "annotations")
    yield _pair(ChatCompletion, COMPLETION)
    yield _pair(chat_completion.Choice, CHOICE)
    yield _pair(chat_completion.ChoiceLogprobs, _inner(CHOICE, "logprobs"))
    yield _pair(ChatCompletionTokenLogprob, tokens)
    yield _pair(chat_completion_token_logprob.TopLogprob, _inner(tokens, "top_logprobs"))
    yield _pair(ChatCompletionMessage, MESSAGE)
    yield _pair(chat_completion_message.Annotation, annotation)
    yield _pair(chat_completion_message.AnnotationURLCitation, _inner(annotation, "url_citation"))
    yield _pair(chat_completion_message.FunctionCall, FUNCTION_CALL)
    yield _pair(ChatCompletionAudio, _inner(MESSAGE, "audio"))
    yield _pair(ChatCompletionMessageFunctionToolCall, _call("function"))
    yield _pair(chat_completion_message_function_tool_call.Function, _FUNCTION)
    yield _pair(ChatCompletionMessageCustomToolCall, _call("custom"))
    yield _pair(chat_completion_message_custom_tool_call.Custom, CUSTOM_CALL)
    yield _pair(CompletionUsage, _usage(CHAT_USAGE))
    yield _pair(completion_usage.PromptTokensDetails, _counters(PROMPT_COUNTERS))
    yield _pair(completion_usage.CompletionTokensDetails, _counters(COMPLETION_COUNTERS))


def chunks() -> Iterator[Pair]:
    yield _pair(ChatCompletionChunk, CHUNK)
    yield _pair(chat_completion_chunk.Choice, CHUNK_CHOICE)
    yield _pair(chat_completion_chunk.ChoiceLogprobs, _inner(CHUNK_CHOICE, "logprobs"))
    yield _pair(chat_completion_chunk.ChoiceDelta, DELTA)
    yield _pair(chat_completion_chunk.ChoiceDeltaFunctionCall, DELTA_FUNCTION_CALL)
    yield _pair(chat_completion_chunk.ChoiceDeltaToolCall, _DELTA_CALL)
    yield _pair(chat_completion_chunk.ChoiceDeltaToolCallFunction, _DELTA_FUNCTION)


def lists() -> Iterator[Pair]:
    """Completions, embeddings and models; a list of models comes as a page."""
    yield _pair(Completion, TEXT_COMPLETION)
    yield _pair(CompletionChoice, COMPLETION_CHOICE)
    yield _pair(CompletionChoice, COMPLETION_CHUNK_CHOICE)
    yield _pair(completion_choice.Logprobs, _inner(COMPLETION_CHOICE, "logprobs"))
    yield _pair(CreateEmbeddingResponse, EMBEDDINGS)
    counters = tuple(required(name, INTEGER, "usage.keys-missing") for name in EMBEDDINGS_KEYS)
    yield _pair(create_embedding_response.Usage, counters)
    yield _pair(Embedding, EMBEDDING)
    yield _pair(MODEL_PAGE, MODEL_LIST)
    yield _pair(ListedModel, LISTED_MODEL)
    yield _pair(ListedModel, RETRIEVED_MODEL)


def responses() -> Iterator[Pair]:
    yield _pair(Response, RESPONSE)
    yield _pair(ResponseError, _inner(RESPONSE, "error"))
    reason = "responses.incomplete-reason-unknown"
    reasons = optional("reason", STRING, reason, values=INCOMPLETE_REASONS, outside=reason)
    yield _pair(response.IncompleteDetails, (reasons,))
    table = RESPONSES_USAGE
    yield _pair(ResponseUsage, _usage(table))
    details = _counters(("cached_tokens", "cache_write_tokens"), {"cached_tokens"})
    yield _pair(response_usage.InputTokensDetails, details)
    details = _counters(("reasoning_tokens",), {"reasoning_tokens"})
    yield _pair(response_usage.OutputTokensDetails, details)
    parts: dict[str, Model] = {
        "output_text": ResponseOutputText,
        "refusal": ResponseOutputRefusal,
    }
    for kind, part in parts.items():
        yield _pair(part, MESSAGE_PARTS[kind], (_type({kind}, "responses.content-part-type"),))
    annotations = by_type(ResponseOutputText.model_fields["annotations"].annotation)
    for kind, annotation in annotations.items():
        kind_row = (_type({kind}, "responses.annotation-shape"),)
        yield _pair(annotation, ANNOTATIONS.get(kind, Table(kind, ())), kind_row)


def items() -> Iterator[Pair]:
    for kind, official in by_type(ResponseOutputItem).items():
        known = ITEMS.get(kind)
        if known is not None:
            calls = _responses_call(kind) if kind in CALLS else ()
            kind_row = (_type({kind}, "responses.item-type-missing"),)
            yield _pair(official, known.state, known.payload, calls, kind_row)


def events() -> Iterator[Pair]:
    yield _pair(ResponseErrorEvent, _ERROR_EVENT)
    for kind, official in by_type(ResponseStreamEvent).items():
        if kind in EVENTS:
            yield _pair(official, EVENTS[kind].fields, tuple(_event(kind)))


def pairs() -> list[Pair]:
    return [*chat(), *chunks(), *lists(), *responses(), *items(), *events()]


ROOTS: tuple[Model, ...] = (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CreateEmbeddingResponse,
    MODEL_PAGE,
    Response,
    *by_type(ResponseStreamEvent).values(),
)
"""What the checked operations answer with: every object of an answer lies below one of them."""
