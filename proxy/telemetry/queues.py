"""How much waits for export and for how long: the OTEL_BSP_* and OTEL_BLRP_* settings as a type.

What belongs here: the values and their bounds. What doesn't: reading the environment
(environment.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Queueing:
    """``capacity`` and ``batch`` in records (batch <= capacity), ``delay_ms`` in milliseconds."""

    capacity: int = 2048
    batch: int = 512
    delay_ms: float = 5000.0

    def __post_init__(self) -> None:
        if not 0 < self.batch <= self.capacity or self.delay_ms <= 0:
            raise ValueError("a queue needs 0 < batch <= capacity and a delay above 0")


SPANS: Final = Queueing(batch=1024)
"""The SDK's defaults but for the batch, which is 512 there: a request costs as much as a hundred spans."""
LOGS: Final = Queueing(delay_ms=1000.0)
"""The SDK's defaults."""
