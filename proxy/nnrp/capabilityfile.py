"""Capability documents as files.

What belongs here: reading one within bounds, and the line that says why it can't be used. What doesn't: what
a document says, and what is wrong with it (validators/nnrp/capabilities.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from teeline.proxy.text import printable
from teeline.validators.nnrp.capabilities import Capabilities, capabilities_of

MAX_DOCUMENT: Final = 1024 * 1024
"""Bytes of a document."""


class DocumentError(Exception):
    """A file can't be used; the text is one line that names it."""


def read_document(path: Path) -> bytes:
    """A capability document's bytes. Raises DocumentError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise DocumentError(f"{_name(path)}: {error.strerror}") from None
    if len(data) > MAX_DOCUMENT:
        raise DocumentError(f"{_name(path)}: larger than {MAX_DOCUMENT} bytes")
    return data


def declared_in(path: Path | None) -> Capabilities | None:
    """What a document declares; None for no file. Raises DocumentError."""
    if path is None:
        return None
    capabilities = capabilities_of(read_document(path))
    if capabilities is None:
        raise DocumentError(f"{_name(path)}: no JSON object")
    return capabilities


def _name(path: Path) -> str:
    return printable(str(path))
