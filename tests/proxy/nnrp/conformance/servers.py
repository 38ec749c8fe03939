"""Adapters with one fault each, for recipes to find, and the way to an engine for them all.

What belongs here: the fault that a recipe must find, made from what the recipe expects. By hand, with the
recipes of any suite: ``python -m tests.proxy.nnrp.conformance.servers MANIFEST``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.adapter.upstream import Upstream, UpstreamOptions
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.runner import Target, run_case
from teeline.proxy.nnrp.conformance.suite import Recipe, load
from teeline.proxy.nnrp.documents import Problem, written
from teeline.proxy.nnrp.server import NnrpServer
from teeline.proxy.nnrp.serverreply import Reply, Service
from teeline.proxy.nnrp.submit import Submit
from teeline.validators.fields.nnrp import COMPLETED, ERROR, OPERATIONS, TERMINALS
from teeline.validators.nnrp.capabilities import Capabilities, Declared
from tests.proxy.nnrp.adapter.engine import engine

LEVEL1 = frozenset({"chat.completions.create"})
ALL = frozenset(OPERATIONS)


def declaring(operations: frozenset[str]) -> Capabilities:
    """A server of these operations, each in every mode that it may have."""
    every, whole = Declared(True, True, True), Declared(False, True, False)
    texts = ("chat.completions.create", "responses.create")
    modes = {name: every if name in texts else whole for name in OPERATIONS if name in operations}
    return Capabilities(modes, levels=(1, 2, 3))


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    """The way to an engine."""
    async with engine() as url, Upstream(UpstreamOptions(url)) as way:
        yield way


@asynccontextmanager
async def serving(service: Service, **options: Any) -> AsyncIterator[Target]:
    """A server with such a service, as the runner sees it."""
    server = NnrpServer(Address("127.0.0.1", 0), service, **options)
    try:
        yield Target(Endpoint(await server.start()), timeout=20.0)
    finally:
        await server.stop()


# -- faults ------------------------------------------------------------------------------------------

Edit = Callable[[dict[str, Any]], dict[str, Any] | None]


class _Edited(Reply):
    """An answer each document of which passes through an edit; None takes it away."""

    def __init__(self, reply: Reply, edit: Edit) -> None:
        self._reply, self._edit = reply, edit

    async def event(self, event: bytes) -> None:
        changed = self._edit(json.loads(event))
        if changed is not None:
            await self._reply.event(written(changed))

    async def complete(self, document: bytes) -> None:
        self.end(document, 200)

    def end(self, document: bytes | None, status: int) -> None:
        changed = self._edit(json.loads(document or b"{}"))
        self._reply.end(written(changed) if changed is not None else None, status)

    def fail(self, problem: Problem) -> None:
        self.end(problem.document, problem.status)


class Faulty:
    """An adapter whose answers are edited."""

    def __init__(self, adapter: Adapter, edit: Edit) -> None:
        self._adapter, self._edit = adapter, edit

    async def serve(self, submit: Submit, reply: Reply) -> None:
        await self._adapter.serve(submit, _Edited(reply, self._edit))


class Deaf:
    """A server that hears no cancel, of neither kind, and succeeds in its own time.

    ``seconds`` is longer than what passes as a success that was on its way.
    """

    def __init__(self, seconds: float = 1.2) -> None:
        self._pause = seconds / 12

    async def serve(self, submit: Submit, reply: Reply) -> None:
        task = asyncio.ensure_future(self._answer(reply))
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                continue

    async def _answer(self, reply: Reply) -> None:
        for _ in range(12):
            await reply.event(b'{"type":"response.output_text.delta","index":0,"delta":"on "}')
            await asyncio.sleep(self._pause)
        reply.end(None, 200)


def without(kind: str) -> Edit:
    """Events of a type never come; where it is the end's, the end is an empty success."""
    return lambda document: None if document.get("type") == kind else document


def changed(kind: str, fields: Mapping[str, Any]) -> Edit:
    """Fields of a type hold something else."""

    def edit(document: dict[str, Any]) -> dict[str, Any]:
        return _spoilt(document, fields) if document.get("type") == kind else document

    return edit


def _spoilt(value: Any, fields: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    spoilt = dict(value)
    for name, member in fields.items():
        inner = isinstance(member, dict)
        spoilt[name] = _spoilt(value.get(name), member) if inner else "something else"
    return spoilt


def other_end(document: dict[str, Any]) -> dict[str, Any]:
    """Operations that should succeed fail, and the other way round."""
    if document.get("type") not in TERMINALS:
        return document
    if document["type"] == COMPLETED:
        error = {"type": "server_error", "code": "backend_error", "message": "Failed."}
        return {"type": ERROR, "error": error}
    return {"type": COMPLETED, "body": {}}


def faults(recipe: Recipe) -> Iterator[tuple[str, Edit | None]]:
    """The faults that a recipe must find, each by its name; None: a server that is deaf to cancels."""
    for expected in recipe.events:
        if expected.min_count:
            yield f"no {expected.type}", without(expected.type)
        if expected.fields:
            yield f"another {expected.type}", changed(expected.type, expected.fields)
    if recipe.terminal == "cancelled":
        yield "no cancelling", None
    else:
        yield "another end", other_end


# -- by hand -----------------------------------------------------------------------------------------


async def main(manifest: Path) -> int:
    """Each recipe on the adapter, and on adapters with the faults that it must find."""
    recipes = [recipe.with_parameters({}, None) for recipe in load(manifest)]
    wrong = 0
    async with upstream() as way:
        adapter = Adapter(way, LEVEL1)
        for recipe in recipes:
            async with serving(adapter) as target:
                right = await run_case(recipe, target, declaring(LEVEL1))
            wrong += right.outcome != "passed"
            sys.stdout.write(f"{right.outcome}  {recipe.id}  {right.message}\n")
            for name, edit in faults(recipe):
                service = Faulty(adapter, edit) if edit is not None else Deaf()
                async with serving(service) as target:
                    result = await run_case(recipe, target, declaring(LEVEL1))
                wrong += result.outcome != "failed"
                sys.stdout.write(f"  with {name}: {result.outcome}: {result.message}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
