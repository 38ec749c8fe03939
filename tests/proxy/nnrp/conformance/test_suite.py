"""Recipes are read as the public suite writes them, and refused where they can't be run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.nnrp.conformance.suite import Expected, SuiteError, load
from teeline.validators.checks.reporter import Reporter
from teeline.validators.model import Exchange
from teeline.validators.nnrp.recipes import check_recipe
from tests.proxy.nnrp.conformance.schemas import RECIPE, validate

OWN = Path(__file__).parents[4] / "proxy" / "nnrp" / "conformance" / "recipes"
HEAD = {"profile": "openai-compatible", "schema_version": "openai-compatible/1"}


def manifest(folder: Path, *recipes: Any, **changes: Any) -> Path:
    names = []
    for n, recipe in enumerate(recipes):
        names.append(f"{n}.json")
        (folder / names[-1]).write_text(json.dumps(recipe), encoding="utf-8")
    at = folder / "manifest.json"
    listed = {**HEAD, "level": 1, "recipe_manifests": names, **changes}
    at.write_text(json.dumps(listed), encoding="utf-8")
    return at


def recipe(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "r",
        **HEAD,
        "operation": "chat.completions.create",
        "parameters": {"MODEL_ID": "example-model", "OTHER": "x"},
        "request": {"body": {"model": "${MODEL_ID}", "n": ["${OTHER}", "a ${OTHER}", "${NONE}"]}},
        "expect": {"events": [{"type": "response.completed"}], "terminal": "success"},
    }
    return {name: value for name, value in (whole | changes).items() if value is not ...}


def test_a_recipe_s_parameters_are_put_into_its_request_as_whole_strings(tmp_path: Path) -> None:
    (loaded,) = load(manifest(tmp_path, recipe()))
    ready = loaded.with_parameters({"OTHER": "y"}, None)
    assert ready.request["body"] == {"model": "example-model", "n": ["y", "a ${OTHER}", "${NONE}"]}


def test_a_model_stands_where_any_will_do_and_a_recipe_s_own_setting_goes_first(
    tmp_path: Path,
) -> None:
    fixed = recipe(id="fixed", parameters={"MODEL_ID": "backend-error", "OTHER": "x"})
    given = {"OTHER": "all", "r/OTHER": "only r"}
    one, two = (r.with_parameters(given, "m") for r in load(manifest(tmp_path, recipe(), fixed)))
    assert one.request["body"]["model"] == "m"
    assert one.request["body"]["n"][0] == "only r"
    assert two.request["body"]["model"] == "backend-error"
    assert two.request["body"]["n"][0] == "all"


def test_what_is_not_said_has_the_suite_s_defaults(tmp_path: Path) -> None:
    events = [{"type": "a"}, {"type": "b", "optional": True}, {"type": "c", "min_count": 3}]
    (loaded,) = load(manifest(tmp_path, recipe(expect={"events": events, "terminal": "success"})))
    assert loaded.events == (
        Expected("a"),
        Expected("b", optional=True, min_count=0),
        Expected("c", min_count=3),
    )
    assert (loaded.status, loaded.required) == ("mandatory", ())


@pytest.mark.parametrize(
    ("parameters", "cancel_after", "copies"),
    [
        ({}, None, 1),
        ({"CANCEL_ON_WIRE_AFTER": "2", "COPIES": "3"}, 2, 3),
        ({"CANCEL_ON_WIRE_AFTER": "soon", "COPIES": "-1"}, None, 1),
        ({"COPIES": "99999"}, None, 1000),
        ({"COPIES": "9" * 5000}, None, 1),
    ],
)
def test_parameters_for_the_runner(
    parameters: dict[str, str], cancel_after: int | None, copies: int, tmp_path: Path
) -> None:
    (loaded,) = load(manifest(tmp_path, recipe(parameters=parameters)))
    assert (loaded.cancel_after, loaded.copies) == (cancel_after, copies)


BROKEN = {
    "no expect": recipe(expect=...),
    "another profile": recipe(profile="other"),
    "no id": recipe(id=...),
    "unknown status": recipe(status="maybe"),
    "an odd status": recipe(status=[]),
    "unknown terminal": recipe(expect={"events": [], "terminal": "maybe"}),
    "hex": recipe(request={"hex": "4e4e5250" * 8}),
    "capabilities": recipe(required_capabilities="api.level1"),
    "parameters": recipe(parameters={"N": 1}),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_recipe_that_can_t_be_run_is_refused(broken: Any, tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"0\.json"):
        load(manifest(tmp_path, broken))


@pytest.mark.parametrize(
    "changes",
    [
        {"profile": "other"},
        {"recipe_manifests": []},
        {"recipe_manifests": [7]},
        {"recipe_manifests": ["../0.json"]},
        {"recipe_manifests": ["/etc/hostname"]},
        {"recipe_manifests": ["0.json", "0.json"]},
        {"recipe_manifests": ["none.json"]},
        {"recipe_manifests": ["0.json"] * 1001},
    ],
)
def test_a_manifest_that_can_t_be_used_is_refused(changes: Any, tmp_path: Path) -> None:
    with pytest.raises(SuiteError):
        load(manifest(tmp_path, recipe(), **changes))


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_file_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(SuiteError, match="no JSON object"):
        load(tmp_path / "m.json")


def test_the_recipes_that_come_along_are_in_the_public_format() -> None:
    files = sorted(path for path in OWN.glob("*.json") if path.name != "manifest.json")
    assert len(load(None)) == len(files) >= 14
    for path in files:
        validate(json.loads(path.read_text(encoding="utf-8")), RECIPE)
        exchange = Exchange()
        check_recipe(Reporter(exchange), path.read_bytes())
        assert exchange.violations == []
