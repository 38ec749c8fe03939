"""A check's answers as a baseline.

What belongs here: turning results into a baseline's document, the key taken out of whatever repeats it.
What doesn't: the document's form and its comparison (validators/baseline.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from teeline.proxy.probe import plan
from teeline.proxy.probe.outcome import CheckOutcome, ProbeResult
from teeline.proxy.probe.target import scrubbed
from teeline.proxy.reports.model import TOOL, rule_set, tool_version
from teeline.proxy.reports.text import place_words
from teeline.validators import baseline
from teeline.validators.detectors.costs import cost, detector_of
from teeline.validators.detectors.model import Expect
from teeline.validators.model import Severity, Verdict
from teeline.validators.rules import register


def record(outcome: CheckOutcome, wire_api: str) -> dict[str, Any]:
    """The baseline of a check; of a probe that was sent several times, its first answer."""
    probes: dict[str, Any] = {}
    for result in outcome.results:
        if result.response is not None and result.probe.name not in probes:
            probes[result.probe.name] = _entry(outcome, result)
    document = {
        "v": baseline.VERSION,
        "kind": baseline.KIND,
        "tool": {"name": TOOL, "version": tool_version(), "rules": rule_set(register())},
        "captured_at": datetime.fromtimestamp(outcome.started, UTC).isoformat(timespec="seconds"),
        "base_url": outcome.target.base_url,
        "model": outcome.settings.model,
        "wire_api": wire_api,
        "probe_set": outcome.settings.probe_set.name.lower(),
        "api_key_masked": outcome.target.masked,
        "probes": probes,
    }
    cleaned: dict[str, Any] = _scrubbed(document, outcome.target.secrets)
    return cleaned


def dumps(document: Mapping[str, Any]) -> str:
    """A baseline as text, one member a line so that two files can be read beside each other."""
    # Half a surrogate pair is no UTF-8; as an escape it is JSON.
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _entry(outcome: CheckOutcome, result: ProbeResult) -> dict[str, Any]:
    probe, response = result.probe, result.response
    assert response is not None
    body = plan.body_of(probe, outcome.settings)
    streamed = result.exchange is not None and result.exchange.events > 0
    answer = (
        baseline.streamed_answer((e.event, e.data, e.json) for e in response.events())
        if streamed
        else baseline.whole_answer(response.json, response.text)
    )
    return {
        "request": json.loads(body) if body and probe.raw is None else None,
        "status": response.status_code,
        "response": answer,
        "headers": baseline.kept_headers(response.headers),
        "validation": _validation(result),
        "features": baseline.features(probe.family, answer, probe.expect is Expect.JSON),
    }


def _validation(result: ProbeResult) -> dict[str, Any]:
    found = [(f.violation, detector_of(f.violation.rule, result.probe)) for f in result.findings]
    deductions = [
        {
            "rule": violation.rule.id,
            "severity": violation.severity.word,
            "detector": detector,
            "points": cost(detector, violation.rule, violation.severity).of(violation.count),
            "place": place_words(violation.place),
        }
        for violation, detector in found
        if violation.severity > Severity.INFO
    ]
    worst = max((violation.severity for violation, _ in found), default=None)
    return {"result": Verdict.of(worst).value, "deductions": deductions}


def _scrubbed(value: Any, secrets: tuple[str, ...]) -> Any:
    """A document with the secrets out of every string, names included."""
    if isinstance(value, str):
        return scrubbed(value, secrets)
    if isinstance(value, dict):
        return {scrubbed(str(k), secrets): _scrubbed(v, secrets) for k, v in value.items()}
    if isinstance(value, list):
        return [_scrubbed(element, secrets) for element in value]
    return value
