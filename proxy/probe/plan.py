"""What a check will send, and about what it will cost.

What belongs here: the choice of probes, the bytes of a request, the estimate. What doesn't: the probes
themselves (validators/detectors/probes.py), sending (runner.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from teeline.proxy.probe.client import DEFAULT_TIMEOUT, json_bytes
from teeline.validators.detectors.model import Expect, Probe, ProbeSet, ProtocolFamily
from teeline.validators.detectors.probes import FOLLOW_UPS, MODELS, chosen, sent_document

BOTH: Final = frozenset({ProtocolFamily.RESPONSES, ProtocolFamily.CHAT_COMPLETIONS})
PROTOCOLS: Final = {
    "auto": BOTH,
    "both": BOTH,
    "responses": frozenset({ProtocolFamily.RESPONSES}),
    "chat-completions": frozenset({ProtocolFamily.CHAT_COMPLETIONS}),
}
"""The protocols that each word of ``--protocol`` stands for; ``auto`` drops what is not there."""

_ANSWER_TOKENS: Final = {Expect.PONG: 5, Expect.CALL: 30, Expect.JSON: 30, Expect.REFUSAL: 0}
_LONG_ANSWER: Final = 300
_SHORT_ANSWER: Final = 20
_BYTES_A_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """How a check runs. ``max_wait``: the longest single wait for a 429, in seconds."""

    model: str
    protocol: str = "auto"
    probe_set: ProbeSet = ProbeSet.FULL
    repeat: int = 1
    concurrency: int = 2
    timeout: float = DEFAULT_TIMEOUT
    max_requests: int | None = None
    embedding_model: str = ""
    max_wait: float = 60.0

    @property
    def families(self) -> frozenset[ProtocolFamily]:
        return PROTOCOLS[self.protocol]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a check will cost at most: without follow-up requests and waits."""

    requests: int
    tokens: int


def probes(settings: Settings, families: frozenset[ProtocolFamily]) -> tuple[Probe, ...]:
    """The requests of a check; embeddings only where a model for them was named."""
    wanted = chosen(settings.probe_set, families)
    return tuple(p for p in wanted if settings.embedding_model or p.path != "/embeddings")


def estimate(settings: Settings) -> Estimate:
    """About what the check will send and use."""
    wanted = probes(settings, settings.families)
    once = sum(_tokens(probe, settings) for probe in wanted)
    requests = len(wanted) * settings.repeat
    if settings.max_requests is not None:
        requests = min(requests, settings.max_requests)
    return Estimate(requests, round(once * settings.repeat * _kept(wanted, requests, settings)))


def _kept(wanted: tuple[Probe, ...], requests: int, settings: Settings) -> float:
    return requests / (len(wanted) * settings.repeat) if wanted else 0.0


def _tokens(probe: Probe, settings: Settings) -> int:
    if probe is MODELS or probe.expect is Expect.REFUSAL:
        return 0
    sent = len(body_of(probe, settings)) // _BYTES_A_TOKEN
    long = "long" in probe.name or probe.name.endswith("-stop")
    return sent + _ANSWER_TOKENS.get(probe.expect, _LONG_ANSWER if long else _SHORT_ANSWER)


def body_of(probe: Probe, settings: Settings) -> bytes:
    """The bytes of a probe's request; none where it has no body."""
    if probe.raw is not None:
        return probe.raw
    model = settings.embedding_model if probe.path == "/embeddings" else settings.model
    document = sent_document(probe, model)
    return b"" if document is None else json_bytes(document)


def follow_up(probe: Probe) -> Probe | None:
    """The probe that asks again where this one's question stayed open."""
    return FOLLOW_UPS.get(probe.again)


def curl(probe: Probe, settings: Settings, url: str, auth_header: str, *, with_key: bool) -> str:
    """A command that sends the same request; the key is named by its variable and never written."""
    words = ["curl -sS -i"]
    if probe.stream:
        words[0] += "N"
    if probe.method != "POST":
        words.append(f"-X {probe.method}")
    words.append(_quoted(url))
    if with_key:
        bearer = "Bearer " if auth_header.lower() == "authorization" else ""
        key = "wrong" if probe.bad_key else "$OPENAI_API_KEY"
        words.append(f'-H "{auth_header}: {bearer}{key}"')
    body = body_of(probe, settings)
    if body:
        words.append("-H 'Content-Type: application/json'")
        words.append("-d " + _quoted(_ascii(body)))
    return " ".join(words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _ascii(body: bytes) -> str:
    """The same JSON in ASCII, so that it survives every terminal."""
    try:
        return json.dumps(json.loads(body), separators=(",", ":"))
    except ValueError:
        return body.decode("ascii", "backslashreplace")
