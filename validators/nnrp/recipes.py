"""Conformance recipes of openai-compatible/1: what a recipe must say (rules ``nnrp.recipe-*``).

What belongs here: one recipe document by itself. What doesn't: running it, and results against what it
expects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from teeline.validators import evidence
from teeline.validators.checks.reporter import Reporter
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import EVENTS, PROFILE, SCHEMA_VERSION, TERMINALS, is_filled
from teeline.validators.nnrp.capabilities import NO_DOCUMENT
from teeline.validators.wire.json import decode

OUTCOMES: Final = frozenset({"success", "error", "cancelled"})
"""What a recipe may expect as the end of its operation."""

_INCOMPLETE: Final = "nnrp.recipe-incomplete"
_ENCODED: Final = re.compile(r"hex|base64|b64|bytes|raw|packet", re.IGNORECASE)
"""In the name of a member that stands for bytes."""
_HEX: Final = re.compile(r"(?:0x)?(?:[0-9A-Fa-f]{2}[\s:,]*+){8,}+\Z")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/_-]{4}[\r\n]*+){4,}+[A-Za-z0-9+/_-]{0,3}={0,2}\s*\Z")


def check_recipe(report: Reporter, data: bytes) -> None:
    """Reports what is wrong with a recipe; one that is no JSON object lacks all that it should have."""
    document = decode(data)
    fault = next((f for f in document.faults if f.kind in NO_DOCUMENT), None)
    if fault is not None or not isinstance(document.value, dict):
        detail = f"{fault.kind.value} at byte {fault.byte}" if fault else "it is no JSON object"
        report(_INCOMPLETE, detail=detail)
        return
    recipe = document.value
    for name, word in (("profile", PROFILE), ("schema_version", SCHEMA_VERSION)):
        found = recipe.get(name, ABSENT)
        if found != word:
            report("nnrp.recipe-profile-wrong", f"/{name}", found, words=True)
    if not is_filled(recipe.get("operation")):
        report(_INCOMPLETE, "/operation", recipe.get("operation", ABSENT))
    _check_request(report, recipe.get("request", ABSENT))
    _check_expected(report, recipe.get("expect", ABSENT))


def _check_request(report: Reporter, request: Any) -> None:
    """A readable body, or else the one thing that stands in its place."""
    if isinstance(request, dict) and isinstance(request.get("body"), dict):
        return
    encoded = _encoded(request)
    if encoded is not None:
        report("nnrp.recipe-hex-fixture", encoded, detail="bytes instead of a readable body")
    elif isinstance(request, dict):
        report(_INCOMPLETE, "/request/body", request.get("body", ABSENT))
    else:
        report(_INCOMPLETE, "/request", request)


def _encoded(request: Any) -> str | None:
    """The pointer to the text that holds a request as bytes; None for none."""
    if _is_bytes(request):
        return "/request"
    for name, value in request.items() if isinstance(request, dict) else ():
        if _is_bytes(value) or (_ENCODED.search(name[:64]) and is_filled(value)):
            return f"/request/{evidence.token(name)}"
    return None


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and bool(_HEX.match(value) or _BASE64.match(value))


def _check_expected(report: Reporter, expected: Any) -> None:
    if not isinstance(expected, dict):
        report(_INCOMPLETE, "/expect", expected)
        return
    terminal = expected.get("terminal", ABSENT)
    if terminal is ABSENT:
        report(_INCOMPLETE, "/expect/terminal", terminal)
    elif not isinstance(terminal, str) or terminal not in OUTCOMES:
        report("nnrp.recipe-terminal-unknown", "/expect/terminal", terminal, words=True)
    events = expected.get("events", ABSENT)
    if not isinstance(events, list):
        report(_INCOMPLETE, "/expect/events", events)
        return
    for n, event in enumerate(events):
        _check_event(report, event, f"/expect/events/{n}")


def _check_event(report: Reporter, event: Any, pointer: str) -> None:
    kind = event.get("type", ABSENT) if isinstance(event, Mapping) else ABSENT
    if not is_filled(kind):
        report(_INCOMPLETE, f"{pointer}/type", kind)
    elif kind not in EVENTS and kind not in TERMINALS:
        report("nnrp.recipe-event-unknown", f"{pointer}/type", kind, words=True)
