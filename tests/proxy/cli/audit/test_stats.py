"""``teeline audit stats`` sums up what its filters let through."""

from __future__ import annotations

from pathlib import Path

from tests.proxy.cli.audit.logs import answer, audit, log


def test_people_get_tables_and_a_chart(tmp_path: Path) -> None:
    lines = audit("stats", "--dir", log(tmp_path)).stdout.splitlines()
    assert lines[0].startswith("6 exchanges, 1 fail (16.7 %), 1 warn, 2026-11-30T12:01:08 to")
    assert any(line.split()[:4] == ["my-relay", "2", "1", "1"] for line in lines)
    assert any(line.startswith("2026-11-30 12:00          6    16.7 %  ██") for line in lines)


def test_machines_get_the_same(tmp_path: Path) -> None:
    found = answer("stats", "--dir", log(tmp_path), "--upstream", "my-relay")
    assert found["total"]["exchanges"] == 2
    assert found["hours"][0]["name"] == "2026-11-30T12:00:00.000000Z"
    assert found["rules"][0] == {
        "rule": "chatstream.done-missing",
        "severity": "fail",
        "exchanges": 1,
        "count": 3,
    }
