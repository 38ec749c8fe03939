"""Reading one value of a configuration, and what the JSON Schema says of it.

What belongs here: a function a kind of value, with what it takes and the line that says what is wrong. What
doesn't: which keys there are (keys.py).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from teeline.config.model import (
    AUTO_WORKERS,
    CAPTURE_WHEN,
    FROM_ENVIRONMENT,
    MAX_WORKERS,
    ListenAddress,
    ProxyURL,
    UpstreamURL,
)
from teeline.config.profiles import profiles
from teeline.config.tree import Tree, shown
from teeline.validators.model import Severity
from teeline.validators.policy import Policy, UnknownRuleError
from teeline.validators.profiles import AUTO, NONE
from teeline.validators.rules import register

Read = Callable[[Tree], Any]
"""Reads one value; ValueError says in one line what is wrong with it."""

_HOST = re.compile(r"[a-z0-9._-]{1,253}\Z|\[[0-9a-f:.]+\]\Z")


def text(tree: Tree) -> str:
    if not isinstance(tree.value, str):
        raise ValueError(f"is {kind(tree.value)}, not text")
    return tree.value


def path(tree: Tree) -> Path:
    return Path(text(tree))


def address_or_off(tree: Tree) -> ListenAddress | None:
    # YAML reads a bare `off` as false.
    if tree.value is False or tree.value is None or tree.value == "off":
        return None
    return ListenAddress.parse(text(tree))


def hosts(tree: Tree) -> tuple[str, ...]:
    """Host names without ports, in lower case."""
    if not isinstance(tree.value, list):
        raise ValueError(f"is {kind(tree.value)}, not a list")
    hosts = tuple(text(item).lower() for item in tree.value)
    for wrong in (host for host in hosts if not _HOST.match(host)):
        raise ValueError(f"`{shown(wrong)}` is no host name; write it without scheme and port")
    return hosts


def flag(tree: Tree) -> bool:
    if not isinstance(tree.value, bool):
        raise ValueError(f"is {kind(tree.value)}, not true or false")
    return tree.value


def count(tree: Tree) -> int:
    if isinstance(tree.value, bool) or not isinstance(tree.value, int) or tree.value < 1:
        raise ValueError("is not a whole number above 0")
    return tree.value


def workers(tree: Tree) -> int | str:
    if tree.value == AUTO_WORKERS:
        return AUTO_WORKERS
    if isinstance(tree.value, bool) or not isinstance(tree.value, int):
        raise ValueError(f"is {kind(tree.value)}, not a whole number or {AUTO_WORKERS}")
    if not 1 <= tree.value <= MAX_WORKERS:
        raise ValueError(f"is not a number from 1 to {MAX_WORKERS}")
    return tree.value


def count_or_none(tree: Tree) -> int | None:
    return None if tree.value is None else count(tree)


def seconds(tree: Tree) -> float:
    value = tree.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e6:
        raise ValueError("is not a number of seconds")
    return float(value)


def limit(tree: Tree) -> float | None:
    """A timeout: seconds above 0, or null for none."""
    if tree.value is None:
        return None
    if (found := seconds(tree)) == 0:
        raise ValueError("is 0 seconds; write null for no limit")
    return found


def above_0(tree: Tree) -> float:
    if (number := seconds(tree)) == 0:
        raise ValueError("is not a number above 0")
    return number


def optional_path(tree: Tree) -> Path | None:
    return None if tree.value is None else path(tree)


def names(tree: Tree) -> tuple[str, ...]:
    if not isinstance(tree.value, list):
        raise ValueError(f"is {kind(tree.value)}, not a list")
    return tuple(text(item) for item in tree.value)


def pattern(tree: Tree) -> str:
    """A rule's id or family, as the register knows it."""
    word = text(tree)
    try:
        Policy(register(), select=(word,))
    except UnknownRuleError:
        known = {name for rule in register().values() for name in (rule.id, rule.family)}
        raise ValueError(unknown("rule", word, known)) from None
    return word


def patterns(tree: Tree) -> tuple[str, ...]:
    if not isinstance(tree.value, list):
        raise ValueError(f"is {kind(tree.value)}, not a list")
    return tuple(pattern(item) for item in tree.value)


def severities(tree: Tree) -> dict[str, Severity]:
    if not isinstance(tree.value, dict):
        raise ValueError(f"is {kind(tree.value)}, not a mapping of rules to severities")
    return {
        pattern(Tree(key, entry.where)): Severity.parse(text(entry.tree))
        for key, entry in tree.value.items()
    }


def profile(tree: Tree) -> str:
    """A vendor profile's name or another of its names, ``auto`` or ``none``."""
    word = text(tree)
    known = {AUTO, NONE, *(n for p in profiles().values() for n in (p.name, *p.names))}
    if word not in known:
        raise ValueError(unknown("profile", word, known))
    return word


def url(tree: Tree) -> UpstreamURL:
    return UpstreamURL.parse(text(tree))


def address(tree: Tree) -> ListenAddress:
    return ListenAddress.parse(text(tree))


def optional_address(tree: Tree) -> ListenAddress | None:
    return None if tree.value is None else address(tree)


def optional_text(tree: Tree) -> str | None:
    return None if tree.value is None else text(tree)


def when(tree: Tree) -> str:
    """When bodies are captured."""
    if (word := text(tree)) not in CAPTURE_WHEN:
        raise ValueError(f"is not one of {', '.join(CAPTURE_WHEN)}")
    return word


def proxy(tree: Tree) -> ProxyURL | str | None:
    if tree.value is None:
        return None
    word = text(tree)
    return FROM_ENVIRONMENT if word == FROM_ENVIRONMENT else ProxyURL.parse(word)


def kind(value: object) -> str:
    kinds = {
        dict: "a mapping",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "a date")


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1)
    hint = f", did you mean `{near[0]}`?" if near else ""
    return f"unknown {what} `{shown(word)}`{hint}"


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number", "minimum": 0, "maximum": 1e6}
_ABOVE_0: Final = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6}
_COUNT: Final = {"type": "integer", "minimum": 1}
_ADDRESS: Final = {"type": "string", "pattern": r"^.+:\d{1,5}$"}
_NULL: Final = {"type": "null"}
_TEXTS: Final = {"type": "array", "items": _TEXT}

SCHEMAS: Final[Mapping[Read, Mapping[str, Any]]] = {
    text: _TEXT,
    path: _TEXT,
    optional_path: {"type": ["string", "null"]},
    url: {"type": "string", "pattern": "^https?://"},
    address: _ADDRESS,
    optional_address: {"anyOf": [_ADDRESS, _NULL]},
    optional_text: {"type": ["string", "null"]},
    address_or_off: {"anyOf": [_ADDRESS, {"enum": ["off", False, None]}]},
    hosts: _TEXTS,
    names: _TEXTS,
    patterns: _TEXTS,
    flag: {"type": "boolean"},
    count: _COUNT,
    count_or_none: {"anyOf": [_COUNT, _NULL]},
    workers: {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_WORKERS},
            {"const": AUTO_WORKERS},
        ]
    },
    seconds: _NUMBER,
    limit: {"anyOf": [_ABOVE_0, _NULL]},
    above_0: _ABOVE_0,
    severities: {
        "type": "object",
        "additionalProperties": {"enum": [severity.word for severity in Severity]},
    },
    profile: _TEXT,
    proxy: {"type": ["string", "null"]},
    when: {"enum": list(CAPTURE_WHEN)},
}
"""Nothing that a reader takes is refused by its schema; what a schema can't say, the reader says."""
