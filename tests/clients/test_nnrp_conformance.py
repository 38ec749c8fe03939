"""Recipes against a server on the NNRP SDK, on each carrier: what it does passes, what it doesn't fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.runner import Result, Target, run_case, tapped
from teeline.proxy.nnrp.conformance.suite import Recipe, load
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from tests.clients import nnrp_sdk as sdk
from tests.ports import free_port

RECIPES = {r.id.removeprefix("teeline."): r.with_parameters({}, "clean") for r in load(None)}
_STREAM = RECIPES["chat.stream-order"]
NO_USAGE = replace(
    _STREAM,
    request={
        "body": {"model": "clean", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    },
    events=tuple(event for event in _STREAM.events if event.type != "response.usage"),
)
DECLARED = Capabilities({"chat.completions.create": Declared(True, True, True)}, levels=(1,))


def at(carrier: str, folder: Path) -> tuple[str, Endpoint]:
    """Where the server is for the SDK, and for us."""
    if carrier == "ipc":
        path = str(folder / "nnrp")
        return f"unix://{path}", Endpoint.parse(f"unix:{path}")
    place = f"127.0.0.1:{free_port()}"
    if carrier == "websocket":
        return f"ws://{place}", Endpoint.parse(f"ws://{place}")
    return f"tcp://{place}", Endpoint.parse(f"nnrp://{place}")


async def run(recipe: Recipe, endpoint: Endpoint) -> Result:
    target = Target(endpoint, timeout=10.0)
    async with tapped(target, DECLARED) as tap:
        return await tap.judged(await run_case(recipe, tap.target, DECLARED))


@pytest.mark.parametrize("carrier", ["tcp", "ipc", "websocket"])
def test_a_native_server_passes_what_it_keeps_to(carrier: str, tmp_path: Path) -> None:
    """It tells one piece of text and a completed document, whatever is asked."""
    provider, endpoint = at(carrier, tmp_path)
    with sdk.serving(carrier, provider):
        ordered = asyncio.run(run(RECIPES["chat.stream-order"], endpoint))
        whole = asyncio.run(run(NO_USAGE, endpoint))
        accepted = asyncio.run(run(RECIPES["chat.missing-messages-streaming"], endpoint))
    assert ordered.message == "0 response.usage, at least 1 are due"
    assert [event["type"] for event in ordered.observed.events] == [
        "response.output_text.delta",
        "response.completed",
    ]
    assert (whole.outcome, whole.message) == ("passed", "")
    assert "the end is success, not error" in accepted.message
    assert "nnrp.missing-messages-accepted" in accepted.rules
