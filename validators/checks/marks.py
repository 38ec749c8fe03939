"""What an answer shows of its vendor, kept on the exchange for the choice of a profile.

What belongs here: reading marks off a head and off the first and last objects of a body. What doesn't:
which mark belongs to whom (config/profiles), and choosing (profiles.py).
"""

from __future__ import annotations

from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from teeline.validators.checks.settings import tier_of
from teeline.validators.model import Exchange

FIRST_OBJECTS = 4
"""Objects of a stream that are looked at: the first may be a content filter's."""
MAX_MEMBERS = 64
MAX_TEXT = 128


def note_target(exchange: Exchange, target: str) -> None:
    """The host of a request target in absolute form, as recordings have it."""
    try:
        host = urlsplit(target).hostname
    except ValueError:
        return
    if host:
        exchange.marks.host = host[:255]


def note_object(exchange: Exchange, value: Any) -> None:
    """One of the first JSON objects of the answer, or its last one."""
    if not isinstance(value, dict):
        return
    marks = exchange.marks
    if not value.keys() <= marks.members:
        first = islice(value, MAX_MEMBERS)
        marks.members |= frozenset([name for name in first if len(name) <= MAX_TEXT])
    if not marks.fingerprint:
        marks.fingerprint = _mark(value.get("system_fingerprint"))
    if not marks.id:
        marks.id = _mark(value.get("id"))
    # The last one counts: a stream begins with what was asked for and ends with what it was.
    exchange.service_tier = tier_of(value) or exchange.service_tier


def _mark(text: Any) -> str:
    return text[:MAX_TEXT] if isinstance(text, str) else ""
