"""Responses and NNRP over a WebSocket through the whole proxy: bytes pass as they are, and are checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from teeline.config.model import (
    CaptureConfig,
    Config,
    ListenAddress,
    NnrpConfig,
    RulesConfig,
    UpstreamConfig,
    UpstreamURL,
)
from teeline.proxy import memory
from teeline.proxy.audit.bodies import Keep
from teeline.proxy.audit.export import Export, Source
from teeline.proxy.audit.lookup import Found as Looked
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.capture import Capture, Recording
from teeline.proxy.sinks import Sink
from teeline.validators.events import Found, Opened, SchemaResult
from teeline.validators.exchangefile import loads, replay
from teeline.validators.inspector import Inspector
from teeline.validators.limits import Limits
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp.examples import conversation
from teeline.validators.wsresponses import SocketResponses
from tests.proxy.audit.logs import ORIGIN, entries
from tests.proxy.raw import Recorder, Wire, client, raw_upstream, run, serving
from tests.validators.answers import ids
from tests.validators.respscript import message, numbered, script, streamed
from tests.validators.wsframes import ASKED, asked, frame, told

ASK = (
    b"GET /v1/responses HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Authorization: Bearer k\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n\r\n"
)
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: x\r\n\r\n"
)
CLEAN = script(message("Hello there"))
FAULTY = numbered(e for e in CLEAN if e["type"] != "response.output_item.done")
CLOSE = frame(b"\x03\xe8", opcode=8)


async def passed(
    recorder: Recorder,
    sent: Sequence[bytes],
    answers: Sequence[bytes],
    *,
    switch: bytes = SWITCH,
    rules: RulesConfig | None = None,
    nnrp: NnrpConfig | None = None,
    sinks: Sequence[Sink] = (),
    path: bytes = b"/v1/responses",
    **options: Any,
) -> None:
    """One connection: each side's bytes in pieces of seven, and that they arrive as they are."""
    up, down = b"".join(sent), b"".join(answers)

    async def script_(wire: Wire) -> None:
        await wire.read_head()
        await wire.send(switch)
        assert await wire.read(len(up)) == up
        for n in range(0, len(down), 97):
            await wire.send(down[n : n + 97])
            await asyncio.sleep(0)
        assert await wire.ended() == b""

    async with raw_upstream(script_) as upstream:
        config = Config(
            upstreams=(UpstreamConfig(UpstreamURL.parse(upstream.url), "relay"),),
            listen=ListenAddress("127.0.0.1", 0),
            rules=rules or RulesConfig(),
            nnrp=nnrp or NnrpConfig(),
        )
        async with (
            serving(config, recorder, *sinks, **options) as (_, ports),
            client(ports[0]) as wire,
        ):
            await wire.send(ASK.replace(b"/v1/responses", path))
            assert await wire.read_head() == switch
            for n in range(0, len(up), 7):
                await wire.send(up[n : n + 7])
            assert await wire.read(len(down)) == down
            wire.close()
            await asyncio.gather(*upstream.tasks)


def found(recorder: Recorder) -> set[str]:
    return {o.violation.rule.id for o in recorder.outputs if isinstance(o, Found)}


def test_what_is_found_in_frames_is_what_is_found_in_an_event_stream() -> None:
    recorder = Recorder()
    run(passed(recorder, [asked()], [*map(told, FAULTY), CLOSE]))
    assert found(recorder)
    assert found(recorder) == ids(streamed(FAULTY))
    response, connection = recorder.exchanges
    assert (response.operation, connection.operation) == ("responses", "connection")
    assert (response.ended, connection.ended) == (Ended.COMPLETE, Ended.COMPLETE)
    assert (response.status, connection.status) == (200, 101)
    assert (response.verdict, connection.verdict) == ("fail", "pass")
    assert response.inspection == connection.inspection == "full"
    assert connection.response_bytes == sum(len(told(e)) for e in FAULTY) + len(CLOSE)


def test_each_response_is_an_exchange_of_its_own_below_the_connections() -> None:
    recorder = Recorder()
    clean = [told(event) for event in numbered(CLEAN)]
    other = [frame.replace(b"resp_1", b"resp_2") for frame in clean]
    run(passed(recorder, [asked(), asked()], [*clean, *other]))
    *responses, connection = recorder.exchanges
    assert [exchange.response_id for exchange in responses] == ["resp_1", "resp_2"]
    assert len({exchange.id for exchange in recorder.exchanges}) == 3
    assert {exchange.trace_id for exchange in responses} == {connection.trace_id}
    assert {exchange.parent_span_id for exchange in responses} == {connection.span_id}
    assert {exchange.upstream for exchange in recorder.exchanges} == {"relay"}
    assert found(recorder) == set()


def test_the_policy_holds_for_responses_and_for_the_connection() -> None:
    recorder = Recorder()
    rules = RulesConfig(ignore=("respstream", "sse"))
    run(passed(recorder, [asked()], [*map(told, FAULTY), told(b"{oops")], rules=rules))
    assert found(recorder) == set()
    assert all(not exchange.violations for exchange in recorder.exchanges)


def test_a_response_that_fails_can_be_looked_at_and_checked_again(tmp_path: Path) -> None:
    """Captured, exported as an exchange file, and inspected anew as the HTTP exchange it stands for."""
    capture = Capture(CaptureConfig(when="fail"))
    keep = Keep(1 << 30, 1e9)
    audit = AuditSink(tmp_path, origin=ORIGIN, capture=capture, keep_bodies=keep)
    clean = [told(event) for event in numbered(CLEAN)]
    faulty = [told(event).replace(b"resp_1", b"resp_2") for event in FAULTY]
    recorder = Recorder()
    sent, answers = [asked(), asked()], [*clean, *faulty]
    run(passed(recorder, sent, answers, sinks=[audit], capture=capture))
    records = [entry for entry in entries(tmp_path) if "kind" not in entry]
    assert ["capture" in record for record in records] == [False, True, False]
    captured = records[1]["capture"]
    assert (captured["state"], captured["carrier"]) == ("complete", "websocket")
    line = json.dumps(records[1]).encode()
    (document,) = Export(tmp_path).exchanges([Source(Looked(line, records[1], True), None)])
    exchange = loads(document)
    assert (exchange.request.method, exchange.request.target) == ("POST", "/v1/responses")
    assert json.loads(exchange.request_body or b"") == {
        "model": "gpt-4o-mini",
        "input": "Hi",
        "stream": True,
    }
    again = Exchange(id="again")
    replay(Inspector(again), exchange, 0.0)
    assert ids(again) == found(recorder) == ids(streamed(FAULTY))


def test_a_recording_that_fails_costs_the_bodies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("teeline.proxy.capture.Recording.message", fail)
    recorder = Recorder()
    capture = Capture(CaptureConfig(when="always"))
    run(passed(recorder, [asked()], [*map(told, FAULTY)], capture=capture))
    assert found(recorder) == ids(streamed(FAULTY))
    recording = recorder.exchanges[0].recording
    assert isinstance(recording, Recording) and recording.response.partial


def test_an_answer_is_checked_against_the_schema_that_a_frame_asked_for() -> None:
    class Checker:
        async def check(self, schema: Any, document: Any) -> SchemaResult:
            assert (schema, document) == ({"type": "object"}, {})
            return SchemaResult(unchecked="timeout")

    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    recorder = Recorder()
    sent = asked({**ASKED, "text": {"format": form}})
    answers = [told(event) for event in numbered(script(message("{}")))]
    run(passed(recorder, [sent], answers, checker=Checker()))
    assert recorder.exchanges[0].inspection == "partial (schema-timeout)"
    assert [e.operation for e in recorder.exchanges] == ["responses", "connection"]


def test_what_an_extension_holds_is_passed_and_not_read() -> None:
    recorder = Recorder()
    switch = SWITCH[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    run(passed(recorder, [asked()], [told(b"{oops")], switch=switch))
    (connection,) = recorder.exchanges
    assert connection.inspection == "none (permessage-deflate)"
    assert connection.request_bytes == len(asked())


@pytest.mark.parametrize("step", ["server_bytes", "end"])
def test_an_inspector_that_fails_closes_what_it_has_opened(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise ValueError

    broken: Callable[..., Any] = type("Broken", (SocketResponses,), {step: fails})
    monkeypatch.setattr(memory, "SocketResponses", broken)
    recorder = Recorder()
    run(passed(recorder, [asked()], [told(event) for event in numbered(CLEAN)[:3]]))
    opened = [o.exchange.id for o in recorder.outputs if isinstance(o, Opened)]
    assert sorted(opened) == sorted(exchange.id for exchange in recorder.exchanges)
    assert {e.inspection for e in recorder.exchanges} == {"none (validator-error)"}
    assert all(exchange.ended is not None for exchange in recorder.exchanges)


# -- NNRP ------------------------------------------------------------------------------------------------


def nnrp(side: Side) -> list[bytes]:
    """One side of a clean NNRP connection but for a fault in its second event, in messages."""
    example = {"on": "nnrp-stream", "carrier": "websocket", "set": {"/3/json/delta": "7"}}
    return [s.data for s in conversation(example).sent[2:] if s.side is side]


def test_a_websocket_that_carries_nnrp_is_inspected_as_nnrp() -> None:
    """Wherever it was asked for: its first message tells. Findings go where all others go."""
    recorder = Recorder()
    run(passed(recorder, nnrp(Side.REQUEST), nnrp(Side.RESPONSE), path=b"/nnrp"))
    operation, connection = recorder.exchanges
    # The client doesn't wait for its session either.
    assert found(recorder) == {"nnrp.text-delta-not-string", "nnrp.session-unknown"}
    assert (operation.method, operation.path) == ("NNRP", "chat.completions.create")
    assert (operation.upstream, operation.request_id) == ("relay", "1/1")
    assert operation.parent_span_id == connection.span_id
    assert (connection.operation, connection.status) == ("connection", 101)
    assert operation.inspection == connection.inspection == "full"
    assert (operation.ended, connection.ended) == (Ended.COMPLETE, Ended.COMPLETE)


@pytest.mark.parametrize("name", ["responses.create", "chat.completions.create"])
def test_operations_are_held_against_the_configured_document(tmp_path: Path, name: str) -> None:
    file = tmp_path / "capabilities.json"
    file.write_text(json.dumps({"operations": [{"name": name}]}))
    recorder = Recorder()
    sides = nnrp(Side.REQUEST), nnrp(Side.RESPONSE)
    run(passed(recorder, *sides, path=b"/nnrp", nnrp=NnrpConfig(file)))
    undeclared = name == "responses.create"
    assert ("nnrp.envelope-operation-undeclared" in found(recorder)) is undeclared


def test_a_websocket_that_carries_something_else_is_said_to_be_unread() -> None:
    recorder = Recorder()
    run(passed(recorder, [asked()], [told(b"{oops")], path=b"/chat"))
    (connection,) = recorder.exchanges
    assert (connection.inspection, found(recorder)) == ("none (websocket)", set())


def test_an_operation_is_closed_while_its_websocket_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teeline.proxy.tee._TICK", 0.02)
    recorder = Recorder()

    async def work() -> None:
        up, down = b"".join(nnrp(Side.REQUEST)), b"".join(nnrp(Side.RESPONSE))

        async def script_(wire: Wire) -> None:
            await wire.read_head()
            await wire.send(SWITCH)
            await wire.read(len(up))
            await wire.send(down)
            assert await wire.ended() == b""

        async with raw_upstream(script_) as upstream:
            config = Config(
                upstreams=(UpstreamConfig(UpstreamURL.parse(upstream.url), "relay"),),
                listen=ListenAddress("127.0.0.1", 0),
                limits=Limits(grace=0.01),
            )
            async with serving(config, recorder) as (_, ports), client(ports[0]) as wire:
                await wire.send(ASK.replace(b"/v1/responses", b"/nnrp"))
                await wire.read_head()
                await wire.send(up)
                await wire.read(len(down))
                while not recorder.exchanges:
                    await asyncio.sleep(0.01)
                (operation,) = recorder.exchanges
                assert operation.operation == "chat"
                wire.close()
                await asyncio.gather(*upstream.tasks)

    run(work())
