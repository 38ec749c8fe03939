"""The benchmark runs from a checkout and measures what it says; how fast anything is, is not tested."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import GATES, main
from bench.load import Client, Done, Order, Wrong
from bench.run import Sample
from bench.traffic import STREAM_HEAD, Shape, pieces, request

ROOT = Path(__file__).parents[2]
ALWAYS = ("direct", "bare", "inspect", "full", "aiohttp")
TARGETS = ALWAYS + (("nginx",) if shutil.which("nginx") else ())
UNITS = {"json": 8, "paced": 200, "burst": 200, "latency": 200}


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


def test_a_stamped_stream_tells_how_late_its_chunks_are(
    round_of_all: tuple[str, dict[str, Any]],
) -> None:
    _, document = round_of_all
    for sample in document["samples"]:
        middle, late = sample["latencies"]
        assert (0 < middle <= late) is (sample["workload"] == "latency")


def test_figures_come_with_the_day_and_the_machine(
    round_of_all: tuple[str, dict[str, Any]],
) -> None:
    _, document = round_of_all
    machine = document["machine"]
    assert date.fromisoformat(machine["date"])
    assert machine["cpu"] and machine["kernel"] and machine["cores"] >= 1


def test_the_gate_compares_everything_on_with_bare_aiohttp() -> None:
    result = run("gate", "--quick", "--rounds", "1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["json", "paced"]
    assert all(" of aiohttp, " in line for line in lines)


def test_a_price_above_the_gate_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def dear(*_: object) -> list[Sample]:
        return [
            Sample(1, workload, target, 1, cpu, 0, 0, 1)
            for workload in GATES
            for target, cpu in (("aiohttp", 1.0), ("full", 2.0))
        ]

    monkeypatch.setattr("bench.__main__.measure", dear)
    with pytest.raises(SystemExit) as ended:
        main(["gate"])
    said = [f"{name}: 2.00 of aiohttp, {most} allowed" for name, most in GATES.items()]
    assert ended.value.code == "; ".join(said)


@pytest.mark.parametrize(
    ("what", "key", "rows"),
    [
        ("growth", "growth", 5),
        ("streams", "streams", 4),
        ("memory", "memory", 4),
        ("gap", "gap", 3),
    ],
)
def test_what_a_worker_holds_is_measured(what: str, key: str, rows: int, tmp_path: Path) -> None:
    """Each run goes to its end on a small scale and gives a line and a value a row."""
    file = tmp_path / "raw.json"
    result = run(what, "--quick", "--rounds", "1", "--json", str(file))
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == rows
    assert len(json.loads(file.read_bytes())[key]) == rows


def test_an_answer_with_one_byte_changed_fails_the_measurement() -> None:
    """The client that says "every byte equal" would have noticed."""
    shape = Shape(chunks=3)
    right = STREAM_HEAD + b"".join(pieces(shape))
    wrong = right.replace(b"mock-model", b"mock-mode1", 1)

    async def answered(answer: bytes) -> Done:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(len(request(shape)))
            writer.write(answer)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await Client().run(Order(port, 1, 1, tuple(shape), exact=True))

    assert asyncio.run(answered(right)).answered == 1
    with pytest.raises(Wrong):
        asyncio.run(answered(wrong))


def test_a_peer_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main(["--target", "litellm", "--quick"])
    assert ended.value.code == "litellm: litellm is not installed"


def test_the_taps_are_measured_side_by_side_in_every_shape(tmp_path: Path) -> None:
    """Each tap has passed all packets on, or there would be no figure."""
    file = tmp_path / "raw.json"
    result = run("nnrp", "--quick", "--rounds", "1", "--json", str(file))
    assert result.returncode == 0, result.stderr
    samples = json.loads(file.read_bytes())["samples"]
    shapes, targets = ("paced", "burst", "block"), ("bare", "tap", "inspect")
    assert [(s["shape"], s["target"]) for s in samples] == [(s, t) for s in shapes for t in targets]
    assert all(s["cpu"] > 0 and s["packets"] > 0 and s["reads"] > 0 for s in samples)
    assert sum(line.startswith("  inspect ") for line in result.stdout.splitlines()) == 3


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
