"""Capability documents that are named on the command line.

What belongs here: reading one file within its bound. What doesn't: what is in it (validators/nnrp).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from teeline.proxy.text import printable
from teeline.validators.nnrp.capabilities import Capabilities, capabilities_of

MAX_DOCUMENT: Final = 1024 * 1024
"""Bytes of a document."""


def document(path: str) -> bytes:
    """A capability document's bytes; click.UsageError."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise click.UsageError(f"{printable(path)}: {error.strerror}") from None
    if len(data) > MAX_DOCUMENT:
        raise click.UsageError(f"{printable(path)}: larger than {MAX_DOCUMENT} bytes")
    return data


def declared(path: str | None) -> Capabilities | None:
    """What a document declares, None for no path; click.UsageError."""
    if path is None:
        return None
    capabilities = capabilities_of(document(path))
    if capabilities is None:
        raise click.UsageError(f"{printable(path)}: no JSON object")
    return capabilities
