"""What the admin port says of a running proxy: whether it is ready, and how it does.

What belongs here: gathering facts from the parts that know them. What doesn't: the port (admin.py),
the numbers themselves (telemetry/metrics.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from teeline.config.model import Config
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.server import Listener, ProxyServer
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.instruments import Instrument
from teeline.proxy.telemetry.metrics import OVERFLOW, Key, Meter, MetricsSink
from teeline.proxy.telemetry.sink import TelemetrySink

VERSION: Final = 1
_RULES = 20
"""Rules that the status lists, those broken most first."""


@dataclass
class Running:
    """A proxy and its parts, from before its start to after its end.

    Ready is what may get traffic. A sink that fails costs records, which are counted, and never
    readiness: a full disk must not take the traffic away.
    """

    config: Config
    server: ProxyServer
    metrics: MetricsSink
    telemetry: TelemetrySink | None = None
    audit: AuditSink | None = None
    version: str = ""
    index: IndexKeeper | None = None
    clock: Callable[[], float] = time.time
    listeners: Sequence[Listener] = ()
    draining: bool = False
    started: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.started = self.clock()
        meter = self.metrics.meter
        meter.observe(instruments.EXPORT_DROPPED, self._dropped)
        if (audit := self.audit) is not None:
            meter.observe(instruments.AUDIT_RECORDS, lambda: {(): audit.recorded})
            meter.observe(instruments.AUDIT_LOST, lambda: {(): audit.lost})

    def unready(self) -> Iterator[str]:
        """Why no traffic should be sent here; nothing where it may."""
        if self.draining:
            yield "draining"
        elif not self.listeners:
            # Upstreams are configured and sinks are up once the server listens.
            yield "starting"

    def status(self) -> dict[str, Any]:
        """All of it, for a page or a script."""
        now = self.clock()
        reasons = list(self.unready())
        return {
            "v": VERSION,
            "version": self.version,
            "started": round(self.started, 3),
            "uptime": round(max(0.0, now - self.started), 3),
            "ready": not reasons,
            "reasons": reasons,
            "listeners": [
                {"base_url": route.base_url, "target": route.target, "upstream": route.upstream}
                for listener in self.listeners
                for route in listener.routes
            ],
            "requests": self.server.requests,
            "open": self.metrics.open,
            "upstreams": [self._upstream(name) for name in self._names()],
            "rules": _broken_most(self.metrics.meter),
            "sinks": {"failures": dict(self.server.sinks.failures)},
            "telemetry": self._telemetry(),
            "audit": self._audit(),
        }

    def _names(self) -> list[str]:
        return [upstream.name for upstream in self.config.upstreams]

    def _upstream(self, name: str) -> dict[str, Any]:
        config = next(each for each in self.config.upstreams if each.name == name)
        verdicts: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for key, count in _counts(self.metrics.meter, instruments.EXCHANGES):
            if key[0] == name:
                verdicts[str(key[3])] += count
                ended[str(key[5])] += count
        return {
            "name": name,
            "url": str(config.url),
            "profile": config.profile,
            "exchanges": verdicts.total(),
            "verdicts": {word: verdicts[word] for word in ("pass", "warn", "fail")},
            "ended": dict(sorted(ended.items())),
        }

    def _dropped(self) -> Mapping[Key, int]:
        dropped: dict[Key, int] = {("metrics",): self.metrics.dropped}
        if self.telemetry is not None:
            dropped |= {(signal,): count for signal, count in self.telemetry.dropped.items()}
        return dropped

    def _telemetry(self) -> dict[str, Any]:
        found: dict[str, Any] = {"otlp": self.telemetry is not None}
        if self.telemetry is not None:
            found["exported"] = dict(self.telemetry.exported)
        found["dropped"] = {str(key[0]): count for key, count in self._dropped().items()}
        return found

    def _audit(self) -> dict[str, Any]:
        if self.audit is None:
            return {"enabled": False}
        found = {"chain": self.audit.chain, "records": self.audit.recorded}
        behind = None if self.index is None else self.index.behind
        return {"enabled": True, **found, "lost": self.audit.lost, "index_behind": behind}


def _broken_most(meter: Meter) -> list[dict[str, Any]]:
    rules: Counter[tuple[str, str]] = Counter()
    for key, count in _counts(meter, instruments.VIOLATIONS):
        rules[str(key[1]), str(key[2])] += count
    return [
        {"rule": rule, "severity": severity, "count": count}
        for (rule, severity), count in rules.most_common(_RULES)
    ]


def _counts(meter: Meter, instrument: Instrument) -> Iterator[tuple[Key, int]]:
    for key, count in meter[instrument].snapshot().values.items():
        if isinstance(count, int) and key != OVERFLOW:
            yield key, count
