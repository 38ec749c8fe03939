"""A plan run against a live server, case by case, directly or through a tap of our own.

What belongs here: asking, what each case came to, and the results as the public suite writes them. What
doesn't: selection (plan.py), expectations (judge.py), sessions (conversation.py).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from teeline.proxy.clock import SystemClock
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.conversation import Conversation
from teeline.proxy.nnrp.conformance.judge import judge
from teeline.proxy.nnrp.conformance.suite import Recipe
from teeline.proxy.nnrp.discovery import Ask
from teeline.proxy.nnrp.documents import written
from teeline.proxy.nnrp.observed import Observed
from teeline.proxy.nnrp.tap import NnrpTap
from teeline.proxy.nnrp.watch import Watch
from teeline.proxy.observers import Observers
from teeline.proxy.sinks import Fanout
from teeline.validators.events import Closed, Found, Opened
from teeline.validators.fields.nnrp import PROFILE, SCHEMA_VERSION
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Ended, Severity, Side
from teeline.validators.nnrp.capabilities import Capabilities
from teeline.validators.policy import Policy
from teeline.validators.rules import register

MAX_TOLD: Final = 1000
"""Events of one case that its result lists."""
_CONTRADICTS: Final = "unsupported_operation"


@dataclass(frozen=True, slots=True)
class Target:
    """The server under test; ``timeout`` is in seconds, for one case."""

    endpoint: Endpoint
    tls: ssl.SSLContext | None = None
    timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one case came to: ``outcome`` is passed, failed or skipped. ``rules`` broke on the wire."""

    recipe: Recipe
    outcome: str
    observed: Observed
    message: str = ""
    rules: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The case as an entry of api-profile-case-results."""
        skipped = self.outcome == "skipped"
        diagnostics: dict[str, Any] = {}
        if self.observed.notes:
            diagnostics["notes"] = self.observed.notes
        if self.rules:
            diagnostics["rules"] = list(self.rules)
        return {
            "id": self.recipe.id,
            "outcome": self.outcome,
            "terminal": self.recipe.terminal if skipped else self.observed.terminal,
            "events": self._told(),
            **({"diagnostics": diagnostics} if diagnostics else {}),
            **({"message": self.message} if self.message else {}),
        }

    def _told(self) -> list[dict[str, Any]]:
        """The events that have a type, as the public schema wants them: the first ones, and the last."""
        typed = [event for event in self.observed.events if isinstance(event.get("type"), str)]
        return typed if len(typed) <= MAX_TOLD else [*typed[: MAX_TOLD - 1], typed[-1]]


def results_document(adapter: str, results: Sequence[Result]) -> dict[str, Any]:
    """The results as api-profile-case-results."""
    return {
        "profile": PROFILE,
        "schema_version": SCHEMA_VERSION,
        "adapter": adapter,
        "results": [result.document() for result in results],
    }


async def run_case(recipe: Recipe, target: Target, declared: Capabilities) -> Result:
    """Runs one case in a connection of its own. Raises ConversationError where there is none."""
    if _contradicts(recipe, declared):
        message = f"it expects {recipe.operation} to be refused, which is declared"
        return Result(recipe, "skipped", Observed(), message)
    envelope = written(
        {"schema_version": SCHEMA_VERSION, "operation": recipe.operation, **recipe.request}
    )
    conversation = await Conversation.open(target.endpoint, target.tls)
    try:
        running = (
            conversation.run(envelope, cancel_after=recipe.cancel_after, timeout=target.timeout)
            for _ in range(recipe.copies)
        )
        observed = await asyncio.gather(*running)
    finally:
        await conversation.close()
    if recipe.cancel_after is not None and _ended_in_time(observed[0]):
        return Result(
            recipe, "skipped", observed[0], "the answer ended before a cancel could end it"
        )
    verdicts = [judge(recipe, one) for one in observed]
    # Of several at once one must be what is due, and every one must have an end.
    best = min(range(len(verdicts)), key=lambda n: len(verdicts[n].reasons))
    endless = sum(not one.end for one in observed)
    reasons = list(verdicts[best].reasons)
    if endless and recipe.copies > 1:
        reasons.append(f"{endless} of {recipe.copies} operations had no end")
    outcome = "failed" if reasons else "passed"
    return Result(recipe, outcome, observed[best], "; ".join(reasons))


def _ended_in_time(observed: Observed) -> bool:
    """Whether a success was perhaps on its way when the cancel went out: that is no fault (profile 9)."""
    after = observed.after_cancel
    return observed.terminal == "success" and after is not None and after < DEFAULT_LIMITS.grace


def _contradicts(recipe: Recipe, declared: Capabilities) -> bool:
    """A recipe that wants an operation refused says nothing of a server that declares it."""
    wanted = any(
        isinstance(error := event.fields.get("error"), dict) and error.get("code") == _CONTRADICTS
        for event in recipe.events
    )
    return wanted and recipe.operation in declared.operations


def asking(target: Target) -> Ask:
    """A way to ask the server, each time in a connection of its own."""

    async def ask(envelope: bytes) -> Observed:
        conversation = await Conversation.open(target.endpoint, target.tls)
        try:
            return await conversation.run(envelope, timeout=target.timeout)
        finally:
            await conversation.close()

    return ask


class _Breaches:
    """A sink that keeps which rules the server broke, from warn up."""

    name = "conformance"

    def __init__(self) -> None:
        self.rules: dict[str, Severity] = {}

    async def start(self) -> None: ...

    def opened(self, event: Opened) -> None: ...

    def found(self, event: Found) -> None: ...

    def closed(self, event: Closed) -> None:
        for violation in event.exchange.violations:
            if violation.side is Side.RESPONSE and violation.severity >= Severity.WARN:
                self.rules[violation.rule.id] = violation.severity

    async def drain(self, deadline: float) -> None: ...

    async def close(self) -> None: ...


class _Watched(Watch):
    """An observer that tells when its connection has been judged."""

    judged: asyncio.Event

    async def close(self, ended: Ended) -> None:
        await super().close(ended)
        self.judged.set()


class Tapped:
    """A tap in front of the server, and what it finds case by case."""

    def __init__(self, target: Target, breaches: _Breaches, watched: list[_Watched]) -> None:
        self.target = target
        self._breaches, self._watched = breaches, watched

    async def judged(self, result: Result) -> Result:
        """A result with what the tap found since the last one; what is at fail fails the case."""
        for watched in self._watched:
            await watched.judged.wait()
        self._watched.clear()
        found, self._breaches.rules = self._breaches.rules, {}
        failing = [rule for rule, severity in found.items() if severity >= Severity.FAIL]
        if not failing:
            return replace(result, rules=sorted(found))
        broken = f"rules broken on the wire: {', '.join(sorted(failing))}"
        message = f"{result.message}; {broken}" if result.message else broken
        return replace(result, outcome="failed", message=message, rules=sorted(found))


@asynccontextmanager
async def tapped(target: Target, declared: Capabilities) -> AsyncIterator[Tapped]:
    """A tap on loopback before the server, its rules held against what the server declares."""
    breaches, clock = _Breaches(), SystemClock()
    observers = Observers(Inspectors(), Policy(register()), Fanout([breaches]), clock)

    watched: list[_Watched] = []

    def watch(client: str) -> Watch:
        one = _Watched(observers, clock, DEFAULT_LIMITS, declared, upstream="", client=client)
        one.judged = asyncio.Event()
        watched.append(one)
        return one

    at = target.endpoint
    tap = NnrpTap(Address("127.0.0.1", 0), at.address, watch, connect_tls=target.tls)
    listening = await tap.start()
    try:
        through = replace(target, endpoint=Endpoint(listening, at.target), tls=None)
        yield Tapped(through, breaches, watched)
    finally:
        await tap.stop()
        await observers.settle(2.0)
