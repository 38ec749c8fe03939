"""Two directions without times are put into an order that can have happened, every byte once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teeline.validators.model import Side
from teeline.validators.nnrp.examples import conversation, is_document
from teeline.validators.nnrp.order import interleaved
from teeline.validators.rules import register
from teeline.validators.wire.nnrp import Message, Splitter

RULES = [r for r in register().values() if r.family == "nnrp" and not is_document(r.bad)]
KEEP = 1 << 20


def sides(example: Any) -> tuple[bytes, bytes]:
    sent = conversation(example).sent
    client, server = (b"".join(s.data for s in sent if s.side is side) for side in Side)
    return client, server


def order(example: Any) -> list[Message]:
    splitters = {side: Splitter(KEEP) for side in Side}
    return [
        Message(packet.type)
        for side, data in interleaved(*sides(example), KEEP)
        for packet in splitters[side].feed(data)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_byte_comes_once_in_its_side_s_order(rule: Any) -> None:
    client, server = sides(rule.bad)
    pieces = list(interleaved(client, server, KEEP))
    assert b"".join(data for side, data in pieces if side is Side.REQUEST) == client
    assert b"".join(data for side, data in pieces if side is Side.RESPONSE) == server


def test_an_answer_comes_behind_what_it_answers() -> None:
    found = order({"on": "nnrp-stream"})
    assert found.index(Message.SESSION_OPEN) < found.index(Message.SESSION_OPEN_ACK)
    assert found.index(Message.FRAME_SUBMIT) < found.index(Message.PARTIAL_RESULT)


def test_a_drop_for_a_cancel_comes_behind_the_cancel() -> None:
    again = json.dumps({"c": "FRAME_SUBMIT", "frame": 2, "json": {}})
    found = order({"on": "nnrp-cancel", "insert": {"5": again}})
    assert found.index(Message.CANCEL) < found.index(Message.RESULT_DROP_REASON)
