"""Every recipe passes on the adapter, and fails on an adapter with any one fault that it is there to find."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.conversation import Conversation, ConversationError
from teeline.proxy.nnrp.conformance.declared import differences
from teeline.proxy.nnrp.conformance.runner import (
    MAX_TOLD,
    Result,
    Target,
    asking,
    results_document,
    run_case,
    tapped,
)
from teeline.proxy.nnrp.conformance.suite import Recipe, load
from teeline.proxy.nnrp.discovery import discover
from teeline.proxy.nnrp.observed import Observed
from teeline.proxy.nnrp.serverlimits import ServerLimits
from teeline.proxy.nnrp.serverreply import Reply
from teeline.proxy.nnrp.submit import Submit
from tests.proxy.nnrp.conformance.schemas import RESULTS, validate
from tests.proxy.nnrp.conformance.servers import (
    ALL,
    LEVEL1,
    Deaf,
    Edit,
    Faulty,
    changed,
    declaring,
    faults,
    serving,
    upstream,
)
from tests.proxy.nnrp.peers import Server

RECIPES = [recipe.with_parameters({}, "m") for recipe in load(None)]
OVERLOAD = next(recipe for recipe in RECIPES if recipe.id == "teeline.chat.overload")
FAULTS = [
    (recipe, name, edit)
    for recipe in RECIPES
    if recipe
    is not OVERLOAD  # the server refuses, whatever its service would say: a test of its own
    for name, edit in faults(recipe)
]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def limits(recipe: Recipe) -> ServerLimits:
    return ServerLimits(operations=4 if recipe is OVERLOAD else 64)


def test_every_recipe_passes_and_the_wire_is_clean() -> None:
    """With the tap before the adapter: what it breaks at fail would fail the case, warnings are told."""

    async def work() -> None:
        results = []
        async with upstream() as way:
            for recipe in RECIPES:
                service = Adapter(way, ALL)
                async with (
                    serving(service, limits=limits(recipe)) as target,
                    tapped(target, declaring(ALL)) as tap,
                ):
                    result = await run_case(recipe, tap.target, declaring(ALL))
                    results.append(await tap.judged(result))
        assert [(r.recipe.id, r.outcome, r.message) for r in results] == [
            (recipe.id, "passed", "") for recipe in RECIPES
        ]
        assert {rule for result in results for rule in result.rules} == set()
        validate(results_document("a", results), RESULTS)

    run(work())


@pytest.mark.parametrize(
    ("recipe", "edit"),
    [(recipe, edit) for recipe, _, edit in FAULTS],
    ids=[f"{recipe.id}: {name}" for recipe, name, _ in FAULTS],
)
def test_a_fault_fails_the_recipe_that_is_there_to_find_it(
    recipe: Recipe, edit: Edit | None
) -> None:
    async def work() -> None:
        async with upstream() as way:
            adapter = Adapter(way, ALL)
            service = Faulty(adapter, edit) if edit is not None else Deaf()
            async with serving(service, limits=limits(recipe)) as target:
                result = await run_case(recipe, target, declaring(ALL))
        assert result.outcome == "failed"
        assert result.message
        validate(results_document("a", [result]), RESULTS)

    run(work())


def test_overload_is_met_by_some_and_everyone_has_an_end() -> None:
    async def work() -> None:
        async with upstream() as way:
            async with serving(Adapter(way), limits=ServerLimits(operations=4)) as target:
                assert (await run_case(OVERLOAD, target, declaring(ALL))).outcome == "passed"
            async with serving(Adapter(way)) as target:
                assert (await run_case(OVERLOAD, target, declaring(ALL))).outcome == "failed"

    run(work())


def test_a_recipe_that_wants_what_is_declared_refused_is_skipped() -> None:
    recipe = next(r for r in RECIPES if r.id == "teeline.operation.unknown")
    contradicting = Recipe("x", "responses.create", recipe.request, recipe.expect, recipe.events,
                           recipe.terminal)  # fmt: skip

    async def work() -> None:
        async with upstream() as way, serving(Adapter(way)) as target:
            result = await run_case(contradicting, target, declaring(ALL))
        assert result.outcome == "skipped"
        assert "responses.create" in result.message
        validate(results_document("a", [result]), RESULTS)

    run(work())


def test_a_success_that_was_perhaps_on_its_way_says_nothing_of_a_cancel() -> None:
    recipe = next(r for r in RECIPES if r.id == "teeline.chat.cancel-on-wire")

    async def work() -> None:
        async with serving(Deaf(seconds=0.01)) as target:
            result = await run_case(recipe, target, declaring(ALL))
        assert (result.outcome, result.observed.terminal) == ("skipped", "success")
        assert "before a cancel" in result.message

    run(work())


def test_a_breach_on_the_wire_fails_a_case_that_passed() -> None:
    """A completed body without its object: the recipe looks at the type alone, the tap at all of it."""
    recipe = next(r for r in RECIPES if r.id == "teeline.chat.cancel-by-hint")
    edit = changed("response.output_text.delta", {"delta": "x"})

    def numbers(document: dict[str, Any]) -> dict[str, Any]:
        spoilt = edit(document)
        assert spoilt is not None
        return spoilt | {"delta": 7} if "delta" in spoilt else spoilt

    async def work() -> None:
        async with (
            upstream() as way,
            serving(Faulty(Adapter(way), numbers)) as target,
            tapped(target, declaring(ALL)) as tap,
        ):
            result = await run_case(recipe, tap.target, declaring(ALL))
            assert result.outcome == "passed"
            judged = await tap.judged(result)
        assert judged.outcome == "failed"
        assert judged.rules == ["nnrp.text-delta-not-string"]

    run(work())


def test_what_a_server_does_is_seen_over_nnrp() -> None:
    async def work() -> None:
        async with upstream() as way:
            async with serving(Adapter(way, ALL)) as target:
                seen = await discover(asking(target))
            assert seen.models == ["m"]
            assert differences(declaring(ALL), seen) == []
            assert seen.levels == [1, 2, 3]
            async with serving(Adapter(way, LEVEL1)) as target:
                less = await discover(asking(target), model="m")
            assert {d.operation for d in differences(declaring(ALL), less)} == ALL - LEVEL1

    run(work())


def test_a_result_lists_what_its_schema_takes_and_never_leaves_the_end_out() -> None:
    odd: list[dict[str, Any]] = [{"type": 7}, {}]
    events = [{"type": "response.output_text.delta"}] * (2 * MAX_TOLD)
    observed = Observed([*odd, *events, {"type": "response.completed"}], "success", "RESULT_PUSH")
    document = results_document("a", [Result(RECIPES[0], "passed", observed)])
    validate(document, RESULTS)
    told = document["results"][0]["events"]
    assert (len(told), told[-1]["type"]) == (MAX_TOLD, "response.completed")


def test_a_server_that_never_ends_an_operation_fails_the_case_in_time() -> None:
    class Silent:
        async def serve(self, submit: Submit, reply: Reply) -> None:
            await asyncio.Event().wait()

    async def work() -> None:
        async with serving(Silent()) as target:
            waiting = Target(target.endpoint, timeout=0.05)
            result = await run_case(RECIPES[0], waiting, declaring(ALL))
        assert (result.outcome, result.message.split(";")[0]) == ("failed", "no end came in time")

    run(work())


@pytest.mark.parametrize("says", [b"", b"GARBAGE! GARBAGE!", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_speaks_no_nnrp_is_no_target(says: bytes) -> None:
    async def work() -> None:
        peer = Server(says, reset=not says)
        listening = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(ConversationError):
            await Conversation.open(Endpoint.parse(f"nnrp://127.0.0.1:{port}"))
        listening.close()

    run(work())
