"""The admin port answers who may ask, and nobody else; what it says is short and safe."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from teeline.config.model import AdminConfig, ListenAddress
from teeline.proxy.admin import AdminError, AdminServer, read_or_make_token, read_token
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.metrics import Meter
from tests.proxy.raw import run

TOKEN = "t0ken-" + "x" * 20
FREE = ListenAddress("127.0.0.1", 0)
GUARDED = ("/metrics", "/api/status", "/nothing")


class Answer(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]


class Asking:
    """A client of a running admin port."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Header names with underscores for dashes; Host is the address unless given."""
        return await asyncio.to_thread(self._get, path, method, headers)

    def _get(self, path: str, method: str, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.putrequest(method, path, skip_host=True)
            given = {"Host": f"127.0.0.1:{self.port}", **headers}
            for name, value in given.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            connection.close()


@asynccontextmanager
async def admin(
    config: AdminConfig | None = None,
    meter: Meter | None = None,
    reasons: tuple[str, ...] = (),
) -> AsyncIterator[Asking]:
    async def page(request: web.Request) -> web.StreamResponse:
        raise RuntimeError("secret")

    server = AdminServer(
        config or AdminConfig(FREE),
        meter or Meter(),
        lambda: reasons,
        lambda: {"v": 1},
        [web.get("/broken", page)],
    )
    address = await server.start()
    assert address is not None
    try:
        yield Asking(address.port)
    finally:
        await server.close()
        await server.close()


def test_health_readiness_metrics_and_status_are_answered() -> None:
    async def test() -> None:
        meter = Meter()
        meter[instruments.INSPECTION_SKIPPED].add(("r", "body-limit"))
        async with admin(meter=meter) as port:
            assert (await port.get("/healthz"))[:2] == (200, "ok\n")
            assert (await port.get("/readyz"))[:2] == (200, "ready\n")
            metrics = await port.get("/metrics")
            assert 'teeline_inspection_skipped_total{teeline_upstream="r",' in metrics.text
            assert metrics.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            status = await port.get("/api/status")
            assert json.loads(status.text) == {"v": 1}
            assert status.headers["Content-Type"].startswith("application/json")
            assert (await port.get("/nothing")).status == 404
            assert (await port.get("/metrics", "POST")).status == 405

    run(test())


def test_what_is_not_ready_says_why() -> None:
    async def test() -> None:
        async with admin(reasons=("draining",)) as port:
            assert (await port.get("/readyz"))[:2] == (503, "draining\n")
            assert (await port.get("/healthz")).status == 200

    run(test())


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/nothing", "/broken"])
def test_every_answer_has_headers_that_keep_browsers_from_misusing_it(path: str) -> None:
    async def test() -> None:
        async with admin() as port:
            headers = (await port.get(path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["Cache-Control"] == "no-store"
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["Server"] == "teeline"

    run(test())


def test_a_fault_of_our_own_is_a_500_that_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with admin() as port:
            answer = await port.get("/broken")
            assert answer.status == 500
            assert "secret" not in answer.text
            assert "Traceback" not in answer.text

    run(test())
    assert caplog.messages == ["admin: /broken failed: RuntimeError"]


def test_heads_of_any_shape_break_nothing() -> None:
    """What is no HTTP, too long or too odd costs the one who sent it his connection."""

    async def test() -> None:
        async with admin() as port:
            for sent in (
                b"\x16\x03\x01",
                b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                b"G" * 70000,
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
                writer.write(sent + b"\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    assert not (await reader.read()).startswith(b"HTTP/1.1 2")
                writer.close()
            assert (await port.get("/healthz")).status == 200

    run(test())


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8788", "127.0.0.1.evil.example", ""]
)
def test_a_name_that_is_not_this_machines_gets_nothing(path: str, host: str) -> None:
    """DNS rebinding: a page's own host name that resolves to loopback."""

    async def test() -> None:
        async with admin() as port:
            assert (await port.get(path, Host=host)).status == 421

    run(test())


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8788", "box.lan:1"]
)
def test_the_machines_own_and_the_allowed_names_are_answered(host: str) -> None:
    async def test() -> None:
        async with admin(AdminConfig(FREE, allowed_hosts=("box.lan",))) as port:
            assert (await port.get("/api/status", Host=host)).status == 200

    run(test())


def test_pages_of_other_origins_get_nothing() -> None:
    async def test() -> None:
        async with admin() as port:
            host = f"127.0.0.1:{port.port}"
            for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
                assert (await port.get("/api/status", Origin=origin)).status == 403
            assert (await port.get("/api/status", Origin=f"http://{host}")).status == 200

    run(test())


def test_where_a_token_is_set_it_is_demanded(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    async def test() -> None:
        async with admin(AdminConfig(FREE, token_file=file)) as port:
            for path in GUARDED:
                refused = await port.get(path)
                assert refused.status == 401
                assert refused.headers["WWW-Authenticate"] == "Bearer"
            for given in (
                "",
                "Bearer",
                "Bearer wrong",
                f"Basic {TOKEN}",
                "Bearer \xe9",
                f"Bearer {TOKEN}x",
            ):
                assert (await port.get("/api/status", Authorization=given)).status == 401
            assert (await port.get("/api/status", Authorization=f"bearer {TOKEN}")).status == 200
            assert (await port.get("/api/status", Cookie=f"teeline_session={TOKEN}")).status == 401
            assert (await port.get("/healthz", Host="10.0.0.7:8788")).status == 200

    run(test())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "at least 16 characters"),
        (b"short", "at least 16 characters"),
        (b"two words of a token", "at least 16 characters"),
        ("é".encode() * 20, "no header field can"),
        (b"x" * 5000, "at least 16 characters"),
    ],
)
def test_a_token_that_can_not_serve_is_said(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(AdminError, match=words):
        read_token(file)
    with pytest.raises(AdminError, match="can't be read: No such file"):
        read_token(tmp_path / "none")


def test_a_token_is_made_where_there_is_none_for_its_owner_s_eyes(tmp_path: Path) -> None:
    """And kept: the next start reads the same."""
    file = tmp_path / "new" / "token"
    made = read_or_make_token(file)
    assert re.fullmatch("[0-9a-f]{64}", made)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_or_make_token(file) == made == read_token(file)


def test_a_token_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AdminError, match="can't be made: "):
        read_or_make_token(tmp_path / "file" / "token")


def test_a_port_in_use_is_one_line() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = ListenAddress("127.0.0.1", taken.getsockname()[1])
            with pytest.raises(AdminError) as error:
                async with admin(AdminConfig(address)):
                    pass
        assert str(error.value).startswith(f"can't listen on {address}: the address is in use")

    run(test())


def test_switched_off_it_listens_nowhere() -> None:
    async def test() -> None:
        server = AdminServer(AdminConfig(None), Meter(), lambda: (), dict)
        assert await server.start() is None
        await server.close()

    run(test())
