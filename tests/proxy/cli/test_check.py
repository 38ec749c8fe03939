"""``teeline check`` judges recorded files, reports them, and says with its status what came of it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.audit.chain import Chain
from teeline.proxy.audit.record import exchange_record
from teeline.proxy.cli import check as module
from teeline.proxy.cli.check import check, split
from teeline.validators.rules import examples, register
from tests.proxy.inputs.test_har import entry, har, page
from tests.proxy.samples import exchange, violation

GOOD = {"on": "chat-stream"}
BAD = {"on": "chat-stream", "done": False}
RULE = "chatstream.done-missing"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder: Path, name: str, example: Mapping[str, Any]) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(examples.exchange(example)))
    return name


def put_text(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(check, arguments)


def report(*arguments: str) -> Any:
    return json.loads(run("--format", "json", *arguments).stdout)


def test_a_clean_file_exits_with_0(folder: Path) -> None:
    result = run(put(folder, "good.json", GOOD))
    assert result.exit_code == 0
    assert result.stdout.startswith("PASS  good.json")
    assert result.stderr == ""


def test_a_broken_stream_exits_with_1_and_says_which_rule(folder: Path) -> None:
    result = run(put(folder, "bad.json", BAD))
    assert result.exit_code == 1
    assert result.stdout.startswith("FAIL  bad.json")
    assert RULE in result.stdout
    assert register()[RULE].fix.split()[0] in result.stdout


def test_the_report_names_files_as_they_were_given(folder: Path) -> None:
    put(folder, "b/bad.json", BAD)
    (exchange,) = report("b/../b/bad.json")["exchanges"]
    assert exchange["file"] == "b/../b/bad.json"
    assert exchange["operation"] == "chat"
    assert exchange["verdict"] == "fail"
    assert exchange["client_verdict"] == "pass"
    assert exchange["inspection"] == "full"
    assert [v["rule"] for v in exchange["violations"] if v["severity"] != "info"] == [RULE]


def test_a_schema_of_the_request_is_checked_too(folder: Path) -> None:
    rule = register()["tools.args-schema-mismatch"]
    put(folder, "bad.json", rule.bad)
    put(folder, "good.json", rule.good)
    bad, good = report("bad.json", "good.json")["exchanges"]
    assert rule.id in {v["rule"] for v in bad["violations"]}
    assert rule.id not in {v["rule"] for v in good["violations"]}
    assert bad["inspection"] == good["inspection"] == "full"


def test_a_folder_is_searched_in_depth_and_in_order(folder: Path) -> None:
    for name in ("in/b.json", "in/a/z.json", "in/a.json", "in/notes.txt"):
        put(folder, name, GOOD)
    os.mkfifo(folder / "in" / "pipe.json")
    files = [exchange["file"] for exchange in report("in")["exchanges"]]
    assert files == ["in/a.json", "in/a/z.json", "in/b.json"]


def test_a_file_that_is_none_costs_the_others_nothing_and_exits_with_2(folder: Path) -> None:
    put(folder, "bad.json", BAD)
    (folder / "list.json").write_text("[]")
    (folder / "half.json").write_text('{"endpoint": "/v1/x", "response": {"status": "200"}}')
    result = run("list.json", "absent.json", "bad.json", "half.json", "x" * 300)
    assert result.exit_code == 2
    assert RULE in result.stdout
    assert result.stderr.splitlines() == [
        "teeline check: list.json: not an exchange file: the top level must be an object",
        "teeline check: absent.json: No such file or directory",
        "teeline check: half.json: not an exchange file: response.status must be an integer",
        f"teeline check: {'x' * 300}: File name too long",
    ]


def test_a_folder_without_exchange_files_is_a_mistake(folder: Path) -> None:
    result = run(str(folder))
    assert result.exit_code == 2
    assert "no *.json, *.jsonl, *.har, *.jsonl.gz in this folder" in result.stderr


def test_a_dangling_link_in_a_folder_is_told_of(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.json").symlink_to("nowhere")
    result = run("in")
    assert result.exit_code == 2
    assert result.stderr == "teeline check: in/a.json: No such file or directory\n"


def test_a_file_name_can_not_control_the_terminal(folder: Path) -> None:
    name = "\x1b[2J\u202e.json"
    (folder / name).write_text("[]")
    result = run(name)
    assert "\\x1b[2J\\u202e.json: not an exchange file" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("example", "fail_on", "status"),
    [
        (BAD, "fail", 1),
        (BAD, "warn", 1),
        (BAD, "never", 0),
        (GOOD, "warn", 0),
    ],
)
def test_fail_on_says_from_which_severity_on_the_status_is_1(
    folder: Path, example: Mapping[str, Any], fail_on: str, status: int
) -> None:
    assert run(put(folder, "x.json", example), "--fail-on", fail_on).exit_code == status


def test_ignore_and_select_choose_what_counts(folder: Path) -> None:
    put(folder, "bad.json", BAD)
    for arguments in (["--ignore", RULE], ["--ignore", "sse,chatstream.*"], ["--select", "sse"]):
        assert run("bad.json", *arguments).exit_code == 0, arguments
    assert run("bad.json", "--select", "chatstream").exit_code == 1


def test_a_pattern_that_is_no_rule_is_a_usage_error_that_names_the_nearest(folder: Path) -> None:
    result = run(put(folder, "x.json", GOOD), "--ignore", "chatstream.done-mising")
    assert result.exit_code == 2
    assert "(did you mean chatstream.done-missing?)" in result.stderr


def test_options_may_list_several_patterns() -> None:
    assert split(["a, b", "c,"]) == ["a", "b", "c"]


def test_output_takes_the_report_and_stdout_stays_empty(folder: Path) -> None:
    put(folder, "bad.json", BAD)
    result = run("bad.json", "--output", "report.txt")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert RULE in (folder / "report.txt").read_text()


def test_an_output_that_can_not_be_written_is_a_usage_error(folder: Path) -> None:
    result = run(put(folder, "x.json", GOOD), "--output", "no/folder/report.txt")
    assert result.exit_code == 2
    assert "no/folder/report.txt: No such file or directory" in result.stderr


def test_quiet_shows_findings_alone(folder: Path) -> None:
    put(folder, "good.json", GOOD)
    put(folder, "bad.json", BAD)
    shown = run("good.json", "bad.json", "--quiet").stdout
    assert "good.json" not in shown
    assert RULE in shown


def test_an_error_of_our_own_is_one_line_without_the_peers_text_and_exits_with_3(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, exchange: object) -> None:
            raise KeyError("what a peer sent")

    put(folder, "bad.json", BAD)
    monkeypatch.setattr(module, "Inspector", Broken)
    result = run("bad.json")
    assert result.exit_code == 3
    assert result.stderr.startswith("teeline check: bad.json: internal error: KeyError at ")
    assert "peer" not in result.stderr


# -- formats of recordings -----------------------------------------------------------------------


def lines(*examples_: Mapping[str, Any]) -> str:
    return "".join(json.dumps(examples.exchange(example)) + "\n" for example in examples_)


def test_stdin_is_read_where_a_dash_stands() -> None:
    result = CliRunner().invoke(check, ["-", "--format", "json"], input=lines(GOOD, BAD))
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)["exchanges"]
    assert (first["file"], first["name"], first["verdict"]) == ("-", "line 1", "pass")
    assert (second["file"], second["name"], second["line"]) == ("-", "line 2", 2)


def test_a_har_is_checked_entry_by_entry_with_its_own_times(folder: Path) -> None:
    """``created`` is held against the clock of the recording, not of today."""
    old = entry(startedDateTime="2020-01-01T00:00:00Z")
    put_text(folder, "x.har", json.dumps(har(entry(), old, page("https://site.example/"))))
    fine, early = report("x.har")["exchanges"]
    assert (fine["name"], fine["verdict"]) == ("entry 1", "pass")
    assert [v["rule"] for v in early["violations"] if v["severity"] == "warn"] == [
        "chat.created-range"
    ]


def test_an_audit_log_is_judged_again_without_its_bodies(folder: Path) -> None:
    record = exchange_record(exchange(violation(RULE), profile="perplexity"))
    (folder / "audit.jsonl").write_bytes(Chain("c").link(1.0, record))
    (found,) = report("audit.jsonl")["exchanges"]
    assert found["inspection"] == "none"
    assert found["profile"] == {"name": "perplexity", "reason": "recorded"}
    assert [(v["rule"], v["severity"]) for v in found["violations"]] == [(RULE, "warn")]
    assert run("audit.jsonl", "--profile", "none").exit_code == 1
    assert run("audit.jsonl", "--ignore", RULE).exit_code == 0


def test_a_packed_file_of_an_audit_log_is_read_like_a_plain_one(folder: Path) -> None:
    lines = b"".join(Chain("c").link(1.0, exchange_record(exchange())) for _ in range(2))
    (folder / "log").mkdir()
    (folder / "log" / "audit.jsonl.gz").write_bytes(gzip.compress(lines))
    assert len(report("log")["exchanges"]) == 2
    (folder / "log" / "audit.jsonl.gz").write_bytes(gzip.compress(lines)[:-9])
    result = run("log")
    assert (result.exit_code, "breaks off" in result.stderr) == (2, True)


def test_a_folder_is_searched_for_all_formats(folder: Path) -> None:
    put(folder, "in/a.json", GOOD)
    put_text(folder, "in/b.jsonl", lines(GOOD, GOOD))
    put_text(folder, "in/c.har", json.dumps(har(entry())))
    assert [e["file"] for e in report("in")["exchanges"]] == [
        *("in/a.json", "in/b.jsonl", "in/b.jsonl", "in/c.har")
    ]


def test_a_broken_entry_is_named_with_its_file_and_the_others_are_checked(folder: Path) -> None:
    put_text(folder, "a.jsonl", lines(GOOD) + "{}\n" + lines(BAD))
    put_text(folder, "b.har", json.dumps(har(5, entry())))
    result = run("a.jsonl", "b.har")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "teeline check: a.jsonl: line 2: not an exchange file: endpoint must be a string "
        "(it is absent)",
        "teeline check: b.har: entry 1: request must be an object",
    ]
    assert "3 exchanges: 1 fail, 0 warn, 2 pass" in result.stdout


# -- profiles ------------------------------------------------------------------------------------

MISTRAL = {
    "on": "chat-tools",
    "remove": ["/choices/0/message/tool_calls/0/type"],
    "headers": {"mistral-correlation-id": "1"},
}


def test_a_profile_is_chosen_by_the_marks_of_the_answer(folder: Path) -> None:
    put(folder, "x.json", MISTRAL)
    whole = report("x.json")
    (found,) = whole["exchanges"]
    assert whole["profile"] == "auto"
    assert found["verdict"] == "pass"
    assert found["profile"] == {"name": "mistral", "reason": "header mistral-correlation-id"}
    (lowered,) = (v for v in found["violations"] if v["rule"] == "tools.type-missing")
    assert lowered["note"].startswith("fail lowered to info by profile mistral: ")


def test_a_profile_can_be_named_or_left_away(folder: Path) -> None:
    put(folder, "x.json", {**MISTRAL, "headers": {}})
    assert run("x.json").exit_code == 1
    assert run("x.json", "--profile", "mistral").exit_code == 0
    put(folder, "x.json", MISTRAL)
    assert run("x.json", "--profile", "none").exit_code == 1
    assert run("x.json", "--profile", "openai").exit_code == 1
    assert report("x.json", "--profile", "none")["profile"] is None


def test_a_profile_that_is_none_is_a_usage_error_that_names_the_nearest(folder: Path) -> None:
    result = run(put(folder, "x.json", GOOD), "--profile", "mistrall")
    assert result.exit_code == 2
    assert "no profile is called 'mistrall' (did you mean mistral?)" in result.stderr
    assert "known: anthropic, auto, azure" in run("x.json", "--profile", "?").stderr


# -- formats of reports --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("text", "FAIL  bad.json"),
        ("json", '{"v": 1'),
        ("jsonl", '{"v": 1, "kind": "exchange"'),
        ("junit", "<?xml"),
        ("sarif", "{"),
        ("github", "::error file=bad.json,line=1,title=teeline chatstream.done-missing::"),
    ],
)
def test_every_form_of_the_report_can_be_asked_for(folder: Path, form: str, start: str) -> None:
    result = run(put(folder, "bad.json", BAD), "--format", form)
    assert result.exit_code == 1
    assert result.stdout.startswith(start)


@pytest.mark.parametrize(("fail_on", "failures"), [("warn", "1"), ("fail", "0"), ("never", "0")])
def test_a_failure_in_junit_is_what_makes_the_run_fail(
    folder: Path, fail_on: str, failures: str
) -> None:
    put(folder, "x.json", dict(register()["chatstream.role-missing"].bad))
    result = run("x.json", "--format", "junit", "--fail-on", fail_on)
    assert ElementTree.fromstring(result.stdout).get("failures") == failures
    assert result.exit_code == int(failures)


def test_nothing_to_check_is_a_usage_error() -> None:
    assert run().exit_code == 2
