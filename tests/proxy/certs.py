"""Certificates for tests, made anew in each run: an authority, and what it has signed.

What belongs here: making them and the files they lie in. What doesn't: what is promised about them.
"""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import trustme

from teeline.config.model import UpstreamTLS


class Certificates:
    """An authority with its file, and certificates of its for names, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, *, days: int = 1) -> Path:
        """A file with the key and the certificate of a name; ``days`` below 0: it has expired."""
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        issued = self._authority.issue_cert(name, not_after=end)
        file = self._folder / f"{name}-{days}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(file))
        return file

    def server(self, file: Path, *, wants_client: bool = False) -> ssl.SSLContext:
        """What a server with that certificate uses; ``wants_client``: it asks for one of ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context

    def trusting(self, scheme: str) -> UpstreamTLS | None:
        """The settings of an upstream that this authority vouches for, where it speaks TLS."""
        return UpstreamTLS(ca=self.ca) if scheme == "https" else None

    def client(self) -> ssl.SSLContext:
        """What a client uses that trusts this authority."""
        return ssl.create_default_context(cafile=str(self.ca))
