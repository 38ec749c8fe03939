"""The Python recipe does what it says; ``python -m tests.clients.recipes`` runs those of other clients."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.clients.recipes import PAGE, Recipe, RecipeError, judge, recipes, run
from tests.clients.sdk import openai

CLEAN: dict[str, Any] = {
    "operation": "chat",
    "stream": True,
    "status": 200,
    "inspection": "full",
    "verdict": "pass",
    "client_verdict": "pass",
    "violations": [],
}


def test_the_python_recipe_goes_through_serve_as_one_clean_exchange(
    tmp_path: Path, relay: str
) -> None:
    said = run(recipes()["openai-python"], [sys.executable], tmp_path, relay)
    assert said.strip()


def test_the_recipe_names_the_version_that_the_tests_have() -> None:
    assert recipes()["openai-python"].packages == (f"openai=={version('openai')}",)
    assert openai.__version__ == version("openai")


def test_each_recipe_pins_its_packages_and_is_named_in_the_table() -> None:
    """What was run once must be what is run again."""
    found = recipes()
    assert set(found) == {
        *("openai-python", "openai-js", "ai-sdk-chat", "ai-sdk-responses", "langchain"),
    }
    assert all("@" in p[1:] or "==" in p for recipe in found.values() for p in recipe.packages)
    assert "python -m tests.clients.recipes" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "records",
    [
        [],
        [CLEAN, CLEAN],
        [CLEAN | {"operation": "responses"}],
        [CLEAN | {"verdict": "fail"}],
        [CLEAN | {"client_verdict": "warn"}],
        [CLEAN | {"inspection": "partial (body-limit)"}],
    ],
    ids=["bypassed", "twice", "operation", "relay", "client", "partial"],
)
def test_a_recipe_that_serve_saw_otherwise_fails(records: list[dict[str, Any]]) -> None:
    recipe = Recipe("x", "pip", (), "chat", "python", "")
    judge(recipe, [CLEAN])
    with pytest.raises(RecipeError):
        judge(recipe, records)


def test_code_that_fails_is_no_recipe(tmp_path: Path, relay: str) -> None:
    recipe = Recipe("x", "pip", (), "chat", "python", "raise SystemExit(3)")
    with pytest.raises(RecipeError, match="status 3"):
        run(recipe, [sys.executable], tmp_path, relay)
