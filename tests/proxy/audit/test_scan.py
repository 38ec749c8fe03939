"""Whatever is done to the lines of one file is found, and told as what it is, once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from teeline.proxy.audit import scan as scanning
from teeline.proxy.audit.chain import MAX_LINE, Chain, Run, parse
from teeline.proxy.audit.files import LogName
from teeline.proxy.audit.scan import (
    ANYTHING,
    NOTHING,
    PART_OF_LINE,
    Bounds,
    Finding,
    Scan,
    Scanner,
)
from teeline.proxy.audit.verify import verify
from tests.proxy.audit.logs import edit, files, found, write_log
from tests.proxy.samples import START

Change = Callable[[list[bytes]], list[bytes]]


def swap(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2], lines[1], *lines[3:]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: [lines[0], lines[1].replace(b'"fail"', b'"pass"'), *lines[2:]], ["edited"]),
        (lambda lines: [lines[0], *lines[2:]], ["missing"]),
        (lambda lines: lines[1:], ["opening"]),
        (swap, ["order", "order"]),
        (lambda lines: [*lines[:2], *lines[1:]], ["order"]),
        (lambda lines: [*lines[:2], b"{}\n", *lines[2:]], ["unreadable", "order"]),
        (lambda lines: [*lines[:2], b"\n", *lines[2:]], ["unreadable", "order"]),
        (lambda lines: [*lines[:1], b"rubbish\n", *lines[2:]], ["unreadable"]),
        (lambda lines: [lines[0], lines[1].rstrip() + lines[2], *lines[3:]], ["unreadable", "missing"]),
        (lambda lines: [*lines[:-1], lines[-1].rstrip()], ["torn"]),
        (lambda lines: [*lines[:-1], lines[-1][:50]], ["torn"]),
        (lambda lines: [*lines, lines[-1]], ["appended", "order"]),
        (lambda lines: [*lines, lines[0]], ["misplaced", "appended", "order"]),
        (lambda lines: [], ["torn"]),
    ],
    ids=[
        "edit", "delete", "delete the first", "swap", "repeat", "insert", "insert an empty line",
        "overwrite", "join", "drop the last newline", "cut the last line", "append",
        "append the first", "empty",
    ],
)  # fmt: skip
def test_a_change_is_found(tmp_path: Path, change: Change, expected: list[str]) -> None:
    write_log(tmp_path, 4)
    assert found(tmp_path) == []
    edit(files(tmp_path)[0], change)
    assert found(tmp_path) == expected


def test_a_record_that_was_rewritten_with_its_hash_is_found_at_its_line(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    path = files(tmp_path)[0]

    def forge(lines: list[bytes]) -> list[bytes]:
        first = parse(lines[0].rstrip())
        chain = Chain(first.chain)
        chain.position = chain.position._replace(seq=1, head=first.hash)
        return [lines[0], chain.link(START, {"id": "forged"}), *lines[2:]]

    edit(path, forge)
    findings = Scanner(name_of(path), path, live=False, bounds=None, seen=ignore).run().findings
    assert [(finding.kind, finding.line) for finding in findings] == [("replaced", 2)]


def test_a_record_of_another_chain_is_found(tmp_path: Path) -> None:
    write_log(tmp_path / "a", 2)
    write_log(tmp_path / "b", 2)
    foreign = files(tmp_path / "b")[0].read_bytes().splitlines(keepends=True)
    edit(files(tmp_path / "a")[0], lambda lines: [lines[0], foreign[1], *lines[2:]])
    assert found(tmp_path / "a") == ["foreign"]


def test_a_file_under_another_name_is_found(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    path = files(tmp_path)[0]
    path.rename(path.with_name(path.name.replace("000001", "000002")))
    assert "misplaced" in found(tmp_path)


def test_flipping_the_case_or_the_top_bit_of_any_byte_is_found(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    path = files(tmp_path)[0]
    name, whole = name_of(path), path.read_bytes()
    unfound = []
    for index in range(len(whole)):
        for flip in (0x20, 0x80):
            changed = bytearray(whole)
            changed[index] ^= flip
            path.write_bytes(changed)
            if not Scanner(name, path, live=False, bounds=None, seen=ignore).run().findings:
                unfound.append((index, flip))
    assert unfound == []


def test_findings_of_one_file_are_bounded_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "MAX_FINDINGS", 3)
    write_log(tmp_path, 8)
    path = files(tmp_path)[0]
    edit(path, lambda lines: [b"x\n"] * 10)
    result = Scanner(name_of(path), path, live=False, bounds=None, seen=ignore).run()
    assert [finding.kind for finding in result.findings] == ["unreadable"] * 3 + ["more"]
    assert result.findings[-1].message == "7 more findings in this file"


def test_an_endless_line_is_one_finding_and_little_memory(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    path = files(tmp_path)[0]
    edit(path, lambda lines: [lines[0], b"x" * (3 * MAX_LINE) + b"\n", *lines[2:]])
    result = Scanner(name_of(path), path, live=False, bounds=None, seen=ignore).run()
    assert [(finding.kind, finding.line) for finding in result.findings] == [("unreadable", 2)]


def test_the_last_line_of_a_live_file_may_be_under_way(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    path = files(tmp_path)[0]
    edit(path, lambda lines: [*lines[:-1], lines[-1][:20]])
    result = Scanner(name_of(path), path, live=True, bounds=None, seen=ignore).run()
    assert result.findings == []
    assert [note.kind for note in result.notes] == ["live"]


@pytest.mark.parametrize(
    ("debris", "behind", "kinds"),
    [
        (NOTHING, b"x", ["appended"]),
        (PART_OF_LINE, b'{"torn', []),
        (PART_OF_LINE, b"{}\n", ["appended"]),
        (ANYTHING, b"{}\n{to", []),
    ],
)
def test_behind_a_known_end_only_what_its_record_allows_may_stand(
    tmp_path: Path, debris: str, behind: bytes, kinds: list[str]
) -> None:
    write_log(tmp_path, 3)
    path = files(tmp_path)[0]
    bounds = Bounds(path.stat().st_size, debris)
    path.write_bytes(path.read_bytes() + behind)
    result = Scanner(name_of(path), path, live=False, bounds=bounds, seen=ignore).run()
    assert [finding.kind for finding in result.findings] == kinds


def test_a_file_shorter_than_its_known_end_was_cut(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    path = files(tmp_path)[0]
    bounds = Bounds(path.stat().st_size, PART_OF_LINE)
    edit(path, lambda lines: lines[:-1])
    result: Scan = Scanner(name_of(path), path, live=False, bounds=bounds, seen=ignore).run()
    assert [finding.kind for finding in result.findings] == ["cut"]


def test_a_finding_is_one_printable_line() -> None:
    finding = Finding("edited", "a\x1b[31m\n.jsonl", 3, "why")
    assert finding.text == "a\\x1b[31m\\x0a.jsonl:3: edited: why"


def name_of(path: Path) -> LogName:
    chain, _, number = path.stem.removeprefix("audit-").rpartition("-")
    return LogName(chain, int(number))


def ignore(record: object, at: object) -> None: ...


@pytest.mark.parametrize("seed", range(60))
def test_comparing_bytes_finds_what_parsing_each_line_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Random damage: the short cut for lines that are in order changes no finding."""
    chosen = random.Random(seed)
    write_log(tmp_path, 12)

    def damage(lines: list[bytes]) -> list[bytes]:
        for _ in range(chosen.choice([1, 1, 2, 3])):
            at, other = chosen.randrange(len(lines)), chosen.randrange(len(lines))
            line = bytearray(lines[at])
            line[chosen.randrange(len(line))] ^= 1 << chosen.randrange(7)
            lines = chosen.choice(
                [
                    [*lines[:at], bytes(line), *lines[at + 1 :]],
                    [*lines[:at], *lines[at + 1 :]] or lines,
                    [*lines[:at], lines[other], *lines[at:]],
                    [*lines[:at], lines[at][: chosen.randrange(len(line))], *lines[at + 1 :]],
                ]
            )
        return lines

    edit(files(tmp_path)[0], damage)
    quick = verify([tmp_path])
    monkeypatch.setattr(
        scanning, "successors", lambda data, begin, most, chain, after: Run(0, begin, begin, after)
    )
    slow = verify([tmp_path])
    assert quick.findings == slow.findings
    assert quick.chains == slow.chains


def test_records_that_were_moved_are_told_from_records_that_are_gone(tmp_path: Path) -> None:
    write_log(tmp_path, 8)
    path = files(tmp_path)[0]
    edit(path, lambda ls: [*ls[:2], *ls[4:6], *ls[2:4], *ls[6:]])
    findings = verify([tmp_path]).findings
    assert {finding.damage for finding in findings} == {"reordered"}
    assert findings[0].line == 3
    edit(path, lambda ls: [line for line in ls if b'"seq":4,' not in line])
    assert "removed" in {finding.damage for finding in verify([tmp_path]).findings}
