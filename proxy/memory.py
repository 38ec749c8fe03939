"""Inspectors that know what their upstream showed in earlier exchanges.

What belongs here: whose memory an inspector gets. What doesn't: what is remembered (validators/history.py)
and what follows from it (validators/checks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.history import History
from teeline.validators.limits import Limits
from teeline.validators.model import Exchange
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.nnrp.upgraded import UpgradedSocket
from teeline.validators.plain import PlainInspector
from teeline.validators.wsresponses import Keep, SocketResponses, is_inspected


class Inspectors:
    """Makes the inspectors of one server, with one memory an upstream.

    Upstreams come from the configuration, so that there are as many memories as the user named.
    ``aside``: they give large documents away, to be inspected elsewhere. ``capabilities``, which may be set
    before the first one is made, are what servers that speak NNRP declare.
    """

    def __init__(self, *, aside: bool = False) -> None:
        self._aside = aside
        self.capabilities: Capabilities | None = None
        self._histories: defaultdict[str, History] = defaultdict(History)

    def __call__(self, exchange: Exchange, limits: Limits) -> PlainInspector:
        history = self._histories[exchange.upstream]
        return PlainInspector(exchange, limits, history, aside=self._aside)

    def socket(
        self,
        connection: Exchange,
        new: Callable[[], Exchange],
        head: RequestHead,
        answer: ResponseHead,
        limits: Limits,
        keep: Keep,
    ) -> SocketResponses | UpgradedSocket:
        """The inspector of a WebSocket: one that carries responses, by its path, or may carry NNRP."""
        if not is_inspected(head.target):
            return UpgradedSocket(connection, new, limits, self.capabilities)
        history = self._histories[connection.upstream]
        return SocketResponses(connection, new, head, answer, limits, history, keep)
