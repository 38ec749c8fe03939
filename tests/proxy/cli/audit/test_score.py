"""``teeline audit score`` puts relays beside each other."""

from __future__ import annotations

from pathlib import Path

from tests.proxy.cli.audit.logs import answer, audit, log


def test_each_relay_has_its_band_and_its_families(tmp_path: Path) -> None:
    lines = audit("score", "--dir", log(tmp_path)).stdout.splitlines()
    assert lines[0] == "my-relay   50.0 % failed  1 of 2 exchanges fail"
    assert any(line.startswith("  chatstream ") and "50.0 %" in line for line in lines)
    assert "other  100.0 % excellent  0 of 4 exchanges fail" in lines


def test_machines_get_the_same(tmp_path: Path) -> None:
    mine, other = answer("score", "--dir", log(tmp_path))["upstreams"]
    assert (mine["upstream"], mine["share"], mine["band"]) == ("my-relay", 50.0, "failed")
    assert (other["without_fail"], other["band"]) == (4, "excellent")
