"""Settings as a tree in which every value knows where it was written.

What belongs here: YAML, environment variables and flags becoming such trees, and one tree laid over
another. What doesn't: what the keys mean (load.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

_MAX_DEPTH = 16
_MAX_CHARACTERS = 1 << 20
_ENV_PREFIX = "TEELINE__"


class Setting(NamedTuple):
    """One value given outside of a file: ``path`` of keys, and the name of the flag or variable."""

    path: tuple[str, ...]
    value: Any
    source: str


class Problem(NamedTuple):
    """One thing that is wrong, and where: a place in a file, a variable, a flag."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class ConfigError(Exception):
    """A configuration can't be used. ``problems`` are in the order of the file; one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Tree:
    """A scalar, a list of trees, or a dict of entries."""

    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping with what stands behind it; ``where`` is the key's place."""

    tree: Tree
    where: str


def from_yaml(text: str, file: str) -> Tree:
    """The tree of a YAML document; an empty document is an empty mapping. Raises ConfigError."""
    if len(text) > _MAX_CHARACTERS:
        raise ConfigError([Problem(file, "is larger than a mebibyte; this is no configuration")])
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError([_unreadable(error, file)]) from None
    return Tree({}, file) if node is None else _Composer(file).tree(node, 0)


def from_settings(settings: Iterable[Setting]) -> Tree:
    """The tree of single values; a later one wins over an earlier one at the same path."""
    root = Tree({}, "")
    for setting in settings:
        leaf = _plain(setting.value, setting.source)
        for key in reversed(setting.path):
            leaf = Tree({key: Entry(leaf, setting.source)}, setting.source)
        root = merge(root, leaf)
    return root


def from_environment(environ: Mapping[str, str]) -> Tree:
    """The tree of the ``TEELINE__SECTION__KEY`` variables, values as YAML. Raises ConfigError."""
    root = Tree({}, "")
    for name in sorted(environ):
        if not name.startswith(_ENV_PREFIX):
            continue
        leaf = from_yaml(environ[name] or "''", name)
        for key in reversed(name.removeprefix(_ENV_PREFIX).lower().split("__")):
            leaf = Tree({key: Entry(leaf, name)}, name)
        root = merge(root, leaf)
    return root


def merge(below: Tree, above: Tree) -> Tree:
    """One tree laid over another: mappings key by key, everything else replaced as a whole."""
    if not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return above
    merged = dict(below.value)
    for key, entry in above.value.items():
        lower = merged.get(key)
        merged[key] = entry if lower is None else Entry(merge(lower.tree, entry.tree), entry.where)
    return Tree(merged, above.where or below.where)


def _plain(value: Any, source: str) -> Tree:
    if isinstance(value, dict):
        return Tree({k: Entry(_plain(v, source), source) for k, v in value.items()}, source)
    if isinstance(value, list):
        return Tree([_plain(item, source) for item in value], source)
    return Tree(value, source)


class _Composer:
    """Nodes of one document to trees. A node that aliases repeat is converted once."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._done: dict[int, Tree] = {}
        self._constructor = yaml.SafeLoader("")

    def tree(self, node: yaml.Node, depth: int) -> Tree:
        if (done := self._done.get(id(node))) is not None:
            return done
        where = self._where(node)
        if depth > _MAX_DEPTH:
            raise ConfigError([Problem(where, "is nested too deeply, or an alias holds itself")])
        if isinstance(node, yaml.MappingNode):
            tree = Tree(self._entries(node, depth), where)
        elif isinstance(node, yaml.SequenceNode):
            tree = Tree([self.tree(item, depth + 1) for item in node.value], where)
        else:
            tree = Tree(self._scalar(node, where), where)
        self._done[id(node)] = tree
        return tree

    def _entries(self, node: yaml.MappingNode, depth: int) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            where = self._where(key_node)
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise ConfigError([Problem(where, "a key is a word")])
            if key in entries:
                raise ConfigError([Problem(where, f"key `{shown(key)}` stands here twice")])
            entries[key] = Entry(self.tree(value_node, depth + 1), where)
        return entries

    def _scalar(self, node: yaml.Node, where: str) -> Any:
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError):
            raise ConfigError([Problem(where, "is no value that YAML knows")]) from None

    def _where(self, node: yaml.Node) -> str:
        # A variable's value is one line; its name says enough.
        if self._file.startswith(_ENV_PREFIX):
            return self._file
        mark = node.start_mark
        return f"{self._file}:{mark.line + 1}:{mark.column + 1}"


def shown(text: str) -> str:
    """A word of a configuration as part of an error line: short, and without control characters."""
    return text[:60].encode("unicode_escape").decode("ascii")


def _unreadable(error: yaml.YAMLError, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = file if mark is None else f"{file}:{mark.line + 1}:{mark.column + 1}"
    problem = getattr(error, "problem", None) or "it holds a character that YAML forbids"
    return Problem(where, f"is not YAML: {shown(str(problem))}")
