"""Which keys a configuration has, and how the value behind each is read.

What belongs here: the table, a row a key. What doesn't: reading values (values.py), walking a tree along the
table (load.py), what values mean (model.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from teeline.config.model import (
    AdminConfig,
    AuditConfig,
    CaptureConfig,
    ClientsConfig,
    InspectPoolConfig,
    ListenTLS,
    NnrpConfig,
    RulesConfig,
    SchemaConfig,
    ShutdownConfig,
    TelemetryConfig,
    Timeouts,
    UpstreamConfig,
    UpstreamTLS,
)
from teeline.config.values import (
    Read,
    above_0,
    address,
    address_or_off,
    count,
    count_or_none,
    flag,
    hosts,
    limit,
    names,
    optional_address,
    optional_path,
    optional_text,
    path,
    patterns,
    profile,
    proxy,
    seconds,
    severities,
    text,
    url,
    when,
    workers,
)
from teeline.validators.limits import Limits


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of its own, or with ``many`` a list of such mappings.

    ``make`` builds its value out of those of ``keys``; ``needed`` are keys that must be there. ``shape`` is
    the dataclass that it becomes, where ``make`` isn't that itself.
    """

    make: Callable[..., Any]
    keys: Mapping[str, Key]
    many: bool = False
    needed: tuple[str, ...] = ()
    shape: type | None = None


Key = Read | Section


def _upstream(**values: Any) -> UpstreamConfig:
    if "url" not in values:
        raise ValueError("an upstream needs a `url`")
    return UpstreamConfig(**values)


def _listen_tls(**values: Any) -> ListenTLS:
    if "cert" not in values:
        raise ValueError("`listen_tls` needs a `cert`")
    return ListenTLS(**values)


_TIMEOUTS: dict[str, Key] = {field.name: limit for field in fields(Timeouts)}
_UPSTREAM: dict[str, Key] = {
    "name": text,
    "url": url,
    "listen": optional_address,
    "prefix": text,
    "profile": profile,
    "timeouts": Section(Timeouts, _TIMEOUTS),
    "tls": Section(
        UpstreamTLS,
        {
            "ca": optional_path,
            "cert": optional_path,
            "key": optional_path,
            "server_name": optional_text,
            "verify": flag,
        },
    ),
    "proxy": proxy,
}
ROOT: Final[Mapping[str, Key]] = {
    "listen": address,
    "listen_tls": Section(
        _listen_tls, {"cert": path, "key": optional_path}, needed=("cert",), shape=ListenTLS
    ),
    "upstreams": Section(_upstream, _UPSTREAM, many=True, needed=("url",), shape=UpstreamConfig),
    "rules": Section(RulesConfig, {"select": patterns, "ignore": patterns, "severity": severities}),
    "limits": Section(
        Limits,
        # A limit whose default has a fraction is a time.
        {f.name: seconds if isinstance(f.default, float) else count for f in fields(Limits)},
    ),
    "audit": Section(
        AuditConfig,
        {
            "enabled": flag,
            "dir": path,
            "keep_days": above_0,
            "keep_bytes": count,
            "file_bytes": count,
            "file_hours": above_0,
            "compress": flag,
            "anchor": optional_path,
            "fingerprint_secret_file": optional_path,
            "index": flag,
            "otlp": flag,
        },
    ),
    "capture": Section(
        CaptureConfig,
        {
            "when": when,
            "rules": patterns,
            "upstreams": names,
            "max_bytes": count,
            "memory": count,
            "keep_days": above_0,
            "keep_bytes": count,
        },
    ),
    "telemetry": Section(TelemetryConfig, {"span_events": flag, "info_records": flag}),
    "admin": Section(
        AdminConfig,
        {
            "listen": address_or_off,
            "token_file": optional_path,
            "allowed_hosts": hosts,
            "trace_url": text,
        },
    ),
    "clients": Section(
        ClientsConfig,
        {
            "connections": count_or_none,
            "exchanges": count_or_none,
            "head": count,
            "head_timeout": limit,
        },
    ),
    "shutdown": Section(ShutdownConfig, {"deadline": seconds}),
    "schema": Section(
        SchemaConfig,
        {"timeout": seconds, "processes": count, "queue": count, "memory": count},
    ),
    "inspect_pool": Section(
        InspectPoolConfig,
        {
            "processes": count,
            "queue": count,
            "memory": count,
            "timeout": above_0,
            "patience": above_0,
        },
    ),
    "nnrp": Section(NnrpConfig, {"capabilities": optional_path}),
    "workers": workers,
}
