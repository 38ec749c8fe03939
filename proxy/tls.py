"""Certificates: whom we trust on the way to an upstream, and who we are to both sides.

What belongs here: TLS contexts out of configuration, and what is wrong with their files, said in
one line. What doesn't: connections (upstream.py, accept.py).
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import truststore

from teeline.config.model import ListenTLS, UpstreamTLS

_ALPN = ("http/1.1",)


class TLSFilesError(Exception):
    """A certificate or key can't be used; the text is one line that says which and why."""


def towards_upstream(config: UpstreamTLS | None, alpn: Sequence[str] = _ALPN) -> ssl.SSLContext:
    """Trusts what the system trusts, unless the configuration says whom. Raises TLSFilesError.

    ``alpn`` are the protocols that are offered (RFC 7301), none for an empty one.
    """
    config = config or UpstreamTLS()
    if config.ca is not None or not config.verify:
        # Not ssl.create_default_context: it would trust the system's authorities as well.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if config.ca is not None:
        try:
            context.load_verify_locations(config.ca)
        except (OSError, ssl.SSLError) as error:
            raise TLSFilesError(_words("ca", config.ca, error)) from None
    if config.cert is not None:
        _load_chain(context, config.cert, config.key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def towards_clients(config: ListenTLS, alpn: Sequence[str] = _ALPN) -> ssl.SSLContext:
    """Shows clients our certificate, and says that we speak ``alpn``. Raises TLSFilesError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, config.cert, config.key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def _load_chain(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    def no_password() -> str:
        # Without this OpenSSL would ask the terminal and hold up the start.
        raise TLSFilesError(f"the key of {cert} has a password, which can't be given")

    try:
        context.load_cert_chain(cert, key, no_password)
    except (OSError, ssl.SSLError) as error:
        raise TLSFilesError(_words("cert or key", cert, error)) from None


def _words(what: str, file: Path, error: OSError) -> str:
    # An SSLError's strerror names OpenSSL's source; its kind says no more than this does.
    why = "is not what it should be" if isinstance(error, ssl.SSLError) else error.strerror
    return f"{what} {file}: {why}"
