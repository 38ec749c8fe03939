"""The facts of a request that answers are checked against."""

from __future__ import annotations

import pytest

from teeline.validators.checks.request import facts_of
from teeline.validators.operation import Operation


@pytest.mark.parametrize("operation", list(Operation))
def test_a_stream_member_means_nothing_where_nothing_streams(operation: Operation) -> None:
    streams = operation in (Operation.CHAT, Operation.RESPONSES, Operation.COMPLETIONS)
    assert facts_of({"stream": True}, operation).stream is streams
