"""What a pure function gave, kept for arguments that come again: within bounds, since peers choose them.

What belongs here: the bounded memory alone. What doesn't: what is remembered of an upstream (history.py);
a memo changes the time that something takes and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST: Final = 256
"""Results that are kept. One more empties the memo: cheaper than an order of use, and as good against
arguments that never come again."""
LONGEST: Final = 2048
"""The size of an argument whose result is kept."""


class Memo(Generic[K, V]):
    """Calls ``make`` for arguments that it does not know. ``size`` is what ``LONGEST`` bounds."""

    __slots__ = ("_known", "_make", "_size")

    def __init__(self, make: Callable[[K], V], size: Callable[[K], int]) -> None:
        self._make = make
        self._size = size
        self._known: dict[K, V] = {}

    def __call__(self, argument: K) -> V:
        try:
            return self._known[argument]
        except KeyError:
            pass
        made = self._make(argument)
        if self._size(argument) <= LONGEST:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[argument] = made
        return made

    def __len__(self) -> int:
        return len(self._known)
