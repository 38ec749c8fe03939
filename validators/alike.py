"""An object like the one before, which was accepted: equal to it but in members that are named.

What belongs here: telling that nothing else differs, in one comparison. What doesn't: bytes (fast.py) and
what the members mean; whoever names members as free looks at them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Alike:
    """An accepted object, and what others must equal. Made by ``alike``."""

    __slots__ = ("_free", "_like", "_numbers")

    def __init__(
        self,
        like: dict[str, Any],
        free: tuple[str, ...],
        numbers: tuple[tuple[str, type[Any]], ...],
    ) -> None:
        self._like = like
        self._free = free
        self._numbers = numbers

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether a decoded object has the same members with the same values, the free ones aside."""
        like = self._like
        for name in self._free:
            like[name] = value.get(name)
        if value != like:
            return False
        # Python takes 1, 1.0 and True for equal, which are of three types in JSON.
        for name, kind in self._numbers:
            if type(value[name]) is not kind:
                return False
        return True


def alike(value: Mapping[str, Any], free: tuple[str, ...]) -> Alike | None:
    """What to remember of an accepted object; None where a member holds more than one plain value.

    ``free`` are members that it has.
    """
    numbers = []
    for name, held in value.items():
        if name in free:
            continue
        if isinstance(held, int | float):
            numbers.append((name, type(held)))
        elif held and not isinstance(held, str):
            return None
    return Alike(dict(value), free, tuple(numbers))
