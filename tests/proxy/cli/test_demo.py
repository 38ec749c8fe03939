"""``teeline demo`` shows what teeline finds, on one command, and says so in its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli import demo
from teeline.proxy.demo import scenarios as data
from teeline.proxy.demo.face import CLEAN_MODEL
from teeline.proxy.demo.scenarios import SCENARIOS, Scenario

_RUN = "from teeline.proxy.cli.demo import command; command()"


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(demo.command, list(arguments))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One run with nothing but the folder of its audit log."""
    folder = tmp_path_factory.mktemp("demo") / "log"
    result = _invoke("--audit-dir", str(folder))
    return result, folder


def test_all_is_as_expected_and_the_exit_code_says_so(shown: tuple[Result, Path]) -> None:
    """Every scenario has its line, every expected rule stands below it, and the end is 0."""
    result, _ = shown
    assert result.exit_code == 0, result.output
    for scenario in SCENARIOS:
        assert re.search(rf"^(pass|warn|fail)  {scenario.name} ", result.stdout, re.MULTILINE)
        assert all(rule in result.stdout for rule in scenario.expected)
    assert result.stderr == ""


def test_it_says_that_the_bytes_crossed_unchanged(shown: tuple[Result, Path]) -> None:
    """The promise is shown, not only the findings."""
    count = len(SCENARIOS)
    assert f"{count} of {count} exchanges crossed the proxy unchanged" in shown[0].stdout


def test_it_says_where_the_audit_log_is_and_what_to_do_next(
    shown: tuple[Result, Path],
) -> None:
    """Who has seen the table knows how to go on."""
    result, folder = shown
    assert f"teeline audit verify {folder}" in result.stdout
    assert list(folder.glob("*.jsonl"))
    assert "teeline serve --upstream https://your-relay/v1" in result.stdout
    assert "OPENAI_BASE_URL=http://127.0.0.1:8787/v1" in result.stdout


def test_a_fault_that_nobody_finds_ends_with_three_and_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A demo that can't fail would show nothing: here a clean answer is declared a fault."""
    blind = Scenario("blind", "does nothing wrong", data.CLEAN_STREAM, ("http.truncated",))
    false = Scenario("false", "is called clean", data.Answer((b"<html>",), "text/html"))
    monkeypatch.setattr(demo, "SCENARIOS", (blind, false))
    result = _invoke("--audit-dir", str(tmp_path))
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    assert "teeline demo: not as expected: blind: http.truncated was not found" in lines
    assert any("not as expected: false: http.html-200 was reported" in line for line in lines)
    assert "As expected" not in result.stdout


def test_a_port_in_use_ends_with_three_and_one_line(tmp_path: Path) -> None:
    """No traceback, and a word on what to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = _invoke("--listen", listen, "--audit-dir", str(tmp_path))
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 1
    assert "--listen" in result.stderr


def test_an_audit_folder_that_can_t_be_made_ends_with_three_and_one_line(tmp_path: Path) -> None:
    """A file in the folder's place is nobody's traceback."""
    file = tmp_path / "file"
    file.write_text("here already", encoding="utf-8")
    result = _invoke("--audit-dir", str(file / "log"))
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "8787"),
        ("--listen", "127.0.0.1:99999"),
        ("--listen", "127.0.0.1:0", "--host", "127.0.0.1"),
        ("--sty",),
        ("extra",),
    ],
)
def test_a_wrong_command_line_ends_with_two(arguments: tuple[str, ...]) -> None:
    """Usage errors are told before anything starts."""
    result = _invoke(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


@contextmanager
def _staying(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A demo that stays, its base URL, and what it printed until it was ready."""
    command = [sys.executable, "-c", _RUN, "--stay", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--admin", "127.0.0.1:0", "--audit-dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        printed = ""
        assert process.stdout is not None
        while "In front of your own relay" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        found = re.search(r"OPENAI_BASE_URL=(\S+)", printed)
        assert found is not None
        yield process, found[1], printed
    finally:
        process.kill()
        process.communicate()


def _ended(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    printed, errors = process.communicate(timeout=20)
    assert errors == ""
    return process.returncode, printed


def _text(client: openai.OpenAI, model: str) -> str:
    messages: Any = [{"role": "user", "content": "Hi"}]
    with client.chat.completions.create(model=model, messages=messages, stream=True) as chunks:
        return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def _listed(url: str) -> set[str]:
    """The models of the exchanges that the live page lists, once all of the demo's own are there."""
    models: set[str] = set()
    end = time.monotonic() + 20
    while len(models) < len(SCENARIOS) and time.monotonic() < end:
        with urllib.request.urlopen(url, timeout=20) as answer:
            models = {row["model"] for row in json.load(answer)["rows"]}
    return models


def test_a_client_of_one_s_own_meets_the_faults(tmp_path: Path) -> None:
    """With --stay the official client lists the models, streams from them, and every fault
    shows.
    """
    with _staying(tmp_path / "log") as (process, base_url, printed):
        page = re.search(r"live page: (http://127\.0\.0\.1:\d+/monitor/)\n", printed)
        assert page is not None
        assert _listed(f"{page[1]}api/exchanges") == {scenario.name for scenario in SCENARIOS}
        with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            models = [model.id for model in client.models.list()]
            assert _text(client, "no-done") == "It is 21 °C in Paris."
            assert _text(client, "any-model") == "It is 21 °C in Paris."
            with pytest.raises(openai.APIConnectionError):
                _text(client, "cut-mid-event")
            with pytest.raises(openai.InternalServerError):
                _text(client, "error-string")
        code, told = _ended(process, signal.SIGINT)
    assert models == [*(scenario.name for scenario in SCENARIOS), CLEAN_MODEL]
    assert all(model in printed for model in models)
    for rule in ("chatstream.done-missing", "http.truncated", "error.string"):
        assert rule in told
    # A name that is none of the scenarios gets a clean answer, from a model that was never listed.
    assert "models.requested-model-unlisted" in told
    assert code == 0


def test_a_container_s_stop_is_a_clean_end(tmp_path: Path) -> None:
    """SIGTERM ends a demo that stays as Ctrl-C does: with 0 and no complaint."""
    with _staying(tmp_path / "log") as (process, _, _):
        assert _ended(process, signal.SIGTERM)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        ((), "127.0.0.1:0"),
        (("--stay",), "127.0.0.1:8787"),
        (("--stay", "--host", "0.0.0.0"), "0.0.0.0:8787"),
        (("--stay", "--host", "::1"), "[::1]:8787"),
        (("--listen", "127.0.0.1:9000"), "127.0.0.1:9000"),
    ],
)
def test_where_the_proxy_listens(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], address: str
) -> None:
    """A free port for a look, the usual one to stay, any other on request."""
    seen: list[str] = []

    async def noted(where: object, *_: object, **__: object) -> int:
        seen.append(str(where))
        return 0

    monkeypatch.setattr(demo, "_demo", noted)
    assert _invoke(*arguments, "--audit-dir", "unused").exit_code == 0
    assert seen == [address]


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        ((), "None elsewhere"),
        (("--stay",), "127.0.0.1:8788 elsewhere"),
        (("--stay", "--host", "0.0.0.0"), "0.0.0.0:8788 elsewhere"),
        (("--stay", "--admin", "127.0.0.1:9001"), "127.0.0.1:9001"),
        (("--stay", "--admin", "off"), "None"),
    ],
)
def test_where_the_live_page_is(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], page: str
) -> None:
    """Beside a proxy that stays; where it was asked for, there or nowhere."""
    seen: list[str] = []

    async def noted(_: object, __: object, page: object, *, stay: bool, elsewhere: bool) -> int:
        seen.append(f"{page}{' elsewhere' if elsewhere else ''}")
        return 0

    monkeypatch.setattr(demo, "_demo", noted)
    assert _invoke(*arguments, "--audit-dir", "unused").exit_code == 0
    assert seen == [page]


def test_a_page_for_a_demo_that_ends_at_once_is_a_wrong_command_line() -> None:
    result = _invoke("--admin", "127.0.0.1:0")
    assert result.exit_code == 2
    assert "add --stay" in result.stderr
