"""``teeline nnrp``: captures, capability documents, exit codes."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from teeline.proxy.cli.nnrp import command
from teeline.validators.model import Side
from teeline.validators.nnrp.examples import conversation, document
from teeline.validators.rules import register
from teeline.validators.wire.nnrp import Message, packed
from tests.clients.peers import Loop
from tests.proxy.certs import Certificates
from tests.proxy.nnrp.test_opening import ANSWERS, Server


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)))


def captured(folder: Path, example: object) -> Path:
    """An example as the two files of a capture."""
    sides = {Side.REQUEST: b"", Side.RESPONSE: b""}
    for side, data, _ in conversation(example).sent:  # type: ignore[arg-type]
        sides[side] += data
    (folder / "x_c2s.bin").write_bytes(sides[Side.REQUEST])
    (folder / "x_s2c.bin").write_bytes(sides[Side.RESPONSE])
    return folder


def test_a_clean_capture_is_clean(tmp_path: Path) -> None:
    result = run("check", captured(tmp_path, {"on": "nnrp-tools"}))
    assert (result.exit_code, "1 pass" in result.stdout) == (0, True)


def test_a_faulty_capture_is_named_and_fails(tmp_path: Path) -> None:
    folder = captured(tmp_path, register()["nnrp.tool-started-twice"].bad)
    result = run("check", folder, "--format", "json")
    assert result.exit_code == 1
    (exchange,) = json.loads(result.stdout)["exchanges"]
    assert (exchange["name"], exchange["verdict"]) == ("1/1", "fail")
    assert [v["rule"] for v in exchange["violations"]] == ["nnrp.tool-started-twice"]
    assert run("check", folder, "--ignore", "nnrp.tool-started-twice").exit_code == 0
    assert run("check", folder, "--fail-on", "never").exit_code == 0


def test_a_capability_document_at_hand_is_held_against_the_traffic(tmp_path: Path) -> None:
    rule = register()["nnrp.undeclared-mode-used"]
    file = tmp_path / "capabilities.json"
    file.write_text(str(rule.bad["capabilities"]))
    folder = captured(tmp_path, rule.bad)
    result = run("check", folder, "--capabilities", file, "--fail-on", "warn")
    assert result.exit_code == 1 and rule.id in result.stdout
    assert run("check", folder, "--fail-on", "warn").exit_code == 0


@pytest.mark.parametrize("missing", ["nothing_c2s.bin", "traffic.bin"])
def test_what_can_not_be_read_is_said(tmp_path: Path, missing: str) -> None:
    result = run("check", tmp_path / missing)
    assert (result.exit_code, missing.partition(".")[0][:7] in result.stderr) == (2, True)


def test_a_capability_document_is_checked_in_its_own_form(tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"
    for name in ("nnrp-capabilities", "nnrp-conformance"):
        file.write_bytes(document({"on": name})[0])
        assert run("capabilities", "check", file, "--fail-on", "warn").exit_code == 0
    result = run("capabilities", "check", file, "--as", "profile", "--show-info")
    assert "nnrp.capability-field-unknown" in result.stdout
    file.write_text("[]")
    result = run("capabilities", "check", file)
    assert (result.exit_code, "nnrp.capability-not-object" in result.stdout) == (1, True)


def test_a_capability_document_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"
    file.write_bytes(document({"on": "nnrp-capabilities"})[0])
    shown = run("capabilities", "show", file).stdout
    assert "chat.completions.create: streaming, non_streaming, tool_calls" in shown
    told = json.loads(run("capabilities", "show", file, "--format", "json").stdout)
    assert (told["levels"], told["models"]) == ([1], ["gpt-4o-mini"])
    file.write_text("nothing")
    assert run("capabilities", "show", file).exit_code == 2


def test_a_wrong_address_is_a_usage_error() -> None:
    result = run("tap", "--listen", "nowhere", "--upstream", "127.0.0.1:1", "--no-audit")
    assert (result.exit_code, "HOST:PORT" in result.stderr) == (2, True)


def test_what_a_server_offers_is_shown_and_checked() -> None:
    with offering(ANSWERS) as address:
        shown = run("capabilities", "show", address)
        assert shown.exit_code == 0
        assert "session     profile 2, schema 0x1001 version 3, 2 of 2 operations" in shown.stdout
        assert "no message for the capability document" in shown.stderr
        told = json.loads(run("capabilities", "show", address, "--format", "json").stdout)
        assert (told["v"], told["session"]["session"], told["refusal"]) == (1, 5, None)
        checked = run("capabilities", "check", address)
        assert (checked.exit_code, "1 pass" in checked.stdout) == (0, True)


def test_a_fault_of_the_opening_is_named() -> None:
    wrong = packed(Message.SESSION_OPEN_ACK, bytes(56), b"\x1b[31mno", 0, 0)
    unknown = packed(0x7F, b"", b"", 0, 0)
    with offering({**ANSWERS, Message.SESSION_OPEN: unknown + wrong}) as address:
        result = run("capabilities", "check", address, "--show-info", "--fail-on", "warn")
        assert result.exit_code == 1
        assert "nnrp.message-type-unknown" in result.stdout
        assert "nnrp.session-rejected" in result.stdout
        shown = run("capabilities", "show", address).stdout
        assert "refused, status 0, error 0" in shown and "\x1b" not in shown


def test_a_server_that_is_not_there_is_no_finding() -> None:
    result = run("capabilities", "check", "nnrp://127.0.0.1:9")
    assert (result.exit_code, "no connection" in result.stderr) == (3, True)
    assert run("capabilities", "show", "quic://127.0.0.1:9").exit_code == 2
    assert run("capabilities", "show", "nnrps://h:9", "--ca", "/nonexistent").exit_code == 2


@contextmanager
def offering(answers: dict[int, bytes]) -> Iterator[str]:
    """A server in a thread of its own; its address."""
    loop, peer = Loop(), Server(answers)
    server = loop.run(asyncio.start_server(peer.serve, "127.0.0.1", 0))
    try:
        yield f"nnrp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.run(_stopped(server, peer))
        loop.close()


async def _stopped(server: asyncio.Server, peer: Server) -> None:
    await peer.gone.wait()
    server.close()
    await server.wait_closed()


# -- the tap as a process ------------------------------------------------------------------------------

ENTRY = "from teeline.proxy.cli import main; main()"


def test_a_tap_that_ends_tls_inspects_and_records_what_passes(tmp_path: Path) -> None:
    """The command with certificates: TLS on both sides, a finding, and a packet too long to be inspected."""
    certificates = Certificates(tmp_path)
    pem = certificates.issue("localhost")
    faulty = conversation(register()["nnrp.text-delta-not-string"].bad).sent
    long = conversation(
        {"on": "nnrp-stream", "set": {"/3/json/delta": f'"{"x" * (1 << 20)}"'}}
    ).sent
    client = b"".join(s.data for s in faulty if s.side is Side.REQUEST)
    says = [b"".join(s.data for s in sent if s.side is Side.RESPONSE) for sent in (faulty, long)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(client))
        writer.write(says.pop(0))
        await writer.drain()
        await reader.read(-1)
        writer.close()

    async def work() -> list[bytes]:
        expected = list(says)
        upstream = await asyncio.start_server(serve, "localhost", 0, ssl=certificates.server(pem))
        port = upstream.sockets[0].getsockname()[1]
        options = ["--listen", "localhost:0", "--upstream", f"tls://localhost:{port}"]
        options += ["--tls-cert", str(pem), "--upstream-ca", str(certificates.ca)]
        options += ["--audit-dir", str(tmp_path / "log")]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ENTRY, "nnrp", "tap", *options), stdout=PIPE, stderr=PIPE
        )
        assert process.stderr is not None and process.stdout is not None
        ready = (await process.stderr.readline()).decode()
        ours = int(ready.partition(" -> ")[0].rpartition(":")[2])
        heard = []
        for answer in expected:
            reader, writer = await asyncio.open_connection(
                "localhost", ours, ssl=certificates.client()
            )
            writer.write(client)
            heard.append(await reader.readexactly(len(answer)))
            writer.close()
            await writer.wait_closed()
        process.send_signal(signal.SIGTERM)
        told, _ = await process.communicate()
        upstream.close()
        assert process.returncode == 0
        assert heard == expected
        return told.splitlines()

    told = b"\n".join(asyncio.run(asyncio.wait_for(work(), 30))).decode()
    assert "nnrp.text-delta-not-string" in told and "nnrp.carrier-encrypted" not in told
    records = [json.loads(line) for line in _audited(tmp_path / "log") if '"operation"' in line]
    assert [record["inspection"] for record in records] == ["full", "partial (body-limit)"]


def _audited(folder: Path) -> list[str]:
    """The lines of an audit log, packed files among them."""
    lines: list[str] = []
    for file in sorted(folder.rglob("*.jsonl*")):
        data = file.read_bytes()
        lines += (gzip.decompress(data) if file.suffix == ".gz" else data).decode().splitlines()
    return lines
