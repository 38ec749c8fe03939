"""``teeline nnrp bridge`` as a process: it says where it is, serves, and ends as a signal wants it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.nnrp import command
from tests.clients.peers import Loop
from tests.proxy.nnrp.bridge.answers import answering, hello
from tests.proxy.nnrp.scripted import nnrp_server

_PATIENCE = 30.0


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["bridge", *map(str, arguments)])


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A server that says Hello."""
    loop = Loop()
    with loop.within(nnrp_server(answering(hello))) as server:
        yield server.endpoint
    loop.close()


@contextmanager
def running(
    *arguments: str | Path, before: str = ""
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command as a process, and its base URL. ``before``: code that the process runs first."""
    code = before + "from teeline.proxy.cli import main; main()"
    words = [sys.executable, "-c", code, "nnrp", "bridge", *map(str, arguments)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            banner = process.stderr.readline()
            assert banner.startswith("OPENAI_BASE_URL=http://127.0.0.1:")
            yield banner.split()[0].removeprefix("OPENAI_BASE_URL="), process
        finally:
            process.kill()


def post(url: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
        content: bytes = response.read()
        return content


def test_it_serves_until_a_signal_and_ends_with_zero(endpoint: str) -> None:
    with running("--listen", "127.0.0.1:0", "--upstream", endpoint) as (url, process):
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        answer = json.loads(post(url + "/chat/completions", body))
        assert answer["choices"][0]["message"]["content"] == "Hello"
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE) == 0


def test_what_is_offered_is_what_the_document_declares(endpoint: str, tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"
    entry = {"name": "responses.create", "streaming": True, "non_streaming": True}
    file.write_text(json.dumps({"operations": [entry]}))
    arguments = ("--listen", "127.0.0.1:0", "--upstream", endpoint, "--capabilities", file)
    with running(*arguments) as (url, process):
        assert json.loads(post(url + "/responses", {"model": "m", "input": "Hi"}))["output"]
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            post(url + "/chat/completions", {"model": "m", "messages": []})
        caught.value.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(_PATIENCE) == 0


@pytest.mark.parametrize(
    "arguments", [(), ("--no-audit",), ("--select", "nnrp.bridge-text-changed")]
)
def test_with_check_what_differs_is_told_and_recorded(
    endpoint: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """The process translates wrongly; its own check says so on stdout and in the audit log."""
    log = tmp_path / "log"
    words = ("--listen", "127.0.0.1:0", "--upstream", endpoint, "--check", "--audit-dir", log)
    with running(*words, *arguments, before=_HOWDY) as (url, process):
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        answer = json.loads(post(url + "/chat/completions", body))
        assert answer["choices"][0]["message"]["content"] == "Howdy"
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE) == 0
        assert process.stdout is not None
        told = process.stdout.read()
    selected = "--select" not in arguments
    assert ("nnrp.bridge-answer-changed" in told) is selected
    if "--no-audit" in arguments:
        assert not log.exists()
        return
    (file,) = log.glob("*.jsonl")
    (record,) = [r for r in map(json.loads, file.read_text().splitlines()) if "operation" in r]
    assert (record["operation"], record["path"]) == ("bridge", "/v1/chat/completions")
    rules = [violation["rule"] for violation in record["violations"]]
    assert rules == (["nnrp.bridge-answer-changed"] if selected else [])


_HOWDY = """
from teeline.proxy.nnrp.bridge import handler
right = handler.document_of
def other(data, status=200):
    found = right(data, status)
    return found._replace(body=found.body.replace(b"Hello", b"Howdy"))
handler.document_of = other
"""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--listen", "127.0.0.1:0", "--upstream", "h:1", "--check", "--select", "no.such"),
        ("--listen", "127.0.0.1:0"),
        ("--listen", "nowhere", "--upstream", "nnrp://h:1"),
        ("--listen", "127.0.0.1:0", "--upstream", "http://h:1"),
        ("--listen", "127.0.0.1:0", "--upstream", "h:1", "--hint", "Authorization=auth"),
        ("--listen", "127.0.0.1:0", "--upstream", "h:1", "--capabilities", "/nowhere"),
        ("--listen", "127.0.0.1:0", "--upstream", "h:1", "--upstream-ca", "/nowhere"),
        ("--listen", "127.0.0.1:0", "--upstream", "nnrps://h:1", "--upstream-ca", "/nowhere"),
        ("--listen", "127.0.0.1:0", "--upstream", "h:1", "--tls-cert", "/nowhere"),
        ("--listen", "127.0.0.1:0", "--upstream", "h:1", "--timeout", "0"),
    ],
)
def test_wrong_usage_ends_with_two_and_a_line(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.strip()


def test_an_address_in_use_ends_with_three(endpoint: str) -> None:
    taken = endpoint.removeprefix("nnrp://")
    result = run("--listen", taken, "--upstream", endpoint)
    assert (result.exit_code, "can't listen" in result.stderr) == (3, True)
