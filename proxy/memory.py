"""Inspectors that know what their upstream showed in earlier exchanges.

What belongs here: whose memory an inspector gets. What doesn't: what is remembered (validators/history.py)
and what follows from it (validators/checks).
"""

from __future__ import annotations

from collections import defaultdict

from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.limits import Limits
from teeline.validators.model import Exchange


class Inspectors:
    """Makes the inspectors of one server, with one memory an upstream.

    Upstreams come from the configuration, so that there are as many memories as the user named.
    """

    def __init__(self) -> None:
        self._histories: defaultdict[str, History] = defaultdict(History)

    def __call__(self, exchange: Exchange, limits: Limits) -> Inspector:
        return Inspector(exchange, limits, self._histories[exchange.upstream])
