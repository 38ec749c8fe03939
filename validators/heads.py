"""Header fields by their names: what is of interest in a head, told once for each list of names.

What belongs here: which names mean what, and where they stand. What doesn't: what their values must be
(checks/http.py, checks/requestrules.py). A client or a server sends the same names in the same order again
and again, and only values change; so that the names of a whole head are one key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from teeline.validators.memo import Memo
from teeline.validators.model import Headers

REQUEST_IDS: Final = (
    "x-request-id",
    "apim-request-id",
    "cf-ray",
    "request-id",
    "x-amzn-requestid",
)
"""Fields that name an answer, for the people who run the server."""
_SHOWN_IDS: Final = REQUEST_IDS[:2]
_TIMED: Final = frozenset({"openai-processing-ms", "openai-version"})
_LIMITS: Final = "x-ratelimit-"
_RATE_LIMIT: Final = re.compile(r"x-ratelimit-(limit|remaining|reset)-[a-z0-9-]+\Z")
_CREDENTIAL: Final = re.compile(
    r"(.*[-_])?(authorization|api-?key|(subscription|access)-key|token)\Z", re.I
)
_KEYS: Final = frozenset({"authorization", "api-key", "x-api-key"})


_RETRIES: Final = frozenset({"retry-after", "retry-after-ms"})


class ContentType(NamedTuple):
    """A content-type field, both in lower case and empty where there is none."""

    media: str
    charset: str


def _content_type(value: str) -> ContentType:
    media, *parameters = value.split(";")
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        if name.strip().lower() == "charset":
            return ContentType(media.strip().lower(), charset.strip().strip('"').lower())
    return ContentType(media.strip().lower(), "")


content_type: Final = Memo(_content_type, len)
"""The content type that a field's value names."""


class RateLimit(NamedTuple):
    """Where a documented rate-limit field stands; ``reset``: it holds a duration, or a date."""

    position: int
    name: str
    reset: bool


class FieldNames:
    """The names of one head. Positions count its fields from 0.

    ``at`` gives the positions of a field by its name in lower case, in order. ``request_id`` is the field
    that reports show, -1 for none. ``credentials`` are the fields that may say who a client is, gateways
    having names of their own for it; ``keys`` those that hold its key. ``type`` is the first content-type,
    -1 for none. ``coded``: there is a content-encoding. ``usual``: no rule of answers is about the names.
    """

    __slots__ = (
        "at",
        "coded",
        "credentials",
        "identified",
        "keys",
        "limited",
        "rate_limits",
        "request_id",
        "retries",
        "timed",
        "type",
        "usual",
    )

    def __init__(self, names: tuple[str, ...]) -> None:
        lower = [name.lower() for name in names]
        at: dict[str, list[int]] = {}
        for position, name in enumerate(lower):
            at.setdefault(name, []).append(position)
        self.at: Mapping[str, tuple[int, ...]] = {name: tuple(found) for name, found in at.items()}
        self.request_id = next((at[name][0] for name in _SHOWN_IDS if name in at), -1)
        self.identified = not at.keys().isdisjoint(REQUEST_IDS)
        self.timed = at.keys() >= _TIMED
        self.limited = any(name.startswith(_LIMITS) for name in at)
        matches = [(n, _RATE_LIMIT.match(name)) for n, name in enumerate(lower)]
        self.rate_limits = tuple(
            RateLimit(n, match[0], match[1] == "reset") for n, match in matches if match is not None
        )
        self.credentials = tuple(
            n
            for n, name in enumerate(lower)
            if name == "cookie" or _CREDENTIAL.match(names[n]) is not None
        )
        self.type = at["content-type"][0] if "content-type" in at else -1
        self.coded = "content-encoding" in at
        self.retries = not at.keys().isdisjoint(_RETRIES)
        self.usual = self.identified and self.timed and self.limited and not self.retries
        self.keys = tuple(n for n, name in enumerate(lower) if name in _KEYS)

    def values(self, headers: Headers, name: str) -> list[str]:
        """All values of a field, in order; ``headers`` is the head that these names are of."""
        positions = self.at.get(name)
        return [headers[position][1] for position in positions] if positions else []


_EACH: Final = 16
"""What a name counts for beside its characters: it costs more to keep than these."""


def _size(names: tuple[str, ...]) -> int:
    return sum(map(len, names)) + _EACH * len(names)


_known: Final = Memo(FieldNames, _size)
_NONE: Final = FieldNames(())


def names_among(names: tuple[str, ...]) -> FieldNames:
    """What these names mean in a head that has them in this order."""
    return _known[names]


def names_of(headers: Headers) -> FieldNames:
    """The names of a head's fields."""
    return _known[next(zip(*headers, strict=True))] if headers else _NONE
