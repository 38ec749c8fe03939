"""Ports for programs that can't be told to choose one, and for servers that come back to theirs.

What belongs here: which port. What doesn't: who listens on it.
"""

from __future__ import annotations

import errno
import random
import socket
from typing import Final

_PORTS: Final = range(10_000, 32_000)
"""Below those that Linux gives to whoever connects (ip_local_port_range) or asks for any: one that was
probed here is given to nobody else before its program binds to it.
"""
_random: Final = random.SystemRandom()


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on, and that nobody will have by chance."""
    while True:
        port = _random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port
