"""What the admin port says of a running proxy: whether it is ready, and how it does.

What belongs here: gathering facts from the parts that know them. What doesn't: the port (admin.py),
the numbers themselves (telemetry/metrics.py), the facts of a process (serving.py).
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from teeline.config.model import Config
from teeline.proxy.audit.indexkeeper import IndexKeeper
from teeline.proxy.server import Listener
from teeline.proxy.serving import Service, WorkerFacts
from teeline.proxy.telemetry import instruments
from teeline.proxy.telemetry.instruments import Instrument
from teeline.proxy.telemetry.metrics import OVERFLOW, Key, Readings

VERSION: Final = 1
_RULES = 20
"""Rules that the status lists, those broken most first."""


@dataclass
class Running:
    """A proxy and its parts, from before its start to after its end.

    Ready is what may get traffic. A sink that fails costs records, which are counted, and never
    readiness: a full disk must not take the traffic away. (A process whose sinks can't start accepts
    nothing.)
    """

    config: Config
    service: Service
    version: str = ""
    index: IndexKeeper | None = None
    clock: Callable[[], float] = time.time
    listeners: Sequence[Listener] = ()
    draining: bool = False
    started: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def unready(self) -> Iterator[str]:
        """Why no traffic should be sent here; nothing where it may."""
        if self.draining:
            yield "draining"
        elif not self.listeners:
            # Upstreams are configured and sinks are up once the server listens.
            yield "starting"
        elif not self.service.accepting:
            yield "no worker accepts connections"

    def status(self) -> dict[str, Any]:
        """All of it, for a page or a script."""
        now = self.clock()
        reasons = list(self.unready())
        facts = self.service.facts()
        workers = self.service.workers()
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
            "requests": facts.requests,
            "open": facts.open,
            "upstreams": [self._upstream(name) for name in self._names()],
            "rules": _broken_most(self.service.meter),
            "sinks": {"failures": facts.failures},
            "telemetry": self._telemetry(facts.exported),
            "audit": self._audit(facts.chains),
            **({} if workers is None else {"workers": self._workers(workers)}),
        }

    def _workers(self, workers: Sequence[WorkerFacts]) -> dict[str, Any]:
        restarts = self.service.meter.values(instruments.WORKER_RESTARTS)
        return {
            "restarts": restarts.get((), 0),
            "processes": [dataclasses.asdict(worker) for worker in workers],
        }

    def _names(self) -> list[str]:
        return [upstream.name for upstream in self.config.upstreams]

    def _upstream(self, name: str) -> dict[str, Any]:
        config = next(each for each in self.config.upstreams if each.name == name)
        verdicts: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for key, count in _counts(self.service.meter, instruments.EXCHANGES):
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

    def _telemetry(self, exported: dict[str, int]) -> dict[str, Any]:
        found: dict[str, Any] = {"otlp": self.service.otlp}
        if self.service.otlp:
            found["exported"] = exported
        dropped = _counts(self.service.meter, instruments.EXPORT_DROPPED)
        found["dropped"] = {str(key[0]): count for key, count in dropped}
        return found

    def _audit(self, chains: list[str]) -> dict[str, Any]:
        if not self.config.audit.enabled:
            return {"enabled": False}
        meter = self.service.meter
        return {
            "enabled": True,
            "chains": chains,
            "records": meter.values(instruments.AUDIT_RECORDS).get((), 0),
            "index_behind": None if self.index is None else self.index.behind,
            "lost": meter.values(instruments.AUDIT_LOST).get((), 0),
        }


def _broken_most(meter: Readings) -> list[dict[str, Any]]:
    rules: Counter[tuple[str, str]] = Counter()
    for key, count in _counts(meter, instruments.VIOLATIONS):
        rules[str(key[1]), str(key[2])] += count
    return [
        {"rule": rule, "severity": severity, "count": count}
        for (rule, severity), count in rules.most_common(_RULES)
    ]


def _counts(meter: Readings, instrument: Instrument) -> Iterator[tuple[Key, int]]:
    for key, count in meter.values(instrument).items():
        if isinstance(count, int) and key != OVERFLOW:
            yield key, count
