"""Models: the list, a single one, and a used model against the list.

What belongs here: answers of ``GET /models`` and ``GET /models/{model}``. What doesn't: keeping lists from
one exchange to the next (whoever makes inspectors gives the last one in), the model that an answer names
(cross.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from teeline.validators.checks.chat import note_error
from teeline.validators.checks.context import Context
from teeline.validators.checks.shapes import is_error
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.models import LISTED_MODEL, MODEL_LIST, PAGINATION, RETRIEVED_MODEL
from teeline.validators.fields.table import walk
from teeline.validators.history import History, client_of
from teeline.validators.model import Headers
from teeline.validators.operation import Operation, model_of

_LONGEST_ID = 256
_VERSION = re.compile(r"[-@](\d{3,8}|\d{4}-\d{2}-\d{2}|latest)\Z|:(latest|nitro|floor|online)\Z")
"""What stands behind a model's name: its date, or a tag that names a way to it rather than a model."""
_WITH_MODELS = frozenset({Operation.CHAT, Operation.RESPONSES})


def check_models(ctx: Context, value: Any) -> None:
    """Checks the document of a 2xx answer to ``GET /models`` or ``GET /models/{model}``."""
    if isinstance(value, dict) and is_error(value) and not value.get("data"):
        note_error(ctx, value)
        ctx.report("models.error-in-200", "", value, words=True)
        return
    wanted = model_of(ctx.exchange.path)
    if wanted:
        _check_retrieved(ctx, value, wanted)
    elif isinstance(value, dict):
        _check_list(ctx, value)
    else:
        ctx.report("models.body-not-object", "", value)


def _check_retrieved(ctx: Context, value: Any, wanted: str) -> None:
    if not isinstance(value, dict) or value.get("object") == "list":
        ctx.report("models.retrieve-shape", "", value, words=True)
        return
    walk(RETRIEVED_MODEL, value, "", ctx.report)
    got = value.get("id")
    if isinstance(got, str) and got and not _same(wanted, got):
        ctx.report("models.retrieve-shape", "/id", got, words=True)


def _same(wanted: str, got: str) -> bool:
    """Whether two ids are one, a provider's prefix on either of them aside."""
    return wanted == got or wanted.endswith(f"/{got}") or got.endswith(f"/{wanted}")


def _check_list(ctx: Context, value: Mapping[str, Any]) -> None:
    walk(MODEL_LIST, value, "", ctx.report)
    for name in PAGINATION:
        if name in value:
            ctx.report("models.pagination-extra", f"/{name}", value[name])
    data = value.get("data", ABSENT)
    if data is None:
        ctx.report("models.data-null", "/data", data)
    elif not isinstance(data, list):
        ctx.report("models.data-not-array", "/data", data)
    else:
        ids = _check_items(ctx, data)
        if value.get("has_more") is not True:
            _note_list(ctx, ids)


def _check_items(ctx: Context, data: list[Any]) -> set[str]:
    """Checks the elements; the ids that they have."""
    ids: set[str] = set()
    for n, item in enumerate(data):
        pointer = f"/data/{n}"
        if not isinstance(item, dict):
            ctx.report("models.item-not-object", pointer, item)
            continue
        walk(LISTED_MODEL, item, pointer, ctx.report)
        made = item.get("id")
        if not isinstance(made, str) or not made:
            continue
        if made in ids:
            ctx.report("models.id-duplicate", f"{pointer}/id", made, words=True)
        ids.add(made)
    return ids


def _note_list(ctx: Context, ids: set[str]) -> None:
    """Keeps a list that is worth comparing with: whole, and of ids that are names."""
    if 0 < len(ids) <= ctx.limits.listed_models and all(len(i) <= _LONGEST_ID for i in ids):
        ctx.exchange.listed_models = frozenset(ids)


# -- a used model against the list --------------------------------------------------------------------


def note_listed(ctx: Context) -> None:
    """Keeps a whole list for the exchanges that follow."""
    if ctx.history is not None and ctx.exchange.listed_models is not None:
        ctx.history.list_models(ctx.exchange.listed_models, client_of(ctx.request_headers))


def check_listed(ctx: Context) -> None:
    """A model that answered, but that the upstream's last list for this client does not have.

    Call it at the end: an answer that names its model was given by one.
    """
    exchange, history = ctx.exchange, ctx.history
    if history is None or not history.lists or ctx.operation not in _WITH_MODELS:
        return
    wanted = ctx.request.document.get("model")
    if exchange.response_model is None or exchange.error_type is not None:
        return
    if isinstance(wanted, str) and is_unlisted(wanted, exchange.path, history, ctx.request_headers):
        with ctx.report.on_request():
            ctx.report("models.requested-model-unlisted", "/model", wanted, words=True)


def is_unlisted(wanted: str, path: str, history: History, asking: Headers) -> bool:
    """Whether a model is not in the upstream's last list for the client whose request has these fields."""
    listed = history.listed_models(client_of(asking))
    if listed is None or not wanted or "/deployments/" in path:
        return False  # Azure names deployments in the path, and lists the models below them
    return not _is_listed(wanted, listed)


def _is_listed(wanted: str, listed: frozenset[str]) -> bool:
    """Whether a model is in a list: itself, or as an alias that differs in a version or a prefix."""
    return wanted in listed or _unversioned(wanted) in _names(listed)


@functools.lru_cache(maxsize=16)
def _names(listed: frozenset[str]) -> frozenset[str]:
    """Once a list, which many exchanges are compared with."""
    return frozenset(map(_unversioned, listed))


def _unversioned(model: str) -> str:
    """A model's name without its provider's prefix and the date or tag behind it."""
    return _VERSION.sub("", model.rsplit("/", 1)[-1].lower())
