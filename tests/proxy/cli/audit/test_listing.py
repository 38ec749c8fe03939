"""``teeline audit list`` answers with what passes its filters, for people and for machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.proxy.fingerprint import load_or_make
from tests.proxy.audit.logs import writer
from tests.proxy.cli.audit.logs import IDS, PLANTED, answer, audit, log
from tests.proxy.samples import exchange


def listed(folder: Path, *arguments: object) -> list[str]:
    return [each["id"] for each in answer("list", "--dir", folder, *arguments)["exchanges"]]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), IDS[::-1]),
        (("--oldest", "--limit", 2), IDS[:2]),
        (("--upstream", "my-relay"), [IDS[1], IDS[0]]),
        (("--verdict", "fail", "--verdict", "warn"), [IDS[1], IDS[0]]),
        (("--severity", "warn"), [IDS[1], IDS[0]]),
        (("--severity", "fail"), [IDS[0]]),
        (("--rule", "chat"), [IDS[1]]),
        (("--rule", "chatstream.done-missing"), [IDS[0]]),
        (("--status", "4xx"), [IDS[1]]),
        (("--status", "429", "--upstream", "other"), []),
        (("--request-id", "req-a"), [IDS[0]]),
        (("--id", IDS[3]), [IDS[3]]),
        (("--key", "0123456789abcdef"), [IDS[0]]),
        (("--message", "ended WITHOUT"), [IDS[1], IDS[0]]),
        (("--since", "2026-11-30T12:01:08.75Z"), IDS[::-1]),
        (("--since", "2026-11-30T12:01:09"), []),
        (("--until", "2026-11-30T13:01:08+01:00"), []),
        (("--operation", "embeddings"), []),
        (("--model", "gpt-4o-mini", "--ended", "complete", "--client-verdict", "pass"), IDS[::-1]),
    ],
    ids=str,
)
def test_filters_choose(tmp_path: Path, arguments: tuple[object, ...], found: list[str]) -> None:
    assert listed(log(tmp_path), *arguments) == found


def test_people_get_a_table_that_says_what_was_broken(tmp_path: Path) -> None:
    result = audit("list", "--dir", log(tmp_path), "--oldest", "--limit", 2)
    head, first, second = result.stdout.splitlines()
    assert head.split() == [
        *("time", "(UTC)", "id", "upstream", "operation", "model", "status", "verdict", "took"),
        "broken",
    ]
    assert first.split() == [
        *("2026-11-30", "12:01:08", IDS[0][:18], "my-relay", "chat*", "gpt-4o-mini", "200", "fail"),
        *("1.50s", "chatstream.done-missing"),
    ]
    assert second.endswith("1.50s  chat.id-missing")
    assert result.stderr == "teeline: there are more; --limit 2\n"
    assert PLANTED not in result.output


def test_machines_get_what_the_index_knows(tmp_path: Path) -> None:
    (found,) = answer("list", "--dir", log(tmp_path), "--verdict", "fail")["exchanges"]
    assert found["ts"] == "2026-11-30T12:01:08.750000Z"
    assert (found["seconds"], found["captured"], found["line"]) == (1.5, True, 2)
    assert found["violations"] == [
        {"rule": "chatstream.done-missing", "severity": "fail", "count": 3}
    ]


def test_a_key_is_looked_for_by_a_variable_that_holds_it(tmp_path: Path) -> None:
    key = "sk-planted-key"
    made = writer(tmp_path)
    made.start()
    digits = load_or_make(tmp_path / "fingerprint-secret").of_key(key)
    made.append([exchange(id="mine", client_key=digits), exchange()])
    made.close()
    result = audit("list", "--dir", tmp_path, "--key-env", "MY_KEY", env={"MY_KEY": key})
    assert result.stdout.count("\n") == 2
    assert "mine" in result.stdout
    assert key not in result.output
    missing = audit("list", "--dir", tmp_path, "--key-env", "NO_SUCH_KEY")
    assert (missing.exit_code, "NO_SUCH_KEY is not set" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rule", "chatstream.done-mising"), "did you mean chatstream.done-missing?"),
        (("--status", "6xx"), "a class like 5xx"),
        (("--since", "yesterday"), "2h, 7d (ago)"),
        (("--severity", "bad"), "not one of"),
    ],
)
def test_wrong_usage_says_what_is_right(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    result = audit("list", "--dir", tmp_path, *arguments)
    assert (result.exit_code, words in result.stderr) == (2, True)


def test_no_log_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    result = audit("list", "--dir", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1
    empty = audit("list", "--dir", tmp_path)
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "teeline: no exchanges\n")
