"""A check from its first request to its last.

What belongs here: the order of requests, which protocols are there, waiting where the server says so,
limits. What doesn't: one request (client.py), its judgement (judge.py), the choice (plan.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from teeline.proxy.clock import Clock, SystemClock
from teeline.proxy.probe import plan
from teeline.proxy.probe.client import OpenAIClient, RawResponse, UnreachableError
from teeline.proxy.probe.judge import Judge, is_usable, observed, violation
from teeline.proxy.probe.outcome import CheckOutcome, ProbeResult
from teeline.proxy.probe.plan import Settings
from teeline.proxy.probe.target import scrubbed
from teeline.proxy.text import printable
from teeline.validators.checks.http import http_date
from teeline.validators.detectors.model import Expect, Probe, ProtocolFamily
from teeline.validators.detectors.observations import PROBE_RULES, Observation
from teeline.validators.detectors.probes import MODELS
from teeline.validators.model import Violation

Progress = Callable[[str, int, int], None]
"""Told of each answer: the probe's name, how many are done, how many there are."""

_TRIES: Final = 4
_BAD_KEY: Final = "sk-teeline-wrong-key"
_UNAUTHORISED: Final = (401, 403)
_NO_ENDPOINT: Final = (404, 405, 501)
_MAYBE_NO_ENDPOINT: Final = (400, 403, 422, 500, 503)
_SAID_UNSUPPORTED: Final = ("not supported", "unsupported", "not implemented", "does not support")
_SHOWN_WORDS: Final = 300


class CantCheckError(Exception):
    """There is nothing to judge: unreachable, not authorised, no quota. The text is one line."""


class Runner:
    """Runs one check. ``progress`` is called after each answer."""

    def __init__(
        self,
        client: OpenAIClient,
        judge: Judge,
        settings: Settings,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._judge = judge
        self._settings = settings
        self._progress = progress
        self._now = (clock or SystemClock()).start()
        self._outcome = CheckOutcome(client.target, settings, started=self._now())
        self._gate = asyncio.Semaphore(settings.concurrency)
        self._total = 0
        self._done = 0
        self._unasked: list[str] = []
        self._unanswered: list[str] = []
        self._last_words = ""

    async def run(self) -> CheckOutcome:
        """The whole check; raises CantCheckError where there is nothing to judge."""
        outcome = self._outcome
        wanted = plan.probes(self._settings, self._settings.families)
        self._total = len(wanted) * self._settings.repeat
        first = [p for p in wanted if p is MODELS or p.expect is Expect.PONG]
        for probe in first:
            await self._ask(probe)
        self._check_access()
        outcome.families = self._supported()
        outcome.unsupported = self._settings.families - outcome.families
        rest = plan.probes(self._settings, outcome.families)
        again = [p for _ in range(self._settings.repeat - 1) for p in rest]
        once = [p for p in rest if p not in first]
        self._total = len(first) + len(once) + len(again)
        await asyncio.gather(*(self._ask_gated(p) for p in (*once, *again)))
        self._keep_order(wanted)
        self._note_the_rest()
        outcome.ended = self._now()
        return outcome

    # -- which protocols are there -----------------------------------------------------------------------

    def _check_access(self) -> None:
        """Raises CantCheckError where no plain question was answered for want of a key or of quota."""
        basics = [r for r in self._outcome.results if r.probe.expect is Expect.PONG]
        answered = [r.response for r in basics if r.response is not None]
        if not answered:
            if self._unanswered:
                raise CantCheckError(f"too many requests (429): {self._last_words}")
            reason = next((r.reason for r in basics if r.reason), "no request was sent")
            raise CantCheckError(f"{self._client.target.base_url}: {reason}")
        if all(response.status_code in _UNAUTHORISED for response in answered):
            words = self.own_words(answered[0])
            raise CantCheckError(f"not authorised ({answered[0].status_code}): {words}")

    def _supported(self) -> frozenset[ProtocolFamily]:
        """The protocols that go on; those that are not there leave the results under ``auto``."""
        wanted = self._settings.families
        if self._settings.protocol != "auto":
            return wanted
        basics = {r.probe.family: r for r in self._outcome.results if r.probe.expect is Expect.PONG}
        missing = {f for f, r in basics.items() if f is not None and _is_missing(r.response)}
        kept = wanted - missing
        if not kept:
            self._outcome.notes.append("Neither protocol is served below this base URL.")
            return frozenset({ProtocolFamily.CHAT_COMPLETIONS})
        self._outcome.results = [
            r for r in self._outcome.results if r.probe.family is None or r.probe.family in kept
        ]
        for family in sorted(missing):
            name = "the Responses API" if family is ProtocolFamily.RESPONSES else "Chat Completions"
            status = _status(basics[family].response)
            self._outcome.notes.append(
                f"The server has not got {name} (status {status}); left out."
            )
        return kept

    # -- one probe -----------------------------------------------------------------------------------------

    async def _ask_gated(self, probe: Probe) -> None:
        async with self._gate:
            await self._ask(probe)

    async def _ask(self, probe: Probe) -> None:
        """Sends a probe, and the one that asks again where its question stayed open."""
        result = await self._result(probe)
        if result is not None and _is_open(result):
            again = plan.follow_up(probe)
            second = await self._result(again) if again is not None else None
            if second is not None:
                # The second answer settles the question; the first one's other findings stay.
                result.violations = [v for v in result.violations if v.rule.id != _NOT_CALLED]
                self._outcome.results.append(result)
                result = second
        if result is not None:
            self._outcome.results.append(result)
        self._done += 1
        if self._progress is not None:
            self._progress(probe.name, self._done, max(self._total, self._done))

    async def _result(self, probe: Probe) -> ProbeResult | None:
        """What came of a probe; None where it was not sent, or answered 429 to the end."""
        try:
            response = await self._response(probe)
        except UnreachableError as error:
            seen = Observation(PROBE_RULES["probe.no-answer"], str(error)[:200])
            return ProbeResult(probe, None, None, [violation(seen, self._now())], reason=str(error))
        if response is None:
            return None
        exchange = await self._judge.exchange(response)
        own = self._judge.chosen(observed(probe, exchange, response))
        found = [*_judged(probe, exchange.violations), *own]
        usable = 200 <= response.status_code < 300 and is_usable(probe, exchange, response)
        return ProbeResult(probe, response, exchange, found, usable)

    async def _response(self, probe: Probe) -> RawResponse | None:
        body = plan.body_of(probe, self._settings)
        key = _BAD_KEY if probe.bad_key else None
        if probe.bad_key and not self._client.target.key:
            return None  # a server that asks for no key can't be given a wrong one
        for attempt in range(_TRIES):
            if not self._may_send(probe):
                return None
            response = await self._client.send(probe.method, probe.path, body, key)
            if response.status_code != 429:
                return response
            self._last_words = self.own_words(response)
            wait = asked_to_wait(response, attempt)
            if wait > self._settings.max_wait or attempt == _TRIES - 1:
                break
            self._outcome.waits += 1
            self._outcome.waited += wait
            await asyncio.sleep(wait)
        self._unanswered.append(probe.name)
        return None

    def _may_send(self, probe: Probe) -> bool:
        limit = self._settings.max_requests
        if limit is not None and self._outcome.requests >= limit:
            self._unasked.append(probe.name)
            return False
        self._outcome.requests += 1
        return True

    # -- words -----------------------------------------------------------------------------------------------

    def own_words(self, response: RawResponse) -> str:
        """What an answer says of itself, bounded, escaped, without the key."""
        text = scrubbed(_message(response.json) or response.text, self._client.target.secrets)
        return printable(" ".join(text.split()) or "(no text)", _SHOWN_WORDS)

    def _keep_order(self, wanted: Iterable[Probe]) -> None:
        order = {probe.name: number for number, probe in enumerate(wanted)}
        fallback = {p.again: order[p.name] for p in wanted if p.again}
        order = fallback | order
        self._outcome.results.sort(key=lambda result: order.get(result.probe.name, len(order)))

    def _note_the_rest(self) -> None:
        notes = self._outcome.notes
        if self._outcome.waits:
            times = f"{self._outcome.waits} time{'s' if self._outcome.waits > 1 else ''}"
            notes.append(
                f"The server asked to wait (429): {times}, {self._outcome.waited:.0f} s in all."
            )
        if self._unasked:
            notes.append(f"Not sent for --max-requests: {_listed(self._unasked)}.")
        if self._unanswered:
            words = f"Answered 429 to the end, not judged: {_listed(self._unanswered)}"
            notes.append(f"{words} ({self._last_words}).")


def _judged(probe: Probe, violations: Iterable[Violation]) -> Iterable[Violation]:
    """Of a request that had to be refused, only how that was done is of interest."""
    if probe.expect is not Expect.REFUSAL:
        return violations
    return [v for v in violations if v.rule.family in ("error", "http")]


_LONGEST_WAIT: Final = 86400.0
_NOT_CALLED: Final = "probe.tool-not-called"


def _is_open(result: ProbeResult) -> bool:
    return any(v.rule.id == _NOT_CALLED for v in result.violations)


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(set(names)))


def _status(response: RawResponse | None) -> int:
    return response.status_code if response is not None else 0


def _is_missing(response: RawResponse | None) -> bool:
    """Whether an answer says that there is no such endpoint, rather than no such model."""
    if response is None:
        return False
    status, document = response.status_code, response.json
    said = _message(document).lower()
    about_model = _code(document) == "model_not_found" or ("model" in said and "not found" in said)
    if status in _NO_ENDPOINT:
        return not about_model
    if status not in _MAYBE_NO_ENDPOINT or about_model:
        return False
    return any(words in said for words in _SAID_UNSUPPORTED)


def _message(document: Any) -> str:
    """The message of an error body, in whatever shape; empty where it has none."""
    if not isinstance(document, dict):
        return ""
    error = document.get("error", document)
    holder = error if isinstance(error, dict) else {"message": error}
    found = next((holder.get(k) for k in ("message", "detail", "msg") if holder.get(k)), "")
    return found if isinstance(found, str) else ""


def _code(document: Any) -> Any:
    error = document.get("error") if isinstance(document, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def asked_to_wait(response: RawResponse, attempt: int) -> float:
    """Seconds to wait: as the answer says, else longer with each try."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait = float(response.header(name)) * unit
        except ValueError:
            continue
        if 0 <= wait < _LONGEST_WAIT:
            return wait
    # A date (RFC 9110 10.2.3), by the server's own clock where it tells it.
    when, now = http_date(response.header("retry-after")), http_date(response.header("date"))
    if when is not None:
        wait = when - (response.head_at if now is None else now)
        if 0 <= wait < _LONGEST_WAIT:
            return wait
    return float(2**attempt)
