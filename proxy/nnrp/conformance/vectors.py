"""Machine-readable vectors: the raw bytes of a connection, and the rules that it breaks.

What belongs here: making them of what people can read, the same bytes each time: conversations.yaml, the
examples of the NNRP rules, and recipes. What doesn't: finding the rules (validators/nnrp); what a vector
expects is declared beside what it is made of, never asked of the inspector.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator, Mapping
from importlib import resources
from typing import Any, Final, NamedTuple

import yaml

from teeline.proxy.nnrp.conformance import suite
from teeline.proxy.nnrp.documents import written
from teeline.validators.fields.nnrp import SCHEMA_VERSION
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Side
from teeline.validators.nnrp.examples import conversation, http_side, is_document
from teeline.validators.rules import register
from teeline.validators.wire import nnrpencode as encode

VERSION: Final = 1
KINDS: Final = ("conversation", "recipe", "rule")
_OPERATION: Final = 1001


class Vector(NamedTuple):
    """One vector. ``value`` is its object without the version and the id."""

    id: str
    value: Mapping[str, Any]

    def line(self) -> str:
        """The vector as a line of JSON."""
        whole = {"v": VERSION, "id": self.id, **self.value}
        return json.dumps(whole, ensure_ascii=True, separators=(",", ":")) + "\n"


def conversations() -> list[Mapping[str, Any]]:
    """The readable conversations, each with ``id``, ``summary`` and the ``rules`` that it breaks."""
    text = resources.files(__package__).joinpath("conversations.yaml").read_text(encoding="utf-8")
    loaded: list[Mapping[str, Any]] = yaml.safe_load(text)
    return loaded


def of_conversations() -> Iterator[Vector]:
    """A vector for each conversation of conversations.yaml."""
    own = {"id", "summary", "rules"}
    for told in conversations():
        example = {name: value for name, value in told.items() if name not in own}
        value = _connection(example, told["rules"])
        yield Vector(f"conversation/{told['id']}", {"summary": told["summary"], **value})


def of_rules() -> Iterator[Vector]:
    """Two vectors for each NNRP rule whose examples are connections: one that breaks it, one that doesn't."""
    for rule in sorted(register().values(), key=lambda rule: rule.id):
        if rule.family != "nnrp":
            continue
        for kind, example in (("bad", rule.bad), ("good", rule.good)):
            if is_document(example) or http_side(example) is not None:
                continue
            broken = [rule.id, *_also(example)] if kind == "bad" else _also(example)
            value = {"summary": rule.summary, **_connection(example, broken)}
            yield Vector(f"rule/{rule.id}/{kind}", value)


def _also(example: Mapping[str, Any]) -> list[str]:
    return list(example.get("also", ()))


def _connection(example: Mapping[str, Any], rules: list[str]) -> dict[str, Any]:
    made = conversation(example)
    sent = [
        {
            "side": "client" if side is Side.REQUEST else "server",
            "at": round(at, 6),
            "bytes": base64.b64encode(data).decode(),
        }
        for side, data, at in made.sent
    ]
    limits = _changed(made.limits)
    capabilities = made.capabilities
    return {
        "carrier": example.get("carrier", "stream"),
        "sent": sent,
        "close": made.close,
        **({"capabilities": capabilities.decode()} if capabilities is not None else {}),
        **({"limits": limits} if limits else {}),
        "rules": sorted(rules),
    }


def _changed(limits: Limits) -> dict[str, Any]:
    """The limits that a vector needs, other than the default ones."""
    names = sorted(limits.__dataclass_fields__)
    both = ((name, getattr(limits, name), getattr(DEFAULT_LIMITS, name)) for name in names)
    return {name: ours for name, ours, default in both if ours != default}


def of_recipes() -> Iterator[Vector]:
    """The submit of each recipe that comes with teeline, and what the recipe expects."""
    for recipe in suite.load(None):
        ready = recipe.with_parameters({}, None)
        envelope = {
            "schema_version": SCHEMA_VERSION,
            "operation": ready.operation,
            **ready.request,
        }
        packet = encode.frame_submit(1, 1, _OPERATION, written(envelope))
        value = {
            "submit": base64.b64encode(packet).decode(),
            "expect": ready.expect,
        }
        yield Vector(f"recipe/{recipe.id}", value)


_MAKERS: Final = dict(zip(KINDS, (of_conversations, of_recipes, of_rules), strict=True))


def generated(kinds: Collection[str] = KINDS) -> Iterator[Vector]:
    """The vectors of these kinds, in an order that does not change."""
    for kind in KINDS:
        if kind in kinds:
            yield from _MAKERS[kind]()
