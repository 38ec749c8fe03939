"""A check becomes a baseline: what cannot be written is made writable, what must not be is taken out."""

from __future__ import annotations

import json

from teeline.proxy.probe.recording import dumps, record
from teeline.validators import baseline
from tests.proxy.probe.report.outcomes import KEY, outcome


def test_a_check_without_answers_is_an_empty_baseline() -> None:
    """Probes that got no answer are left out: there is nothing to compare."""
    made = record(outcome(), "both")
    assert made["probes"] == {}
    assert made["wire_api"] == "both"
    assert baseline.loads(dumps(made).encode())["base_url"] == "https://relay.example/v1"


def test_no_key_wherever_it_stands() -> None:
    made = outcome(text=KEY)
    assert KEY not in dumps(record(made, "both"))


def test_half_a_surrogate_pair_can_be_written() -> None:
    """A server may escape one; the file must be UTF-8 all the same."""
    text = dumps({"x": "\ud83d"})
    assert text.encode("utf-8")
    assert json.loads(text) == {"x": "\ud83d"}
