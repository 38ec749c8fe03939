"""An object like the one before, which was accepted: equal to it but in members that are named.

What belongs here: what may be told by one comparison of two objects. What doesn't: bytes (fast.py) and what
the members mean; whoever compares looks at the free members, and at the types of integers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def comparable(
    value: Mapping[str, Any], free: Collection[str], integers: Collection[str]
) -> dict[str, Any] | None:
    """A copy of an accepted object to compare others with, once its ``free`` members are set to theirs.

    None where a comparison could be wrong: Python takes 1, 1.0 and True for equal, which are of three types
    in JSON. So a member is a text, null or empty, or it is one of ``integers``, whose type has to be compared
    besides. An object that equals the copy has just its members.
    """
    for name, held in value.items():
        if name in free or held is None or isinstance(held, str):
            continue
        if type(held) is int:
            if name not in integers:
                return None
        elif held or isinstance(held, float | bool):
            return None
    return dict(value)
