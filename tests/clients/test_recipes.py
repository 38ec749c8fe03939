"""The Python recipe does what it says; ``python -m tests.clients.recipes`` runs those of other clients."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest

from teeline.proxy.demo.relay import filled
from teeline.proxy.demo.scenarios import CLEAN_JSON
from tests.clients.conftest import Start
from tests.clients.peers import breaches
from tests.clients.recipes import PAGE, Recipe, RecipeError, judge, recipes, run
from tests.clients.sdk import openai, saying

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
        *("openai-python", "openai-js", "ai-sdk-chat", "ai-sdk-responses", "langchain", "codex"),
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


def test_an_agent_may_ask_more_than_once_but_not_uncleanly() -> None:
    agent = Recipe("x", "npm", (), "chat", "toml", "")
    judge(agent, [CLEAN, CLEAN])
    for records in ([], [CLEAN, CLEAN | {"verdict": "warn"}]):
        with pytest.raises(RecipeError):
            judge(agent, records)


class _Azure(BaseHTTPRequestHandler):
    """Answers every request with a clean completion, and keeps what was asked."""

    asked: ClassVar[list[tuple[str, str | None]]] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.asked.append((self.path, self.headers["api-key"]))
        self.rfile.read(int(self.headers["Content-Length"]))
        body = filled(CLEAN_JSON, f"chatcmpl-{len(self.asked)}", "deployed").pieces[0]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def azure() -> Iterator[str]:
    _Azure.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Azure) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_both_forms_of_azure_reach_it_as_the_recipe_says(azure: str, teeline: Start) -> None:
    """One upstream without a path; path, query and key arrive as the client sent them."""
    through = teeline(azure)
    endpoint = through.base_url.removesuffix("/v1")
    assert "azure_endpoint=" in PAGE.read_text("utf-8")
    with openai.AzureOpenAI(azure_endpoint=endpoint, api_version="2024-10-21", api_key="k") as sdk:
        sdk.chat.completions.create(model="deployed", messages=saying("Hi"))
    with openai.OpenAI(base_url=f"{endpoint}/openai/v1", api_key="k") as sdk:
        sdk.chat.completions.create(model="deployed", messages=saying("Hi"))
    first = "/openai/deployments/deployed/chat/completions?api-version=2024-10-21"
    assert _Azure.asked == [(first, "k"), ("/openai/v1/chat/completions", None)]
    seen = through.exchanges(2)
    assert [exchange.operation for exchange in seen] == ["chat", "chat"]
    assert [breaches(exchange) for exchange in seen] == [set(), set()]


def test_code_that_fails_is_no_recipe(tmp_path: Path, relay: str) -> None:
    recipe = Recipe("x", "pip", (), "chat", "python", "raise SystemExit(3)")
    with pytest.raises(RecipeError, match="status 3"):
        run(recipe, [sys.executable], tmp_path, relay)
