"""A filter means the same for what happens now and for what the index holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from multidict import MultiDict

from teeline.proxy.monitor.filters import Asked, BadFilterError, asked
from teeline.proxy.monitor.history import _rows
from teeline.proxy.monitor.rows import live_row
from tests.proxy.monitor.past import indexed, mixed
from tests.proxy.samples import exchange, violation

QUERIES = (
    "",
    "upstream=main",
    "upstream=main&upstream=spare",
    "model=a",
    "verdict=fail",
    "verdict=pass&verdict=warn",
    "status=429",
    "status=4xx&status=503",
    "rule=chatstream.done-missing",
    "rule=chatstream",
    "rule=usage",
    "operation=chat&upstream=spare&verdict=fail",
    "text=req-4",
    "text=WITHOUT",
    "text=00000000000000000000000000000007",
    "text=0000000",
    "text=without&rule=usage",
    "text=nothing of the kind",
    "model=nobody",
)


def query(text: str) -> Asked:
    pairs = [pair.partition("=") for pair in text.split("&") if pair]
    return asked(MultiDict([(name, value) for name, _, value in pairs]))


@pytest.mark.parametrize("text", QUERIES)
def test_now_and_the_past_give_the_same_exchanges(tmp_path: Path, text: str) -> None:
    made = mixed(20)
    wanted = query(text)
    now = [row["id"] for each in reversed(made) if wanted.matches(row := live_row(each))]
    with indexed(tmp_path, made) as db:
        past = [row["id"] for row in _rows(db, wanted, None, None)["rows"]]
    assert past == now


@pytest.mark.parametrize(
    "text",
    ["verdict=bad", "status=<b>", "status=6xx", "model=" + "x" * 257, "&".join(["rule=a"] * 17)],
)
def test_what_can_not_be_asked_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(BadFilterError) as refused:
        query(text)
    assert text.partition("=")[2] not in str(refused.value)


def test_a_family_may_be_written_with_its_star() -> None:
    assert query("rule=chatstream.*") == query("rule=chatstream")
    assert query("").everything
    assert not query("text=x").everything


def test_a_text_and_a_rule_hold_for_one_and_the_same_violation() -> None:
    row = live_row(exchange(violation(message="one"), violation("usage.x", message="two")))
    assert query("rule=usage&text=two").matches(row)
    assert not query("rule=usage&text=one").matches(row)
