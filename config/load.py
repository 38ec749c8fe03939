"""From a file, the environment and flags to one ``Config``.

The order is defaults < YAML < environment (``TEELINE__SECTION__KEY``) < flags. What belongs here:
which keys there are, what type each has, and errors that name the place. What doesn't: the values'
own rules (model.py).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from teeline.config.model import (
    FROM_ENVIRONMENT,
    AdminConfig,
    AuditConfig,
    CaptureConfig,
    ClientsConfig,
    Config,
    ListenAddress,
    ListenTLS,
    ProxyURL,
    RulesConfig,
    SchemaConfig,
    ShutdownConfig,
    TelemetryConfig,
    Timeouts,
    UpstreamConfig,
    UpstreamTLS,
    UpstreamURL,
)
from teeline.config.profiles import profiles
from teeline.config.tree import (
    ConfigError,
    Entry,
    Problem,
    Setting,
    Tree,
    from_environment,
    from_settings,
    from_yaml,
    merge,
    shown,
)
from teeline.validators.limits import Limits
from teeline.validators.model import Severity
from teeline.validators.policy import Policy, UnknownRuleError
from teeline.validators.profiles import AUTO, NONE
from teeline.validators.rules import register

__all__ = ["ConfigError", "Setting", "load", "load_file"]

_HOST = re.compile(r"[a-z0-9._-]{1,253}\Z|\[[0-9a-f:.]+\]\Z")

_Read = Callable[[Tree], Any]
"""Reads one value; ValueError says in one line what is wrong with it."""


def load(
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[Setting] = (),
) -> Config:
    """The configuration that a file, the environment and flags make.

    ConfigError names what is wrong.
    """
    tree = Tree({}, "") if file is None else load_file(file)
    tree = merge(tree, from_environment(environ or {}))
    tree = merge(tree, from_settings(flags))
    reader = _Reader()
    values = reader.section(tree, _ROOT)
    if reader.problems:
        raise ConfigError(reader.problems)
    try:
        return Config(**{"upstreams": (), **values})
    except ValueError as error:
        raise ConfigError([Problem(file or "", str(error))]) from None


def load_file(file: str) -> Tree:
    """The tree of a YAML file. ConfigError where it can't be read or is no YAML."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem(file, f"can't be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem(file, "is not UTF-8 text")]) from None
    tree = from_yaml(text, file)
    if not isinstance(tree.value, dict):
        raise ConfigError([Problem(tree.where, f"is {_kind(tree.value)}, not a mapping")])
    return tree


class _Reader:
    """Walks a tree along a table of keys and keeps every problem, so that one run shows them
    all.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def section(self, tree: Tree, keys: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a mapping's known keys, each read by its entry in ``keys``."""
        values: dict[str, Any] = {}
        if tree.value is None:
            return values
        if not isinstance(tree.value, dict):
            self.problems.append(Problem(tree.where, f"is {_kind(tree.value)}, not a mapping"))
            return values
        for key, entry in tree.value.items():
            if key in keys:
                self._read(key, entry, keys[key], values)
            else:
                self.problems.append(Problem(entry.where, _unknown("key", key, keys)))
        return values

    def _read(self, key: str, entry: Entry, read: Any, values: dict[str, Any]) -> None:
        before = len(self.problems)
        try:
            value = read.build(self, entry.tree) if isinstance(read, _Section) else read(entry.tree)
        except ConfigError as error:
            self.problems.extend(error.problems)
            return
        except ValueError as error:
            where = entry.tree.where
            # A flag's name says already what the value is.
            named = str(error) if where.startswith("--") else f"`{key}`: {error}"
            self.problems.append(Problem(where, named))
            return
        if len(self.problems) == before:
            values[key] = value


class _Section:
    """A mapping of its own, or with ``many`` a list of such mappings, that becomes a dataclass."""

    def __init__(
        self, make: Callable[..., Any], keys: Mapping[str, Any], many: bool = False
    ) -> None:
        self._make = make
        self._keys = keys
        self._many = many

    def build(self, reader: _Reader, tree: Tree) -> Any:
        if not self._many:
            return self._one(reader, tree)
        if not isinstance(tree.value, list):
            raise ValueError(f"is {_kind(tree.value)}, not a list")
        return tuple(self._one(reader, item) for item in tree.value)

    def _one(self, reader: _Reader, tree: Tree) -> Any:
        before = len(reader.problems)
        values = reader.section(tree, self._keys)
        if len(reader.problems) > before:
            return None
        try:
            return self._make(**values)
        except ValueError as error:
            reader.problems.append(Problem(tree.where, str(error)))
            return None


def _text(tree: Tree) -> str:
    if not isinstance(tree.value, str):
        raise ValueError(f"is {_kind(tree.value)}, not text")
    return tree.value


def _path(tree: Tree) -> Path:
    return Path(_text(tree))


def _address_or_off(tree: Tree) -> ListenAddress | None:
    # YAML reads a bare `off` as false.
    if tree.value is False or tree.value is None or tree.value == "off":
        return None
    return ListenAddress.parse(_text(tree))


def _hosts(tree: Tree) -> tuple[str, ...]:
    """Host names without ports, in lower case."""
    if not isinstance(tree.value, list):
        raise ValueError(f"is {_kind(tree.value)}, not a list")
    hosts = tuple(_text(item).lower() for item in tree.value)
    for wrong in (host for host in hosts if not _HOST.match(host)):
        raise ValueError(f"`{shown(wrong)}` is no host name; write it without scheme and port")
    return hosts


def _flag(tree: Tree) -> bool:
    if not isinstance(tree.value, bool):
        raise ValueError(f"is {_kind(tree.value)}, not true or false")
    return tree.value


def _count(tree: Tree) -> int:
    if isinstance(tree.value, bool) or not isinstance(tree.value, int) or tree.value < 1:
        raise ValueError("is not a whole number above 0")
    return tree.value


def _count_or_none(tree: Tree) -> int | None:
    return None if tree.value is None else _count(tree)


def _seconds(tree: Tree) -> float:
    value = tree.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e6:
        raise ValueError("is not a number of seconds")
    return float(value)


def _limit(tree: Tree) -> float | None:
    """A timeout: seconds above 0, or null for none."""
    if tree.value is None:
        return None
    if (seconds := _seconds(tree)) == 0:
        raise ValueError("is 0 seconds; write null for no limit")
    return seconds


def _above_0(tree: Tree) -> float:
    if (number := _seconds(tree)) == 0:
        raise ValueError("is not a number above 0")
    return number


def _optional_path(tree: Tree) -> Path | None:
    return None if tree.value is None else _path(tree)


def _names(tree: Tree) -> tuple[str, ...]:
    if not isinstance(tree.value, list):
        raise ValueError(f"is {_kind(tree.value)}, not a list")
    return tuple(_text(item) for item in tree.value)


def _pattern(tree: Tree) -> str:
    """A rule's id or family, as the register knows it."""
    text = _text(tree)
    try:
        Policy(register(), select=(text,))
    except UnknownRuleError:
        known = {name for rule in register().values() for name in (rule.id, rule.family)}
        raise ValueError(_unknown("rule", text, known)) from None
    return text


def _patterns(tree: Tree) -> tuple[str, ...]:
    if not isinstance(tree.value, list):
        raise ValueError(f"is {_kind(tree.value)}, not a list")
    return tuple(_pattern(item) for item in tree.value)


def _severities(tree: Tree) -> dict[str, Severity]:
    if not isinstance(tree.value, dict):
        raise ValueError(f"is {_kind(tree.value)}, not a mapping of rules to severities")
    return {
        _pattern(Tree(key, entry.where)): Severity.parse(_text(entry.tree))
        for key, entry in tree.value.items()
    }


def _profile(tree: Tree) -> str:
    """A vendor profile's name or another of its names, ``auto`` or ``none``."""
    text = _text(tree)
    known = {AUTO, NONE, *(n for p in profiles().values() for n in (p.name, *p.names))}
    if text not in known:
        raise ValueError(_unknown("profile", text, known))
    return text


def _upstream(**values: Any) -> UpstreamConfig:
    if "url" not in values:
        raise ValueError("an upstream needs a `url`")
    return UpstreamConfig(**values)


def _proxy(tree: Tree) -> ProxyURL | str | None:
    if tree.value is None:
        return None
    text = _text(tree)
    return FROM_ENVIRONMENT if text == FROM_ENVIRONMENT else ProxyURL.parse(text)


def _listen_tls(**values: Any) -> ListenTLS:
    if "cert" not in values:
        raise ValueError("`listen_tls` needs a `cert`")
    return ListenTLS(**values)


def _kind(value: object) -> str:
    kinds = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "a date")


def _unknown(what: str, word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1)
    hint = f", did you mean `{near[0]}`?" if near else ""
    return f"unknown {what} `{shown(word)}`{hint}"


_TIMEOUTS: dict[str, _Read] = {field.name: _limit for field in fields(Timeouts)}
_UPSTREAM = {
    "name": _text,
    "url": lambda tree: UpstreamURL.parse(_text(tree)),
    "listen": lambda tree: ListenAddress.parse(_text(tree)),
    "prefix": _text,
    "profile": _profile,
    "timeouts": _Section(Timeouts, _TIMEOUTS),
    "tls": _Section(
        UpstreamTLS,
        {"ca": _path, "cert": _path, "key": _path, "server_name": _text, "verify": _flag},
    ),
    "proxy": _proxy,
}
_ROOT = {
    "listen": lambda tree: ListenAddress.parse(_text(tree)),
    "listen_tls": _Section(_listen_tls, {"cert": _path, "key": _path}),
    "upstreams": _Section(_upstream, _UPSTREAM, many=True),
    "rules": _Section(
        RulesConfig, {"select": _patterns, "ignore": _patterns, "severity": _severities}
    ),
    "limits": _Section(
        Limits,
        # A limit whose default has a fraction is a time.
        {f.name: _seconds if isinstance(f.default, float) else _count for f in fields(Limits)},
    ),
    "audit": _Section(
        AuditConfig,
        {
            "enabled": _flag,
            "dir": _path,
            "keep_days": _above_0,
            "keep_bytes": _count,
            "file_bytes": _count,
            "file_hours": _above_0,
            "compress": _flag,
            "anchor": _optional_path,
            "fingerprint_secret_file": _optional_path,
            "index": _flag,
            "otlp": _flag,
        },
    ),
    "capture": _Section(
        CaptureConfig,
        {
            "when": _text,
            "rules": _patterns,
            "upstreams": _names,
            "max_bytes": _count,
            "memory": _count,
            "keep_days": _above_0,
            "keep_bytes": _count,
        },
    ),
    "telemetry": _Section(TelemetryConfig, {"span_events": _flag, "info_records": _flag}),
    "admin": _Section(
        AdminConfig,
        {
            "listen": _address_or_off,
            "token_file": _path,
            "allowed_hosts": _hosts,
            "trace_url": _text,
        },
    ),
    "clients": _Section(
        ClientsConfig,
        {
            "connections": _count_or_none,
            "exchanges": _count_or_none,
            "head": _count,
            "head_timeout": _limit,
        },
    ),
    "shutdown": _Section(ShutdownConfig, {"deadline": _seconds}),
    "schema": _Section(SchemaConfig, {"timeout": _seconds}),
}
