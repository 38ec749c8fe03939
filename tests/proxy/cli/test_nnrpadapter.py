"""``teeline nnrp adapter`` and ``capabilities generate`` as processes: what they say, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from teeline.proxy.cli.nnrp import command
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.conversation import Conversation
from teeline.proxy.nnrp.observed import Observed
from tests.proxy.certs import Certificates
from tests.proxy.nnrp.adapter.engine import engine
from tests.proxy.nnrp.adapter.peers import envelope

MAIN = "import sys; from teeline.proxy.cli import main; sys.argv[0] = 'teeline'; main()"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def teeline(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        MAIN,
        "nnrp",
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def adapting(*options: str, **environment: str) -> AsyncIterator[tuple[str, str]]:
    """An adapter as a process: where it is, and all that it said before. It ends in an orderly way."""
    process = await teeline("adapter", *options, **environment)
    assert process.stderr is not None
    said = (await process.stderr.readline()).decode()
    if environment:
        said += (await process.stderr.readline()).decode()
    try:
        yield said.split()[3], said
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def ask(place: str, payload: bytes, **options: Any) -> Observed:
    conversation = await Conversation.open(Endpoint.parse(place), options.get("tls"))
    try:
        return await conversation.run(payload, timeout=10)
    finally:
        await conversation.close()


def test_it_says_where_it_is_and_serves_until_a_signal_comes() -> None:
    async def work() -> None:
        async with (
            engine() as url,
            adapting("--listen", "127.0.0.1:0", "--upstream", url) as (place, said),
        ):
            assert said == f"teeline nnrp adapter: {place} -> {url}/v1\n"
            observed = await ask(place, envelope("chat.completions.create", stream=True))
            assert observed.terminal == "success"

    run(work())


def test_a_capability_document_says_what_is_taken_on(tmp_path: Path) -> None:
    document = tmp_path / "capabilities.json"
    document.write_text('{"operations":[{"name":"models.list"}]}')
    options = ["--capabilities", str(document), "--listen", "127.0.0.1:0"]

    async def work() -> None:
        async with engine() as url, adapting(*options, "--upstream", url) as (place, _):
            assert (await ask(place, envelope("models.list"))).terminal == "success"
            refused = await ask(place, envelope())
            assert refused.error_code() == "unsupported_operation"

    run(work())


def test_whoever_lends_a_key_to_the_network_is_told_so() -> None:
    options = ["--listen", "0.0.0.0:0", "--api-key-env", "ENGINE_KEY"]

    async def work() -> None:
        async with (
            engine() as url,
            adapting(*options, "--upstream", url, ENGINE_KEY="sk-secret") as (_, said),
        ):
            assert "whoever reaches it uses the server's key" in said
            assert "sk-secret" not in said

    run(work())


def test_tls_ends_at_the_adapter(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    file = str(certificates.issue("localhost"))
    options = ["--tls-cert", file, "--tls-key", file, "--listen", "localhost:0"]

    async def work() -> None:
        async with engine() as url, adapting(*options, "--upstream", url) as (place, _):
            observed = await ask(place, envelope("models.list"), tls=certificates.client())
            assert observed.terminal == "success"

    run(work())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--upstream", "ftp://x"], "the URL begins with http"),
        (["--api-key-env", "NOT_SET_AT_ALL"], "NOT_SET_AT_ALL is not set"),
        (["--capabilities", "none.json"], "none.json"),
        (["--tls-cert", "none.pem"], "none.pem"),
        (["--upstream-ca", "none.pem"], "none.pem"),
    ],
)
def test_wrong_usage_is_said(options: list[str], told: str) -> None:
    right = {"--listen": "127.0.0.1:0", "--upstream": "http://127.0.0.1:1"}
    given = right | dict(zip(options[::2], options[1::2], strict=True))
    arguments = ["adapter", *(word for pair in given.items() for word in pair)]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_an_address_that_can_t_be_had_is_said() -> None:
    arguments = ["adapter", "--listen", "unix:/nowhere/at/all", "--upstream", "http://127.0.0.1:1"]
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, "can't listen on unix:" in result.stderr) == (3, True)


# -- capabilities generate ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["profile", "conformance"])
def test_a_generated_document_is_valid_in_its_form(form: str, tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"

    async def work() -> None:
        async with engine() as url:
            options = ["--upstream", url, "--as", form, "--output", str(file)]
            process = await teeline("capabilities", "generate", *options)
            assert await process.wait() == 0

    run(work())
    document = json.loads(file.read_text())
    assert document["compatibility_levels"] == [1, 2, 3]
    names = [operation["name"] for operation in document["operations"]]
    assert names == [
        "chat.completions.create",
        "responses.create",
        "models.list",
        "embeddings.create",
    ]
    chat, *_, embeddings = document["operations"]
    assert chat["streaming"] and chat["non_streaming"] and chat["tool_calls"]
    assert not embeddings["streaming"]
    assert ("models" in document, "adapter" in document) == (form == "profile", form != "profile")
    arguments = ["capabilities", "check", str(file), "--as", form, "--fail-on", "warn"]
    checked = CliRunner().invoke(command, [*arguments, "--show-info"])
    assert (checked.exit_code, "1 pass" in checked.stdout) == (0, True)
    assert "nnrp." not in checked.stdout


def test_a_server_that_answers_nothing_has_no_document() -> None:
    arguments = ["capabilities", "generate", "--upstream", "http://127.0.0.1:1"]
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no operation was answered" in result.stderr
