"""Outcomes for tests of reports, made without a network."""

from __future__ import annotations

from teeline.proxy.probe.outcome import CheckOutcome, ProbeResult
from teeline.proxy.probe.plan import Settings
from teeline.proxy.probe.target import Target
from teeline.validators.detectors.model import ProtocolFamily
from teeline.validators.detectors.probes import PROBES
from teeline.validators.model import Place, Side, Unit, Violation
from teeline.validators.rules import register

KEY = "sk-test-abcdefghijklmnop-1234"
BY_NAME = {probe.name: probe for probe in PROBES}
HOSTILE = "<script>alert(1)</script>&\"'`|]]>\x1b[31m\u202e"


def finding(
    probe: str, rule: str, evidence: str = '"object": "x"', pointer: str = "/object"
) -> ProbeResult:
    declared = register()[rule]
    place = Place(Side.RESPONSE, Unit.BODY, 0, 0, pointer)
    found = Violation(declared, declared.severity, declared.summary, place, evidence, 0.0)
    return ProbeResult(BY_NAME[probe], None, None, [found], usable=True)


def clean(probe: str) -> ProbeResult:
    return ProbeResult(BY_NAME[probe], None, None, [], usable=True)


def outcome(*results: ProbeResult, repeat: int = 1, text: str = "") -> CheckOutcome:
    """A check of both protocols; ``text`` stands wherever a user or a server may put one."""
    full = ("models", "chat-basic", "chat-create", "chat-stream", "responses-create")
    made = CheckOutcome(
        Target("https://relay.example/v1", KEY),
        Settings(f"m{text}", repeat=repeat),
        frozenset({ProtocolFamily.RESPONSES, ProtocolFamily.CHAT_COMPLETIONS}),
    )
    made.results = [*map(clean, full), *results]
    made.notes = [f"a note {text}"]
    made.requests, made.ended = 5, 1.5
    return made


def faulty(text: str = "") -> CheckOutcome:
    """A fail, a warn and an info, with a server's text as evidence and pointer."""
    made = outcome(
        finding("chat-create", "chat.object-wrong", f'"object": "{text or "x"}"', f"/object{text}"),
        finding("chat-create", "chat.id-empty"),
        finding("chat-create", "chat.id-prefix"),
        text=text,
    )
    made.differences = [f"field /x: absent -> {text or 'string'}  (chat-create)"]
    return made
