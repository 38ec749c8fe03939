"""Pages of the documentation as tests read them.

What belongs here: which pages there are, and the parts of one that a test holds: code blocks with
the comment before them, links, anchors. What doesn't: what is promised of them (the tests).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_COMMENT = re.compile(r"\s*<!--\s*(.*?)\s*-->\s*", re.S)
_NO_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. ``marker`` is the text of the comment right before it, "" without one."""

    language: str
    text: str
    marker: str
    line: int

    @property
    def word(self) -> str:
        """What the marker says to do: what stands before its colon."""
        return self.marker.partition(":")[0].strip()

    @property
    def argument(self) -> str:
        return self.marker.partition(":")[2].strip()


def pages() -> list[Path]:
    """All pages that people read: at the top, beside the benchmarks, and under docs."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "bench").glob("*.md"), *DOCS.rglob("*.md")])


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found, marker = [], ""
    for token in _tokens(page):
        if token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            found.append(Block(token.info.strip(), token.content, marker, line))
        comment = _COMMENT.fullmatch(token.content) if token.type == "html_block" else None
        marker = comment[1] if comment else ""
    return found


def links(page: Path) -> Iterator[str]:
    """Where a page's links and images lead, code left out."""
    for token in _inline(page):
        for name in ("href", "src"):
            if (target := token.attrGet(name)) is not None:
                yield str(target)


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may name behind ``#``: headings, spelt as GitHub spells them."""
    found: set[str] = set()
    tokens = _tokens(page)
    for opening, inside in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(t.content for t in inside.children or [] if t.type in _WORDS)
            slug = plain = _NO_SLUG.sub("", text.lower()).replace(" ", "-")
            count = 0
            while slug in found:
                count += 1
                slug = f"{plain}-{count}"
            found.add(slug)
    return frozenset(found)


_WORDS = ("text", "code_inline")


@functools.cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def _inline(page: Path) -> Iterator[Token]:
    for token in _tokens(page):
        yield from token.children or []
