"""``teeline nnrp conformance`` and ``vectors``: what is written, what is said, and exit codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.nnrp import command
from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.server import NnrpServer
from teeline.proxy.nnrp.serverreply import Reply, Service
from teeline.proxy.nnrp.submit import Submit
from tests.proxy.nnrp.conformance.schemas import PLAN, RESULTS, validate
from tests.proxy.nnrp.conformance.servers import LEVEL1, Faulty, serving, upstream, without

CHAT = {
    "name": "chat.completions.create",
    "streaming": True,
    "non_streaming": True,
    "tool_calls": True,
    "cancellation": True,
}
DECLARES: dict[str, Any] = {
    "adapter": "tested",
    "profile": "openai-compatible",
    "schema_version": "openai-compatible/1",
    "compatibility_levels": [1],
    "operations": [CHAT],
}


class Leaving:
    """A service that answers one operation; its server stops behind that."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.server = NnrpServer(Address("127.0.0.1", 0), self)
        self.stopping: asyncio.Task[None] | None = None

    async def serve(self, submit: Submit, reply: Reply) -> None:
        await self._service.serve(submit, reply)
        self.stopping = asyncio.create_task(self.server.stop(1.0))


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 60))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


async def conformance(
    folder: Path, *options: str, broken: bool = False, declares: Any = DECLARES
) -> Result:
    """The command against an adapter of level 1; ``broken``: one that tells no usage."""
    document = folder / "capabilities.json"
    document.write_text(json.dumps(declares), encoding="utf-8")
    async with upstream() as way:
        adapter = Adapter(way, LEVEL1)
        service: Service = Faulty(adapter, without("response.usage")) if broken else adapter
        async with serving(service) as target:
            words = ["conformance", "--capabilities", str(document), "--target"]
            return await asyncio.to_thread(invoke, *words, str(target.endpoint), *options)


def test_a_server_that_conforms_passes(tmp_path: Path) -> None:
    results, plan = tmp_path / "results.json", tmp_path / "plan.json"
    written = ["--results", str(results), "--plan", str(plan)]
    result = run(conformance(tmp_path, *written, "--through-tap", "--model", "m"))
    assert result.exit_code == 0, result.output
    *lines, summary = result.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"PASS"}
    assert f"{len(lines)} cases: {len(lines)} passed, 0 failed, 0 skipped" in summary
    document = json.loads(results.read_text())
    validate(document, RESULTS)
    validate(json.loads(plan.read_text()), PLAN)
    assert document["adapter"] == "tested"
    assert len(document["results"]) == len(lines)


def test_a_server_that_does_not_fails_with_the_reason(tmp_path: Path) -> None:
    result = run(conformance(tmp_path, "--no-observe", "--results", "-", broken=True))
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    validate(document, RESULTS)
    failed = [case for case in document["results"] if case["outcome"] == "failed"]
    assert [case["id"] for case in failed] == ["teeline.chat.stream-order"]
    assert "response.usage" in failed[0]["message"]


def test_a_server_that_goes_in_the_midst_fails_the_cases_that_are_left(tmp_path: Path) -> None:
    """The results are written all the same."""
    document = tmp_path / "capabilities.json"
    document.write_text(json.dumps(DECLARES), encoding="utf-8")

    async def work() -> Result:
        async with upstream() as way:
            service = Leaving(Adapter(way, LEVEL1))
            place = f"nnrp://{await service.server.start()}"
            words = ["conformance", "--capabilities", str(document), "--results", "-"]
            result = await asyncio.to_thread(invoke, *words, "--target", place)
            assert service.stopping is not None
            await service.stopping
            return result

    result = run(work())
    assert result.exit_code == 3  # nobody was left to be asked what it does
    outcomes = [case["outcome"] for case in json.loads(result.stdout)["results"]]
    assert outcomes[0] == "passed"
    assert set(outcomes[1:]) == {"failed"}


def test_what_is_declared_and_not_seen_fails(tmp_path: Path) -> None:
    more = DECLARES | {"operations": [CHAT, CHAT | {"name": "embeddings.create"}]}
    result = run(conformance(tmp_path, "--model", "m", declares=more))
    assert result.exit_code == 1
    assert "FAIL  embeddings.create: declared, not seen" in result.stdout


def test_informational_recipes_run_where_that_is_asked_for(tmp_path: Path) -> None:
    options = ["--informational", "--no-observe", "--set", "teeline.chat.overload/COPIES=1"]
    result = run(conformance(tmp_path, *options))
    assert "PASS  teeline.chat.interleaved-tool-calls" in result.stdout
    assert "PASS  teeline.chat.backend-error" in result.stdout
    assert "FAIL  teeline.chat.overload" in result.stdout


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--set", "MODEL_ID"], 2, "NAME=VALUE"),
        (["--set", "NOBODYS=1"], 2, "no recipe has this parameter"),
        (["--profile", "none.json"], 2, "none.json"),
        (["--target", "http://x"], 2, "an endpoint is"),
        (["--target", "nnrp://127.0.0.1:1"], 3, "nnrp conformance"),
        (["--target", "nnrp://127.0.0.1:1", "--through-tap"], 3, "nnrp conformance"),
    ],
)
def test_what_can_t_be_run_is_said(
    options: list[str], code: int, told: str, tmp_path: Path
) -> None:
    document = tmp_path / "capabilities.json"
    document.write_text(json.dumps(DECLARES), encoding="utf-8")
    words = ["conformance", "--target", "nnrp://127.0.0.1:1", "--capabilities", str(document)]
    result = invoke(*words, *options)
    assert (result.exit_code, told in result.stderr) == (code, True)


def test_vectors_are_lines_of_json(tmp_path: Path) -> None:
    file = tmp_path / "vectors.jsonl"
    assert invoke("vectors", "--kind", "conversation", "--output", str(file)).exit_code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["v"] for line in lines} == {1}
    assert {line["id"].partition("/")[0] for line in lines} == {"conversation"}
    kinds = {
        json.loads(line)["id"].partition("/")[0] for line in invoke("vectors").stdout.splitlines()
    }
    assert kinds == {"conversation", "recipe", "rule"}
