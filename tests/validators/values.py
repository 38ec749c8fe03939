"""Values made up at random from field tables: what a table allows, the same for the same seed.

What belongs here: JSON values by their declaration. What doesn't: what must hold between members
(generate_responses.py, generate_lists.py).
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from teeline.validators.fields.table import ANY, Field, JsonType
from tests.validators.generate import WORDS, Json

T = TypeVar("T")

VENDOR: tuple[Json, ...] = ({}, {"x_vendor": {"a": [1, None]}}, {"provider": "x", "timings": 0.5})
"""Members that nobody documented: they never fail (P4)."""


class Values:
    """Makes up values, the same ones in the same order for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def maybe(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    def one(self, *values: T) -> T:
        return self.chance.choice(values)

    def shuffled(self, value: Json) -> Json:
        """JSON objects have no order."""
        names = list(value)
        self.chance.shuffle(names)
        return {name: value[name] for name in names}

    def text(self) -> str:
        """A text that is not empty."""
        return "A" + "".join(self.one(*WORDS) for _ in range(self.chance.randint(0, 6)))

    def pieces(self, text: str) -> list[str]:
        """A text in fragments, empty ones among them; none at all for a text that is told whole."""
        if self.maybe(0.15):
            return []
        cuts = sorted(self.chance.randint(0, len(text)) for _ in range(self.chance.randint(0, 4)))
        return [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]

    def arguments(self) -> str:
        """A JSON object as text."""
        members: Json = {self.text(): self.one(1, None, [{}], -0.5e-3, "x") for _ in range(2)}
        return json.dumps(members if self.maybe(0.8) else {}, ensure_ascii=self.maybe())

    def members(self, fields: Iterable[Field], **given: Any) -> Json:
        """An object of these fields: what is required, and some of the rest, null counting as absent."""
        made: Json = {}
        for field in fields:
            if field.name in given:
                continue
            if field.absent:
                null = field.nullable and self.maybe(0.4)
                made[field.name] = None if null else self.value(field)
            elif self.maybe(0.4):
                bare = field.type is ANY or self.maybe(0.4)  # of what may be any, no rule is here
                made[field.name] = None if bare else self.value(field)
        return self.shuffled(made | given)

    def value(self, field: Field) -> Any:
        """What may stand in a field, null apart."""
        if field.values:
            return self.one(*sorted(field.values - field.named.keys()))
        kind = self.one(*sorted(field.type, key=str)) if field.type is not ANY else JsonType.STRING
        if kind is JsonType.OBJECT:
            return self.members(field.table.fields) if field.table else {}
        if kind is JsonType.ARRAY:
            return [self.value(field.items) for _ in range(self.many())] if field.items else []
        return self._plain(kind)

    def _plain(self, kind: JsonType) -> Any:
        chance = self.chance
        if kind is JsonType.STRING:
            return self.text()
        if kind is JsonType.BOOLEAN:
            return self.maybe()
        if kind is JsonType.NUMBER:
            return self.one(0, 1, 0.7, -2.5, 1e-9)
        return chance.randint(0, 9)

    def many(self, most: int = 2) -> int:
        return self.chance.randint(0, most)

    def some(self, values: Sequence[T]) -> list[T]:
        """A few of these in their order."""
        return [value for value in values if self.maybe()]
