"""Recordings are found by the names of their files, and replayed as one connection."""

from __future__ import annotations

from pathlib import Path

from teeline.proxy.inputs.items import Problem
from teeline.proxy.nnrp.capture import read, recordings, replay
from tests.proxy.nnrp.peers import CAPTURES


def test_two_directions_are_one_recording() -> None:
    problems: list[Problem] = []
    found = list(recordings([str(CAPTURES)], problems))
    assert [Path(recording.name).name for recording in found] == [
        "capture_*.bin",
        "capture_ipc_*.bin",
        "capture_tcp_*.bin",
        "capture_websocket_*.bin",
    ]
    assert all(recording.client and recording.server for recording in found)
    assert problems == []


def test_a_direction_may_be_alone() -> None:
    (found,) = recordings([str(CAPTURES / "capture_c2s.bin")], [])
    assert found.server is None and found.client is not None
    exchanges = replay(read(found.client), b"", None, 1e9)
    assert len(exchanges) == 16
    assert exchanges[1].inspection == "partial (capture-end)"


def test_a_file_that_says_no_direction_is_a_problem(tmp_path: Path) -> None:
    problems: list[Problem] = []
    assert list(recordings([str(tmp_path / "traffic.bin")], problems)) == []
    assert "direction" in problems[0].text
    assert list(recordings([str(tmp_path)], problems)) == []
    assert len(problems) == 2
