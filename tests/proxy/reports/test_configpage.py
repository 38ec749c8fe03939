"""The page on configuration has a row for each key."""

from __future__ import annotations

from teeline.config.reference import items
from teeline.proxy.reports.configpage import configuration_page

PAGE = configuration_page()


def test_every_key_has_a_row_in_its_section() -> None:
    for item in items():
        section = ".".join(part for part in item.path[:-1] if part != "[]")
        text = PAGE.partition(f"\n## {section}\n")[2] if section else PAGE
        assert f"\n| `{item.path[-1]}` |" in text.partition("\n## ")[0], item.path


def test_no_section_stands_there_twice() -> None:
    headings = [line for line in PAGE.splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings))
