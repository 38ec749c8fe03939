"""The report of a check for machines: one JSON document, ``"v": 1``.

What belongs here: names and order of the members. All is ASCII, so that it can be looked at in a terminal.
"""

from __future__ import annotations

import json
from typing import Any

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report.view import Told, streams, view
from teeline.proxy.reports.json import violation
from teeline.proxy.reports.model import TOOL, Style, rule_set, tool_version
from teeline.validators.rules import register
from teeline.validators.scoring import DetectorScore, Scorecard


def render(outcome: CheckOutcome, style: Style) -> str:
    """The document, info findings included; ``style`` is for people and changes nothing here."""
    seen = view(outcome, show_info=True)
    document = {
        "v": 1,
        "tool": {"name": TOOL, "version": tool_version(), "rules": rule_set(register())},
        "base_url": outcome.target.base_url,
        "api_key_masked": outcome.target.masked,
        "model": outcome.settings.model,
        "protocols": sorted(outcome.families),
        "unsupported": sorted(outcome.unsupported),
        "probe_set": outcome.settings.probe_set.name.lower(),
        "repeat": outcome.settings.repeat,
        **_card(seen.card),
        "by_protocol": {
            str(family): _totals(outcome.card(family)) for family in sorted(outcome.families)
        },
        "findings": [_finding(told) for told in seen.told],
        "shares": [
            {
                "rule": share.rule.id,
                "hits": share.hits,
                "calls": share.calls,
                "interval": [round(bound, 4) for bound in share.interval],
            }
            for share in outcome.shares()
        ],
        "streams": [seen._asdict() for seen in streams(outcome)],
        "differences": outcome.differences,
        "notes": outcome.notes,
        "cost": {
            "requests": outcome.requests,
            "tokens": outcome.tokens,
            "waited_seconds": round(outcome.waited, 3),
        },
    }
    # DEL is the one control character that JSON leaves alone.
    return json.dumps(document, indent=1).replace("\x7f", "\\u007f") + "\n"


def _totals(card: Scorecard) -> dict[str, Any]:
    return {"total": card.total, "band": card.band.value, "result": card.result.value}


def _card(card: Scorecard) -> dict[str, Any]:
    return {**_totals(card), "detectors": [_detector(score) for score in card.detectors]}


def _detector(score: DetectorScore) -> dict[str, Any]:
    skipped = score.score is None
    return {
        "name": score.detector.name,
        "weight": score.detector.weight,
        "score": score.score,
        "result": "skip" if skipped else score.result.value,
        "skipped": score.skipped or None,
        "deductions": [
            {"rule": x.finding.violation.rule.id, "points": x.points}
            for x in score.deductions
            if x.points
        ],
    }


def _finding(told: Told) -> dict[str, Any]:
    found = violation(told.violation)
    return found | {
        "detector": told.detector,
        "probe": told.probe.name,
        "points": told.points,
        "evidence": told.evidence,
        "why": told.rule.why,
        "fix": told.rule.fix,
        "curl": told.curl,
    }
