"""Capability documents as files that commands of ``teeline nnrp`` are given.

What belongs here: reading them within bounds. What doesn't: what a document says (validators/nnrp).
"""

from __future__ import annotations

from pathlib import Path

import click

from teeline.proxy.text import printable
from teeline.validators.nnrp.capabilities import Capabilities, capabilities_of

_MAX_DOCUMENT = 1024 * 1024


def read_document(path: str) -> bytes:
    """A capability document's bytes."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MAX_DOCUMENT + 1)
    except OSError as error:
        raise click.UsageError(f"{printable(path)}: {error.strerror}") from None
    if len(data) > _MAX_DOCUMENT:
        raise click.UsageError(f"{printable(path)}: larger than {_MAX_DOCUMENT} bytes")
    return data


def declared_in(path: str | None) -> Capabilities | None:
    if path is None:
        return None
    capabilities = capabilities_of(read_document(path))
    if capabilities is None:
        raise click.UsageError(f"{printable(path)}: no JSON object")
    return capabilities
