"""A container's question is answered by an exit code, whatever answers or doesn't."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from teeline.config.model import AdminConfig
from teeline.proxy.cli import main
from teeline.proxy.cli.healthcheck import DEFAULT


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("healthcheck", *arguments), prog_name="teeline")


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/healthz"
        server.shutdown()


def test_it_asks_where_the_admin_port_is_by_default() -> None:
    assert f"http://{AdminConfig().listen}/healthz" == DEFAULT


@pytest.mark.parametrize(
    ("status", "body", "code", "said"),
    [
        (200, b"ok\n", 0, "200 ok\n"),
        (503, b"draining\n", 1, "503 draining\n"),
        (302, b"\x1b[31m x", 1, "302 x\n"),
    ],
)
def test_the_exit_code_says_whether_it_is_well(
    status: int, body: bytes, code: int, said: str
) -> None:
    with answering(status, body) as url:
        result = invoke("--url", url)
    assert (result.exit_code, result.output) == (code, said)


def test_where_nothing_answers_it_could_not_run() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        result = invoke("--url", f"http://127.0.0.1:{reserved.getsockname()[1]}/healthz")
    assert result.exit_code == 3
    assert result.stderr == "teeline healthcheck: no answer (ConnectionRefusedError)\n"


@pytest.mark.parametrize("url", ["https://h/", "h:1", "http://", "http://h:99999/"])
def test_a_url_that_is_none_is_wrong_usage(url: str) -> None:
    assert invoke("--url", url).exit_code == 2
