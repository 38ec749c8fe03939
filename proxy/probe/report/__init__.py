"""Formats of a check's report by name. A format is one module with a ``render`` and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report import html, json, junit, markdown, sarif, text
from teeline.proxy.reports.model import Style


class Renderer(Protocol):
    """A format: the whole report as text, ended by a line break."""

    def __call__(self, outcome: CheckOutcome, style: Style) -> str: ...


RENDERERS: Final[Mapping[str, Renderer]] = {
    "text": text.render,
    "json": json.render,
    "junit": junit.render,
    "sarif": sarif.render,
    "markdown": markdown.render,
    "html": html.render,
}
