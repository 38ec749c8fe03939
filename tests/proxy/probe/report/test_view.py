"""What every report tells: the worst first, the key nowhere, scores cut and not rounded."""

from __future__ import annotations

import pytest

from teeline.proxy.probe.report.view import points, share_words, view
from tests.proxy.probe.report.outcomes import KEY, clean, faulty, finding, outcome


def test_the_worst_comes_first_and_info_only_where_wanted() -> None:
    told = [t.rule.id for t in view(faulty(), show_info=False).told]
    assert told == ["chat.object-wrong", "chat.id-empty"]
    assert [t.rule.id for t in view(faulty(), show_info=True).told][-1] == "chat.id-prefix"


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (100.0, "100"),
        (89.999, "89.99"),
        (97.5, "97.5"),
        (84.6153846, "84.61"),
        (None, "-"),
        (0.0, "0"),
    ],
)
def test_a_score_is_cut_and_not_rounded(score: float | None, shown: str) -> None:
    """89.999 must not stand as 90 beside the word ``passed``."""
    assert points(score) == shown


def test_the_key_is_taken_out_of_what_a_server_repeats() -> None:
    made = outcome(finding("chat-create", "chat.object-wrong", f'"object": "{KEY}"', f"/{KEY}"))
    (told,) = view(made, show_info=False).told
    assert KEY not in told.evidence + told.place + told.curl
    assert "sk-...1234" in told.evidence


def test_shares_are_told_where_probes_were_repeated() -> None:
    results = [
        finding("chat-create", "chat.object-wrong"),
        *(clean("chat-create") for _ in range(2)),
    ]
    (told,) = view(outcome(*results, repeat=4), show_info=False).told
    assert told.share is not None
    assert share_words(told.share) == "1 of 4 calls (4.6-69.9 %)"
    (once,) = view(outcome(results[0]), show_info=False).told
    assert once.share is None


def test_two_protocols_have_two_scores() -> None:
    seen = view(faulty(), show_info=False)
    assert [name for name, _ in seen.by_protocol] == ["Chat Completions", "Responses"]
    assert seen.by_protocol[1][1].total == 100.0
