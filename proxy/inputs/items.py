"""What comes out of an input: exchanges, and what is wrong with the rest.

What belongs here: the two kinds of results that all formats share. What doesn't: formats.
"""

from __future__ import annotations

from dataclasses import dataclass

from teeline.validators.exchangefile import RecordedExchange
from teeline.validators.model import Exchange


@dataclass(frozen=True, slots=True)
class Item:
    """One exchange of a file.

    ``name`` is what the recording calls it, or its place in a file of several (``entry 3``,
    ``line 12``). ``line`` is the line of the file that it stands on, from 1. A ``source`` that is an
    Exchange is not inspected: its bytes are not in the file.
    """

    file: str
    name: str
    source: RecordedExchange | Exchange
    line: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that can't be checked; ``text`` names the entry, and what is wrong with it.

    ``line`` is 0 where the file as a whole is meant.
    """

    file: str
    text: str
    line: int = 0
