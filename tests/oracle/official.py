"""The types of the installed ``openai`` package as plain descriptions: members, JSON types, words.

What belongs here: reading pydantic models and unions of them. What doesn't: what teeline knows
(described.py), what may differ (deliberate.py).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from teeline.validators.fields.table import (
    ANY,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    JsonType,
)

Model = type[BaseModel]
NONE = JsonType(0)
_PLAIN = {str: STRING, int: INTEGER, float: NUMBER, bool: BOOLEAN, object: ANY, Any: ANY}
_ARRAYS = frozenset({list, typing.get_origin(typing.Iterable[int])})


class Member(NamedTuple):
    """One member of an official type. ``words`` is empty where any string may stand."""

    required: bool
    type: JsonType
    words: frozenset[str]
    models: tuple[Model, ...]
    """The objects that it may hold, as itself or as its elements."""


def members(model: Model) -> dict[str, Member]:
    """The members of a type by their names in JSON."""
    return {
        field.alias or name: Member(
            field.is_required(),
            json_type(field.annotation),
            words(field.annotation),
            tuple(models(field.annotation)),
        )
        for name, field in model.model_fields.items()
    }


def alternatives(annotation: Any) -> list[Any]:
    """What an annotation is a union of, null left out; itself where it is none."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [a for arg in typing.get_args(annotation) for a in alternatives(arg)]
    return [] if annotation is type(None) else [annotation]


def json_type(annotation: Any) -> JsonType:
    found = NONE
    for one in alternatives(annotation):
        origin = typing.get_origin(one)
        if origin is typing.Literal:
            found |= STRING
        elif origin in _ARRAYS:
            found |= ARRAY
        else:
            found |= _PLAIN.get(one, OBJECT)
    return found


def words(annotation: Any) -> frozenset[str]:
    """The words of an enum; empty where any other string may stand beside them."""
    every = alternatives(annotation)
    listed = [typing.get_args(one) for one in every if typing.get_origin(one) is typing.Literal]
    return frozenset() if str in every else frozenset(word for some in listed for word in some)


def models(annotation: Any) -> Iterator[Model]:
    """The types of objects in an annotation, those of elements included."""
    for one in alternatives(annotation):
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield one
        elif typing.get_origin(one) in _ARRAYS:
            for argument in typing.get_args(one):
                yield from models(argument)


def by_type(union: Any) -> dict[str, Model]:
    """The types of a union by the word of their ``type``."""
    found: dict[str, Model] = {}
    for model in models(union):
        for word in members(model)["type"].words:
            found[word] = model
    return found


def name(model: Model) -> str:
    """A name that tells types of the same name apart: several modules have a ``Choice``."""
    module = model.__module__.rpartition(".")[2]
    generic = model.__pydantic_generic_metadata__["origin"] is not None  # made where it is named
    own = module.replace("_", "") == model.__name__.lower()
    return model.__name__ if generic or own else f"{module}.{model.__name__}"
