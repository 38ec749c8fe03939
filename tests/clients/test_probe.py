"""The relay check against real servers, and a relay before one of them held against that server."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from teeline.proxy.cli.baseline import command as baseline
from teeline.proxy.cli.probe import command as probe
from teeline.proxy.demo.scenarios import EVENT_STREAM, Answer
from tests.clients.conftest import Start
from tests.proxy.probe.relays import Exchange, Fault, changed, pieces, replaced, serving


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def scored(url: str, model: str, *more: str) -> Any:
    given = ["--base-url", url, "--model", model, "--quiet", "--format", "json", *more]
    result = CliRunner().invoke(probe, given)
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def scores(document: Any) -> dict[str, int]:
    return {d["name"]: d["score"] for d in document["detectors"] if d["score"] is not None}


def captured(url: str, model: str, name: str) -> None:
    given = ["capture", "--base-url", url, "--model", model, "--quiet", "-o", name]
    result = CliRunner().invoke(baseline, given)
    assert result.exit_code == 0, result.output


def differences(first: str, second: str) -> list[dict[str, str]]:
    result = CliRunner().invoke(baseline, ["compare", first, second, "--format", "json"])
    found: list[dict[str, str]] = json.loads(result.stdout)["differences"]
    return found


def test_llmock_is_excellent(llmock: str) -> None:
    document = scored(llmock, "gpt-4o")
    assert (document["total"], document["band"], document["result"]) == (100.0, "excellent", "pass")


def test_llama_server_keeps_to_chat_and_lacks_parts_of_responses(llama_server: str) -> None:
    """Its chat is whole; its Responses stream has no numbers and no whole response at its start."""
    document = scored(llama_server, "tiny-qwen2")
    found = scores(document)
    assert found["ChatCompletionsProtocol"] == found["ChatCompletionsStreaming"] == 100
    assert found["ModelsEndpoint"] == 100
    assert found["ResponsesStreaming"] == 45
    rules = {f["rule"] for f in document["findings"] if f["severity"] == "fail"}
    assert {"respstream.seq-missing", "responses.created-at-type"} <= rules
    assert document["result"] == "fail"


def behind(upstream: str, change: Callable[[Exchange, Answer], Answer]) -> Fault:
    """A relay that asks a real server, and then does with the answer as relays do."""

    def answered(exchange: Exchange) -> Answer:
        return change(exchange, _passed_on(upstream, exchange))

    return answered


def _passed_on(upstream: str, exchange: Exchange) -> Answer:
    """What the server answers; blocks, as the relay's thread has nothing else to do."""
    url = upstream.removesuffix("/v1") + exchange.path
    body = json.dumps(exchange.asked).encode() if exchange.asked else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as got:
        data, kind = got.read(), got.headers.get("Content-Type", "")
    if "event-stream" not in kind:
        return Answer((data,), kind)
    blocks = tuple(block + b"\n\n" for block in data.split(b"\n\n") if block)
    return Answer(blocks, EVENT_STREAM)


def rewriting(exchange: Exchange, answer: Answer) -> Answer:
    """Ids of its own, a member more, usage details less; the name of Responses events is lost."""
    if exchange.chat and not exchange.stream:
        return changed(answer, _rewritten)
    if exchange.responses and exchange.stream:
        return replaced(answer, b'"type":"response.created"', b'"type":"response.started"')
    if exchange.chat:
        return pieces(answer, lambda block: b"[DONE]" not in block)
    return answer


def _rewritten(body: Any) -> None:
    body["id"] = "gen-" + body["id"].partition("-")[2]
    body["provider"] = "x"
    del body["usage"]


def test_a_relay_before_a_real_server_shows_what_it_changes_and_nothing_else(llmock: str) -> None:
    captured(llmock, "gpt-4o", "direct.json")
    with serving(behind(llmock, rewriting)) as relay:
        captured(relay.url, "gpt-4o", "relayed.json")
    found = {(d["probe"], d["kind"], d["path"]) for d in differences("direct.json", "relayed.json")}
    whole = ("chat-basic", "chat-create", "chat-tools", "chat-structured")
    expected = {(name, *rest) for name in whole for rest in _REWRITTEN}
    streams = {("chat-stream", "events", ""), ("responses-stream", "events", "")}
    # The relay of these tests adds a request id to each answer, where llmock has none.
    assert {f for f in found if f[1] != "header"} == expected | streams
    assert {f[2] for f in found if f[1] == "header"} == {"x-request-id"}


_REWRITTEN = (("id prefix", "/id"), ("field", "/provider"), ("field", "/usage"))


@pytest.mark.parametrize("server", ["llmock", "llama_server"])
def test_through_teeline_itself_nothing_differs(
    server: str, teeline: Start, request: pytest.FixtureRequest
) -> None:
    """The proxy passes bytes on: a baseline taken through it is that of the server."""
    upstream = request.getfixturevalue(server)
    model = "gpt-4o" if server == "llmock" else "tiny-qwen2"
    captured(upstream, model, "direct.json")
    captured(teeline(upstream).base_url, model, "through.json")
    assert differences("direct.json", "through.json") == []
