"""From a file, the environment and flags to one ``Config``.

The order is defaults < YAML < environment (``TEELINE__SECTION__KEY``) < flags. What belongs here: walking
a tree along the table of keys, and errors that name the place. What doesn't: the table (keys.py), single
values (values.py), their own rules (model.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from teeline.config.keys import ROOT, Key, Section
from teeline.config.model import Config
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
)
from teeline.config.values import kind, unknown

__all__ = ["ConfigError", "Setting", "gathered", "load", "load_file"]


def load(
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[Setting] = (),
) -> Config:
    """The configuration that a file, the environment and flags make.

    ConfigError names what is wrong.
    """
    tree = gathered(file, environ, flags)
    reader = _Reader()
    values = reader.section(tree, ROOT)
    if reader.problems:
        raise ConfigError(reader.problems)
    try:
        return Config(**{"upstreams": (), **values})
    except ValueError as error:
        raise ConfigError([Problem(file or "", str(error))]) from None


def gathered(
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[Setting] = (),
) -> Tree:
    """What a file, the environment and flags set, each value with its place. Raises ConfigError."""
    tree = Tree({}, "") if file is None else load_file(file)
    tree = merge(tree, from_environment(environ or {}))
    return merge(tree, from_settings(flags))


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
        raise ConfigError([Problem(tree.where, f"is {kind(tree.value)}, not a mapping")])
    return tree


class _Reader:
    """Walks a tree along a table of keys and keeps every problem, so that one run shows them
    all.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def section(self, tree: Tree, keys: Mapping[str, Key]) -> dict[str, Any]:
        """The values of a mapping's known keys, each read by its entry in ``keys``."""
        values: dict[str, Any] = {}
        if tree.value is None:
            return values
        if not isinstance(tree.value, dict):
            self.problems.append(Problem(tree.where, f"is {kind(tree.value)}, not a mapping"))
            return values
        for key, entry in tree.value.items():
            if key in keys:
                self._read(key, entry, keys[key], values)
            else:
                self.problems.append(Problem(entry.where, unknown("key", key, keys)))
        return values

    def _read(self, key: str, entry: Entry, read: Key, values: dict[str, Any]) -> None:
        before = len(self.problems)
        try:
            value = self._build(read, entry.tree) if isinstance(read, Section) else read(entry.tree)
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

    def _build(self, section: Section, tree: Tree) -> Any:
        if not section.many:
            return self._one(section, tree)
        if not isinstance(tree.value, list):
            raise ValueError(f"is {kind(tree.value)}, not a list")
        return tuple(self._one(section, item) for item in tree.value)

    def _one(self, section: Section, tree: Tree) -> Any:
        before = len(self.problems)
        values = self.section(tree, section.keys)
        if len(self.problems) > before:
            return None
        try:
            return section.make(**values)
        except ValueError as error:
            self.problems.append(Problem(tree.where, str(error)))
            return None
