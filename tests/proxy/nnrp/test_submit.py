"""A server takes the one wire form of a submit, and refuses every other as the profile wants it."""

from __future__ import annotations

import pytest

from teeline.proxy.nnrp.documents import FailedError
from teeline.proxy.nnrp.submit import MalformedError, payload_of
from teeline.validators.model import Side
from teeline.validators.nnrp.examples import conversation
from teeline.validators.rules import register
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import (
    Message,
    Packet,
    Splitter,
)
from teeline.validators.wire.nnrplayout import (
    submit_meta,
)


def submits(data: bytes) -> list[Packet]:
    packets = Splitter(1 << 24).feed(data)
    return [packet for packet in packets if packet.type == Message.FRAME_SUBMIT]


def of_example(rule: str) -> Packet:
    """The submit of a rule's bad example."""
    sent = conversation(register()[rule].bad).sent
    data = b"".join(s.data for s in sent if s.side is Side.REQUEST)
    return submits(data)[0]


def test_the_right_form_gives_its_payload() -> None:
    (packet,) = submits(encode.frame_submit(1, 2, 3, b'{"a":1}'))
    assert payload_of(packet, submit_meta(packet.meta)) == b'{"a":1}'


REFUSED = (
    "nnrp.submit-extra-frames",
    "nnrp.submit-payload-kind-wrong",
    "nnrp.submit-extra-regions",
    "nnrp.submit-descriptor-profile-bound",
    "nnrp.submit-descriptor-schema-bound",
    "nnrp.submit-descriptor-schema-version-bound",
    "nnrp.submit-not-snapshot",
)
MALFORMED = (
    "nnrp.submit-body-empty",
    "nnrp.submit-raw-json",
    "nnrp.submit-prelude-wrong",
    "nnrp.submit-descriptor-region-wrong",
    "nnrp.submit-payload-region-wrong",
    "nnrp.submit-metadata-mismatch",
)


@pytest.mark.parametrize("rule", REFUSED)
def test_another_payload_is_refused_in_the_profile_s_words(rule: str) -> None:
    packet = of_example(rule)
    with pytest.raises(FailedError, match="invalid_frame"):
        payload_of(packet, submit_meta(packet.meta))


@pytest.mark.parametrize("rule", MALFORMED)
def test_a_broken_frame_is_malformed(rule: str) -> None:
    packet = of_example(rule)
    with pytest.raises(MalformedError):
        payload_of(packet, submit_meta(packet.meta))
