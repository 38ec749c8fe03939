"""What teeline says of each object of an answer: its field tables, beside the official type.

What belongs here: pairs of types and tables. What doesn't: comparing them (differences.py), rows for what
checks judge without a table (tests/validators/judged.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from teeline.validators.fields.items import ITEMS
from teeline.validators.fields.models import LISTED_MODEL, RETRIEVED_MODEL
from teeline.validators.fields.respevents import EVENTS
from teeline.validators.fields.responses import RESPONSE
from teeline.validators.fields.table import Field, Table
from teeline.validators.fields.tools import CUSTOM_CALL
from teeline.validators.fields.usage import CHAT_USAGE, RESPONSES_USAGE
from tests.oracle.official import Model, by_type
from tests.validators import judged

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
    yield _pair(ChatCompletionMessageFunctionToolCall, judged.chat_call("function"))
    yield _pair(chat_completion_message_function_tool_call.Function, judged.FUNCTION)
    yield _pair(ChatCompletionMessageCustomToolCall, judged.chat_call("custom"))
    yield _pair(chat_completion_message_custom_tool_call.Custom, CUSTOM_CALL)
    yield _pair(CompletionUsage, judged.usage(CHAT_USAGE))
    yield _pair(completion_usage.PromptTokensDetails, judged.CHAT_PROMPT_DETAILS)
    yield _pair(completion_usage.CompletionTokensDetails, judged.CHAT_COMPLETION_DETAILS)


def chunks() -> Iterator[Pair]:
    yield _pair(ChatCompletionChunk, CHUNK)
    yield _pair(chat_completion_chunk.Choice, CHUNK_CHOICE)
    yield _pair(chat_completion_chunk.ChoiceLogprobs, _inner(CHUNK_CHOICE, "logprobs"))
    yield _pair(chat_completion_chunk.ChoiceDelta, DELTA)
    yield _pair(chat_completion_chunk.ChoiceDeltaFunctionCall, DELTA_FUNCTION_CALL)
    yield _pair(chat_completion_chunk.ChoiceDeltaToolCall, judged.DELTA_CALL)
    yield _pair(chat_completion_chunk.ChoiceDeltaToolCallFunction, judged.DELTA_FUNCTION)


def lists() -> Iterator[Pair]:
    """Completions, embeddings and models; a list of models comes as a page."""
    yield _pair(Completion, TEXT_COMPLETION)
    yield _pair(CompletionChoice, COMPLETION_CHOICE)
    yield _pair(CompletionChoice, COMPLETION_CHUNK_CHOICE)
    yield _pair(completion_choice.Logprobs, _inner(COMPLETION_CHOICE, "logprobs"))
    yield _pair(CreateEmbeddingResponse, judged.EMBEDDINGS_LIST)
    yield _pair(create_embedding_response.Usage, judged.EMBEDDINGS_USAGE)
    yield _pair(Embedding, judged.ONE_EMBEDDING)
    yield _pair(MODEL_PAGE, judged.MODELS)
    yield _pair(ListedModel, LISTED_MODEL)
    yield _pair(ListedModel, RETRIEVED_MODEL)


def responses() -> Iterator[Pair]:
    yield _pair(Response, RESPONSE)
    yield _pair(ResponseError, _inner(RESPONSE, "error"))
    yield _pair(response.IncompleteDetails, judged.INCOMPLETE_DETAILS)
    yield _pair(ResponseUsage, judged.usage(RESPONSES_USAGE))
    yield _pair(response_usage.InputTokensDetails, judged.RESPONSES_INPUT_DETAILS)
    yield _pair(response_usage.OutputTokensDetails, judged.RESPONSES_OUTPUT_DETAILS)
    yield _pair(ResponseOutputText, judged.part("output_text"))
    yield _pair(ResponseOutputRefusal, judged.part("refusal"))
    annotations = by_type(ResponseOutputText.model_fields["annotations"].annotation)
    for kind, official in annotations.items():
        yield _pair(official, judged.annotation(kind))


def items() -> Iterator[Pair]:
    for kind, official in by_type(ResponseOutputItem).items():
        if kind in ITEMS:
            yield _pair(official, judged.item(kind))


def events() -> Iterator[Pair]:
    yield _pair(ResponseErrorEvent, judged.ERROR_EVENT)
    for kind, official in by_type(ResponseStreamEvent).items():
        if kind in EVENTS:
            yield _pair(official, judged.event(kind))


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
