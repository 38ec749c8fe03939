"""What a configuration comes to, as a file that could be read again, with where each value was set.

What belongs here: every key with its value, and its origin. What doesn't: where files come from (load.py).
Nothing secret is shown: a proxy's login is left out, and keys and tokens are files that are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from teeline.config.keys import ROOT, Key, Section
from teeline.config.model import Config
from teeline.config.reference import as_yaml
from teeline.config.tree import Entry, Tree

DEFAULT: Final = "default"
_COLUMN: Final = 44


def lines(config: Config, tree: Tree) -> Iterator[str]:
    """YAML, a key a line. ``tree`` is what ``config`` was made of (``load.gathered``)."""
    yield from _section(config, ROOT, tree, 0)


def _section(value: Any, keys: Mapping[str, Key], tree: Tree | None, depth: int) -> Iterator[str]:
    given: Mapping[str, Entry] = tree.value if tree and isinstance(tree.value, dict) else {}
    for name, key in keys.items():
        entry = given.get(name)
        found = getattr(value, name)
        if not isinstance(key, Section):
            yield _line(depth, name, as_yaml(found), DEFAULT if entry is None else entry.where)
        elif found is not None:
            yield f"{'  ' * depth}{name}:"
            below = entry.tree if entry is not None else None
            yield from _below(found, key, below, depth + 1)


def _below(value: Any, key: Section, tree: Tree | None, depth: int) -> Iterator[str]:
    if not key.many:
        yield from _section(value, key.keys, tree, depth)
        return
    given = tree.value if tree and isinstance(tree.value, list) else []
    for number, item in enumerate(value):
        shown = _section(item, key.keys, given[number] if number < len(given) else None, depth + 1)
        for place, line in enumerate(shown):
            yield line if place else f"{'  ' * depth}- {line.lstrip()}"


def _line(depth: int, name: str, value: str, origin: str) -> str:
    setting = f"{'  ' * depth}{name}: {value}"
    return f"{setting:<{_COLUMN}} # {origin}"
