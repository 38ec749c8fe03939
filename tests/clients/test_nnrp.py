"""The NNRP SDK's own server and client through the tap: clean traffic is clean, deviations are named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.opening import open_once
from teeline.validators.model import Exchange, Severity
from teeline.validators.wire.nnrp import (
    Message,
    Splitter,
)
from teeline.validators.wire.nnrplayout import (
    prelude_of,
    result_meta,
    submit_meta,
)
from tests.clients import nnrp_sdk as sdk
from tests.clients.conftest import Start
from tests.clients.peers import Loop, breaches
from tests.ports import free_port
from tests.proxy.nnrp.peers import CAPTURES, Kept, tapping
from tests.validators.wire.test_nnrpencode import everything


@contextmanager
def tapped(loop: Loop, carrier: str, folder: Path) -> Iterator[tuple[str, Kept]]:
    """A native server behind a tap: where the client goes, and what the tap says."""
    if carrier == "ipc":
        upstream, listen = (Address(path=str(folder / name)) for name in ("up", "tap"))
        provider, ours = (f"unix://{address.path}" for address in (upstream, listen))
    else:
        upstream, listen = (Address("127.0.0.1", free_port()) for _ in range(2))
        scheme = "ws" if carrier == "websocket" else "tcp"
        provider, ours = (f"{scheme}://{address}" for address in (upstream, listen))
    kept = Kept()

    async def start() -> Any:
        tap, _ = tapping(upstream, listen, [kept])
        await tap.start()
        return tap

    with sdk.serving(carrier, provider):
        tap = loop.run(start())
        try:
            yield ours, kept
        finally:
            loop.run(asyncio.sleep(0.2))
            loop.run(tap.stop())


def told(kept: Kept) -> list[set[str]]:
    def named(exchange: Exchange) -> set[str]:
        return {
            v.rule.id
            for v in exchange.violations
            if v.rule.family == "nnrp" and v.severity >= Severity.WARN
        }

    return [named(exchange) for exchange in kept.opened_]


CARRIERS = ("tcp", "ipc", "websocket")


@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_the_sdk_sends_by_the_profile_is_clean(
    carrier: str, loop: Loop, tmp_path: Path
) -> None:
    with tapped(loop, carrier, tmp_path) as (provider, kept):
        came = sdk.ask(carrier, provider, ["clean", "empty", "empty-prelude"])
    assert [messages[-1] for messages in came] == ["RESULT_PUSH"] * 3
    assert told(kept) == [set(), set(), set()]


DEVIATIONS = {
    "raw": "nnrp.terminal-raw-json",
    "append": "nnrp.terminal-not-snapshot",
    "two-frames": "nnrp.terminal-extra-frames",
    "count": "nnrp.terminal-metadata-mismatch",
    "profile": "nnrp.terminal-descriptor-profile-bound",
    "utf8": "nnrp.terminal-utf8-invalid",
    "lie": "nnrp.terminal-empty-fields-nonzero",
    "two-events": "nnrp.partial-multiple-events",
    "sse": "nnrp.partial-sse-delimiter",
    "typed-event": "nnrp.partial-typed-envelope",
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_the_native_peers_let_pass_is_named(carrier: str, loop: Loop, tmp_path: Path) -> None:
    sdk.EVENTS = {**sdk.EVENTS, "typed-event": (sdk.typed(sdk.DELTA),)}
    with tapped(loop, carrier, tmp_path) as (provider, kept):
        came = sdk.ask(carrier, provider, list(DEVIATIONS))
    assert all(messages[-1] == "RESULT_PUSH" for messages in came)
    assert len(kept.opened_) == len(DEVIATIONS)
    for rule, found in zip(DEVIATIONS.values(), told(kept), strict=True):
        assert rule in found


ACCEPTED = "nnrp.invalid-submit-accepted"
ANSWERED = "nnrp.malformed-frame-answered-in-profile"


def with_payload(payload: bytes) -> Any:
    return lambda request: replace(request, body=sdk.typed(payload))


def with_count(request: Any) -> Any:
    return replace(request, metadata=replace(request.metadata, payload_frame_count=2))


ENVELOPE = sdk.envelope_of("clean")
SUBMITS: dict[str, tuple[dict[str, Any], str]] = {
    "nnrp.submit-raw-json": ({"change": lambda r: replace(r, body=ENVELOPE)}, ANSWERED),
    "nnrp.submit-utf8-invalid": (
        {"change": with_payload(ENVELOPE.replace(b"Hi", b"\xff"))},
        ACCEPTED,
    ),
    "nnrp.submit-json-trailing": ({"change": with_payload(ENVELOPE + ENVELOPE)}, ACCEPTED),
    "nnrp.submit-metadata-mismatch": ({"change": with_count}, ANSWERED),
    "nnrp.submit-payload-kind-wrong": ({"payload_kind": 2}, ACCEPTED),
    "nnrp.submit-not-snapshot": ({"stream_semantics": 2}, ACCEPTED),
    "nnrp.submit-descriptor-profile-bound": ({"profile_id": 7}, ACCEPTED),
    "nnrp.submit-extra-frames": ({"submits": 2}, ACCEPTED),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("rule", SUBMITS)
def test_submits_that_the_native_server_takes_are_named(
    rule: str, carrier: str, loop: Loop, tmp_path: Path
) -> None:
    changes, consequence = SUBMITS[rule]
    changes = dict(changes)
    for name, kind in (
        ("stream_semantics", sdk.schema.StreamSemantics),
        ("payload_kind", sdk.core.PayloadKind),
    ):
        if name in changes:
            changes[name] = kind(changes[name])
    with tapped(loop, carrier, tmp_path) as (provider, kept):
        sdk.ask(carrier, provider, ["clean"], **changes)
    (found,) = told(kept)
    assert found == {rule, consequence}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_a_native_server_offers_is_shown(carrier: str, loop: Loop, tmp_path: Path) -> None:
    with tapped(loop, carrier, tmp_path) as (provider, kept):
        address = provider.replace("tcp:", "nnrp:").replace("unix://", "unix:")
        address += "/nnrp" if carrier == "websocket" else ""
        opening = loop.run(open_once(address, None, 10.0))
    assert (opening.hello.version, opening.hello.wire_format) == (1, 0)
    assert "structured event" in opening.hello.kinds
    assert opening.session.session and opening.session.most >= opening.session.granted > 0
    assert kept.rules == []


def test_nnrp_on_the_http_data_port_is_inspected_as_nnrp(teeline: Start) -> None:
    """The SDK's WebSocket client through `teeline serve`: the upgrade is one of many requests."""
    port = free_port()
    with sdk.serving("websocket", f"ws://127.0.0.1:{port}"):
        up = teeline(f"http://127.0.0.1:{port}")
        ours = up.base_url.removesuffix("/v1").replace("http:", "ws:")
        came = sdk.ask("websocket", ours, ["clean", "append"])
    assert [messages[-1] for messages in came] == ["RESULT_PUSH"] * 2
    *operations, connection = up.exchanges(3)
    assert [exchange.operation for exchange in operations] == ["chat", "chat"]
    found = [{r for r in breaches(e) if r.startswith("nnrp.")} for e in operations]
    assert found == [set(), {"nnrp.terminal-not-snapshot"}]
    assert (connection.operation, connection.status) == ("connection", 101)
    assert (connection.inspection, breaches(connection)) == ("full", set())


@pytest.mark.parametrize("side", ["c2s", "s2c"])
def test_packets_decode_as_the_sdk_decodes_them(side: str) -> None:
    core = sdk.core
    for packet in Splitter(1 << 24).feed((CAPTURES / f"capture_{side}.bin").read_bytes()):
        data = (CAPTURES / f"capture_{side}.bin").read_bytes()[
            packet.offset : packet.offset + packet.size
        ]
        theirs = core.NnrpPacket.unpack(data)
        header = theirs.header
        assert int(header.msg_type) == packet.type
        assert (header.session_id, header.frame_id) == (packet.session, packet.frame)
        assert (bytes(theirs.metadata), bytes(theirs.body)) == (packet.meta, packet.body)
        if packet.type == Message.FRAME_SUBMIT:
            _same_submit(core, packet.meta, packet.body)
        elif packet.type == Message.RESULT_PUSH:
            known = core.ResultPushMetadata.unpack(packet.meta)
            ours = result_meta(packet.meta)
            assert (known.status_code, known.payload_frame_count) == (ours.status, ours.frames)
            assert int(known.payload_kind_bitmap) == ours.bitmap


def _same_submit(core: Any, meta: bytes, body: bytes) -> None:
    known, ours = core.FrameSubmitMetadata.unpack(meta), submit_meta(meta)
    assert int(known.operation_id) == ours.operation
    assert int(known.payload_kind_bitmap) == ours.bitmap
    view, prelude = core.unpack_body(body), prelude_of(body)
    assert prelude is not None
    assert len(view.typed_payload_descriptor_region) == prelude.descriptors
    assert len(view.typed_payload_frame_region) == prelude.payloads


def test_the_sdk_reads_what_is_built() -> None:
    """Its codec is stricter than its native runtime: it refuses what a field must not hold."""
    core, runtime = sdk.core, sdk.runtime
    readers = {
        Message.CLIENT_HELLO: core.ClientHelloMetadata,
        Message.SERVER_HELLO_ACK: core.ServerHelloAckMetadata,
        Message.SESSION_OPEN: core.SessionOpenMetadata,
        Message.SESSION_CLOSE: runtime.SessionCloseMetadata,
        Message.FRAME_SUBMIT: core.FrameSubmitMetadata,
        Message.PARTIAL_RESULT: runtime.PartialResultMetadata,
        Message.RESULT_PUSH: core.ResultPushMetadata,
        Message.CANCEL: runtime.ControlRequestMetadata,
        Message.ABORT: runtime.ControlRequestMetadata,
        Message.RESULT_DROP_REASON: runtime.ResultDropReasonMetadata,
        Message.RETRY_AFTER: runtime.RetryAfterMetadata,
        Message.ERROR: core.ErrorMetadata,
    }
    read = set()
    for data in everything():
        packet = core.NnrpPacket.unpack(data)
        assert packet.pack() == data
        kind = Message(int(packet.header.msg_type))
        if kind in readers:
            read.add(kind)
            known = readers[kind].unpack(bytes(packet.metadata))
            assert known.pack() == packet.metadata
            if kind == Message.FRAME_SUBMIT:
                core.validate_frame_submit_body(known, packet.body)
            elif kind == Message.RESULT_PUSH and packet.body:
                core.validate_result_push_body(known, packet.body)
    assert read == set(readers)
