"""The proxy as a process: what it says, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from click.testing import CliRunner, Result

from teeline.config.load import Setting, load
from teeline.config.model import UpstreamConfig, UpstreamURL
from teeline.proxy.audit import schema
from teeline.proxy.audit.index import VERDICTS
from teeline.proxy.audit.query import Filters, search
from teeline.proxy.cli import main
from teeline.proxy.cli.serve import (
    banner,
    say_if_quiet,
    say_if_unreachable,
)
from teeline.proxy.console import ConsoleSink
from teeline.proxy.serving import ServingProcess
from tests.proxy.raw import Wire, answering, client, proxy, raw_upstream, run
from tests.proxy.telemetry.collector import Collector, attributes, collecting

# The tests change their folder; a process they start must find the package all the same.
PATH = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
GET = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("OTEL_", "TEELINE")):
            monkeypatch.delenv(name)
    # The default port may be taken by a proxy that runs beside the tests.
    monkeypatch.setenv("TEELINE__ADMIN__LISTEN", "127.0.0.1:0")
    monkeypatch.chdir(tmp_path)


def invoke(*arguments: str, environ: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ("serve", *arguments), prog_name="teeline", env=environ)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no upstream: give --upstream URL"),
        (["--upstream", "relay.example/v1"], "--upstream: the URL begins with http:// or https://"),
        (["--upstream", "https://u:sk-secret@h"], "--upstream: the URL holds a user name"),
        (["--upstream", "https://h?sk-secret"], "--upstream: the URL holds a query"),
        (["--upstream", "https://h/v1/v1"], "--upstream: the URL holds /v1/v1"),
        (["--upstream", "https://h", "--listen", "80"], "--listen: a listen address is HOST:PORT"),
        (["--upstream", "https://h", "--config", "none.yaml"], "none.yaml: can't be read: No such"),
        (["--upstream", "https://h", "--workers", "0"], "--workers: is not a number from 1 to 256"),
        (
            ["--upstream", "https://h", "--workers", "many"],
            "--workers: is text, not a whole number",
        ),
        (["--no-audit", "--audit-dir", "x"], "--audit-dir and --no-audit exclude each other"),
    ],
)
def test_wrong_settings_are_one_line_and_exit_with_two(arguments: list[str], words: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"teeline serve: {words}")
    assert result.stderr.count("\n") == 1
    assert "sk-secret" not in result.output


def test_each_wrong_key_of_a_file_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "teeline.yaml"
    file.write_text("upsteams: []\naudit: {dr: x}\n", encoding="utf-8")
    expected = [
        f"teeline serve: {file}:1:1: unknown key `upsteams`, did you mean `upstreams`?",
        f"teeline serve: {file}:2:9: unknown key `dr`, did you mean `dir`?",
    ]
    for result in (invoke("--config", str(file)), invoke(environ={"TEELINE_CONFIG": str(file)})):
        assert (result.exit_code, result.stderr.splitlines()) == (2, expected)


def test_a_port_in_use_exits_with_three() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("--upstream", "http://h", "--listen", f"127.0.0.1:{port}", "--no-audit")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"teeline serve: can't listen on 127.0.0.1:{port}: ")
    assert result.stderr.count("\n") == 1


def test_an_admin_port_in_use_exits_with_three() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = ("--listen", "127.0.0.1:0", "--no-audit", "--admin", address)
        result = invoke("--upstream", "http://h", *options)
    assert result.exit_code == 3
    words = "the address is in use; choose another with --admin, or --admin off"
    assert result.stderr == f"teeline serve: can't listen on {address}: {words}\n"


def test_an_admin_port_for_others_without_a_token_exits_with_two() -> None:
    result = invoke("--upstream", "http://h", "--no-audit", "--admin", "0.0.0.0:0")
    assert result.exit_code == 2
    assert "set `admin.token_file`" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_audit_folder_that_cannot_be_written_exits_with_three(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("--upstream", "http://h", "--listen", "127.0.0.1:0", "--audit-dir", "file/x")
    assert result.exit_code == 3
    assert result.stderr.startswith("teeline serve: audit folder file/x can't be written: Not a")
    assert result.stderr.count("\n") == 1


def test_an_otlp_endpoint_that_is_none_exits_with_two() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}
    result = invoke("--upstream", "http://h", "--no-audit", environ=environ)
    assert result.exit_code == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in result.stderr


# -- what is said ---------------------------------------------------------------------------------


def test_the_banner_says_where_to_point_clients_and_where_findings_go() -> None:
    async def test() -> None:
        config = load(
            flags=[
                Setting(("upstreams",), [{"url": "https://x"}], "--upstream"),
                Setting(("listen",), "127.0.0.1:0", "--listen"),
            ]
        )
        service = ServingProcess(config, {}, ConsoleSink(io.StringIO()))
        listeners = await service.start()
        await service.stop(0)
        await service.close()
        assert list(banner(listeners, service, config)) == [
            f"OPENAI_BASE_URL=http://127.0.0.1:{listeners[0].port}/v1 -> https://x/v1",
            "audit log: teeline-data",
            "OTLP: off (OTEL_EXPORTER_OTLP_ENDPOINT is not set)",
            "admin: off",
        ]

    run(test())


def test_the_banner_says_of_what_bodies_are_kept() -> None:
    config = load(
        flags=[
            Setting(("upstreams",), [{"url": "https://x"}], "--upstream"),
            Setting(("capture", "when"), "fail", "test"),
            Setting(("capture", "rules"), ["chat"], "test"),
        ]
    )
    service = ServingProcess(config, {}, ConsoleSink(io.StringIO()))
    assert list(banner((), service, config))[1] == (
        "capture: bodies of exchanges are kept in teeline-data/bodies (when: fail; rules: chat)"
    )


def test_a_secret_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    secret = tmp_path / "fingerprint-secret"
    secret.write_bytes(b"s" * 40)
    secret.chmod(0o644)
    result = invoke(
        "--upstream", "http://h", "--listen", "127.0.0.1:0", "--audit-dir", str(tmp_path)
    )
    assert (result.exit_code, "chmod 600" in result.stderr) == (3, True)


def test_no_traffic_is_said_once_and_only_where_there_was_none() -> None:
    async def test() -> None:
        said: list[str] = []
        async with answering(OK) as upstream, proxy(upstream.url) as teeline:
            await say_if_quiet(teeline.server, said.append, 0)
            assert [line.partition(";")[0] for line in said] == ["teeline: no request in 0 seconds"]
            async with client(teeline.port) as wire:
                await wire.send(GET)
                await wire.read_message()
            await say_if_quiet(teeline.server, said.append, 0)
            assert len(said) == 1

    run(test())


def test_an_unreachable_upstream_is_a_warning_and_a_reachable_one_gets_no_request() -> None:
    async def test() -> None:
        said: list[str] = []
        received: list[bytes] = []

        async def script(wire: Wire) -> None:
            received.append(await wire.ended())

        async with raw_upstream(script) as upstream:
            config = UpstreamConfig(UpstreamURL.parse(upstream.url))
            await say_if_unreachable(config, said.append)
            while not received:
                await asyncio.sleep(0)
        assert (said, received) == ([], [b""])
        await say_if_unreachable(config, said.append)
        assert said == [
            f"teeline: warning: {upstream.url}: teeline could not connect to the upstream. "
            "Requests get a 502."
        ]

    run(test())


# -- a process ------------------------------------------------------------------------------------


class Serving(NamedTuple):
    """A running ``teeline serve``."""

    process: asyncio.subprocess.Process
    port: int
    admin: str

    async def said(self) -> str:
        """One more line of its stderr."""
        assert self.process.stderr is not None
        return (await self.process.stderr.readline()).decode().rstrip("\n")

    async def rest(self) -> tuple[int, str, str]:
        """Its exit code, and what it still wrote to stdout and stderr."""
        out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


@contextlib.asynccontextmanager
async def serve(upstream: str, *arguments: str) -> AsyncIterator[Serving]:
    code = "from teeline.proxy.cli import main; main(prog_name='teeline')"
    options = ("--upstream", upstream, "--listen", "127.0.0.1:0", *arguments)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "serve", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PATH},
    )
    try:
        assert process.stderr is not None
        first = (await process.stderr.readline()).decode()
        assert first.startswith("OPENAI_BASE_URL=http://127.0.0.1:"), first
        for _ in range(2):
            await process.stderr.readline()
        admin = (await process.stderr.readline()).decode().strip()
        port = int(first.split("/v1")[0].rpartition(":")[2])
        yield Serving(process, port, admin.removeprefix("admin: "))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly_with_everything_written(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Exit code 0, findings on stdout, chatter on stderr, the exchange in the audit log."""

    async def test() -> None:
        html = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
        async with (
            answering(html) as upstream,
            serve(upstream.url, "--audit-dir", str(tmp_path / "audit")) as teeline,
        ):
            async with client(teeline.port) as wire:
                await wire.send(GET)
                assert (await wire.read_message()).body == b"<html>"
            teeline.process.send_signal(number)
            code, out, err = await teeline.rest()
        assert code == 0
        assert "http.html-200" in out
        assert "Traceback" not in err
        written = "".join(file.read_text() for file in (tmp_path / "audit").glob("*.jsonl"))
        assert '"http.html-200"' in written

    run(test())


def test_a_second_signal_does_not_wait_for_open_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEELINE__SHUTDOWN__DEADLINE", "100000")

    async def test() -> None:
        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await wire.ended()

        async with (
            raw_upstream(script) as upstream,
            serve(upstream.url, "--no-audit") as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_head()
            teeline.process.send_signal(signal.SIGTERM)
            while "second signal" not in await teeline.said():
                pass
            assert teeline.process.returncode is None
            teeline.process.send_signal(signal.SIGTERM)
            code, _, err = await teeline.rest()
            assert await wire.ended() == b""
        assert code == 0
        assert "Traceback" not in err

    run(test())


def test_the_admin_port_tells_of_the_traffic_and_of_its_end(tmp_path: Path) -> None:
    """Ready while it serves, draining while open answers end; the numbers are those of the traffic."""

    async def asked(path: str, origin: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(origin + path) as answer:
            return answer.status, await answer.text()

    async def test() -> None:
        html = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
        held = asyncio.Event()

        async def script(wire: Wire) -> None:
            await wire.read_message()
            await wire.send(html)
            await wire.read_message()
            await held.wait()
            await wire.send(html)

        async with (
            raw_upstream(script) as upstream,
            serve(upstream.url, "--audit-dir", str(tmp_path / "audit")) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_message()
            assert await asked("/readyz", teeline.admin) == (200, "ready\n")
            while '"exchanges": 1' not in (await asked("/api/status", teeline.admin))[1]:
                await asyncio.sleep(0.02)
            metrics = (await asked("/metrics", teeline.admin))[1]
            assert 'teeline_rule="http.html-200"' in metrics
            assert 'teeline_verdict="fail"' in metrics
            assert "teeline_audit_records_total" in metrics
            await wire.send(GET)
            while '"open": 1' not in (await asked("/api/status", teeline.admin))[1]:
                await asyncio.sleep(0.02)
            teeline.process.send_signal(signal.SIGTERM)
            while await asked("/readyz", teeline.admin) != (503, "draining\n"):
                await asyncio.sleep(0.02)
            held.set()
            assert (await wire.read_message()).body == b"<html>"
            assert (await teeline.rest())[0] == 0

    run(test())


def test_the_variables_and_the_configuration_say_what_a_collector_gets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spans, violations, audit records, the chain's last head and metrics, by the end at the latest."""

    async def test(collector: Collector) -> None:
        html = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
        async with (
            answering(html) as upstream,
            serve(upstream.url, "--audit-dir", str(tmp_path / "audit")) as teeline,
        ):
            async with client(teeline.port) as wire:
                await wire.send(GET)
                await wire.read_message()
            teeline.process.send_signal(signal.SIGTERM)
            code, _, err = await teeline.rest()
        assert (code, err.count("WARNING"), err.count("ERROR")) == (0, 0, 0)
        (span,) = collector.spans
        assert attributes(span)["server.address"] == "127.0.0.1"
        assert {record.event_name for record in collector.records} == {
            "teeline.violation",
            "teeline.audit.record",
            "teeline.audit.head",
        }
        assert collector.points("teeline.exchanges")[0].as_int == 1
        assert collector.points("teeline.audit.records")[0].as_int == 1

    with collecting() as collector:
        for name, value in collector.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TEELINE__AUDIT__OTLP", "true")
        run(test(collector))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_index_holds_a_record_soon_without_a_command(workers: str, tmp_path: Path) -> None:
    folder = tmp_path / "audit"

    async def test() -> None:
        html = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
        async with (
            answering(html) as upstream,
            serve(upstream.url, "--audit-dir", str(folder), "--workers", workers) as teeline,
            client(teeline.port) as wire,
        ):
            await wire.send(GET)
            await wire.read_message()
            while not indexed():
                await asyncio.sleep(0.02)
            teeline.process.send_signal(signal.SIGTERM)
            code, _, err = await teeline.rest()
        assert (code, err.count("WARNING")) == (0, 0)
        assert indexed() == ["fail"]

    def indexed() -> list[str]:
        try:
            with contextlib.closing(schema.reader(folder)) as db:
                verdicts = {number: word for word, number in VERDICTS.items()}
                return [verdicts[entry.verdict] for entry in search(db, Filters())]
        except sqlite3.OperationalError:
            return []  # it isn't there yet

    run(test())


def test_without_an_admin_port_it_serves_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.delenv("TEELINE__ADMIN__LISTEN")
        async with (
            answering(OK) as upstream,
            serve(upstream.url, "--no-audit", "--admin", "off") as teeline,
            client(teeline.port) as wire,
        ):
            assert teeline.admin == "off"
            await wire.send(GET)
            assert (await wire.read_message()).body == b"ok"

    run(test())


def test_the_live_pages_address_signs_in_once_where_a_token_is_demanded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the start says is all that a browser needs, and worth nothing afterwards."""
    token = tmp_path / "token"
    token.write_text("t0ken-" + "x" * 20)
    monkeypatch.setenv("TEELINE__ADMIN__TOKEN_FILE", str(token))

    async def test() -> None:
        async with answering(OK) as upstream, serve(upstream.url) as teeline:
            said = await teeline.said()
            address, _, once = said.removeprefix("live page: ").partition(" ")
            assert once == "(signs in once, within 15 minutes)"
            page, _, code = address.partition("/login?code=")
            assert page == f"{teeline.admin}/monitor"
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
                async with browser.get(f"{page}/api/facts") as answer:
                    assert answer.status == 401
                async with browser.post(f"{page}/api/login", data=code) as answer:
                    assert answer.status == 204
                async with browser.get(f"{page}/api/facts") as answer:
                    assert (await answer.json())["history"] is True
                async with browser.post(f"{page}/api/login", data=code) as answer:
                    assert answer.status == 403

    run(test())


def test_exchanges_of_all_workers_are_on_the_live_page() -> None:
    """Each worker tells the supervisor, which shows their sum."""

    async def test() -> None:
        async with (
            answering(OK) as upstream,
            serve(upstream.url, "--workers", "2", "--no-audit") as teeline,
            aiohttp.ClientSession() as browser,
            browser.get(f"{teeline.admin}/monitor/api/events") as events,
        ):
            for _ in range(8):
                async with client(teeline.port) as wire:
                    await wire.send(GET)
                    await wire.read_message()
            closed = 0
            async for line in events.content:
                if line.startswith(b"data: "):
                    (card,) = json.loads(line.removeprefix(b"data: "))["upstreams"]
                    closed = card["closed"]
                if closed == 8:
                    break
            assert closed == 8

    run(test())
