"""One thing broken in an answer of embeddings, models or completions, and the rules that must say so.

What belongs here: vectors, elements, chunks, and members that break otherwise than the tables say. What
doesn't: members by their tables (faults_tables.py), the valid answers (generate_lists.py).
"""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.validators.faults import Fault
from tests.validators.faults_tables import (
    Expected,
    Spot,
    found_by,
    invisible,
    member_fault,
    name_twice,
    truncated,
    unshared,
)
from tests.validators.generate import Answer, Json

ANY_TEXT = "text may be any text: nothing documented says how long it is"
FREE_ORDER = "elements may come in any order: their index says which they are"


def special(answer: Answer, spot: Spot, action: str, before: Any) -> Expected | None:
    """Members of which more is due than their type."""
    gone = action in ("drop", "rename", "null")
    name = (spot.of, spot.field.name)
    if name == ("models", "data") and action == "null":
        return found_by("models.data-null")
    if name == ("text_completion", "usage") and gone:
        return _no_usage(answer, before)
    if name == ("choices[]", "logprobs") and gone:
        return found_by("cross.logprobs-missing") if before and not answer.streamed else None
    if name == ("choices[]", "finish_reason") and answer.streamed and gone:
        if before is None:
            return found_by("completions.finish-key-missing")
        return found_by("completions.finish-missing", "completions.finish-key-missing")
    return None


def _no_usage(answer: Answer, before: Any) -> Expected:
    if not answer.streamed:
        return found_by("usage.missing")
    if before is None:
        return invisible("usage is null on other chunks, or absent")
    return found_by("completions.usage-missing")


# -- embeddings ------------------------------------------------------------------------------------


def vector_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """An embedding lost, repeated, moved, or spoilt in its numbers."""
    broken = unshared(answer)
    data = broken.events[0]["data"]
    at = chance.randrange(len(data))
    what = chance.choice(("lose", "repeat", "exchange", "zero", "cut", "word", "base64"))
    expected = _spoil(what, data, at, answer.request)
    return None if expected is None else Fault(f"vector: {what}", broken.body(), *expected)


def _spoil(what: str, data: list[Json], at: int, request: Json) -> Expected | None:
    vector = data[at]["embedding"]
    if what == "lose":
        del data[at]
        return found_by("embeddings.count-mismatch", "embeddings.data-empty")
    if what == "repeat":
        data.append(copy.deepcopy(data[at]))
        return found_by("embeddings.index-wrong", "embeddings.count-mismatch")
    if what == "exchange":
        data[0], data[at] = data[at], data[0]
        return invisible(FREE_ORDER)
    if isinstance(vector, str):
        return _spoil_text(what, data, at)
    return _spoil_numbers(what, data, at, request)


def _spoil_text(what: str, data: list[Json], at: int) -> Expected | None:
    if what != "base64":
        return None
    data[at]["embedding"] = "!" + data[at]["embedding"][1:]
    return found_by("embeddings.base64-invalid")


def _spoil_numbers(what: str, data: list[Json], at: int, request: Json) -> Expected | None:
    vector = data[at]["embedding"]
    if what == "zero":
        vector[:] = [0.0] * len(vector)
        return found_by("embeddings.vector-degenerate")
    if what == "word":
        vector[0] = str(vector[0])
        return found_by("embeddings.vector-type")
    if what != "cut" or len(vector) < 2:
        return None
    vector.pop()
    if len(data) == 1 and "dimensions" not in request:
        return invisible("how long a vector is only the others and the request say")
    return found_by("embeddings.dimensions-differ", "embeddings.dimensions-ignored")


# -- models ----------------------------------------------------------------------------------------


def model_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """A model listed twice or moved, or another one than the one that was asked for."""
    broken = unshared(answer)
    body = broken.events[0]
    if "data" not in body:
        body["id"] += "-other"
        return Fault("other model", broken.body(), *found_by("models.retrieve-shape"))
    if not body["data"]:
        return None
    if chance.random() < 0.5:
        body["data"].append(chance.choice(body["data"]))
        return Fault("duplicate model", broken.body(), *found_by("models.id-duplicate"))
    chance.shuffle(body["data"])
    return Fault("reorder models", broken.body(), *invisible("a list of models has no order"))


# -- completions -----------------------------------------------------------------------------------


def choice_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """A choice lost, repeated or moved; a sum that does not add up."""
    broken = unshared(answer)
    body = broken.events[0]
    choices = body["choices"]
    what = chance.choice(("lose", "repeat", "exchange", "more", "less"))
    if what == "lose":
        choices.pop(chance.randrange(len(choices)))
        rules = (
            "cross.choices-too-few",
            "completions.choice-index-set",
            "completions.choices-empty",
        )
        return Fault("lose choice", broken.body(), *found_by(*rules))
    if what == "repeat":
        choices.append(chance.choice(choices))
        return Fault("duplicate choice", broken.body(), *found_by("completions.choice-index-set"))
    if what == "exchange":
        chance.shuffle(choices)
        return Fault("reorder choices", broken.body(), *invisible(FREE_ORDER))
    body["usage"]["total_tokens"] += 1 if what == "more" else -1
    rule = f"usage.total-too-{'high' if what == 'more' else 'low'}"
    return Fault(f"{what} tokens", broken.body(), *found_by(rule))


def kind_of(event: Json) -> tuple[str, int]:
    """What a chunk is, and its choice (-1 for none)."""
    if not event["choices"]:
        return "usage", -1
    choice = event["choices"][0]
    if choice["finish_reason"] is None:
        return "text", choice["index"]
    return ("last text" if choice["text"] else "finish"), choice["index"]


REPEATED = {
    "last text": found_by("completions.text-after-finish", "completions.finish-repeated"),
    "finish": found_by("completions.finish-repeated"),
    "usage": found_by("completions.usage-repeated"),
    "text": invisible(ANY_TEXT),
}
LOST = {
    "last text": found_by(
        "completions.finish-missing", "cross.choices-too-few", "completions.choice-index-set"
    ),
    "finish": found_by("completions.finish-missing"),
    "usage": found_by("completions.usage-missing"),
    "text": invisible(ANY_TEXT),
}


def chunk_fault(answer: Answer, chance: random.Random) -> Fault | None:
    """One chunk dropped, repeated, or exchanged with the next one; ``[DONE]`` is one, too."""
    action = chance.choice(("drop", "duplicate", "reorder"))
    at = chance.randrange(len(answer.events) + 1)
    broken = unshared(answer)
    if at == len(answer.events):
        return _done_fault(broken, action)
    kind, _ = kind_of(answer.events[at])
    if action == "reorder":
        return _reordered(broken, at)
    if action == "duplicate":
        broken.events.insert(at, copy.deepcopy(broken.events[at]))
        return Fault(f"duplicate {kind}", broken.body(), *REPEATED[kind])
    del broken.events[at]
    if not broken.events:
        return Fault(f"drop {kind}", broken.body(), *found_by("completions.no-chunks"))
    return Fault(f"drop {kind}", broken.body(), *LOST[kind])


def _done_fault(broken: Answer, action: str) -> Fault | None:
    done = f"data: [DONE]{broken.line_end * 2}".encode()
    if action == "drop":
        body = broken.body().removesuffix(done)
        return Fault("drop done", body, *found_by("completions.done-missing"))
    if action == "duplicate":
        body = broken.body() + done
        return Fault("duplicate done", body, *found_by("completions.done-repeated"))
    early, late = unshared(broken), unshared(broken)
    early.events, late.events = broken.events[:-1], broken.events[-1:]
    early.done = late.done = False
    body = early.body() + done + late.body()
    return Fault("reorder done", body, *found_by("completions.data-after-done"))


def _reordered(broken: Answer, at: int) -> Fault | None:
    if at + 1 >= len(broken.events):
        return None
    events = broken.events
    (first, index), (second, other) = kind_of(events[at]), kind_of(events[at + 1])
    events[at], events[at + 1] = events[at + 1], events[at]
    expected = invisible(ANY_TEXT if index == other else "choices interleave freely")
    if second == "usage":
        expected = found_by("completions.usage-not-last")
    elif index == other and second in ("finish", "last text"):
        expected = found_by("completions.text-after-finish")
    return Fault(f"reorder {first}, {second}", broken.body(), *expected)


def fault(answer: Answer, chance: random.Random) -> Fault:
    """One fault, of whatever sort fits the answer."""
    if "/embeddings" in answer.endpoint:
        own = vector_fault
    elif "/models" in answer.endpoint:
        own = model_fault
    else:
        own = chunk_fault if answer.streamed else choice_fault
    while True:
        sort = chance.choice((0, 0, 1, 1, 2, 3))
        made = (
            member_fault(answer, chance, special)
            if sort == 0
            else (own, truncated, name_twice)[sort - 1](answer, chance)
        )
        if made is not None:
            return made
