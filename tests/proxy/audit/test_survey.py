"""A starting process names every chain that ended and that nobody has named; each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.proxy.audit import survey
from teeline.proxy.audit.survey import opening_of, unnamed_chains
from tests.proxy.audit.logs import edit, entries, files, write_log, writer


def test_an_empty_folder_names_nobody(tmp_path: Path) -> None:
    assert unnamed_chains(tmp_path) == []


def test_an_ended_chain_is_named_by_its_last_record(tmp_path: Path) -> None:
    write_log(tmp_path)
    last = entries(tmp_path)[-1]
    (ended,) = unnamed_chains(tmp_path)
    assert (ended.chain, ended.seq, ended.head) == (last["chain"], last["seq"], last["hash"])
    assert ended.size == files(tmp_path)[0].stat().st_size


def test_a_chain_that_was_named_is_not_named_again(tmp_path: Path) -> None:
    write_log(tmp_path)
    second = write_log(tmp_path)
    assert [ended.chain for ended in unnamed_chains(tmp_path)] == [second.chain.id]


def test_a_live_chain_is_left_alone(tmp_path: Path) -> None:
    running = writer(tmp_path)
    running.start()
    assert unnamed_chains(tmp_path) == []
    running.close()
    assert len(unnamed_chains(tmp_path)) == 1


def test_the_number_that_one_start_names_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = []
    for _ in range(3):
        running = writer(tmp_path)
        running.start()
        chains.append(running)
    for running in chains:
        running.close()
    monkeypatch.setattr(survey, "MAX_NAMED", 2)
    assert len(unnamed_chains(tmp_path)) == 2


def test_a_damaged_first_line_opens_nothing(tmp_path: Path) -> None:
    write_log(tmp_path)
    path = files(tmp_path)[0]
    assert opening_of(path) is not None
    edit(path, lambda lines: [lines[0].replace(b"1.2.3", b"1.2.4"), *lines[1:]])
    assert opening_of(path) is None
    edit(path, lambda lines: lines[1:])
    assert opening_of(path) is None
