"""Writes the pages under docs/ that are made of declarations, and the table of rules in the README
beside them: ``python -m teeline.proxy.docs``.

What belongs here: which page lies where, and whether they are fresh. What doesn't: their layout
(reports/markdown.py), and pages that people write.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from teeline.config.profiles import profiles
from teeline.config.reference import schema
from teeline.proxy.reports.configpage import configuration_page
from teeline.proxy.reports.familytable import family_table
from teeline.proxy.reports.markdown import GENERATED, profile_page, rule_index, rule_pages
from teeline.proxy.telemetry.page import telemetry_page
from teeline.validators.rules import register

STALE: Final = 1

_README: Final = "README.md"
_TABLE: Final = re.compile(r"(<!-- rules [^>]*-->\n).*?(?=<!-- /rules -->)", re.S)


def pages() -> Mapping[str, str]:
    """The pages by their paths in the folder of the documentation."""
    rules = register()
    made = {"rules/index.md": rule_index(rules)}
    made |= {f"rules/{family}.md": page for family, page in rule_pages(rules)}
    made["telemetry.md"] = f"{GENERATED}\n\n{telemetry_page()}"
    made["configuration.md"] = f"{GENERATED}\n\n{configuration_page()}"
    made["configuration.schema.json"] = json.dumps(schema(), indent=1)
    made["profiles.md"] = profile_page(profiles().values(), rules)
    return {name: f"{page.rstrip()}\n" for name, page in made.items()}


def with_table(readme: str) -> str:
    """A README with a fresh table of rules between its two comments; unchanged without these."""
    table = family_table(register(), "docs/rules")
    return _TABLE.sub(lambda match: f"{match[1]}{table}\n", readme)


def readme_is_stale(folder: Path) -> bool:
    """Whether the README beside the folder, where there is one, has another table."""
    path = folder.resolve().parent / _README
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return with_table(text) != text


def stale(folder: Path) -> Iterator[str]:
    """Pages that are not as they would be written, and pages of families that are gone."""
    made = pages()
    for name, page in made.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != page:
            yield name
    for path in sorted((folder / "rules").glob("*.md")):
        if f"rules/{path.name}" not in made:
            yield f"rules/{path.name}"


def write(folder: Path) -> None:
    """Writes all pages and takes away those of families that are gone; OSError."""
    for name, page in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    for name in stale(folder):
        (folder / name).unlink()
    if readme_is_stale(folder):
        path = folder.resolve().parent / _README
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("docs"))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a page is stale.")
def main(folder: Path, check: bool) -> None:
    """Write the pages on rules, vendor profiles, telemetry and configuration to FOLDER [docs].

    The README beside it gets its table of rules.
    """
    if not check:
        write(folder)
        return
    found = [str(folder / name) for name in stale(folder)]
    found += [_README] if readme_is_stale(folder) else []
    for name in found:
        click.echo(f"{name} is stale: run python -m teeline.proxy.docs", err=True)
    sys.exit(STALE if found else 0)


if __name__ == "__main__":
    main()
