"""The part of OpenTelemetry that still changes is touched by one module alone."""

from __future__ import annotations

from pathlib import Path

import teeline.proxy.telemetry.logs as logs

PRIVATE = ("opentelemetry._logs", "opentelemetry.sdk._logs", "_log_exporter import")


def test_one_module_imports_the_private_logs_api_beside_the_extra() -> None:
    proxy = Path(logs.__file__).parents[1]
    importing = {
        path.relative_to(proxy).as_posix()
        for path in proxy.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(("from ", "import ")) and any(name in line for name in PRIVATE)
    }
    assert importing == {"telemetry/logs.py", "telemetry/grpcexport.py"}
