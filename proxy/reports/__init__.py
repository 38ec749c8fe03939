"""Report formats by name. A format is one module with a ``render`` and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from teeline.proxy.reports import github, json, jsonl, junit, sarif, text
from teeline.proxy.reports.model import Renderer

RENDERERS: Final[Mapping[str, Renderer]] = {
    "text": text.render,
    "json": json.render,
    "jsonl": jsonl.render,
    "junit": junit.render,
    "sarif": sarif.render,
    "github": github.render,
}
