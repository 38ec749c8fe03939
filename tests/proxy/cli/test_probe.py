"""``teeline probe`` asks, scores, reports, and says with its status what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.baseline import command as baseline
from teeline.proxy.cli.probe import command
from teeline.proxy.probe.report import RENDERERS
from tests.proxy.probe.relays import KEY, MODEL, Exchange, Fault, error, pieces, serving

CHAT = ("--protocol", "chat-completions", "--probe-set", "smoke")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No key of the machine's own comes in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def run(*arguments: str, fault: Fault = Exchange.conforming, key: str | None = KEY) -> Result:
    with serving(fault) as mock:
        given = ["--base-url", mock.url, "--model", MODEL, *(("--api-key", key) if key else ())]
        return CliRunner().invoke(command, [*given, *arguments])


def no_done(exchange: Exchange) -> Any:
    answer = exchange.conforming()
    return pieces(answer, lambda p: b"[DONE]" not in p) if exchange.stream else answer


def test_a_conforming_server_exits_with_0() -> None:
    result = run()
    assert result.exit_code == 0
    assert "total: 100  excellent, result pass" in result.stdout
    assert "about 11 requests" in result.stderr
    assert "cost: 11 requests" in result.stdout


def test_a_single_fail_exits_with_1_however_high_the_score() -> None:
    result = run(*CHAT, fault=no_done)
    assert result.exit_code == 1
    assert "excellent, result fail" in result.stdout
    assert "chatstream.done-missing" in result.stdout
    assert "curl -sS -iN" in result.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--fail-on", "never"), 0),
        (("--fail-on", "never", "--fail-under", "99"), 1),
        (("--ignore", "chatstream.done-missing"), 0),
        (("--select", "chat"), 0),
        (("--ignore", "probe", "--ignore", "chatstream"), 0),
    ],
)
def test_what_fails_can_be_chosen(options: tuple[str, ...], code: int) -> None:
    assert run(*CHAT, *options, fault=no_done).exit_code == code


def test_a_refused_key_exits_with_3_and_the_server_s_words() -> None:
    refusal = error(401, f"Incorrect API key provided: {KEY}")
    result = run(*CHAT, fault=lambda e: refusal)
    assert result.exit_code == 3
    assert "Incorrect API key provided: sk-...1234" in result.stderr


def test_nobody_at_home_exits_with_3() -> None:
    given = ["--base-url", "http://127.0.0.1:9", "--model", "m"]
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 3
    assert "127.0.0.1:9" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--model", "m", "--base-url", "nonsense"),
        ("--model", "m", "--base-url", "https://user:pw@x"),
        ("--model", "m", "--header", "no colon"),
        ("--model", "m", "--header", "X:\u0416"),
        ("--model", "m", "--query", "no-mark"),
        ("--model", "m", "--auth-header", "a b"),
        ("--model", "m", "--api-key-file", "none"),
        ("--model", "m", "--api-key", "a\nb"),
        ("--model", "m", "--baseline", "none"),
        ("--model", "m", "--fail-under", "101"),
        ("--model", "m", "--ignore", "no.such-rule"),
    ],
)
def test_wrong_usage_exits_with_2_before_anything_is_sent(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_key_is_found_in_the_environment_and_in_dotenv(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    assert "key sk-...1234" in run(*CHAT, key=None).stderr
    monkeypatch.setenv("OPENAI_API_KEY", KEY[:-4] + "9999")
    assert "key sk-...9999" in run(*CHAT, key=None).stderr


def test_no_key_in_any_output(folder: Path) -> None:
    """A server that repeats the key everywhere gets it into no report and no baseline."""

    def parrot(exchange: Exchange) -> Any:
        return error(500, f"you sent {exchange.headers.get('Authorization')}", code=KEY)

    for form in RENDERERS:
        result = run("--format", form, "--show-info", fault=parrot)
        assert result.exit_code == 1
        assert KEY not in result.output


@pytest.mark.parametrize("form", RENDERERS)
def test_every_format_can_be_written_to_a_file(form: str, folder: Path) -> None:
    result = run(*CHAT, "--format", form, "--output", "report", fault=no_done)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "chatstream.done-missing" in (folder / "report").read_text(encoding="utf-8")


def test_answers_are_held_against_a_baseline(folder: Path) -> None:
    with serving() as mock:
        given = ["--base-url", mock.url, "--model", MODEL, "--api-key", KEY]
        made = CliRunner().invoke(baseline, ["capture", *given, "-o", "b.json"])
        assert made.exit_code == 0, made.output
    same = json.loads(run("--baseline", "b.json", "--format", "json").stdout)
    assert same["differences"] == []
    changed = run("--baseline", "b.json", "--format", "json", fault=no_done)
    (difference,) = json.loads(changed.stdout)["differences"]
    assert difference.startswith("events: ")
    assert difference.endswith("(chat-stream)")
