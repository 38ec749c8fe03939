"""Two judges of the same answers: what the official types refuse is found, and what they take is no failure.

One member of a valid answer is dropped, nulled or retyped, wherever it lies, known to a table or not.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from teeline.validators.model import Severity
from tests.oracle.judges import fits
from tests.validators.answers import everything, ids
from tests.validators.faults import Path, paths, pattern
from tests.validators.faults_tables import unshared
from tests.validators.generate import Answer
from tests.validators.generate_lists import ListGenerator
from tests.validators.generate_responses import BESIDE, ResponsesGenerator

COUNT = 900
VALUES: tuple[Any, ...] = ("x", 5, True, {"a": 1}, [1], 0.5)
_ITEM = r"(item|(response/)?output/\*)"
UNREAD = {
    "Optional, or an echo: no rule is about its type (P4).": r"(response/)?(access_programs|background|"
    r"completed_at|conversation|image|input_transformations|instructions|max_output_tokens|"
    r"max_tool_calls|moderation|previous_response_id|prompt\w*|reasoning|safety_identifier|"
    r"service_tier|text|tool_usage|top_logprobs|truncation|user|tool_choice|tools/\*)(/.*)?",
    "Not yet: usage and details belong to the last event.": r"response/(usage|incomplete_details).*",
    "A hosted tool's own affair.": _ITEM + r"/(action|operation|error|output|environment)(/.*)?"
    r"|output/\*.*",
    "The id of a call is optional.": _ITEM + "/id",
    "The texts of reasoning are compared; no rule is about their shape.": _ITEM
    + r"/(summary|content)/\*.*|part/(type|text)",
    "The item that is done has it again.": r"annotation/.*",
    "Only their presence is looked at, and that they are as many as tokens.": r".*logprobs(/.*)?",
    "Optional, newer than most answers.": r"(data/\*/)?shutdown_date|.*cache_write_tokens",
    "Padding, and what only the server reads.": r"obfuscation|" + _ITEM + "/encrypted_content",
}
"""Members of an official type that no rule reads, by the reason."""
STRICTER = {
    "The official types take true for 1, and 5 for a timestamp.": {
        "completions.choice-index-type",
        "completions.created-type",
        "embeddings.index-wrong",
        "embeddings.vector-type",
        "models.created-type",
        "respstream.field-missing",
        "respstream.seq-type",
        "responses.created-at-type",
        "usage.details-type",
        "usage.not-integer",
        "usage.responses-counter-missing",
    },
    "What was only begun has no official type; accumulators need it all the same.": {
        "responses.item-field-missing",
        "responses.item-id-missing",
        "responses.item-status-unknown",
        "responses.item-type-missing",
        "responses.message-role-wrong",
        "respstream.item-skeleton-incomplete",
        "respstream.item-id-changes",
    },
    "A finish_reason of null is official on chunks, but for the last one.": {
        "completions.finish-missing"
    },
    "The type of a page fixes no word, that of an embedding no length and no encoding.": {
        "models.object-wrong",
        "embeddings.dimensions-differ",
        "embeddings.format-float-got-base64",
        "embeddings.base64-invalid",
    },
    "No type says that two tellings must agree.": {
        "respstream.args-mismatch",
        "respstream.text-mismatch",
        "respstream.refusal-mismatch",
        "respstream.code-mismatch",
    },
}


class Changed(NamedTuple):
    """An answer with one member changed; ``taken``: the official types still fit."""

    what: str
    before: Answer
    after: Answer
    taken: bool


def changed(answers: Iterator[Answer], seed: int) -> Iterator[Changed]:
    chance = random.Random(seed)
    beside = {event["type"] for event in BESIDE}
    for answer in answers:
        broken = unshared(answer)
        at = chance.randrange(len(broken.events))
        event = broken.events[at]
        if event.get("type") in beside:
            continue
        places: dict[str, list[Path]] = {}
        for path in paths(event):
            places.setdefault(pattern(path), []).append(path)
        where = chance.choice(sorted(places))
        action = _change(event, chance.choice(places[where]), chance)
        if action:
            only = unshared(answer)
            only.events = [event]
            yield Changed(f"{action} {where}", answer, broken, fits(only))


def _change(event: Any, path: Path, chance: random.Random) -> str:
    """Changes a member; how, or nothing where that would be no change."""
    for token in path[:-1]:
        event = event[token]
    name, before = path[-1], event[path[-1]]
    action = chance.choice(("drop", "null", "retype"))
    if action == "drop" and isinstance(name, str):
        del event[name]
        return action
    if action == "retype":
        event[name] = chance.choice([v for v in VALUES if type(v) is not type(before)])
        return action
    event[name] = None
    return "null" if before is not None else ""


def responses(seed: int) -> Iterator[Answer]:
    generator = ResponsesGenerator(seed)
    made = (generator.stream() if n % 3 else generator.document() for n in range(COUNT))
    return (answer for answer in made if answer.method == "POST")


def lists(seed: int) -> Iterator[Answer]:
    generator = ListGenerator(seed)
    return (generator.answer() for _ in range(COUNT))


@pytest.mark.parametrize("answers", [responses, lists], ids=["responses", "lists"])
def test_what_the_official_types_refuse_is_found(answers: Any) -> None:
    silent: Counter[str] = Counter()
    refused = 0
    for change in changed(answers(21), 22):
        if change.taken:
            continue
        refused += 1
        where = change.what.partition(" ")[2]
        if any(re.fullmatch(unread, where, re.DOTALL) for unread in UNREAD.values()):
            continue
        if not everything(change.after.inspected()) - everything(change.before.inspected()):
            silent[change.what] += 1
    assert refused > COUNT / 4
    assert not silent


@pytest.mark.parametrize("answers", [responses, lists], ids=["responses", "lists"])
def test_what_they_take_is_no_failure_but_for_a_reason(answers: Any) -> None:
    meant = set().union(*STRICTER.values())
    for change in changed(answers(23), 24):
        if change.taken:
            failed = ids(change.after.inspected(), Severity.FAIL)
            assert failed <= meant, (change.what, failed - meant)
