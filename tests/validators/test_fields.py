"""Answers made from the field tables: what these allow is not at fault, and one thing broken is, by name.

Responses (objects and streams), embeddings, models and legacy completions; chat has test_checks.py.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from teeline.validators.fields.items import ITEMS
from teeline.validators.fields.respevents import EVENTS
from teeline.validators.rules import register
from tests.oracle.judges import judges
from tests.validators import faults_lists, faults_responses
from tests.validators.answers import everything, ids
from tests.validators.exchanges import byte_by_byte, findings, partition
from tests.validators.faults import Fault
from tests.validators.faults_tables import TRUNCATED, of_answer
from tests.validators.generate import Answer
from tests.validators.generate_lists import ListGenerator
from tests.validators.generate_responses import ResponsesGenerator

VALID = 600
BROKEN = 1_200
LEAST = 0.95
"""The share of single faults that must be found by a rule that names them."""


def responses(count: int, seed: int) -> Iterator[Answer]:
    """Objects and streams, two streams for each object."""
    generator = ResponsesGenerator(seed)
    return (generator.stream() if n % 3 else generator.document() for n in range(count))


def lists(count: int, seed: int) -> Iterator[Answer]:
    """Embeddings, models, completions and their streams."""
    generator = ListGenerator(seed)
    return (generator.answer() for _ in range(count))


Made = Callable[[int, int], Iterator[Answer]]
Broken = Callable[[Answer, random.Random], Fault]
FAMILIES: dict[str, tuple[Made, Broken]] = {
    "responses": (responses, faults_responses.fault),
    "lists": (lists, faults_lists.fault),
}
each_family = pytest.mark.parametrize("family", FAMILIES)


# -- what is valid ---------------------------------------------------------------------------------


@each_family
def test_a_valid_answer_is_never_found_at_fault(family: str) -> None:
    make, _ = FAMILIES[family]
    for answer in make(VALID, 1):
        seen = answer.inspected()
        assert ids(seen) == set(), (answer.request, answer.body())
        assert seen.inspection == "full"


@each_family
def test_nor_does_it_depend_on_how_it_is_cut(family: str) -> None:
    make, _ = FAMILIES[family]
    for n, answer in enumerate(make(40, 2)):
        whole = findings(answer.inspected())
        assert findings(answer.inspected(cut=byte_by_byte)) == whole
        assert findings(answer.inspected(cut=partition(n))) == whole


def test_what_is_made_up_is_what_the_official_types_allow() -> None:
    """Another judge of validity than our own tables."""
    for answer in [*responses(250, 3), *lists(150, 3)]:
        for event in answer.events:
            for model, value in judges(answer, event):
                model.model_validate(value)


def test_what_is_made_up_has_every_event_and_item_and_every_member_of_them() -> None:
    seen: set[str] = set()
    for answer in responses(600, 4):
        seen |= {f"{spot.of}.{spot.field.name}" for spot in of_answer(answer)}
        seen |= {str(event.get("type")) for event in answer.events}
    audio = {kind for kind in EVENTS if ".audio" in kind}  # events of no item that there is
    assert EVENTS.keys() - audio <= seen
    assert {f"{kind}.type" for kind in ITEMS} <= seen
    assert {"response.output", "usage.total_tokens", "details.reason", "skeleton.content"} <= seen


# -- what is broken --------------------------------------------------------------------------------


def broken(family: str, count: int, seed: int) -> Iterator[tuple[Answer, Fault]]:
    """Answers with one thing broken in each; of resumed and polled ones too little is known."""
    make, breaks = FAMILIES[family]
    chance = random.Random(seed)
    for answer in make(count, seed):
        if getattr(answer, "method", "POST") == "POST" or family == "lists":
            yield answer, breaks(answer, chance)


@each_family
def test_a_single_fault_is_found_by_a_rule_that_names_it(family: str) -> None:
    """Dropped, renamed, nulled, retyped, reordered, repeated, cut, told differently."""
    missed, unseen = Counter[str](), Counter[str]()
    tried = 0
    for answer, made in broken(family, BROKEN, 5):
        if not made.rules:
            assert made.invisible, made.what
            unseen[made.invisible] += 1
            continue
        tried += 1
        if not made.rules & everything(answer.inspected(made.body)):
            missed[made.what] += 1
    share = 1 - missed.total() / tried
    report = f"{family}: {tried} faults, {share:.2%} found, not found: {dict(missed)}, "
    report += f"breaks nothing that is documented: {dict(unseen)}"
    sys.stdout.write(report + "\n")
    assert share >= LEAST, report
    assert tried > BROKEN * 0.7, report


QUIET = {
    "cross.logprobs-missing",
    "cross.parallel-tool-calls",
    "tools.id-duplicate",
    "tools.args-invalid-json",
    "usage.responses-missing",
}
"""What follows all the same where the only log probabilities, usage, or one call of two is another."""


@each_family
def test_what_breaks_nothing_that_is_documented_is_not_found_at_fault(family: str) -> None:
    for answer, made in broken(family, BROKEN // 2, 6):
        if not made.rules:
            assert ids(answer.inspected(made.body)) <= QUIET, (made, answer.request)


@each_family
def test_the_rules_that_faults_are_expected_to_break_exist(family: str) -> None:
    expected = {rule for _, made in broken(family, BROKEN // 2, 7) for rule in made.rules}
    assert expected | TRUNCATED <= set(register())
    assert len(expected) > 40 or family == "lists"
