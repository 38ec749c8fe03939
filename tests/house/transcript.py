"""Runs what a page tells its reader to type, and compares what the page shows.

What belongs here: files, commands and output of a page in a folder of their own, with real
processes. What doesn't: what a page says (docs), and how it is read (pages.py).

A comment before a fenced block says what the block is:

    <!-- file: NAME -->        the block is written to this file
    <!-- run -->               run to its end; ``run: exit 1`` where another status than 0 is due
    <!-- stays: NAME -->       started, and left running under this name
    <!-- shows -->             what the block before puts out
    <!-- shows: NAME -->       what that program, which is still running, puts out from here on
    <!-- ends: NAME -->        the program gets Ctrl-C, and puts this out before it ends with status 0

In what is shown a line ``...`` stands for any lines; numbers, times and ids stand for those of the
run, and a command that names an id of the page is run with the id that the run has shown in its place.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.house.pages import Block

PATIENCE = 60.0
"""Seconds after which a command that hangs fails its test."""

_ID = r"(?<![0-9a-z])(?=[0-9a-f]*[0-9])[0-9a-f]{12,}(?![0-9a-z])"
_VARYING = re.compile(rf"(?P<id>{_ID})|(?P<number>[0-9]+)|(?P<gap> {{2,}})")


class Shown:
    """What a page shows of a program's output, as a pattern for the output of another run."""

    def __init__(self, text: str) -> None:
        self.ids: list[str] = []
        lines = text.rstrip("\n").split("\n")
        parts = [r"(?:.*\n)*?" if line == "..." else f"{self._line(line)}\n" for line in lines]
        self._pattern = re.compile("".join(parts))

    def _line(self, line: str) -> str:
        made, end = [], 0
        for match in _VARYING.finditer(line):
            made.append(re.escape(line[end : match.start()]))
            if match["id"]:
                self.ids.append(match["id"])
            made.append(
                {"id": "([0-9a-f]+)", "number": "[0-9]+", "gap": " +"}[match.lastgroup or ""]
            )
            end = match.end()
        return "".join(made) + re.escape(line[end:].rstrip()) + " *"

    def find(self, output: str, start: int = 0) -> re.Match[str] | None:
        return self._pattern.search(output, start)

    def whole(self, output: str) -> re.Match[str] | None:
        return self._pattern.fullmatch(output)


class Program:
    """A program that stays; what it writes is read by a thread of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._output = ""
        self._over = False
        self._seen = 0
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tell(line)
        self._tell("", over=True)

    def _tell(self, line: str, over: bool = False) -> None:
        with self._news:
            self._output += line
            self._over = over
            self._news.notify_all()

    def shows(self, shown: Shown) -> re.Match[str]:
        """Waits until the program has written it, behind what was waited for before."""
        with self._news:
            self._news.wait_for(
                lambda: self._over or shown.find(self._output, self._seen) is not None, PATIENCE
            )
            match = shown.find(self._output, self._seen)
            assert match is not None, f"not shown; the program wrote:\n{self._output[self._seen :]}"
            self._seen = match.end()
            return match

    def end(self) -> int:
        """The exit status after Ctrl-C, which reaches all processes of a terminal's job.

        Negative, as of any killed process, where it took no notice of it.
        """
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            status = self._process.wait()
        with self._news:
            self._news.wait_for(lambda: self._over, PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status


class Transcript:
    """A page as it runs, in ``folder``. ``instead`` maps words of the page to those of this run."""

    def __init__(self, folder: Path, instead: Mapping[str, str]) -> None:
        self._folder = folder
        self._instead = dict(instead)
        self._output: str | None = None
        self._running: dict[str, Program] = {}
        self._last = ""
        self._programs = folder / ".bin"
        self._programs.mkdir()
        script = self._programs / "teeline"
        code = 'import sys; from teeline.proxy.cli import main; sys.argv[0] = "teeline"; main()'
        script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c '{code}' \"$@\"\n")
        script.chmod(0o755)

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Ends what stays; each must end as it does for a user, with status 0."""
        statuses = {name: program.end() for name, program in self._running.items()}
        if kind is None:
            assert set(statuses.values()) <= {0}, statuses

    def play(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            try:
                self._play(block)
            except AssertionError as error:
                raise AssertionError(f"the block at line {block.line}: {error}") from None

    def _play(self, block: Block) -> None:
        match block.word:
            case "file":
                (self._folder / block.argument).write_text(block.text, encoding="utf-8")
            case "run":
                self._run(block)
            case "stays":
                self._running[block.argument] = Program(self._start(block.text))
                self._last, self._output = block.argument, None
            case "shows":
                self._compare(block)
            case "ends":
                self._end(block)

    def _end(self, block: Block) -> None:
        program = self._running.pop(block.argument)
        status = program.end()
        program.shows(Shown(block.text))
        assert status == 0, f"exit status {status}"

    def _run(self, block: Block) -> None:
        process = self._start(block.text)
        try:
            self._output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        due = int(block.argument.removeprefix("exit ") or 0)
        assert process.returncode == due, f"exit status {process.returncode}:\n{self._output}"

    def _compare(self, block: Block) -> None:
        shown = Shown(block.text)
        name = block.argument or self._last
        if block.argument or self._output is None:
            match = self._running[name].shows(shown)
        else:
            found = shown.whole(self._output)
            assert found is not None, f"something else is shown:\n{self._output}"
            match = found
        for page, run in zip(shown.ids, match.groups(), strict=True):
            known = self._instead.setdefault(page, run)
            assert known == run, f"{page} of the page was {known}, and is {run} here"

    def _start(self, script: str) -> subprocess.Popen[str]:
        path = f"{self._programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        keep = {
            k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TEELINE", "OPENAI"))
        }
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", self._here(script)],
            cwd=self._folder,
            env={**keep, "PATH": path, "NO_COLOR": "1", "COLUMNS": "140", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _here(self, text: str) -> str:
        """The page's text with the words of this run, longer ones first, as they may hold others.

        In one pass: a word of this run may hold one of the page, as a port 18787 holds 8787.
        """
        words = sorted(self._instead, key=len, reverse=True)
        pattern = "|".join(re.escape(word) for word in words)
        return re.sub(pattern, lambda m: self._instead[m[0]], text) if pattern else text
