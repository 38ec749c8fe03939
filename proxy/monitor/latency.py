"""Times as counts in buckets that grow by a tenth, so that they can be added up and halved again.

What belongs here: from seconds to a bucket, and from buckets to a percentile. What doesn't: whose times
they are (traffic.py), the histograms that are exported (telemetry).

A percentile is off by at most half a bucket's width, 5 percent; that of a sum of many processes is as
exact as that of one, which is why no values are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

Counts = Mapping[int, int]
"""Exchanges by the bucket of their time."""

SMALLEST: Final = 0.0005
"""Seconds; what is faster counts as this."""
LAST: Final = 160
"""The last bucket: some 33 minutes and more."""

_GROWTH: Final = math.log(1.1)


def bucket(seconds: float) -> int:
    """The bucket of a time, 0 to LAST."""
    if not seconds > SMALLEST:
        return 0
    return min(LAST, math.ceil(math.log(seconds / SMALLEST) / _GROWTH))


def quantile(counts: Counts, share: float) -> float | None:
    """The time in seconds below which ``share`` (0 to 1) of the exchanges are; None for none."""
    total = sum(counts.values())
    if not total:
        return None
    due = max(1, math.ceil(share * total))
    seen = 0
    for number in sorted(counts):
        seen += counts[number]
        if seen >= due:
            return _middle(number)
    return _middle(LAST)


def _middle(number: int) -> float:
    return SMALLEST * math.exp(_GROWTH * max(0.0, number - 0.5))
