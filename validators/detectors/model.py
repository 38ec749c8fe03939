"""The words of the relay check as types: protocols, detectors, costs and requests.

What belongs here: plain data that the definitions, the scoring and the sender share.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class ProtocolFamily(enum.StrEnum):
    """A family of protocols. Anthropic's is known by its answers alone; nothing is asked in it."""

    RESPONSES = "responses"
    CHAT_COMPLETIONS = "chat_completions"
    ANTHROPIC = "anthropic"


class Detector(NamedTuple):
    """One part of the check. ``weight`` in percent of the total; 0: outside of it."""

    name: str
    weight: int
    about: str


class Cost(NamedTuple):
    """What a broken rule takes from a detector's 100 points: ``each`` a place, ``most`` in all."""

    each: int
    most: int

    def of(self, count: int) -> int:
        return min(self.each * max(count, 1), self.most)


def once(points: int) -> Cost:
    """A cost that does not grow with the number of places."""
    return Cost(points, points)


class ProbeSet(enum.IntEnum):
    """How much is asked; each set holds the ones before it."""

    SMOKE = 1
    FULL = 2
    EXTENDED = 3

    @classmethod
    def parse(cls, word: str) -> ProbeSet:
        return cls[word.upper()]


class Expect(enum.Enum):
    """What a probe wants of its answer, beyond what the rules ask of every answer."""

    ANSWER = "answer"
    PONG = "pong"
    CALL = "call"
    JSON = "json"
    OPTION = "option"
    """An option that a server may refuse without breaking the protocol."""
    REFUSAL = "refusal"
    """A request that must not be accepted."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request. ``body`` lacks the model, which is not known here; ``raw`` is sent as it is.

    ``family`` None: no request of one of the two protocols. ``again`` names the probe that is sent where
    this one's question stayed open.
    """

    name: str
    family: ProtocolFamily | None
    detector: str
    path: str
    body: Mapping[str, Any] | None = None
    raw: bytes | None = None
    method: str = "POST"
    expect: Expect = Expect.ANSWER
    tier: ProbeSet = ProbeSet.SMOKE
    again: str = ""
    bad_key: bool = False
    bad_model: bool = False

    @property
    def stream(self) -> bool:
        return self.body is not None and self.body.get("stream") is True

    def document(self, model: str) -> dict[str, Any] | None:
        """The request's document; None where it has none, or one that is no JSON."""
        return None if self.body is None else {"model": model, **self.body}
