"""All checks together: what the protocol allows is not found at fault, and what breaks it is, by name."""

from __future__ import annotations

import random
import sys
from collections import Counter

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from teeline.validators.rules import register
from tests.validators.answers import everything, ids
from tests.validators.documented import CHUNK, DOCUMENT, ENUMS
from tests.validators.exchanges import byte_by_byte, findings, partition
from tests.validators.faults import TRUNCATED, Fault, fault, paths, pattern
from tests.validators.generate import Answer, Generator

VALID = 700
"""Documents, and as many streams."""
BROKEN = 3_000
LEAST = 0.95
"""The share of single faults that must be found by a rule that names them."""


def answers(count: int, seed: int) -> list[Answer]:
    """Documents and streams, one after the other."""
    generator = Generator(seed)
    return [generator.stream() if n % 2 else generator.document() for n in range(count)]


def test_a_valid_answer_is_never_found_at_fault() -> None:
    for answer in answers(2 * VALID, seed=1):
        seen = answer.inspected()
        assert ids(seen) == set(), (answer.request, answer.body())
        assert seen.inspection == "full"


def test_nor_does_it_depend_on_how_it_is_cut() -> None:
    for n, answer in enumerate(answers(60, seed=2)):
        whole = findings(answer.inspected())
        assert findings(answer.inspected(cut=byte_by_byte)) == whole
        assert findings(answer.inspected(cut=partition(n))) == whole


def test_what_is_made_up_is_what_the_official_types_allow() -> None:
    """Another judge of validity than our own. Azure's rows and streamed custom calls are not in them."""
    for answer in answers(300, seed=3):
        for event in answer.events:
            if not answer.streamed:
                ChatCompletion.model_validate(event)
            elif event["id"] and '"custom"' not in str(event).replace("'", '"'):
                ChatCompletionChunk.model_validate(event)


def test_what_is_made_up_has_every_documented_field() -> None:
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for answer in answers(400, seed=4):
        seen[answer.streamed] |= {pattern(p) for event in answer.events for p in paths(event)}
    assert {row.path for row in CHUNK} <= seen[True]
    assert {row.path for row in DOCUMENT} <= seen[False]


def test_the_rules_that_faults_are_expected_to_break_exist() -> None:
    rows = {rule for row in CHUNK + DOCUMENT for rule in (row.absent, row.wrong)} - {""}
    assert rows | TRUNCATED | set().union(*ENUMS.values()) <= set(register())


def broken(count: int, seed: int) -> list[tuple[Answer, Fault]]:
    chance = random.Random(seed)
    return [(answer, fault(answer, chance)) for answer in answers(count, seed)]


def test_a_single_fault_is_found_by_a_rule_that_names_it() -> None:
    """Dropped, renamed, nulled, retyped, reordered, repeated, cut; faults.py says what shows in nothing."""
    missed: Counter[str] = Counter()
    invisible: Counter[str] = Counter()
    tried = 0
    for answer, made in broken(BROKEN, seed=5):
        if not made.rules:
            assert made.invisible, made.what
            invisible[made.invisible] += 1
            continue
        tried += 1
        if not made.rules & everything(answer.inspected(made.body)):
            missed[made.what] += 1
    share = 1 - missed.total() / tried
    report = f"{tried} faults, {share:.2%} found, not found: {dict(missed)}, invisible: {dict(invisible)}"
    sys.stdout.write(report + "\n")
    assert share >= LEAST, report
    assert tried > BROKEN * 0.75, report


QUIET = {"chatstream.no-content", "cross.logprobs-missing", "chatstream.first-choice-not-zero"}
"""What follows all the same where the only text or the only logprobs are gone, or the first choice moved."""


def test_what_breaks_nothing_that_is_documented_is_not_found_at_fault() -> None:
    """A fragment that lost its text is left out: the call that it belonged to may be broken by that."""
    for answer, made in broken(BROKEN // 2, seed=6):
        if not made.rules and not made.invisible.startswith("a fragment less"):
            assert ids(answer.inspected(made.body)) <= QUIET, (made, answer.request)
