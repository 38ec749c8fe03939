"""The findings of an exchange do not depend on how its bytes were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.validators.exchanges import (
    byte_by_byte,
    cases,
    examples,
    findings,
    inspect,
    partition,
    whole,
)

EXCHANGES = {**cases(), **dict(examples())}
PARTITIONS = 20


@pytest.mark.parametrize("name", sorted(EXCHANGES))
def test_any_cut_gives_the_same_findings(name: str) -> None:
    document: dict[str, Any] = EXCHANGES[name]
    expected = findings(inspect(document, whole))
    assert findings(inspect(document, byte_by_byte)) == expected
    for seed in range(PARTITIONS):
        assert findings(inspect(document, partition(seed))) == expected, f"partition {seed}"


def test_findings_hold_no_content_of_the_exchange() -> None:
    """Evidence is an allow-list: a marker in every text of an answer shows up in no finding."""
    marker = "Zq9xSecretZq9x"
    for name, document in EXCHANGES.items():
        text = json.dumps(document).replace("Hello", marker).replace("Paris", marker)
        marked = json.loads(text)
        if "body_text" in marked["response"]:
            marked["response"].pop("chunks", None)  # the reads of the body before it was marked
            marked["response"].pop("chunks_base64", None)
        for violation in inspect(marked).violations:
            assert marker not in violation.evidence + violation.message + violation.place.pointer, (
                name
            )
