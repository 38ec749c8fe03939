"""What can be set, for people and for machines: each key with its type, its default and a few words.

What belongs here: putting together what is written elsewhere: types from values.py, keys from keys.py,
defaults and words from default.yaml. What doesn't: how it is shown (proxy).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import yaml

from teeline.config.keys import ROOT, Key, Section
from teeline.config.model import Config
from teeline.config.values import SCHEMAS
from teeline.validators.model import Severity

SCHEMA_URI: Final = "https://json-schema.org/draft/2020-12/schema"

_LINE = re.compile(
    r"(?P<indent>[ ]*)(?P<key>[a-z_]+):[ ]?(?P<value>[^#]*?)[ ]*(?:# (?P<about>.*))?\Z"
)


class Item(NamedTuple):
    """One key. ``path`` ends with its name; a ``[]`` in it stands for each entry of a list.

    ``schema`` is that of its value. ``default`` and ``example`` are YAML; the first is empty where there is
    none. ``about`` is empty where the name says it all.
    """

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    default: str
    example: str
    about: str


class _Line(NamedTuple):
    value: str
    about: str


@cache
def default_yaml() -> str:
    """The file of defaults, which is also the one to start from."""
    return (files("teeline.config") / "default.yaml").read_text(encoding="utf-8")


def items() -> Iterator[Item]:
    """All keys that hold a value, in the order of the table."""
    yield from _items((), ROOT, Config)


def schema() -> Mapping[str, Any]:
    """The JSON Schema of a configuration file. It refuses no file that ``load`` takes."""
    root = {"$schema": SCHEMA_URI, "title": "The configuration of teeline"}
    return root | _object((), ROOT, ())


def _items(path: tuple[str, ...], keys: Mapping[str, Key], shape: Any) -> Iterator[Item]:
    defaults = {field.name: _default(field) for field in fields(shape)}
    for name, key in keys.items():
        here = (*path, name)
        if isinstance(key, Section):
            below = (*here, "[]") if key.many else here
            yield from _items(below, key.keys, key.shape or key.make)
            continue
        line = _lines().get(_plain(here), _Line("", ""))
        yield Item(here, SCHEMAS[key], defaults[name], line.value, line.about)


def _default(field: Field[Any]) -> str:
    """A field's default as YAML; empty where it has none, or finds one by itself."""
    value = field.default_factory() if field.default_factory is not MISSING else field.default
    return "" if value is MISSING or value == "" else as_yaml(value)


def as_yaml(value: Any) -> str:
    """A value of a configuration on one line of YAML; what isn't YAML's own kind as its text."""
    return (
        yaml.safe_dump(_for_yaml(value), default_flow_style=True, width=10**6)
        .removesuffix("...\n")
        .strip()
    )


def _for_yaml(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_for_yaml(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _for_yaml(item) for key, item in value.items()}
    if isinstance(value, Severity):
        return value.word
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value if isinstance(value, bool | int | None) else str(value)


def _object(
    path: tuple[str, ...], keys: Mapping[str, Key], needed: tuple[str, ...]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        # An empty section says nothing, and is no error.
        "type": ["object", "null"] if path else "object",
        "additionalProperties": False,
        "properties": {name: _property((*path, name), key) for name, key in keys.items()},
    }
    return found | ({"required": list(needed)} if needed else {})


def _property(path: tuple[str, ...], key: Key) -> dict[str, Any]:
    line = _lines().get(path)
    described = {"description": line.about} if line and line.about else {}
    if not isinstance(key, Section):
        return {**SCHEMAS[key], **described}
    one = _object(path, key.keys, key.needed)
    return {**({"type": "array", "items": one} if key.many else one), **described}


def _plain(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in path if part != "[]")


@cache
def _lines() -> Mapping[tuple[str, ...], _Line]:
    """What default.yaml says of each key. One that is commented out shows how it looks."""
    found: dict[tuple[str, ...], _Line] = {}
    above: list[tuple[int, str]] = []
    for line in default_yaml().splitlines():
        bare = re.sub(r"\A([ ]*)# (?=[a-z_]+:)", r"\1", line.removeprefix("# "))
        match = _LINE.match(bare.replace("- ", "  ", 1))
        if match is None:
            continue
        indent = len(match["indent"])
        above = [(depth, name) for depth, name in above if depth < indent]
        above.append((indent, match["key"]))
        path = tuple(name for _, name in above)
        found[path] = _Line(match["value"], match["about"] or "")
    return found
