"""The answer to one operation, and the way on which it goes.

What belongs here: events and ends as packets, and a client that is slow to read them. What doesn't: which
operation is answered when (serverconnection.py), what is said (a ``Service``).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from teeline.proxy.nnrp.documents import Problem
from teeline.proxy.nnrp.submit import Submit
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrpcodes import DropReason

log = logging.getLogger("teeline.nnrp")

RETRY_MS: Final = 1000
"""Milliseconds after which a client that met a bound may ask again."""


class Link(Protocol):
    """The way to the client, whatever carries it."""

    def write(self, packet: bytes) -> None:
        """Sends a whole packet behind all that were written before; nothing once the client has gone."""

    @property
    def writable(self) -> bool:
        """Whether the client takes what is written, within bounds."""

    async def drain(self) -> None:
        """Returns once the client takes more, or has gone."""

    def close(self) -> None:
        """Ends the connection behind what was written."""

    def abort(self) -> None:
        """Ends the connection at once."""


class Service(Protocol):
    """What a server does with operations."""

    async def serve(self, submit: Submit, reply: Reply) -> None:
        """Answers one operation, up to ``reply.end``. It is cancelled when the client cancels it."""


class Reply:
    """The answer to one operation, in the order in which it is told. Nothing follows its end."""

    def __init__(self, link: Link, submit: Submit, patience: float) -> None:
        self._link, self._submit, self._patience = link, submit, patience
        self._sequence = 0
        self.ended = False

    async def event(self, event: bytes) -> None:
        """Sends one event; waits while the client takes no more."""
        if self.ended:
            return
        self._sequence += 1
        session, frame, operation, _ = self._submit
        packet = encode.partial_result(session, frame, operation, self._sequence, event)
        self._link.write(packet)
        await self._room()

    async def complete(self, document: bytes) -> None:
        """Ends the operation with the document of a success, which may be large: waits as ``event``."""
        await self._room()
        self.end(document, 200)

    async def _room(self) -> None:
        """Waits for a client that is slow, and leaves one that takes nothing at all."""
        if self._link.writable:
            return
        try:
            async with asyncio.timeout(self._patience):
                while not self._link.writable:
                    await self._link.drain()
        except TimeoutError:
            log.warning("left a client that read nothing for %.0f s", self._patience)
            self._link.abort()

    def end(self, document: bytes | None, status: int) -> None:
        """Ends the operation with a document of the profile; None: an empty success."""
        if self.ended:
            return
        self.ended = True
        session, frame, _, _ = self._submit
        self._link.write(encode.result_push(session, frame, status, document))

    def fail(self, problem: Problem) -> None:
        """Ends the operation with response.error."""
        if problem.status in (429, 503) and not self.ended:
            self._wait(problem.retry_ms or RETRY_MS)
        self.end(problem.document, problem.status)

    def _wait(self, delay_ms: int) -> None:
        """What NNRP has to say of an overload, beside the profile's error (profile 10)."""
        session, frame, operation, _ = self._submit
        packet = encode.retry_after(session, frame, operation, 1, delay_ms)
        self._link.write(packet)

    def drop(self, reason: DropReason, diagnostic: str) -> None:
        """Gives the operation up without a document."""
        if self.ended:
            return
        self.ended = True
        session, frame, operation, _ = self._submit
        sequence = self._sequence + 1
        packet = encode.result_drop_reason(
            session, frame, operation, sequence, reason, diagnostic.encode()
        )
        self._link.write(packet)
