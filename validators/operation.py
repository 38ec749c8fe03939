"""Which operation of the API a request is, from its method and path, and how far it is checked.

Paths are matched by their suffix, since base URLs differ (``/v1``, Azure's deployments, gateways with
prefixes); the query is not looked at.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from teeline.validators.memo import Memo


class Operation(enum.StrEnum):
    """The operations whose answers are checked, and OTHER for those that pass unread."""

    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MODELS = "models"
    COMPLETIONS = "completions"
    RESPONSES_LIGHT = "responses-light"
    """What surrounds responses (deletion, input items, counts, compaction): JSON and errors, no more."""
    OTHER = "other"

    @property
    def reported(self) -> str:
        """The name in reports: those without rules of their own are all ``other``."""
        return Operation.OTHER.value if self is Operation.RESPONSES_LIGHT else self.value


_POST = (
    ("/chat/completions", Operation.CHAT),
    ("/responses", Operation.RESPONSES),
    ("/embeddings", Operation.EMBEDDINGS),
    ("/completions", Operation.COMPLETIONS),
)
_MODEL = re.compile(r"/models(?:/(.+))?\Z")
_NO_MODEL = re.compile(r"/models/(?:count|user|.+/endpoints)\Z")
"""What gateways serve below /models beside models."""
_PATTERNS = (
    ("POST", re.compile(r"/responses/[^/]+/cancel\Z"), Operation.RESPONSES),
    ("POST", re.compile(r"/responses/(input_tokens|compact)\Z"), Operation.RESPONSES_LIGHT),
    ("GET", _NO_MODEL, Operation.OTHER),
    ("GET", _MODEL, Operation.MODELS),
    ("GET", re.compile(r"/responses/[^/]+\Z"), Operation.RESPONSES),
    ("GET", re.compile(r"/responses/[^/]+/input_items\Z"), Operation.RESPONSES_LIGHT),
    ("DELETE", re.compile(r"/responses/[^/]+\Z"), Operation.RESPONSES_LIGHT),
)
_SLASHES = re.compile(r"/{2,}")


class Route(NamedTuple):
    """What a request line says: see the functions of the same names. ``reported`` is the operation's."""

    operation: Operation
    reported: str
    path: str
    asks_in_body: bool
    is_beta: bool


def route_of(method: str, target: str) -> Route:
    """All that a request line says at once; remembered, since clients ask for the same again."""
    return _routes((method, target))


def operation_of(method: str, target: str) -> Operation:
    """The operation a request line names; OTHER for everything that has no rules of its own."""
    return _routes((method, target)).operation


def asks_in_body(method: str, target: str) -> bool:
    """Whether the request's document says what the answer must be like.

    A response that is fetched or cancelled was asked for by another request.
    """
    return _routes((method, target)).asks_in_body


def _route(line: tuple[str, str]) -> Route:
    method, target = line
    bare = _bare(target)
    created = _created(method, bare)
    operation = _named(method, bare) if created is None else created
    return Route(
        operation, operation.reported, path_of(target), created is not None, is_beta(target)
    )


def _named(method: str, path: str) -> Operation:
    """The operation of a path that creates nothing."""
    for verb, pattern, operation in _PATTERNS:
        if verb == method and pattern.search(path):
            return operation
    return Operation.OTHER


def model_of(target: str) -> str:
    """The model that ``GET /models/{model}`` names, slashes in it kept; empty for the list of all."""
    path = _bare(target)
    match = _MODEL.search(path)
    # A base URL may hold the word itself: /models/some/model/v1/models is a list.
    return "" if match is None or path.endswith("/models") else unquote(match[1])


def _bare(target: str) -> str:
    path = path_of(target)
    return (_SLASHES.sub("/", path) if "//" in path else path).rstrip("/")


def _created(method: str, path: str) -> Operation | None:
    if method != "POST":
        return None
    for suffix, operation in _POST:
        if path.endswith(suffix):
            return operation
    return None


def path_of(target: str) -> str:
    """The path of a request target: no query, and no scheme and authority of an absolute form."""
    path = target.partition("?")[0].partition("#")[0] if "?" in target or "#" in target else target
    if "://" in path:
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path


def is_beta(target: str) -> bool:
    """Whether the target asks for the beta form of an operation, whose objects are still moving."""
    return "beta=true" in target and "beta=true" in target.partition("#")[0].partition("?")[
        2
    ].split("&")


def _size(line: tuple[str, str]) -> int:
    return sum(map(len, line))


_routes: Final = Memo(_route, _size)
