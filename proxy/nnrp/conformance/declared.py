"""What a server was seen to do against what its capability document declares.

What belongs here: the comparison, operation by operation. What doesn't: the questions (discovery.py), the
document by itself (validators/nnrp/capabilities.py).
"""

from __future__ import annotations

from typing import NamedTuple

from teeline.proxy.nnrp.discovery import Discovered, Modes
from teeline.validators.nnrp.capabilities import Capabilities


class Difference(NamedTuple):
    """``missing``: declared and not seen, which clients rely on; otherwise seen and not declared."""

    operation: str
    mode: str
    missing: bool

    def __str__(self) -> str:
        words = "declared, not seen" if self.missing else "seen, not declared"
        return f"{self.operation}{f' {self.mode}' if self.mode else ''}: {words}"


def differences(declared: Capabilities, seen: Discovered) -> list[Difference]:
    """Where the two differ, in the order of the operations."""
    found: list[Difference] = []
    for name in dict.fromkeys([*declared.operations, *seen.operations]):
        promised, modes = declared.operations.get(name), seen.operations.get(name)
        if promised is None or modes is None:
            found.append(Difference(name, "", missing=modes is None))
            continue
        for mode in Modes._fields:
            said, did = getattr(promised, mode), getattr(modes, mode)
            if said is not None and said is not did:
                found.append(Difference(name, mode, missing=bool(said)))
    return found
