"""Which operation of the API a request is, from its method and path, and how far it is checked.

Paths are matched by their suffix, since base URLs differ (``/v1``, Azure's deployments, gateways with
prefixes); the query is not looked at.
"""

from __future__ import annotations

import enum
import re
from urllib.parse import unquote


class Operation(enum.StrEnum):
    """The operations whose answers are checked by their own rules; the value is the reported name."""

    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MODELS = "models"
    COMPLETIONS = "completions"
    OTHER = "other"


_POST = (
    ("/chat/completions", Operation.CHAT),
    ("/responses", Operation.RESPONSES),
    ("/embeddings", Operation.EMBEDDINGS),
    ("/completions", Operation.COMPLETIONS),
)
_MODEL = re.compile(r"/models(?:/(.+))?\Z")
_NO_MODEL = re.compile(r"/models/(?:count|user|.+/endpoints)\Z")
"""What gateways serve below /models beside models."""
_RESPONSE = re.compile(r"/responses/[^/]+\Z")
_SLASHES = re.compile(r"/{2,}")


def operation_of(method: str, target: str) -> Operation:
    """The operation a request line names; OTHER for everything that has no rules of its own."""
    path = _plain(target)
    if method == "POST":
        for suffix, operation in _POST:
            if path.endswith(suffix):
                return operation
    elif method == "GET":
        if _MODEL.search(path) and not _NO_MODEL.search(path):
            return Operation.MODELS
        if _RESPONSE.search(path):
            return Operation.RESPONSES
    return Operation.OTHER


def model_of(target: str) -> str:
    """The model that ``GET /models/{model}`` names, slashes in it kept; empty for the list of all."""
    path = _plain(target)
    match = _MODEL.search(path)
    # A base URL may hold the word itself: /models/some/model/v1/models is a list.
    return "" if match is None or path.endswith("/models") else unquote(match[1])


def _plain(target: str) -> str:
    return _SLASHES.sub("/", path_of(target)).rstrip("/")


def path_of(target: str) -> str:
    """The path of a request target: no query, and no scheme and authority of an absolute form."""
    path = target.partition("?")[0].partition("#")[0]
    if "://" in path:
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path
