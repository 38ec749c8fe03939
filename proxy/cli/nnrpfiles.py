"""Capability documents as commands of ``teeline nnrp`` are given them.

What belongs here: a file that can't be used is wrong usage. What doesn't: reading it
(proxy/nnrp/capabilityfile.py), what a document says (validators/nnrp).
"""

from __future__ import annotations

from pathlib import Path

import click

from teeline.proxy.nnrp import capabilityfile
from teeline.validators.nnrp.capabilities import Capabilities


def read_document(path: str) -> bytes:
    """A capability document's bytes. Raises UsageError."""
    try:
        return capabilityfile.read_document(Path(path))
    except capabilityfile.DocumentError as error:
        raise click.UsageError(str(error)) from None


def declared_in(path: str | None) -> Capabilities | None:
    """What a document declares; None for no file. Raises UsageError."""
    try:
        return capabilityfile.declared_in(None if path is None else Path(path))
    except capabilityfile.DocumentError as error:
        raise click.UsageError(str(error)) from None
