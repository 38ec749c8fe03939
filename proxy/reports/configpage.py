"""docs/configuration.md: every key of the configuration, made of the declarations.

What belongs here: the page's words and layout. What doesn't: the keys (config), writing files
(proxy/docs.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from teeline.config.reference import Item, items

_INTRODUCTION: Final = """# Configuration

`teeline serve --config FILE` (or `TEELINE_CONFIG`) reads YAML. Over it come variables,
`TEELINE__SECTION__KEY` with the value as YAML (`TEELINE__SHUTDOWN__DEADLINE=5`), and over those the
flags. `teeline serve --upstream URL` needs no file. Where telemetry goes is said by the usual `OTEL_*`
variables alone: [telemetry.md](telemetry.md). `TEELINE_EVENT_LOOP=uvloop` runs the processes that serve
on uvloop, where it is installed (`pip install 'teeline[uvloop]'`); measured, that saves 6 percent
of the CPU of a JSON request and 17 percent of that of a paced chunk
(`python -m bench --target full --target uvloop`).

    teeline config init teeline.yaml            # a file to start from: every key with its default
    teeline config check teeline.yaml           # every problem with its line and column; exit code 2
    teeline config show --config teeline.yaml   # what it comes to, and where each value was set
    teeline config schema                       # the JSON Schema, for editors and CI

Editors with a YAML language server complete keys where the file begins with
`# yaml-language-server: $schema=` and the path of that schema
([configuration.schema.json](configuration.schema.json)).

An unknown key is an error that names the nearest known one. Sizes are in bytes, times in seconds.
"""

_SECTIONS: Final[Mapping[str, str]] = {
    "listen_tls": "https towards clients, on every address.",
    "upstreams": "The relays, a list. Several are told apart by `listen` or `prefix`.",
    "upstreams.timeouts": "Of one upstream. A reasoning model may be silent for minutes: only connecting "
    "has a limit by default.",
    "upstreams.tls": "For an upstream with an `https` URL.",
    "rules": "Which [rules](rules/index.md) are reported, by id or family.",
    "limits": "Bounds of what is inspected; forwarding has none. What is beyond a bound is said "
    "(`partial (...)`) and counted.",
    "audit": "The [audit log](audit.md).",
    "capture": "Bodies, in files beside the audit log; off unless asked for.",
    "telemetry": "What is told beside warnings and failures.",
    "admin": "Health, metrics, status and the live page.",
    "clients": "What clients may take of this process.",
    "schema": "Checks against the schemas that requests bring, in processes that can be killed.",
    "inspect_pool": "Documents beyond `limits.in_place` are inspected in processes of their own.",
}


def configuration_page() -> str:
    """The page as Markdown."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    sections: dict[str, list[Item]] = {}
    for item in items():
        name = ".".join(part for part in item.path[:-1] if part != "[]")
        sections.setdefault(name, []).append(item)
    for name, keys in sections.items():
        if name:
            yield f"\n## {name}\n"
        if words := _SECTIONS.get(name):
            yield f"{words}\n"
        yield "| key | default | what | example |"
        yield "|---|---|---|---|"
        yield from map(_row, keys)


def _row(item: Item) -> str:
    example = "" if item.example in (item.default, "null") else item.example
    cells = (item.path[-1], item.default, "", example)
    name, default, _, shown = (f"`{cell}`" if cell else "" for cell in cells)
    return f"| {name} | {default} | {item.about} | {shown} |"
