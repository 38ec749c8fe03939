"""Vendor profiles: which deviations of a known vendor weigh less, and how a vendor is recognised.

What belongs here: what a profile is, what makes one wrong, the closed set of its conditions, and choosing
one for an exchange. What doesn't: the profiles themselves (config/profiles, data), applying them beside
the user's own settings (policy.py), noting what was seen (checks/circumstances.py, checks/marks.py).

A profile only lowers severities, from fail to warn or info and from warn to info. Another API's words
(``*.finish-foreign``) are never lowered: they mean that nobody translated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from teeline.validators.checks.circumstances import TESTS, WORDS
from teeline.validators.memo import Memo
from teeline.validators.model import Exchange, Marks, Rule, Severity, Violation

AUTO: Final = "auto"
NONE: Final = "none"
"""Words where a profile's name may stand: by the marks of the answer; no profile at all."""

CONDITIONS: Final[Mapping[str, str]] = {
    "finish-length": "the answer was ended by the length limit",
    "finish-content-filter": "the choice was ended by a content filter",
    "only-completion-tokens": "completion_tokens is the only counter that is missing",
    "typed-parts": "the content is an array of text and thinking parts",
    "whole-entry": "each entry holds a whole call: a name, and arguments that are one JSON object",
}
"""What a lowering may depend on, besides words and models: names, with their meaning for the docs."""

_NEVER: Final = "finish-foreign"


class ProfileError(ValueError):
    """A profile can't be used; the text is one line that says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """One rule that weighs less. All qualifiers that are set must hold at every place of the violation.

    ``when``: names of CONDITIONS. ``words``: the protocol words that may stand there. ``models``: how the
    name of the requested or the answering model begins, in lower case and without provider prefix.
    """

    rule: str
    to: Severity
    because: str
    when: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()

    def applies(self, violation: Violation, exchange: Exchange) -> bool:
        """Whether this violation is one that the profile knows."""
        seen = violation.circumstances
        return (
            self.when <= seen.held
            and (not self.words or (bool(seen.words) and seen.words <= self.words))
            and (not self.models or _is_model(self.models, exchange))
        )


@dataclass(frozen=True, slots=True)
class Markers:
    """What only this vendor's answers show. Each is enough.

    ``hosts`` are host names with their subdomains (``-x.y``: whatever ends so), ``headers`` field names
    with the start of their value (empty: any value), in lower case; ``fingerprints`` and ``ids`` how
    ``system_fingerprint`` and ``id`` begin; ``members`` names at the top of an answer's object.
    """

    hosts: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    fingerprints: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one vendor.

    ``names`` are other names it may be asked for by. ``aliases``: requested model -> models that answer
    for it, which is no substitution. ``extensions`` are members that the vendor adds, ``notes`` sentences
    that explain a rule for this vendor and change nothing.
    """

    name: str
    title: str
    about: str = ""
    names: tuple[str, ...] = ()
    lower: tuple[Lowering, ...] = ()
    markers: Markers = Markers()
    aliases: Mapping[str, frozenset[str]] = field(default_factory=dict)
    extensions: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict)

    def lowering(self, violation: Violation, exchange: Exchange) -> Lowering | None:
        """The lowering that applies to a violation: the one that lowers most."""
        fitting = [
            lowering
            for lowering in self.lower
            if lowering.rule == violation.rule.id and lowering.applies(violation, exchange)
        ]
        return min(fitting, key=lambda lowering: lowering.to, default=None)

    def is_alias(self, violation: Violation, exchange: Exchange) -> bool:
        """Whether a substituted model is one that this vendor answers with by its own word."""
        if violation.rule.id != "cross.model-substituted" or not exchange.model:
            return False
        known = self.aliases.get(_bare(exchange.model), frozenset())
        return _bare(exchange.response_model or "") in known

    def note(self, violation: Violation) -> str:
        """What is known of a rule at this vendor; empty for nothing."""
        words = violation.circumstances.words
        if violation.rule.id in self.notes:
            return self.notes[violation.rule.id]
        if violation.rule.id in EXTENSION_RULES and words and words <= self.extensions:
            return f"known extensions of {self.title}"
        return ""


EXTENSION_RULES: Final = frozenset(
    {"chat.unknown-field", "responses.unknown-field", "usage.vendor-fields"}
)
"""Rules whose words are the names of members that the protocol doesn't have."""


def check(profile: Profile, rules: Mapping[str, Rule]) -> None:
    """Raises ProfileError unless the profile only lowers severities of rules that exist."""
    for lowering in profile.lower:
        _check_lowering(lowering, rules)
    for rule_id in profile.notes:
        if rule_id not in rules:
            raise ProfileError(f"notes: no rule is called {rule_id}")


def _check_lowering(lowering: Lowering, rules: Mapping[str, Rule]) -> None:
    rule = rules.get(lowering.rule)
    if rule is None:
        raise ProfileError(f"lower: no rule is called {lowering.rule}")
    if rule.id.endswith(_NEVER):
        raise ProfileError(f"lower: {rule.id} is never lowered: nobody translated")
    if lowering.to >= rule.severity:
        raise ProfileError(
            f"lower: {rule.id} is {rule.severity.word}, {lowering.to.word} is not below that"
        )
    unknown = sorted(lowering.when - CONDITIONS.keys())
    if unknown:
        raise ProfileError(f"lower: {rule.id}: no condition is called {unknown[0]}")
    unasked = sorted(lowering.when - TESTS.get(rule.id, {}).keys())
    if unasked:
        raise ProfileError(f"lower: {unasked[0]} is not known for {rule.id}")
    if lowering.words and rule.id not in WORDS:
        raise ProfileError(f"lower: the words of {rule.id} are not known")


class Setting(NamedTuple):
    """How the profile of an upstream is chosen: by name, AUTO or NONE; ``host`` is the upstream's."""

    profile: str = AUTO
    host: str = ""


AUTOMATIC: Final = Setting()


class Profiles:
    """The known profiles, and which of them an exchange gets.

    ``upstreams`` maps the names of upstreams to their settings; ``default`` holds for every other one.
    ProfileError where a setting names no profile.
    """

    def __init__(
        self,
        known: Iterable[Profile] = (),
        upstreams: Mapping[str, Setting] | None = None,
        default: Setting = AUTOMATIC,
    ) -> None:
        self.known = tuple(known)
        self._named = {n: p for p in self.known for n in (p.name, *p.names)}
        self._markers = _MarkerIndex(self.known)
        self._upstreams = dict(upstreams or {})
        self._default = default
        for setting in (*self._upstreams.values(), default):
            if setting.profile not in (AUTO, NONE) and setting.profile not in self._named:
                raise ProfileError(f"no profile is called {setting.profile}")

    def choose(self, exchange: Exchange) -> Profile | None:
        """The profile of an exchange by what is known of it now; says on the exchange which, and why."""
        wanted, host = self._upstreams.get(exchange.upstream, self._default)
        if wanted == NONE:
            return None
        if wanted != AUTO:
            profile = self._named[wanted]
            exchange.profile, exchange.profile_reason = profile.name, "configured"
            return profile
        marks = exchange.marks
        if host:
            marks.host = host
        if marks.recorded or self._markers.may_find(marks):
            return self._recognised(exchange, marks, marks.recorded)
        exchange.profile = exchange.profile_reason = ""
        return None

    def _recognised(self, exchange: Exchange, marks: Marks, recorded: str) -> Profile | None:
        found = self._markers.found(marks)
        if not found and recorded in self._named:
            found = {self._named[recorded].name: "recorded"}
        exchange.profile = exchange.profile_reason = ""
        if len(found) == 1:
            ((exchange.profile, exchange.profile_reason),) = found.items()
            return self._named[exchange.profile]
        if found:
            several = " and ".join(f"{name} ({marker})" for name, marker in sorted(found.items()))
            exchange.profile_reason = f"none: marks of {several}"
        return None


def _size(names: Collection[str]) -> int:
    return sum(map(len, names))


class _MarkerIndex:
    """The markers of all profiles by what they look at, so that an exchange costs a few look-ups."""

    def __init__(self, known: Iterable[Profile]) -> None:
        self._hosts: dict[str, str] = {}
        self._headers: dict[str, list[tuple[str, str]]] = {}
        self._members: dict[str, str] = {}
        self._starts: list[tuple[str, str, str]] = []
        for profile in known:
            markers = profile.markers
            self._hosts |= dict.fromkeys(markers.hosts, profile.name)
            self._members |= dict.fromkeys(markers.members, profile.name)
            for name, start in markers.headers:
                self._headers.setdefault(name, []).append((start, profile.name))
            for slot, starts in (("fingerprint", markers.fingerprints), ("id", markers.ids)):
                self._starts += ((slot, start, profile.name) for start in starts)
        self._fingerprints = tuple(s for slot, s, _ in self._starts if slot == "fingerprint")
        self._ids = tuple(s for slot, s, _ in self._starts if slot == "id")
        self._by_host: Memo[str, Mapping[str, str]] = Memo(self._marking_host, len)
        self._marking: Memo[tuple[str, ...], tuple[int, ...]] = Memo(self._marking_fields, _size)
        self._unmarked: Memo[frozenset[str], bool] = Memo(self._members.keys().isdisjoint, _size)

    def may_find(self, marks: Marks) -> bool:
        """Whether an answer shows any marker: most show none, which takes a few look-ups."""
        return bool(
            (marks.host and self._by_host[marks.host])
            or (marks.headers and self._marking[next(zip(*marks.headers, strict=True))])
            or marks.fingerprint.startswith(self._fingerprints)
            or marks.id.startswith(self._ids)
            or not self._unmarked[marks.members]
        )

    def found(self, marks: Marks) -> dict[str, str]:
        """Profile -> the marker that an answer shows of it, in words."""
        found = dict(self._by_host[marks.host]) if marks.host else {}
        for position in self._marking[tuple(name for name, _ in marks.headers)]:
            name, value = marks.headers[position]
            for start, profile in self._headers[name.lower()]:
                if value.lower().startswith(start):
                    found.setdefault(profile, f"header {name.lower()}")
        for slot, start, profile in self._starts:
            if getattr(marks, slot).startswith(start):
                found.setdefault(profile, f"{slot} {start}")
        for member in sorted(marks.members & self._members.keys()):
            found.setdefault(self._members[member], f"member {member}")
        return found

    def _marking_fields(self, names: Sequence[str]) -> tuple[int, ...]:
        """The positions of fields that may be a mark."""
        return tuple(n for n, name in enumerate(names) if name.lower() in self._headers)

    def _marking_host(self, host: str) -> Mapping[str, str]:
        """The same for the host alone."""
        known: dict[str, str] = {}
        for suffix in _suffixes(host.lower()):
            if suffix in self._hosts:
                known.setdefault(self._hosts[suffix], f"host {suffix.lstrip('-')}")
        return known


def _suffixes(host: str) -> Iterator[str]:
    """A host's parent domains, itself included, and what stands behind the dashes of its first label."""
    labels = host.split(".")
    for n in range(len(labels)):
        yield ".".join(labels[n:])
    words = labels[0].split("-")
    for n in range(1, len(words)):
        yield "-" + ".".join(["-".join(words[n:]), *labels[1:]])


def _is_model(starts: tuple[str, ...], exchange: Exchange) -> bool:
    return any(
        model is not None and _bare(model).startswith(starts)
        for model in (exchange.model, exchange.response_model)
    )


def _bare(model: str) -> str:
    return model.lower().rpartition("/")[2]
