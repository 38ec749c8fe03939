"""The tables of Chat Completions say what the official types say, and name rules that exist."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator

import pytest
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionAudio,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionTokenLogprob,
    chat_completion,
    chat_completion_chunk,
    chat_completion_message,
    chat_completion_token_logprob,
)
from pydantic import BaseModel

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
from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Field,
    JsonType,
    Table,
)
from teeline.validators.fields.words import FINISH_REASONS, FOREIGN_FINISH_REASONS
from teeline.validators.rules import register


def member(table: Table, name: str) -> Field:
    return next(field for field in table.fields if field.name == name)


def inner(table: Table, name: str) -> Table:
    """The table of an object member, or of an array member's elements."""
    field = member(table, name)
    found = field.items.table if field.items else field.table
    assert found is not None
    return found


TOKENS = inner(inner(CHOICE, "logprobs"), "content")
PAIRS: list[tuple[Table, type[BaseModel]]] = [
    (COMPLETION, ChatCompletion),
    (CHOICE, chat_completion.Choice),
    (MESSAGE, ChatCompletionMessage),
    (FUNCTION_CALL, chat_completion_message.FunctionCall),
    (inner(MESSAGE, "annotations"), chat_completion_message.Annotation),
    (
        inner(inner(MESSAGE, "annotations"), "url_citation"),
        chat_completion_message.AnnotationURLCitation,
    ),
    (inner(MESSAGE, "audio"), ChatCompletionAudio),
    (inner(CHOICE, "logprobs"), chat_completion.ChoiceLogprobs),
    (TOKENS, ChatCompletionTokenLogprob),
    (inner(TOKENS, "top_logprobs"), chat_completion_token_logprob.TopLogprob),
    (CHUNK, ChatCompletionChunk),
    (CHUNK_CHOICE, chat_completion_chunk.Choice),
    (DELTA, chat_completion_chunk.ChoiceDelta),
    (DELTA_FUNCTION_CALL, chat_completion_chunk.ChoiceDeltaFunctionCall),
    (inner(CHUNK_CHOICE, "logprobs"), chat_completion_chunk.ChoiceLogprobs),
]
each_pair = pytest.mark.parametrize(
    ("table", "official"),
    PAIRS,
    ids=lambda pair: pair.__name__ if isinstance(pair, type) else pair.name,
)


@each_pair
def test_a_table_has_the_members_of_the_official_type(
    table: Table, official: type[BaseModel]
) -> None:
    assert {field.name for field in table.fields} == set(official.model_fields)


@each_pair
def test_what_the_official_type_requires_has_a_rule_for_its_absence(
    table: Table, official: type[BaseModel]
) -> None:
    """The one member more: logprobs.content is required and nullable in the specification only."""
    wanted = {name for name, f in official.model_fields.items() if f.is_required()}
    more = {"content"} if table.name == "logprobs" else set()
    assert {field.name for field in table.fields if field.absent} == wanted | more


@each_pair
def test_a_member_has_the_type_of_the_official_one(table: Table, official: type[BaseModel]) -> None:
    for field in table.fields:
        if field.type is ANY:
            continue  # looked at in checks/, by more than its type
        json_type, words = json_type_of(official.model_fields[field.name].annotation)
        assert (field.type, field.values) == (json_type, words), field.name


def json_type_of(annotation: typing.Any) -> tuple[JsonType, frozenset[str]]:
    """The JSON type of a Python annotation, and the words of an enum."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return json_type_of(next(a for a in arguments if a is not type(None)))
    if origin is typing.Literal:
        return STRING, frozenset(arguments)
    if origin in (list, dict):
        return (ARRAY if origin is list else OBJECT), frozenset()
    plain = {str: STRING, int: INTEGER, float: NUMBER}
    return plain.get(annotation, OBJECT), frozenset()


def rules_of(table: Table) -> Iterator[str]:
    yield table.unknown
    for field in table.fields:
        yield from rules_of_field(field)


def rules_of_field(field: Field) -> Iterator[str]:
    yield from (field.absent, field.wrong, field.outside, field.empty, field.integral)
    yield from field.named.values()
    if field.table:
        yield from rules_of(field.table)
    if field.items:
        yield from rules_of_field(field.items)


@pytest.mark.parametrize("table", [COMPLETION, CHOICE, CHUNK, CHUNK_CHOICE], ids=lambda t: t.name)
def test_every_rule_of_a_table_is_declared(table: Table) -> None:
    assert set(rules_of(table)) - {""} <= set(register())


def test_a_foreign_finish_reason_has_its_own_rule_and_is_no_official_one() -> None:
    named = member(CHOICE, "finish_reason").named
    assert set(named) == FOREIGN_FINISH_REASONS and not FOREIGN_FINISH_REASONS & FINISH_REASONS
    assert set(named.values()) == {"chat.finish-foreign"}
