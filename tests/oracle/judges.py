"""The official types as judges of whole answers: what must fit which type.

What belongs here: taking an answer or an event apart into objects that have an official type. What doesn't:
comparing the types with field tables (differences.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from openai.types import Completion, CreateEmbeddingResponse
from openai.types import Model as ListedModel
from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent
from pydantic import ValidationError

from tests.oracle.described import MODEL_PAGE
from tests.oracle.official import Model, by_type
from tests.validators.generate import Answer, Json
from tests.validators.respscript import message, response

EVENTS = by_type(ResponseStreamEvent)
ITEMS = by_type(ResponseOutputItem)


def judges(answer: Answer, event: Json) -> Iterator[tuple[Model, Json]]:
    """The official types that an answer or an event must fit, and what must fit them.

    Items are judged one by one: the union of their types says of a misfit only that it fits none. What
    was only begun has no official type.
    """
    if "/responses" in answer.endpoint:
        yield from _of_event(event) if answer.streamed else _of_response(event)
    elif "/completions" in answer.endpoint:
        yield Completion, _each(event, "choices", _over) if answer.streamed else event
    elif "/embeddings" in answer.endpoint:
        yield CreateEmbeddingResponse, _each(event, "data", _read)
    elif answer.endpoint.endswith("/models"):
        yield MODEL_PAGE, event
        yield from ((ListedModel, model) for model in _list(event, "data"))
    else:
        yield ListedModel, event


def fits(answer: Answer) -> bool:
    """Whether every object of an answer fits its official type."""
    try:
        for event in answer.events:
            for model, value in judges(answer, event):
                model.model_validate(value)
    except ValidationError:
        return False
    return True


def _list(value: Json, name: str) -> list[Json]:
    """The elements of a list; what is none is judged as it is."""
    inner = value.get(name)
    return inner if isinstance(inner, list) else []


def _each(value: Json, name: str, change: Callable[[Any], Any]) -> Json:
    """A document with the elements of one list changed."""
    inner = value.get(name)
    return {**value, name: list(map(change, inner))} if isinstance(inner, list) else value


def _of_event(event: Json) -> Iterator[tuple[Model, Json]]:
    kind = event.get("type")
    if isinstance(kind, str) and kind not in EVENTS:
        return  # an event of another time or of a vendor
    model = EVENTS.get(str(kind))
    if model is None:
        model = EVENTS["response.completed"]  # an event without a type fits none
    whole = {"response": response(message()), "item": message()}
    stand_ins = {name: v for name, v in whole.items() if isinstance(event.get(name), dict)}
    yield model, {**event, **stand_ins}
    if "response" in stand_ins:
        yield from _of_response(event["response"])
    if "item" in stand_ins and kind == "response.output_item.done":
        yield from _of_item(event["item"])


def _of_response(value: Json) -> Iterator[tuple[Model, Json]]:
    output = value.get("output")
    yield Response, {**value, **({"output": []} if isinstance(output, list) else {})}
    if value.get("status") not in ("queued", "in_progress"):
        for item in _list(value, "output"):
            yield from _of_item(item)


def _of_item(item: Json) -> Iterator[tuple[Model, Json]]:
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str) or kind in ITEMS:
        yield ITEMS.get(str(kind), ITEMS["message"]), item


def _over(choice: Any) -> Any:
    """A choice as one that has finished: null is official in streams, and in the type it is not."""
    if isinstance(choice, dict) and choice.get("finish_reason", "") is None:
        return {**choice, "finish_reason": "stop"}
    return choice


def _read(item: Any) -> Any:
    """An embedding as one that the package has decoded."""
    if isinstance(item, dict) and isinstance(item.get("embedding"), str):
        return {**item, "embedding": [0.5]}
    return item
