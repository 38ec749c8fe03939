"""What is measured: one row a target. A new yardstick is a program that prints its port, and a row.

What belongs here: names and commands. What doesn't: how they are measured (run.py), how the others'
proxies are started (peers.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.process import python


@dataclass(frozen=True, slots=True)
class Around:
    """What a target finds around it: the mock's URL, the collector's, a folder of its own."""

    upstream: str
    collector: str
    folder: Path

    @property
    def environ(self) -> Mapping[str, str]:
        """Settings of ``teeline full``; batches go out soon enough to fall into their sample.

        Metrics go out once a minute, as by default: their cost goes by time, not by requests.
        """
        return {
            "TEELINE_BENCH_AUDIT": str(self.folder),
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector,
            "OTEL_BSP_SCHEDULE_DELAY": "1000",
            "OTEL_BLRP_SCHEDULE_DELAY": "1000",
        }


@dataclass(frozen=True, slots=True)
class Target:
    """``command`` None: no proxy at all, the client speaks to the mock.

    ``program``: what must be installed. Those with ``asked`` run where they are asked for by name only.
    ``path``: what clients put before an operation's own.
    """

    name: str
    about: str
    command: Callable[[Around], list[str]] | None
    program: str | None = None
    asked: bool = False
    path: str = "/v1"

    @property
    def installed(self) -> bool:
        return self.program is None or shutil.which(self.program) is not None


def _teeline(mode: str) -> Callable[[Around], list[str]]:
    return lambda around: python("bench.teeline_proxy", mode, around.upstream)


def _peer(name: str) -> Callable[[Around], list[str]]:
    return lambda around: python("bench.peers", name, around.upstream)


TARGETS = (
    Target("direct", "client and mock without a proxy", None),
    Target("bare", "teeline that forwards and inspects nothing", _teeline("bare")),
    Target("inspect", "teeline with inspection, no sinks", _teeline("inspect")),
    Target("full", "teeline with inspection, audit log and OTLP", _teeline("full")),
    Target("uvloop", "teeline full, on uvloop", _teeline("uvloop"), asked=True),
    Target(
        "aiohttp",
        "bare aiohttp: web.Server and ClientSession",
        lambda around: python("bench.aiohttp_proxy", around.upstream),
    ),
    Target("nginx", "nginx, buffering off", _peer("nginx"), "nginx"),
    Target("mitmproxy", "mitmdump, streaming", _peer("mitmproxy"), "mitmdump", asked=True),
    Target(
        "litellm",
        "LiteLLM's proxy, its pass-through route",
        _peer("litellm"),
        "litellm",
        asked=True,
        path="/pt/v1",
    ),
    Target("prism", "Prism, an OpenAPI proxy", _peer("prism"), "prism", asked=True),
)
BASE = "aiohttp"
"""The target that the others are divided by."""
