"""Who is checked: the base URL, the key, and how both are shown.

What belongs here: reading and masking them. What doesn't: sending (client.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from teeline.config.model import UpstreamURL

DEFAULT_BASE_URL: Final = "https://api.openai.com"
_VARIABLE: Final = "OPENAI_API_KEY"
_VERSIONED: Final = re.compile(r"/v\d+[a-z0-9]*(/|\Z)|/deployments/")
_DOTENV_LINE: Final = re.compile(rf"\s*(?:export\s+)?{_VARIABLE}\s*=\s*(.*?)\s*\Z")
_MOST_KEY: Final = 8192


class TargetError(ValueError):
    """A key or a header that can't be used; the text is one line and quotes no key."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and as whom. ``headers`` and ``query`` are added to each of them."""

    base_url: str
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    auth_header: str = "Authorization"
    query: tuple[tuple[str, str], ...] = ()

    def url(self, path: str) -> str:
        """The address of a path below the base URL."""
        query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in self.query)
        return f"{self.base_url}{path}" + (f"?{query}" if query else "")

    def auth(self, key: str) -> tuple[tuple[str, str], ...]:
        """The header field that carries a key; none where there is no key."""
        if not key:
            return ()
        bearer = self.auth_header.lower() == "authorization"
        return ((self.auth_header, f"Bearer {key}" if bearer else key),)

    @property
    def masked(self) -> str:
        return masked(self.key)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in no output: the key, and values of header fields that may hold others."""
        named = (value for name, value in self.headers if _SECRET_NAME.search(name))
        values = (
            self.key,
            *named,
            *(value for name, value in self.query if _SECRET_NAME.search(name)),
        )
        return tuple(value for value in values if len(value) >= 4)


_SECRET_NAME: Final = re.compile(r"key|token|auth|secret|cookie|signature|sig\Z", re.I)


def with_version(text: str) -> str:
    """A base URL as requests need it, ``/v1`` added where no version is named; ValueError otherwise."""
    url = UpstreamURL.parse(text)
    version = "" if _VERSIONED.search(url.path) else "/v1"
    return f"{url}{version}"


def masked(key: str) -> str:
    """A key as it may be shown: ``sk-...`` and its last four characters; those of a short key neither."""
    if not key:
        return ""
    return (
        f"sk-...{key[-4:]}" if len(key) >= 12 and key.isascii() and key.isprintable() else "sk-..."
    )


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """A text of the peer's without the secrets that it was sent, should it repeat them."""
    for secret in secrets:
        text = text.replace(secret, masked(secret))
    return text


def find_key(given: str | None, file: str | None, environ: Mapping[str, str], folder: Path) -> str:
    """The key of the option, of the file, of the environment or of ``.env``; empty where there is none.

    Raises TargetError.
    """
    if given is not None:
        return _checked(given)
    if file is not None:
        return _checked(_first_line(Path(file)))
    if environ.get(_VARIABLE):
        return _checked(environ[_VARIABLE])
    return _checked(_from_dotenv(folder / ".env"))


def _checked(key: str) -> str:
    key = key.strip()
    if len(key) > _MOST_KEY or any(not "\x20" < character < "\x7f" for character in key):
        raise TargetError("the key holds characters that no key has (blanks, line ends, non-ASCII)")
    return key


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(_MOST_KEY + 2)
    except OSError as error:
        raise TargetError(f"the key file can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TargetError("the key file is no text") from None


def _from_dotenv(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""  # no such file is the ordinary case, and one that is no .env says nothing
    for line in lines:
        found = _DOTENV_LINE.match(line)
        if found is not None:
            return _unquoted(found[1])
    return ""


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text.partition(" #")[0].strip()
