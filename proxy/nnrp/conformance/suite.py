"""Recipes and the manifest that lists them, read from files and checked before they are run.

What belongs here: the public suite's formats, and the parameters of a recipe. What doesn't: which recipes
are run (plan.py), what is wrong with one (validators/nnrp/recipes.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, NamedTuple

from teeline.validators.checks.reporter import Reporter
from teeline.validators.fields.nnrp import PROFILE, SCHEMA_VERSION, is_count, is_filled
from teeline.validators.model import Exchange, Severity
from teeline.validators.nnrp.recipes import check_recipe
from teeline.validators.wire.json import decode

MAX_FILE: Final = 1024 * 1024
"""Bytes of a manifest or a recipe."""
MAX_RECIPES: Final = 1000
STATUSES: Final = ("mandatory", "optional", "experimental", "deprecated")
CANCEL_PARAMETER: Final = "CANCEL_ON_WIRE_AFTER"
"""A parameter for the runner: after so many events CANCEL goes out."""
COPIES_PARAMETER: Final = "COPIES"
"""A parameter for the runner: so many operations at once."""
MAX_COPIES: Final = 1000
PLACEHOLDER: Final = "example-model"
"""The model that recipes name where any will do."""


class SuiteError(Exception):
    """A manifest or recipe can't be used; the text is one line that says which and why."""


class Expected(NamedTuple):
    """One event that is due. ``fields`` must be in it, objects by their members."""

    type: str
    optional: bool = False
    min_count: int = 1
    fields: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe as its file says it; ``request`` has its parameters not put in yet."""

    id: str
    operation: str
    request: Mapping[str, Any]
    expect: Mapping[str, Any]
    events: tuple[Expected, ...]
    terminal: str
    required: tuple[str, ...] = ()
    status: str = "mandatory"
    parameters: Mapping[str, str] = field(default_factory=dict)

    def with_parameters(self, given: Mapping[str, str], model: str | None) -> Recipe:
        """The recipe with parameters put in. ``given``: ``NAME`` or ``ID/NAME`` -> value.

        ``model`` stands where a recipe's own model is the placeholder.
        """
        chosen = dict(self.parameters)
        if model is not None:
            chosen = {n: model if v == PLACEHOLDER else v for n, v in chosen.items()}
        for name in chosen:
            chosen[name] = given.get(f"{self.id}/{name}", given.get(name, chosen[name]))
        return replace(self, request=_filled(self.request, chosen), parameters=chosen)

    @property
    def cancel_after(self) -> int | None:
        """Events after which the runner cancels; None for never."""
        return self._number(CANCEL_PARAMETER)

    @property
    def copies(self) -> int:
        """How many operations run at once, 1 for most recipes."""
        return min(self._number(COPIES_PARAMETER) or 1, MAX_COPIES)

    def _number(self, name: str) -> int | None:
        text = self.parameters.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _filled(value: Any, parameters: Mapping[str, str]) -> Any:
    """A request with each string that is ``${NAME}`` as a whole replaced."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return parameters.get(value[2:-1], value)
    if isinstance(value, dict):
        return {name: _filled(member, parameters) for name, member in value.items()}
    if isinstance(value, list):
        return [_filled(element, parameters) for element in value]
    return value


def load(manifest: Path | None) -> list[Recipe]:
    """The recipes of a manifest in its order, None for the ones that come along. Raises SuiteError."""
    at = manifest if manifest is not None else own_folder() / "manifest.json"
    listed = _object(at)
    for name, word in (("profile", PROFILE), ("schema_version", SCHEMA_VERSION)):
        if listed.get(name) != word:
            raise SuiteError(f"{at}: {name} is not {word}")
    paths = listed.get("recipe_manifests")
    if not isinstance(paths, list) or not paths or not all(map(is_filled, paths)):
        raise SuiteError(f"{at}: recipe_manifests lists no recipes")
    if len(paths) > MAX_RECIPES:
        raise SuiteError(f"{at}: more than {MAX_RECIPES} recipes")
    folder = at.parent if isinstance(at, Path) else own_folder()
    recipes = [_recipe(_below(folder, path)) for path in paths]
    if len({recipe.id for recipe in recipes}) < len(recipes):
        raise SuiteError(f"{at}: two recipes have one id")
    return recipes


def own_folder() -> Traversable:
    """The folder of the recipes that come with teeline."""
    return resources.files("teeline.proxy.nnrp.conformance.recipes")


def _below(folder: Traversable, path: str) -> Traversable:
    parts = path.split("/")
    if ".." in parts or path.startswith("/"):
        raise SuiteError(f"{path}: outside of the manifest's folder")
    return folder.joinpath(*parts)


def _read(at: Traversable) -> bytes:
    try:
        with at.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise SuiteError(f"{at}: {error.strerror or 'unreadable'}") from None
    if len(data) > MAX_FILE:
        raise SuiteError(f"{at}: larger than {MAX_FILE} bytes")
    return data


def _object(at: Traversable) -> Mapping[str, Any]:
    value = decode(_read(at)).value
    if not isinstance(value, dict):
        raise SuiteError(f"{at}: no JSON object")
    return value


def _recipe(at: Traversable) -> Recipe:
    data = _read(at)
    exchange = Exchange()
    check_recipe(Reporter(exchange), data)
    for violation in exchange.violations:
        rule, pointer = violation.rule, violation.place.pointer
        if rule.severity >= Severity.FAIL or rule.id == "nnrp.recipe-hex-fixture":
            raise SuiteError(f"{at}: {pointer or 'the recipe'}: {rule.summary}")
    # Read by the standard library: what is asked must go out as it was written, integers of any size.
    value = json.loads(data)
    status, required = value.get("status", STATUSES[0]), value.get("required_capabilities", [])
    parameters = value.get("parameters", {})
    if not is_filled(value.get("id")) or status not in STATUSES:
        raise SuiteError(f"{at}: no id, or an unknown status")
    if not isinstance(required, list) or not all(map(is_filled, required)):
        raise SuiteError(f"{at}: required_capabilities is not a list of names")
    if not isinstance(parameters, dict) or not all(isinstance(v, str) for v in parameters.values()):
        raise SuiteError(f"{at}: parameters are not strings")
    expect = value["expect"]
    events = tuple(_expected(event) for event in expect["events"])
    return Recipe(value["id"], value["operation"], value["request"], expect, events,
                  expect["terminal"], tuple(required), status, parameters)  # fmt: skip


def _expected(event: Mapping[str, Any]) -> Expected:
    optional = event.get("optional") is True
    count, fields = event.get("min_count", 0 if optional else 1), event.get("fields", {})
    least = int(count) if is_count(count) else 1
    return Expected(event["type"], optional, least, fields if isinstance(fields, dict) else {})
