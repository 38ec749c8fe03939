"""Other proxies as targets: ``python -m bench.peers NAME UPSTREAM``.

What belongs here: how each is configured to forward to one upstream as directly as it can, and
started. What doesn't: which targets there are (targets.py). A peer lives in a folder that is removed
after it, listens on a loopback port and ends with this program.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from bench.process import serve_until_input_ends

_START_SECONDS = 60.0
"""LiteLLM takes its time."""

Command = Callable[[str, int, Path], list[str]]


def nginx(upstream: str, port: int, folder: Path) -> list[str]:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    file = folder / "nginx.conf"
    file.write_text(
        f"""worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; {temporary}
  upstream mock {{ server {urlsplit(upstream).netloc}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096; keepalive_requests 100000000; tcp_nodelay on;
    location / {{
      proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 600s; client_max_body_size 0;
    }}
  }}
}}
""",
        encoding="utf-8",
    )
    return ["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c", str(file)]


def mitmproxy(upstream: str, port: int, folder: Path) -> list[str]:
    listen = ["--listen-host", "127.0.0.1", "-p", str(port)]
    options = ["--set", "stream_large_bodies=1", "--set", f"confdir={folder}"]
    return ["mitmdump", "--mode", f"reverse:{upstream}", *listen, "-q", *options]


def litellm(upstream: str, port: int, folder: Path) -> list[str]:
    """Its pass-through route, which rewrites least."""
    file = folder / "litellm.yaml"
    file.write_text(
        f"""general_settings:
  pass_through_endpoints:
    - path: /pt/v1/chat/completions
      target: {upstream}/v1/chat/completions
      headers: {{content-type: application/json}}
      forward_headers: true
litellm_settings: {{telemetry: false, num_retries: 0}}
""",
        encoding="utf-8",
    )
    listen = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return ["litellm", "--config", str(file), *listen]


def prism(upstream: str, port: int, folder: Path) -> list[str]:
    """With the least description there is: it must know an operation to forward it."""
    file = folder / "openapi.yaml"
    file.write_text(
        """openapi: 3.0.3
info: {title: chat, version: "1"}
paths:
  /v1/chat/completions:
    post:
      requestBody: {content: {application/json: {schema: {type: object, required: [model, messages]}}}}
      responses:
        "200":
          description: an answer
          content: {application/json: {schema: {type: object}}, text/event-stream: {schema: {type: string}}}
""",
        encoding="utf-8",
    )
    listen = ["-h", "127.0.0.1", "-p", str(port), "-v", "fatal"]
    return ["prism", "proxy", str(file), upstream, *listen]


PEERS: dict[str, Command] = {
    "nginx": nginx,
    "mitmproxy": mitmproxy,
    "litellm": litellm,
    "prism": prism,
}
_ENVIRON = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "DO_NOT_TRACK": "1",
}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"it doesn't listen; it ended with {process.poll()}")


def main(name: str, upstream: str) -> None:
    folder, port = Path(tempfile.mkdtemp()), _free_port()
    process = subprocess.Popen(
        PEERS[name](upstream, port, folder),
        cwd=folder,
        env={**os.environ, **_ENVIRON},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
    )
    try:
        _wait(process, port)
        asyncio.run(serve_until_input_ends(port))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
