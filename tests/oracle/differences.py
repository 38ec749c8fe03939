"""Where teeline and the official types differ, one line a difference; and what neither side looks into.

What belongs here: the comparison. What doesn't: which differences are meant (deliberate.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openai.types.responses import ResponseOutputItem, ResponseStreamEvent

from teeline.validators.fields.items import ITEMS
from teeline.validators.fields.respevents import EVENTS
from teeline.validators.fields.table import ANY, Field, JsonType
from tests.oracle.described import Pair
from tests.oracle.official import Member, Model, by_type, members, name


def differences(described: Sequence[Pair], roots: Sequence[Model]) -> set[str]:
    """Those between tables and types, and the objects below ``roots`` that no table is about."""
    return {line for pair in described for line in _of_pair(pair)} | set(
        _undescribed(described, roots)
    )


def _of_pair(pair: Pair) -> Iterator[str]:
    at, official = name(pair.official), members(pair.official)
    for member in sorted(official.keys() | pair.fields.keys()):
        there, here = official.get(member), pair.fields.get(member)
        if there is None:
            yield f"{at}.{member}: only here"
        elif here is None:
            yield f"{at}.{member}: only there{', required' if there.required else ''}"
        else:
            yield from (f"{at}.{member}: {line}" for line in _of_member(here, there))


def _of_member(here: Field, there: Member) -> Iterator[str]:
    if there.required and not here.absent:
        yield "required there"
    if here.absent and not there.required:
        yield "required here"
    if here.type is ANY:
        return  # judged in checks/ by more than its type, or not at all
    if here.type & ~JsonType.INTEGRAL != there.type:
        yield f"{_said(here.type)} here, {_said(there.type)} there"
    if here.values != there.words:
        yield from _of_words(here.values, there.words)


def _said(kind: JsonType) -> str:
    return "any" if kind is ANY else "|".join(sorted(str(t.name).lower() for t in kind))


def _of_words(here: frozenset[str], there: frozenset[str]) -> Iterator[str]:
    if not here or not there:
        yield f"an enum {'here' if here else 'there'} only"
        return
    if here - there:
        yield f"only here {' '.join(sorted(here - there))}"
    if there - here:
        yield f"only there {' '.join(sorted(there - here))}"


def of_unions() -> Iterator[str]:
    """Types of events and items that only one side knows; ``error`` is an event of its own here."""
    for what, here, there in (
        ("event", EVENTS.keys() | {"error"}, by_type(ResponseStreamEvent).keys()),
        ("item", ITEMS.keys(), by_type(ResponseOutputItem).keys()),
    ):
        yield from (f"{what} {kind}: only here" for kind in sorted(here - there))
        yield from (f"{what} {kind}: only there" for kind in sorted(there - here))


def _undescribed(described: Sequence[Pair], roots: Sequence[Model]) -> Iterator[str]:
    """Objects inside answers that no table is about, by the member that holds them."""
    known: dict[Model, set[str]] = {}
    for pair in described:
        known.setdefault(pair.official, set()).update(pair.fields)
    waiting, seen = list(roots), set[Model]()
    while waiting:
        model = waiting.pop()
        if model in seen:
            continue
        seen.add(model)
        if model not in known:
            yield f"{name(model)}: not described"
            continue
        for member, official in members(model).items():
            inner = [m for m in official.models if m in known]
            waiting += inner
            if member in known[model] and len(inner) < len(official.models):
                yield f"{name(model)}.{member}: not looked into"
