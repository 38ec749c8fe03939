"""The words of teeline as types: severities, places, violations, rules and the exchange they belong to.

What belongs here: plain data that detection, policy, sinks and renderers share. What doesn't: how a
fault is found (checks/), how it is worded for people (proxy/reports), how it is stored (proxy/audit).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Headers = tuple[tuple[str, str], ...]
"""Header fields as received: order, case and repeats kept; bytes above ASCII as latin-1."""

OTHER_WORD = "<other>"
"""Stands in ``Circumstances.words`` for a value that can be no protocol word."""


class Severity(enum.IntEnum):
    """How bad a breach is; ordered, so that the worst is the maximum."""

    INFO = 1
    WARN = 2
    FAIL = 3

    @classmethod
    def parse(cls, word: str) -> Severity:
        """The severity a word names (``info``, ``warn``, ``fail``); ValueError otherwise."""
        try:
            return cls[word.upper()]
        except KeyError:
            raise ValueError(f"unknown severity {word!r}: info, warn or fail") from None

    @property
    def word(self) -> str:
        return self.name.lower()


class Verdict(enum.StrEnum):
    """What an exchange is worth: its worst severity, where info counts as pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"

    @classmethod
    def of(cls, severity: Severity | None) -> Verdict:
        if severity is Severity.FAIL:
            return cls.FAIL
        return cls.WARN if severity is Severity.WARN else cls.PASS


class Side(enum.StrEnum):
    """Whose bytes a place lies in."""

    REQUEST = "request"
    RESPONSE = "response"


class Unit(enum.StrEnum):
    """What a place counts: its number is 1-based within the unit's kind."""

    HEAD = "head"
    BODY = "body"
    EVENT = "event"
    FRAME = "frame"
    PACKET = "packet"


class Ended(enum.StrEnum):
    """How an exchange came to its end, as the party that watched the sockets saw it."""

    COMPLETE = "complete"
    CLIENT_CLOSED = "client_closed"
    UPSTREAM_ABORTED = "upstream_aborted"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"


class Place(NamedTuple):
    """Where a breach shows.

    ``index`` is the 1-based number of the unit (SSE events with data; ``[DONE]`` not counted), 0 where
    the unit has no number. ``byte`` is the 0-based offset in the decoded body. ``pointer`` is a JSON
    Pointer (RFC 6901) into the unit's document, empty for the whole of it.
    """

    side: Side
    unit: Unit
    index: int = 0  # type: ignore[assignment]  # the unit's number; nobody searches a place
    byte: int = 0
    pointer: str = ""


class RuleSource(NamedTuple):
    """What a rule rests on, in words that a reader can follow."""

    text: str
    section: str = ""
    deduction: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong: declared once, in ``rules/<family>.toml``.

    ``bad`` and ``good`` are examples in the form that rules/examples.py renders; they are the rule's
    tests. A rule has one severity: a condition that changes the severity is another rule. ``blames``
    says whose fault a breach is where the family doesn't: ``client``, ``server`` or ``either`` (whoever
    sent the bytes).
    """

    id: str
    severity: Severity
    summary: str
    why: str
    fix: str
    source: RuleSource
    bad: Mapping[str, object]
    good: Mapping[str, object]
    core: bool = False
    blames: str = ""

    @property
    def family(self) -> str:
        return self.id.partition(".")[0]

    @property
    def side(self) -> Side:
        """Whose fault a breach is: ``request.*`` is the client's, everything else the relay's.

        Of a rule that blames ``either`` the violation knows more.
        """
        ours = self.family == "request" or self.blames == "client"
        return Side.REQUEST if ours else Side.RESPONSE


class Circumstances(NamedTuple):
    """What was the case at every place of a violation, as far as a vendor profile may ask.

    ``held`` are conditions (profiles.CONDITIONS) that held at each place. ``words`` are the protocol
    words or member names that stood there, all of them; OTHER_WORD for whatever is none.
    """

    held: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


NO_CIRCUMSTANCES = Circumstances()


@dataclass(slots=True)
class Violation:
    """One rule broken in one exchange, at its first place.

    ``count`` grows while the exchange is open and is final when it closes. ``message`` and ``evidence``
    hold no content of a conversation: see evidence.py. ``note`` is what the policy has to say of it: why
    its severity is not the rule's, what a vendor is known for.
    """

    rule: Rule
    severity: Severity
    message: str
    place: Place
    evidence: str
    at: float
    count: int = 1
    circumstances: Circumstances = NO_CIRCUMSTANCES
    note: str = ""

    @property
    def side(self) -> Side:
        """Whose fault it is."""
        return self.place.side if self.rule.blames == "either" else self.rule.side


@dataclass(slots=True)
class Timing:
    """Times as the caller's clock gave them (seconds); None where the moment never came."""

    start: float = 0.0
    first_byte: float | None = None
    first_event: float | None = None
    last_byte: float | None = None
    end: float | None = None
    largest_gap: float = 0.0


class TimelineEntry(NamedTuple):
    """A moment of an exchange: when, what (head, read, violation, ...), event number, bytes."""

    at: float
    kind: str
    index: int  # type: ignore[assignment]  # as in Place
    size: int


@dataclass(slots=True)
class Marks:
    """What tells one vendor's answers from another's, as it was seen (profiles.py compares it).

    Header values and ids are a peer's: nobody stores, shows or sends them. ``host`` is the upstream's
    where the request line or the caller named it; ``members`` are names at the top of the answer's first
    and last objects; ``recorded`` is the profile that an audit record names.
    """

    host: str = ""
    headers: Headers = ()
    fingerprint: str = ""
    id: str = ""
    members: frozenset[str] = frozenset()
    recorded: str = ""


@dataclass(slots=True)
class Exchange:
    """One request with its answer: who it is (given by the caller) and what was seen of it.

    The identity fields are set by whoever opens the exchange; everything else is filled in by the
    inspector and final at ``Closed``.
    """

    # identity, given
    id: str = ""
    upstream: str = ""
    client: str = ""
    client_key: str = ""
    """A fingerprint of the request's key, where the caller makes one; never the key."""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    parent_sampled: bool = True
    # the request
    method: str = ""
    path: str = ""
    operation: str = ""
    model: str | None = None
    stream: bool = False
    settings: dict[str, int | float | str] = field(default_factory=dict)
    """What the request set, as checks/settings.py names it: numbers and protocol words."""
    request_bytes: int = 0
    # the answer
    status: int | None = None
    event_stream: bool = False
    """Whether the answer's head announces an event stream (``text/event-stream``)."""
    request_id: str | None = None
    response_id: str | None = None
    response_model: str | None = None
    service_tier: str | None = None
    response_bytes: int = 0
    events: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    finish: list[str] = field(default_factory=list)
    error_type: str | None = None
    listed_models: frozenset[str] | None = None
    """The ids of a whole model list: what later exchanges of this upstream may be checked against."""
    marks: Marks = field(default_factory=Marks)
    # the vendor profile that the policy applied (empty: none), and why this one or none
    profile: str = ""
    profile_reason: str = ""
    # the outcome
    timing: Timing = field(default_factory=Timing)
    timeline: list[TimelineEntry] = field(default_factory=list)
    ended: Ended | None = None
    inspection: str = "full"
    violations: list[Violation] = field(default_factory=list)
    recording: object | None = None
    """What the caller keeps of the bytes, where it does; no check looks at it."""

    def worst(self, side: Side) -> Severity | None:
        """The worst severity among the breaches of one side; None where there are none."""
        return max((v.severity for v in self.violations if v.side is side), default=None)

    @property
    def verdict(self) -> Verdict:
        """The relay's verdict; the client's own faults never count against it."""
        return Verdict.of(self.worst(Side.RESPONSE))

    @property
    def client_verdict(self) -> Verdict:
        return Verdict.of(self.worst(Side.REQUEST))
