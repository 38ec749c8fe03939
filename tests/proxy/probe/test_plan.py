"""What will be sent: estimates, bytes, and a command that sends the same."""

from __future__ import annotations

import json
import shlex

import pytest

from teeline.proxy.probe import plan
from teeline.proxy.probe.plan import Settings
from teeline.validators.detectors.model import Probe, ProbeSet
from teeline.validators.detectors.probes import PROBES

BY_NAME = {probe.name: probe for probe in PROBES}
FULL = Settings("m")


def test_the_estimate_counts_what_the_settings_allow() -> None:
    assert plan.estimate(FULL).requests == 11
    assert plan.estimate(Settings("m", repeat=3)).requests == 33
    assert plan.estimate(Settings("m", protocol="responses")).requests == 6
    assert plan.estimate(Settings("m", max_requests=5)).requests == 5
    smoke = plan.estimate(Settings("m", probe_set=ProbeSet.SMOKE))
    assert 0 < smoke.tokens < plan.estimate(FULL).tokens


def test_embeddings_need_a_model_of_their_own() -> None:
    extended = Settings("m", probe_set=ProbeSet.EXTENDED)
    with_model = Settings("m", probe_set=ProbeSet.EXTENDED, embedding_model="e")
    names = [{p.name for p in plan.probes(s, plan.BOTH)} for s in (extended, with_model)]
    assert names[1] - names[0] == {"embeddings-float", "embeddings-base64"}
    assert json.loads(plan.body_of(BY_NAME["embeddings-float"], with_model))["model"] == "e"


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: p.name)
def test_curl_sends_the_same_bytes_and_names_no_key(probe: Probe) -> None:
    """Whoever doubts a finding pastes a line; what the shell makes of it is what teeline sent."""
    settings = Settings("it's a `model` $HOME", embedding_model="e")
    url = "https://x/v1" + probe.path
    line = plan.curl(probe, settings, url, "Authorization", with_key=True)
    words = shlex.split(line)
    assert url in words
    body = plan.body_of(probe, settings)
    if not body:
        assert "-d" not in words
        return
    sent = words[words.index("-d") + 1]
    if probe.raw is None:
        assert json.loads(sent) == json.loads(body)
    else:
        assert sent.encode() == body
    assert ("Bearer wrong" in line) is probe.bad_key
    assert ("$OPENAI_API_KEY" in line) is not probe.bad_key
