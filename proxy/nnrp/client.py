"""An NNRP client: submits envelopes of openai-compatible/1 over a bounded pool of sessions.

What belongs here: which session takes an operation, connecting again, the end. What doesn't: a session by
itself (clientsession.py), envelopes and events (proxy/nnrp/bridge).

Each session has a connection of its own, and operations are spread over connections before they share one:
a slip in the protocol, a loss or a reader that is slow takes the fewest others along.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final

from teeline.proxy.nnrp.clientlink import Endpoint, LinkError
from teeline.proxy.nnrp.clientoperation import Operation
from teeline.proxy.nnrp.clientsession import ClientSession, SessionError

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class BusyError(Exception):
    """All sessions have as many operations as they may, or the server wants no more sessions now."""


class UnavailableError(Exception):
    """No session could be had in time; the text is one line that quotes no peer."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """``sessions`` connections with ``in_flight`` operations each, at least 1 and at most 65535.

    Times are seconds: ``connect`` for a session in all attempts, ``idle`` until an unused one is closed
    (servers end a session's lease after 30 s without news), ``close`` for an orderly end.
    ``packet`` are the bytes of the largest packet.
    """

    sessions: int = 64
    in_flight: int = 4
    connect: float = 10.0
    idle: float = 25.0
    close: float = 1.0
    packet: int = 16 * 1024 * 1024


class NnrpClient:
    """One server. Used on one event loop, closed with ``close``."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        tls: ssl.SSLContext | None = None,
        limits: ClientLimits | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._tls = tls
        self._limits = limits or ClientLimits()
        self._sessions: set[ClientSession] = set()
        self._idle: dict[ClientSession, asyncio.TimerHandle] = {}
        self._dialling = 0
        self._news = asyncio.Event()
        self._pause = 0.0
        self._not_before = 0.0
        self._closing = False

    @property
    def sessions(self) -> int:
        """Sessions that are open."""
        return len(self._sessions)

    async def submit(self, envelope: bytes) -> Operation:
        """Sends an envelope. Raises BusyError, UnavailableError; nothing is sent twice.

        The operation is the caller's to read to its end, or to cancel.
        """
        session = await self._session()
        self._used(session)
        return session.submit(envelope)

    async def close(self) -> None:
        """Cancels what is open and ends every session; idempotent."""
        self._closing = True
        self._tell()
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        sessions = list(self._sessions)
        for session in sessions:
            session.close()
        try:
            async with asyncio.timeout(self._limits.close):
                await asyncio.gather(*(session.closed() for session in sessions))
        except TimeoutError:
            for session in sessions:
                session.abort()
            await asyncio.gather(*(session.closed() for session in sessions))

    # -- which session ---------------------------------------------------------------------------------

    async def _session(self) -> ClientSession:
        """A session with room. Raises BusyError, UnavailableError."""
        deadline = asyncio.get_running_loop().time() + self._limits.connect
        reason: LinkError | SessionError = LinkError("no answer in time")
        while not self._closing:
            session = min((s for s in self._sessions if s.free), key=_load, default=None)
            used = sum(not s.ending for s in self._sessions)
            full = used + self._dialling >= self._limits.sessions
            if session is not None and (full or not session.load):
                return session
            if full and not self._dialling:
                raise BusyError
            try:
                async with asyncio.timeout_at(deadline):
                    if full:
                        await self._news.wait()
                    else:
                        return await self._dialled()
            except (LinkError, SessionError) as error:
                reason = error
                if session is not None and session.free:
                    return session
                if isinstance(error, SessionError) and error.refused:
                    raise UnavailableError(str(error)) from None
            except TimeoutError:
                if isinstance(reason, SessionError) and reason.busy:
                    raise BusyError from None
                raise UnavailableError(str(reason)) from None
        raise UnavailableError("the client is closed")

    async def _dialled(self) -> ClientSession:
        """A new session, once it is time for another attempt. Raises LinkError, SessionError."""
        loop = asyncio.get_running_loop()
        self._dialling += 1
        try:
            while (wait := self._not_before - loop.time()) > 0:
                await asyncio.sleep(wait)
            session = await self._opened()
        except (LinkError, SessionError):
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            self._not_before = loop.time() + self._pause
            raise
        finally:
            self._dialling -= 1
            self._tell()
        self._pause = 0.0
        return session

    async def _opened(self) -> ClientSession:
        session = await ClientSession.open(
            self.endpoint,
            self._tls,
            in_flight=self._limits.in_flight,
            max_packet=self._limits.packet,
            changed=self._changed,
        )
        if self._closing or not session.free:
            session.abort()
            raise SessionError("the session was closed at once")
        self._sessions.add(session)
        self._changed(session)
        return session

    # -- what becomes of sessions ----------------------------------------------------------------------

    def _tell(self) -> None:
        """Wakes those that wait for somebody else's session."""
        self._news.set()
        self._news = asyncio.Event()

    def _changed(self, session: ClientSession) -> None:
        self._used(session)
        if session.over:
            self._sessions.discard(session)
        elif not session.load and session in self._sessions and not self._closing:
            loop = asyncio.get_running_loop()
            self._idle[session] = loop.call_later(self._limits.idle, self._unused, session)
        self._tell()

    def _used(self, session: ClientSession) -> None:
        timer = self._idle.pop(session, None)
        if timer is not None:
            timer.cancel()

    def _unused(self, session: ClientSession) -> None:
        """It stays in the pool until it is gone, so that ``close`` waits for it."""
        session.close()
        self._idle[session] = asyncio.get_running_loop().call_later(
            self._limits.close, session.abort
        )


def _load(session: ClientSession) -> int:
    return session.load
