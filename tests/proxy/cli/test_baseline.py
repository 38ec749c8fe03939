"""``teeline baseline`` writes what a server answered, and says how two such files differ."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.baseline import command
from tests.proxy.probe.relays import KEY, MODEL, Exchange, Fault, changed, error, serving


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def capture(*arguments: str, fault: Fault = Exchange.conforming) -> Result:
    with serving(fault) as mock:
        mock.fields |= {"set-cookie": "secret", "x-ratelimit-limit-requests": "9"}
        given = ("--base-url", mock.url, "--model", MODEL, "--api-key", KEY)
        return run("capture", *given, *arguments)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_baseline_holds_each_probe_in_five_parts(folder: Path) -> None:
    result = capture("-o", "b.json")
    assert result.exit_code == 0, result.output
    made = read(folder / "b.json")
    assert (made["v"], made["kind"], made["api_key_masked"]) == (
        1,
        "teeline-baseline",
        "sk-...1234",
    )
    assert len(made["probes"]) == 11
    create = made["probes"]["chat-create"]
    assert create["request"]["model"] == MODEL
    assert create["response"]["json"]["object"] == "chat.completion"
    assert create["headers"] == {"x-request-id": "req_mock", "x-ratelimit-limit-requests": "9"}
    assert create["validation"] == {"result": "pass", "deductions": []}
    assert create["features"]["id_prefixes"] == {"/id": "chatcmpl-"}
    stream = made["probes"]["responses-stream"]
    assert stream["features"]["events"][0] == "response.created"
    assert stream["response"]["events"][0]["data"]["type"] == "response.created"
    assert made["probes"]["chat-tools"]["features"]["tool_call"] is True
    assert made["probes"]["chat-structured"]["features"]["structured_object"] is True


def test_a_fault_stands_in_the_validation_with_its_points(folder: Path) -> None:
    def wrong(exchange: Exchange) -> Any:
        answer = exchange.conforming()
        whole = exchange.chat and not exchange.stream
        return changed(answer, lambda b: b | {"object": "x"}) if whole else answer

    capture("-o", "b.json", fault=wrong)
    validation = read(folder / "b.json")["probes"]["chat-create"]["validation"]
    (deduction,) = validation["deductions"]
    assert validation["result"] == "fail"
    assert (deduction["rule"], deduction["points"]) == ("chat.object-wrong", 15)
    assert "object" in deduction["place"]


def test_without_a_name_it_lies_dated_among_the_baselines(folder: Path) -> None:
    """Readable by its owner alone, and kept out of repositories: it holds answers."""
    assert capture("--probe-set", "smoke").exit_code == 0
    (path,) = (folder / "teeline-data" / "baselines").iterdir()
    assert path.name.endswith(f"-v1-{MODEL}.json")
    assert path.name[:4].isdigit()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (folder / "teeline-data" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(("api", "prefix"), [("chat", "chat"), ("responses", "responses")])
def test_one_protocol_alone_can_be_asked(api: str, prefix: str, folder: Path) -> None:
    capture("-o", "b.json", "--wire-api", api)
    names = read(folder / "b.json")["probes"].keys() - {"models"}
    assert {name.partition("-")[0] for name in names} == {prefix}


def test_a_baseline_never_holds_the_key(folder: Path) -> None:
    """A server that repeats it, and a header that carries another one."""

    def parrot(exchange: Exchange) -> Any:
        answer = exchange.conforming()
        if exchange.stream:
            return answer
        return changed(answer, lambda body: body | {"you": exchange.headers["Authorization"]})

    capture("-o", "b.json", "--header", "X-Api-Key: second-secret", fault=parrot)
    text = (folder / "b.json").read_text(encoding="utf-8")
    assert "sk-...1234" in text
    assert KEY not in text
    assert "second-secret" not in text


def test_a_refused_key_writes_nothing_and_exits_with_3(folder: Path) -> None:
    result = capture("-o", "b.json", fault=lambda e: error(401, "who are you"))
    assert result.exit_code == 3
    assert "who are you" in result.stderr
    assert not (folder / "b.json").exists()


def test_the_same_server_twice_differs_in_nothing(folder: Path) -> None:
    capture("-o", "a.json")
    capture("-o", "b.json")
    result = run("compare", "a.json", "b.json")
    assert (result.exit_code, result.stdout) == (0, "11 probes compared, 0 differences\n")


def test_only_what_a_relay_changes_shows(folder: Path) -> None:
    """A relay that adds a member, takes one away and writes ids of its own."""

    def rewriting(exchange: Exchange) -> Any:
        answer = exchange.conforming()
        if not exchange.chat or exchange.stream:
            return answer

        def rewrite(body: Any) -> None:
            body["id"] = "gen-1"
            body["provider"] = "x"
            del body["usage"]["prompt_tokens_details"]

        return changed(answer, rewrite)

    capture("-o", "a.json")
    capture("-o", "b.json", fault=rewriting)
    result = run("compare", "a.json", "b.json", "--format", "json")
    assert result.exit_code == 1
    found = {(d["kind"], d["path"]) for d in json.loads(result.stdout)["differences"]}
    assert found == {
        ("id prefix", "/id"),
        ("field", "/provider"),
        ("field", "/usage/prompt_tokens_details"),
    }
    text = run("compare", "a.json", "b.json").stdout
    probes = "chat-basic, chat-create, chat-tools, chat-structured"
    assert f"field /provider: absent -> string  ({probes})" in text


def test_what_is_no_baseline_exits_with_2(folder: Path) -> None:
    (folder / "x.json").write_text("{}")
    for pair in (("x.json", "x.json"), ("none", "none")):
        result = run("compare", *pair)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
