"""The benchmark runs from a checkout and measures what it says; how fast anything is, is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = ("direct", "bare", "inspect", "full", "aiohttp")
UNITS = {"json": 8, "paced": 200, "burst": 200}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def one_round(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, dict[str, Any]]:
    """One tiny round: its table, what its programs said beside it, the raw figures."""
    file = tmp_path_factory.mktemp("bench") / "raw.json"
    result = run("--quick", "--rounds", "1", "--json", str(file))
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr, json.loads(file.read_bytes())


@pytest.fixture
def round_of_all(one_round: tuple[str, str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    table, _, document = one_round
    return table, document


def test_every_target_is_what_it_says(one_round: tuple[str, str, dict[str, Any]]) -> None:
    """No inspector and no sink failed: what a target leaves out would count as what it saves."""
    assert one_round[1] == "round 1 of 1\n"


def test_a_round_measures_every_target_under_every_load(
    round_of_all: tuple[str, dict[str, Any]],
) -> None:
    _, document = round_of_all
    measured = [(s["round"], s["workload"], s["target"], s["units"]) for s in document["samples"]]
    assert measured == [(1, w, target, n) for w, n in UNITS.items() for target in TARGETS]


def test_only_what_ran_has_used_time(round_of_all: tuple[str, dict[str, Any]]) -> None:
    """A proxy uses CPU, no proxy uses none, and client and mock take their share of each."""
    _, document = round_of_all
    for sample in document["samples"]:
        assert (sample["cpu"] > 0) is (sample["target"] != "direct")
        assert min(sample["mock_cpu"], sample["client_cpu"], sample["seconds"]) > 0


def test_the_table_has_a_line_for_every_target_under_every_load(
    round_of_all: tuple[str, dict[str, Any]],
) -> None:
    table, _ = round_of_all
    for target in TARGETS:
        assert sum(line.startswith(f"  {target} ") for line in table.splitlines()) == len(UNITS)


def test_the_checks_alone_are_measured_on_clean_exchanges(tmp_path: Path) -> None:
    """Each figure stands beside the cost of parsing the same bytes."""
    file = tmp_path / "raw.json"
    result = run("checks", "--quick", "--rounds", "1", "--json", str(file))
    assert result.returncode == 0, result.stderr
    costs = json.loads(file.read_bytes())["costs"]
    assert [cost["unit"] for cost in costs] == ["chunk"] * 3 + ["answer"] * 3
    assert all(cost["micros"] > 0 for cost in costs)


def test_a_round_count_of_nothing_is_refused() -> None:
    assert run("--rounds", "0").returncode == 2


def test_an_outage_leaves_traffic_alone_and_its_counts_add_up(tmp_path: Path) -> None:
    """The collector goes away, the disk is full, then has room again: in the small, but real."""
    file = tmp_path / "raw.json"
    result = run("audit", "--quick", "--records", "500", "--exchanges", "600", "--json", str(file))
    assert result.returncode == 0, result.stderr
    document = json.loads(file.read_bytes())
    outage = document["outage"]
    phases = [value for value in outage.values() if isinstance(value, dict)]
    assert [(phase["answers"], phase["wrong"]) for phase in phases] == [(200, 0)] * 3
    assert outage["recorded"] + outage["lost, and said so in the log"] == 600
    assert outage["all of it adds up"] is True
    assert outage["log intact"] is True
    assert document["records"]["list rule"] >= 0
