"""Who may see the page where a token is demanded: one-time codes, and the sessions they begin.

What belongs here: codes, sessions, and how often one may guess. What doesn't: names and origins, which
the admin port checks for every page (admin.py), HTTP (pages.py).

A browser can't send a token with an event stream, and must not be given one to keep. So a code that
works once and for minutes, or the token itself, is changed into a session: a random value in a cookie
that scripts can't read, other sites can't send, and that ends. Of codes and sessions only digests are
kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

COOKIE: Final = "teeline_session"
CODE_SECONDS: Final = 15 * 60.0
"""How long the code of the start can be used."""
SESSION_SECONDS: Final = 12 * 3600.0
SESSIONS: Final = 64
"""At once; a new one ends the oldest."""
GUESSES: Final = 10
"""Wrong codes a minute; more are not looked at."""

_MINUTE: Final = 60.0
_CODES: Final = 8


class TooManyGuessesError(Exception):
    """Nothing is compared for a while."""


class Sessions:
    """Codes and sessions of one process. ``token`` opens one too. ``clock`` gives seconds that grow."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = _digest(token)
        self._clock = clock
        self._codes: dict[bytes, float] = {}
        self._sessions: dict[bytes, float] = {}
        self._wrong: deque[float] = deque(maxlen=GUESSES)

    def code(self) -> str:
        """A new code, which works once."""
        made = secrets.token_urlsafe(24)
        self._codes[_digest(made)] = self._clock() + CODE_SECONDS
        while len(self._codes) > _CODES:
            del self._codes[next(iter(self._codes))]
        return made

    def begin(self, secret: str) -> str | None:
        """A session for a code or the token; None where it is neither. TooManyGuessesError."""
        now = self._clock()
        if len(self._wrong) == GUESSES and now - self._wrong[0] < _MINUTE:
            raise TooManyGuessesError
        if not self._is_known(_digest(secret), now):
            self._wrong.append(now)
            return None
        made = secrets.token_urlsafe(32)
        self._sessions[_digest(made)] = now + SESSION_SECONDS
        while len(self._sessions) > SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return made

    def holds(self, cookies: Mapping[str, str], cookie: str) -> bool:
        """Whether a request's cookies carry a session that is open."""
        found = cookies.get(cookie)
        if not found:
            return False
        ends = self._sessions.get(_digest(found))
        return ends is not None and self._clock() < ends

    def end(self, session: str) -> None:
        """Ends a session; one that isn't open is left alone."""
        self._sessions.pop(_digest(session), None)

    def _is_known(self, given: bytes, now: float) -> bool:
        ends = self._codes.pop(given, None)
        if ends is not None:
            return now < ends
        return hmac.compare_digest(given, self._token)


def cookie_name(port: int) -> str:
    """Cookies are a host's, whatever the port: two proxies on one machine need two names."""
    return f"{COOKIE}_{port}"


def _digest(secret: str) -> bytes:
    # Looked up by digest, so that no comparison of secrets tells by its time how much was right.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
