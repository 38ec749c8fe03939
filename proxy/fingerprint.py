"""Who a client is without its key: an HMAC of the key, the same at all replicas that share a secret.

What belongs here: which header fields hold keys, the fingerprint, and the file of its secret. What
doesn't: where fingerprints are stored (audit).

A plain hash of a key could be guessed back where a provider's keys are short or leaked lists exist;
without the secret a fingerprint says nothing. Who deletes the secret cuts the tie between keys and
what was recorded.
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import Final

from teeline.proxy import secretfile
from teeline.validators.model import Headers

DIGITS: Final = 16
"""Hexadecimal digits of a fingerprint."""
_SECRET_BYTES: Final = 32
_MOST: Final = 4096
_FIELDS: Final = ("authorization", "api-key", "x-api-key")
_LENGTHS: Final = frozenset(map(len, _FIELDS))


class SecretError(Exception):
    """The secret can't be used; the text is one line that says what to change."""


class Fingerprint:
    """Fingerprints under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, headers: Headers) -> str:
        """The fingerprint of the key in a request's header fields; empty where there is none."""
        for name, value in headers:
            # Nearly all names are told by their length, without being looked at.
            if len(name) in _LENGTHS and name.lower() in _FIELDS:
                key = value[7:] if value[:7].lower() == "bearer " else value
                if key := key.strip():
                    data = key.encode("utf-8", "surrogateescape")
                    return hmac.digest(self._secret, data, "sha256").hex()[:DIGITS]
        return ""

    def of_key(self, key: str) -> str:
        """The fingerprint of a key that somebody looks for."""
        return self.of((("authorization", key),))


def load(path: Path) -> Fingerprint:
    """The fingerprint under the secret in a file; SecretError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read(_MOST).strip()
    except OSError as error:
        raise SecretError(
            f"the fingerprint secret {path} can't be read: {error.strerror}"
        ) from None
    if stat.S_IMODE(mode) & 0o077:
        raise SecretError(f"the fingerprint secret {path} can be read by others: chmod 600 {path}")
    if len(secret) < _SECRET_BYTES:
        raise SecretError(f"the fingerprint secret {path} is shorter than {_SECRET_BYTES} bytes")
    return Fingerprint(secret)


def load_or_make(path: Path) -> Fingerprint:
    """As ``load``; where there is no such file, one is made with a secret of its own."""
    try:
        secretfile.make(path)
    except OSError as error:
        if not path.exists():
            why = error.strerror or type(error).__name__
            raise SecretError(f"the fingerprint secret {path} can't be made: {why}") from None
    return load(path)
