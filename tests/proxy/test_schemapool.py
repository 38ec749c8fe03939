"""The pool answers every check, and a check that hangs costs nobody else their answer.

The limits of the tests that hang are short, those of the others are far beyond what any machine
needs: none can fail for being slow.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from teeline.proxy.schemapool import SchemaPool, SchemaPoolError
from teeline.validators.events import SchemaError, SchemaResult

T = TypeVar("T")

LONG = 120.0
ENDLESS = ({"pattern": "^(a+)+$"}, "a" * 60 + "b")
VALID = SchemaResult()


def unchecked(word: str) -> SchemaResult:
    return SchemaResult(unchecked=word)


def with_pool(use: Callable[[SchemaPool], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        async with SchemaPool(**({"timeout": LONG, "quick": LONG} | options)) as pool:
            return await use(pool)

    return asyncio.run(run())


def checked(schema: Any, document: Any, **options: Any) -> SchemaResult:
    return with_pool(lambda pool: pool.check(schema, document), **options)


async def begun(check: Coroutine[Any, Any, SchemaResult]) -> asyncio.Task[SchemaResult]:
    """A check in a started pool that has run up to its first wait: for the answer of a process."""
    task = asyncio.create_task(check)
    await asyncio.sleep(0)
    return task


async def worker_ids() -> set[int]:
    """The workers whose parent we are; other children, of other tests, come and go beside them."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return {int(pid) for pid in children.read_text().split() if _is_worker(pid)}


def _is_worker(pid: str) -> bool:
    try:
        return b"schemaworker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_errors_come_back_with_pointer_and_keyword() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "required": ["b"]}
    result = checked(schema, {"a": 1})
    assert set(result.errors) == {SchemaError("/a", "type"), SchemaError("", "required")}
    assert result.unchecked == ""


def test_a_pool_that_was_not_started_starts_with_its_first_check() -> None:
    async def run() -> SchemaResult:
        pool = SchemaPool(timeout=LONG)
        try:
            return await pool.check(True, 1)
        finally:
            await pool.close()

    assert asyncio.run(run()) == VALID


def test_checks_side_by_side_get_each_their_own_answer() -> None:
    async def use(pool: SchemaPool) -> list[SchemaResult]:
        checks = (pool.check({"const": n % 2}, 1) for n in range(40))
        return await asyncio.gather(*checks)

    results = with_pool(use, workers=2)
    assert [bool(result.errors) for result in results] == [n % 2 != 1 for n in range(40)]


def test_a_check_that_hangs_is_given_up_and_the_next_is_answered() -> None:
    async def use(pool: SchemaPool) -> list[SchemaResult]:
        return [await pool.check(*ENDLESS), await pool.check(True, 1)]

    assert with_pool(use, timeout=0.2, patience=LONG) == [unchecked("timeout"), VALID]


def test_checks_beside_one_that_hangs_are_answered_while_it_still_runs() -> None:
    """The one that hangs has a lane of its own by then: its time never runs out in this test."""

    async def use(pool: SchemaPool) -> tuple[SchemaResult, bool]:
        hanging = await begun(pool.check(*ENDLESS))
        result = await pool.check({"type": "string"}, 1)
        still_running = not hanging.done()
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        return result, still_running

    result, still_running = with_pool(use, quick=2.0)
    assert result.errors == (SchemaError("", "type"),)
    assert still_running


def test_a_check_that_was_cancelled_leaves_no_answer_behind_for_the_next() -> None:
    async def use(pool: SchemaPool) -> SchemaResult:
        cancelled = await begun(pool.check({"const": 1}, 2))
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        return await pool.check(True, 1)

    assert with_pool(use) == VALID


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"enum": ["x" * 3000]}, 1),
        (True, ["x" * 3000]),
        (True, [None, "x" * 3000]),
        pytest.param(True, 10**5000, id="an integer beyond its digits"),
    ],
)
def test_what_is_beyond_its_bound_never_reaches_a_process(schema: Any, document: Any) -> None:
    async def run() -> tuple[SchemaResult, set[int]]:
        before = await worker_ids()
        pool = SchemaPool(max_schema_bytes=2000, max_document_bytes=2000)
        result = await pool.check(schema, document)
        started = await worker_ids() - before
        await pool.close()
        return result, started

    assert asyncio.run(run()) == (unchecked("too-large"), set())


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"type": "integer"}, 2**80),
        ({"type": "number"}, float("inf")),
        ({"const": [None, 1.5]}, [None, 1.5]),
        ({"minLength": 1}, "\ud800"),
        ({"minLength": 2}, "\u00e9\U0001f600"),
    ],
)
def test_values_that_json_libraries_differ_on_arrive_as_they_are(
    schema: Any, document: Any
) -> None:
    assert checked(schema, document) == VALID


def test_deep_nesting_is_too_large_wherever_it_is_noticed() -> None:
    for levels in (65, 300, 100_000):
        nested: Any = 1
        for _ in range(levels):
            nested = [nested]
        assert checked(True, nested) == unchecked("too-large")


def test_a_remote_reference_is_left_alone() -> None:
    """Nothing listens there: the word shows that nobody asked, for a failed fetch has none."""
    schema = {"$ref": "http://127.0.0.1:9/schema.json"}
    assert checked(schema, 1) == unchecked("remote-reference")


def test_a_check_that_eats_memory_ends_within_its_bound() -> None:
    document: list[Any] = [{}] * 6_000_000
    limits = {"memory": 256 * 1024 * 1024, "max_document_bytes": 10**8}
    assert checked(True, document, **limits) == unchecked("memory")


def test_a_process_that_dies_is_replaced() -> None:
    async def use(pool: SchemaPool) -> tuple[SchemaResult, SchemaResult, bool]:
        before = await worker_ids()
        for pid in before:
            os.kill(pid, 9)
        crashed = await pool.check(True, 1)
        again = await pool.check(True, 1)
        return crashed, again, before.isdisjoint(await worker_ids())

    assert with_pool(use) == (unchecked("crashed"), VALID, True)


def test_more_checks_than_may_wait_are_turned_away_at_once() -> None:
    async def use(pool: SchemaPool) -> list[SchemaResult]:
        return await asyncio.gather(*(pool.check(True, n) for n in range(5)))

    results = with_pool(use, max_waiting=2)
    assert results.count(unchecked("busy")) == 2
    assert results.count(VALID) == 3


def test_a_check_waits_for_a_process_no_longer_than_its_patience() -> None:
    async def use(pool: SchemaPool) -> SchemaResult:
        hanging = await begun(pool.check(*ENDLESS))
        result = await pool.check(True, 1)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        return result

    assert with_pool(use, patience=0.01) == unchecked("busy")


def test_close_ends_all_processes_even_one_that_hangs() -> None:
    async def run() -> set[int]:
        before = await worker_ids()
        pool = SchemaPool(timeout=LONG)
        await pool.start()
        hanging = await begun(pool.check(*ENDLESS))
        await pool.close()
        await pool.close()
        await hanging
        return await worker_ids() - before

    assert asyncio.run(run()) == set()


def test_a_closed_pool_checks_nothing() -> None:
    async def run() -> SchemaResult:
        pool = SchemaPool()
        await pool.close()
        return await pool.check(True, 1)

    assert asyncio.run(run()) == unchecked("unavailable")


def test_an_interpreter_that_does_not_start_is_said_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    async def run() -> SchemaResult:
        pool = SchemaPool(timeout=LONG)
        with pytest.raises(SchemaPoolError, match="the process does not start"):
            await pool.start()
        result = await pool.check(True, 1)
        await pool.close()
        return result

    assert asyncio.run(run()) == unchecked("unavailable")


def test_no_variable_of_the_environment_reaches_a_process_but_those_python_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")

    async def use(pool: SchemaPool) -> list[bytes]:
        return [Path(f"/proc/{pid}/environ").read_bytes() for pid in await worker_ids()]

    environments = with_pool(use)
    assert environments
    assert not any(b"OPENAI_API_KEY" in environment for environment in environments)
