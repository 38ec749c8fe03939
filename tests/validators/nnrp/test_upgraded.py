"""A WebSocket on an HTTP port is recognised by the client's first message, and then inspected as NNRP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from teeline.validators.events import Closed, Opened, Output, SchemaCheck, SchemaResult
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp.capabilities import Capabilities, capabilities_of
from teeline.validators.nnrp.examples import Sent, conversation, packets_of
from teeline.validators.nnrp.upgraded import MOST_HELD, UNREAD, UpgradedSocket
from teeline.validators.rules import register
from tests.validators.exchanges import NOW, Cut, byte_by_byte, partition, whole
from tests.validators.nnrp.connections import exchanges, rules
from tests.validators.streams import COMPACT
from tests.validators.wsframes import frame


def frames(example: dict[str, Any]) -> list[Sent]:
    """An example's packets as WebSocket messages, without the handshake."""
    return list(conversation({**example, "carrier": "websocket"}).sent[2:])


class Socket:
    """One connection; ``outputs`` are everything that came to light."""

    def __init__(self, capabilities: Capabilities | None = None) -> None:
        self.connection = Exchange(operation="other")
        self.inspector = UpgradedSocket(self.connection, Exchange, capabilities=capabilities)
        self.outputs: list[Output] = []

    def feed(self, sent: Sequence[Sent], cut: Cut = whole) -> None:
        for side, data, at in sent:
            ours = side is Side.REQUEST
            take = self.inspector.client_bytes if ours else self.inspector.server_bytes
            for piece in cut(data):
                self.outputs += take(piece, NOW + at)

    def end(self, ended: Ended = Ended.COMPLETE) -> list[Exchange]:
        self.outputs += self.inspector.end(ended, NOW + 9)
        return self.operations()

    def operations(self) -> list[Exchange]:
        """The exchanges beside the connection's, each opened and closed once."""
        return exchanges([o for o in self.outputs if o.exchange is not self.connection])

    def found(self) -> set[str]:
        seen = [*self.operations(), self.connection]
        return {v.rule.id for exchange in seen for v in exchange.violations}


def test_what_the_server_declares_is_held_against_its_operations() -> None:
    example: dict[str, Any] = dict(register()["nnrp.envelope-operation-undeclared"].bad)
    declared = capabilities_of(example["capabilities"].encode())
    for capabilities, expected in (
        (declared, {"nnrp.envelope-operation-undeclared"}),
        (None, set()),
    ):
        socket = Socket(capabilities)
        socket.feed(frames(example))
        socket.end()
        assert socket.found() & {"nnrp.envelope-operation-undeclared"} == expected


@pytest.mark.parametrize("cut", [whole, byte_by_byte, partition(3)])
def test_what_is_found_is_what_a_tap_finds(cut: Cut) -> None:
    for rule in (
        "nnrp.text-delta-not-string",
        "nnrp.terminal-not-snapshot",
        "nnrp.submit-utf8-invalid",
    ):
        bad: Any = register()[rule].bad
        socket = Socket()
        socket.feed(frames(bad), cut)
        socket.inspector.client_left()
        socket.end()
        assert socket.found() == rules({**bad, "carrier": "websocket"})
        assert socket.connection.inspection == "full"
        assert socket.connection.operation == "connection"


def test_faults_of_no_operation_are_the_connection_s() -> None:
    socket = Socket()
    socket.feed(frames({"on": "nnrp-stream"}))
    socket.feed([Sent(Side.RESPONSE, frame(b"XXXXXXXX", opcode=2), 5.0)])
    (seen,) = socket.end()
    assert (seen.operation, seen.violations) == ("chat", [])
    assert "nnrp.magic-wrong" in {v.rule.id for v in socket.connection.violations}
    assert socket.connection.inspection == "partial (framing-lost)"
    opened = [o for o in socket.outputs if isinstance(o, Opened | Closed)]
    assert all(output.exchange is not socket.connection for output in opened)


@pytest.mark.parametrize(
    "first",
    [
        frame(b'{"a":1}'),
        frame(b"NN"),
        frame(b"NNRX", opcode=2),
        frame(b"", opcode=8),
        b"\xf2\x04NNRP",
    ],
)
def test_what_begins_otherwise_is_not_read(first: bytes) -> None:
    socket = Socket()
    socket.feed([Sent(Side.REQUEST, first, 0.0), *frames({"on": "nnrp-stream"})])
    assert not socket.inspector.ticks
    assert socket.end() == [] and socket.outputs == []
    assert socket.connection.inspection == UNREAD


def test_a_server_may_speak_first_within_bounds() -> None:
    early = Sent(Side.RESPONSE, frame(b"", opcode=9), 0.0)
    socket = Socket()
    socket.feed([early, *frames({"on": "nnrp-stream"})])
    assert len(socket.end()) == 1
    talkative = Socket()
    talkative.feed([Sent(Side.RESPONSE, b"\x82\x7f" + bytes(8) + bytes(MOST_HELD), 0.0)])
    talkative.feed(frames({"on": "nnrp-stream"}))
    assert talkative.end() == []


def test_a_connection_without_a_word_is_said_to_be_unread() -> None:
    socket = Socket()
    assert socket.end() == []
    assert socket.connection.inspection == UNREAD


def test_who_ends_the_connection_first_is_told_by_close_frames_too() -> None:
    """A server that only answers a close frame has not left anybody without an answer."""
    sent = frames({"on": "nnrp-stream", "remove": ["/4"]})
    for side, rule in (
        (Side.REQUEST, "nnrp.close-instead-of-cancel"),
        (Side.RESPONSE, "nnrp.terminal-missing"),
    ):
        socket = Socket()
        socket.feed([*sent, Sent(side, frame(b"\x03\xe8", opcode=8), 5.0)])
        socket.end()
        assert socket.found() == {rule}


@pytest.mark.parametrize(
    ("ended", "rule"),
    [
        (Ended.COMPLETE, {"nnrp.terminal-missing"}),
        (Ended.UPSTREAM_ABORTED, {"nnrp.transport-loss"}),
        (Ended.SHUTDOWN, set()),
    ],
)
def test_an_operation_without_an_end_says_how_the_connection_ended(
    ended: Ended, rule: set[str]
) -> None:
    socket = Socket()
    socket.feed(frames({"on": "nnrp-stream", "remove": ["/4"]}))
    socket.end(ended)
    assert socket.found() == rule


def test_an_operation_that_ended_is_closed_while_the_connection_goes_on() -> None:
    socket = Socket()
    socket.feed(frames({"on": "nnrp-stream"}))
    assert socket.inspector.ticks
    assert [type(o) for o in socket.inspector.tick(NOW + 60)] == [Closed]


def test_a_packet_beyond_a_mebibyte_is_said_to_be_unread() -> None:
    long = {"on": "nnrp-stream", "set": {"/3/json/delta": f'"{"x" * (1 << 20)}"'}}
    packet = conversation(long).sent[6].data
    head = b"\x82\x7f" + len(packet).to_bytes(8, "big")
    socket = Socket()
    socket.feed([*frames({"on": "nnrp-stream"})[:6], Sent(Side.RESPONSE, head + packet, 1.0)])
    (seen,) = socket.end(Ended.SHUTDOWN)
    assert seen.inspection == "partial (body-limit)"


FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}
STRUCTURED: dict[str, Any] = {
    "on": "nnrp-plain",
    "set": {
        "/1/json/body/response_format": json.dumps(FORMAT),
        "/2/json/body/choices/0/message/content": '"{}"',
    },
}


def test_schema_checks_have_tickets_of_the_connection() -> None:
    """Two operations that each count from one."""
    second = [{**json.loads(COMPACT(p)), "frame": 2} for p in packets_of(STRUCTURED)]
    both = {**STRUCTURED, "insert": {"3": [json.dumps(packet) for packet in second]}}
    socket = Socket()
    socket.feed(frames(both))
    checks = [o for o in socket.outputs if isinstance(o, SchemaCheck)]
    assert [check.ticket for check in checks] == [1, 2]
    socket.outputs += socket.inspector.end(Ended.COMPLETE, NOW + 9)
    assert not any(isinstance(o, Closed) for o in socket.outputs)
    for check, reason in zip(checks, ("timeout", "busy"), strict=True):
        result = SchemaResult(unchecked=reason)
        socket.outputs += socket.inspector.schema_result(check.ticket, result, NOW + 9)
        assert socket.inspector.schema_result(check.ticket, result, NOW + 9) == ()
    told = [exchange.inspection for exchange in exchanges(socket.outputs)]
    assert told == ["partial (schema-timeout)", "partial (schema-busy)"]


def test_results_that_do_not_come_are_given_up() -> None:
    socket = Socket()
    socket.feed(frames(STRUCTURED))
    socket.outputs += socket.inspector.end(Ended.COMPLETE, NOW + 9)
    assert socket.inspector.pending == 1
    socket.outputs += socket.inspector.expire(NOW + 10)
    (seen,) = exchanges(socket.outputs)
    assert (seen.inspection, socket.inspector.pending) == ("partial (schema-timeout)", 0)
