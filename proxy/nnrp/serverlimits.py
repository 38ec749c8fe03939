"""How much a server takes on: bounds that a peer meets, and the count of what is open.

What belongs here: numbers. What doesn't: what is answered where one is met (serverconnection.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """``body``: bytes of a packet. ``handshake``: seconds until a session must be open.

    ``patience``: seconds in which a client that is sent something has to read some of it.
    """

    connections: int = 256
    sessions: int = 16
    in_flight: int = 64
    operations: int = 256
    body: int = 16 * 1024 * 1024
    handshake: float = 10.0
    patience: float = 60.0


class Room:
    """How many operations are open, in all connections of a server."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.open = 0

    def take(self) -> bool:
        """Whether one more fits; it is counted if so."""
        if self.open >= self._most:
            return False
        self.open += 1
        return True

    def leave(self) -> None:
        """One is over."""
        self.open -= 1
