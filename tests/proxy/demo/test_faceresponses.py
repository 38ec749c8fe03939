"""The clean face keeps to the protocol whatever is asked of responses and embeddings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.proxy.demo import faceresponses
from tests.proxy.demo.test_face import TOOL, found

FLAT = {"type": "function", **TOOL["function"]}  # type: ignore[dict-item]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"instructions": "Be kind.", "metadata": {"a": "b"}},
        {"max_output_tokens": 1},
        {"tools": [FLAT]},
        {"tools": [FLAT], "tool_choice": {"type": "function", "name": "f"}},
        {
            "tools": [FLAT],
            "input": [{"type": "function_call_output", "call_id": "c", "output": "7"}],
        },
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "s",
                    "strict": True,
                    "schema": FLAT["parameters"],
                }
            }
        },
    ],
    ids=lambda o: "-".join(map(str, o)) or "plain",
)
def test_responses_are_clean(options: dict[str, Any], stream: bool) -> None:
    asked = {"model": "clean", "input": "Hello", **options} | ({"stream": True} if stream else {})
    assert found("/responses", asked, faceresponses.responses(asked)) == set()


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings_are_clean(form: str) -> None:
    asked = {"model": "e", "input": ["a", "b"], "encoding_format": form}
    answer = faceresponses.embeddings(asked)
    assert found("/embeddings", asked, answer) == set()
    assert len(json.loads(answer.pieces[0])["data"]) == 2
