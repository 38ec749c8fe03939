"""Anchor files can be read back whatever is in them."""

from __future__ import annotations

import stat
from pathlib import Path

from teeline.proxy.audit.anchor import Anchor, Witness, read_anchors
from teeline.proxy.audit.chain import Position
from tests.proxy.samples import START


def test_heads_are_appended_once_each_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    anchor = Anchor(path)
    anchor.witness(START, "c", Position(1, "a"))
    anchor.witness(START, "c", Position(1, "a"))
    anchor.witness(START, "c", Position(2, "b"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_anchors(path) == (
        [Witness("c", 1, "a", f"{path}:1"), Witness("c", 2, "b", f"{path}:2")],
        [],
    )


def test_lines_that_can_not_be_read_are_told_by_number(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    path.write_bytes(
        b'{"chain":"c","seq":1,"head":"h"}\nx\n[]\n{"chain":1,"seq":1,"head":""}\n{"to'
    )
    witnesses, unreadable = read_anchors(path)
    assert [witness.seq for witness in witnesses] == [1]
    assert unreadable == [2, 3, 4, 5]


def test_heads_are_told_where_no_file_is_wanted_or_can_be_written(tmp_path: Path) -> None:
    told: list[tuple[float, str, int, str]] = []

    def tell(at: float, chain: str, seq: int, head: str) -> None:
        told.append((at, chain, seq, head))

    for path in (None, tmp_path / "none" / "anchor"):
        anchor = Anchor(path, tell)
        anchor.witness(START, "c", Position(1, "a"))
        anchor.witness(START, "c", Position(1, "a"))
    assert told == [(START, "c", 1, "a")] * 2
