"""What a pure function gave, kept for arguments that come again: within bounds, since peers choose them.

What belongs here: the bounded memory alone. What doesn't: what is remembered of an upstream (history.py);
a memo changes the time that something takes and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST: Final = 256
"""Results that are kept. One more empties the memo: cheaper than an order of use, and as good against
arguments that never come again."""
LONGEST: Final = 2048
"""The size of an argument whose result is kept."""


class Memo(dict[K, V]):
    """Calls ``make`` for arguments that it does not know. ``size`` is what ``LONGEST`` bounds.

    Asked by ``memo[argument]``, for which no frame is entered where the result is known.
    """

    __slots__ = ("_make", "_size")

    def __init__(self, make: Callable[[K], V], size: Callable[[K], int]) -> None:
        super().__init__()
        self._make = make
        self._size = size

    def __missing__(self, argument: K) -> V:
        made = self._make(argument)
        if self._size(argument) <= LONGEST:
            if len(self) >= MOST:
                self.clear()
            self[argument] = made
        return made
