"""Documents that end an operation are judged by what their request asked for."""

from __future__ import annotations

import pytest

from tests.validators.nnrp.connections import rules


@pytest.mark.parametrize(
    ("on", "missed"),
    [("nnrp-stream", False), ("nnrp-usage", True), ("nnrp-plain", True)],
)
def test_a_completed_body_has_usage_where_its_request_asks_for_it(on: str, missed: bool) -> None:
    """A stream tells usage only with include_usage, and an adapter can't know what it was not told."""
    end = {"nnrp-stream": 4, "nnrp-usage": 4, "nnrp-plain": 2}[on]
    found = rules({"on": on, "remove": [f"/{end}/json/body/usage"]})
    assert ("usage.missing" in found) is missed
