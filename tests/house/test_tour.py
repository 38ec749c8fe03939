"""The tour is true: its commands run as they stand there, and show what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.pages import DOCS, ROOT, Block, blocks
from tests.house.transcript import Shown, Transcript
from tests.ports import free_port

TOUR = DOCS / "tour.md"
DONE = {"file", "run", "stays", "shows", "ends", "install"}


def test_every_command_runs_and_shows_what_the_page_says(tmp_path: Path) -> None:
    """With ports of this run's own, since those of the page may be in use."""
    ports = {port: str(free_port()) for port in ("8787", "8788", "8790", "8791")}
    demo = "teeline demo --stay"
    options = f"--listen 127.0.0.1:{ports['8787']} --admin 127.0.0.1:{ports['8788']}"
    instead = ports | {demo: f"{demo} {options}"}
    with Transcript(tmp_path, instead) as transcript:
        transcript.play(blocks(TOUR))


def test_what_stays_must_end_well_with_ctrl_c(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="'x': 3"):
        played(
            tmp_path,
            ("stays: x", "trap 'exit 3' INT; echo up; while read; do :; done < <(sleep 60)"),
            ("shows", "up\n"),
        )


def test_no_block_of_the_tour_is_left_out() -> None:
    """A block without a marker would be a claim that nothing holds."""
    assert [b.line for b in blocks(TOUR) if b.word not in DONE] == []


def test_the_tour_is_installed_as_the_readme_says() -> None:
    """The one block that the tour's test doesn't run; its command is the README's."""
    (install,) = [b for b in blocks(TOUR) if b.word == "install"]
    (readme,) = [b for b in blocks(ROOT / "README.md") if b.word == "demo-command"]
    first, second = install.text.splitlines()
    assert first == readme.text.strip()
    assert second == ". .venv/bin/activate && pip install -q openai"


def played(folder: Path, *steps: tuple[str, str]) -> None:
    made = [Block("sh", text, marker, n) for n, (marker, text) in enumerate(steps)]
    with Transcript(folder, {}) as transcript:
        transcript.play(made)


def test_what_is_shown_stands_for_other_numbers_times_and_ids() -> None:
    shown = Shown("took 0.06s  019ad2c0f3a871b2\n...\nend\n")
    match = shown.whole("took 12.5s    77aa00bb11cc22dd\nany\nlines\nend\n")
    assert match is not None
    assert match.groups() == ("77aa00bb11cc22dd",)
    assert shown.whole("took 0.06s  019ad2c0f3a871b2\nend, nearly\n") is None
    assert shown.whole("took 0.06s  019ad2c0f3a871b2\nend\nmore\n") is None


def test_an_id_of_the_page_becomes_the_run_s(tmp_path: Path) -> None:
    played(
        tmp_path,
        ("run", "echo id aaaaaaaaaaa1"),
        ("shows", "id bbbbbbbbbbb2\n"),
        ("run", "echo again bbbbbbbbbbb2"),
        ("shows", "again bbbbbbbbbbb2\n"),
    )
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(AssertionError, match="line 3"):
        played(
            other,
            ("run", "echo aaaaaaaaaaa1"),
            ("shows", "bbbbbbbbbbb2\n"),
            ("run", "echo ccccccccccc3"),
            ("shows", "bbbbbbbbbbb2\n"),
        )


def test_a_word_of_the_run_that_holds_one_of_the_page_stays_as_it_is(tmp_path: Path) -> None:
    block = Block("sh", "echo 8787 8788 > ports", "run", 1)
    with Transcript(tmp_path, {"8787": "18788", "8788": "48787"}) as transcript:
        transcript.play([block])
    assert (tmp_path / "ports").read_text() == "18788 48787\n"


@pytest.mark.parametrize(
    "steps",
    [
        [("run", "echo one"), ("shows", "two\n")],
        [("run", "exit 1")],
        [("run: exit 1", "true")],
        [("run", "no-such-command | cat")],
        [("stays: x", "echo one"), ("shows", "one\n"), ("shows: x", "one\n")],
    ],
    ids=["output", "status", "no-failure", "pipe", "seen-once"],
)
def test_a_page_that_is_wrong_is_found(tmp_path: Path, steps: list[tuple[str, str]]) -> None:
    with pytest.raises(AssertionError, match="the block at line"):
        played(tmp_path, *steps)
