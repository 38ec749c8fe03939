"""The NNRP SDK's own client at the adapter, on each carrier, with a tap between them that finds nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from teeline.proxy.demo.face import CLEAN_MODEL
from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.server import NnrpServer
from teeline.validators.model import Severity
from teeline.validators.wire.nnrplayout import (
    payload_start,
    prelude_of,
)
from tests.clients import nnrp_sdk as sdk
from tests.clients.peers import Loop
from tests.ports import free_port
from tests.proxy.nnrp.conformance.servers import upstream
from tests.proxy.nnrp.peers import Kept, tapping

CARRIERS = ["tcp", "ipc", "websocket"]
CHAT = "chat.completions.create"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
ENDS = ("RESULT_PUSH", "RESULT_DROP_REASON", "RESULT_DROP", "ERROR")
SECONDS = 10.0
Cancel = Callable[[Any], None]


@asynccontextmanager
async def _adapted(carrier: str, folder: Path, kept: Kept) -> AsyncIterator[str]:
    if carrier == "ipc":
        ours, theirs = (Address(path=str(folder / name)) for name in ("adapter", "tap"))
    else:
        ours, theirs = Address("127.0.0.1", 0), Address("127.0.0.1", free_port())
    async with upstream() as way:
        server = NnrpServer(ours, Adapter(way))
        tap, observers = tapping(await server.start(), theirs, [kept])
        await tap.start()
        scheme = {"ipc": "unix", "websocket": "ws", "tcp": "tcp"}[carrier]
        try:
            yield f"{scheme}://{theirs.path or theirs}"
        finally:
            await server.stop(1.0)
            await tap.stop()
            await observers.settle(1.0)


@contextmanager
def session(carrier: str, provider: str) -> Iterator[Any]:
    """A session of the SDK's native client."""
    routes = {carrier: sdk.sdk_client.NativeClientProviderRoute(provider_endpoint=provider)}
    options = sdk.sdk_client.NativeClientOptions(
        endpoint=sdk.ENDPOINT,
        provider_routes=routes,
        transport_policy=sdk.core.TransportPolicy[sdk.POLICY[carrier]],
    )
    with sdk.sdk_client.connect_native_client_connection(options) as connection:
        yield asyncio.run(connection.open_session())


class Native:
    """Operations of one session, numbered from 1."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._count = 0

    def ask(
        self, operation: str, body: Any, cancel: Cancel | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """What came: message and document. ``cancel`` is called when the second event is there."""
        self._count += 1
        client, core = sdk.sdk_client, sdk.core
        envelope = {
            "schema_version": "openai-compatible/1",
            "operation": operation,
            "body": body,
        }
        frame = client.TypedPayloadInputFrame(
            profile_id=0,
            payload_kind=core.PayloadKind.STRUCTURED_EVENT,
            payload=sdk.encoded(envelope),
            stream_semantics=sdk.schema.StreamSemantics.SNAPSHOT,
        )
        identity = client.SubmitIdentity(1000 + self._count, self._count)
        wanted = client.TypedPayloadSubmitInput(identity, client.SubmitPolicy(), (frame,))
        self._session.submit_operation(client.SubmitRequest.typed_payload(wanted))
        return self._until_its_end(cancel)

    def _until_its_end(self, cancel: Cancel | None) -> list[tuple[str, dict[str, Any]]]:
        came: list[tuple[str, dict[str, Any]]] = []
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for event in self._session.poll_events(max_events=8, timeout_ms=2):
                if getattr(event, "header", None) is None:
                    continue
                came.append((event.header.message_type.name, _document(bytes(event.tail.body))))
                if cancel is not None and len(came) == 2:
                    cancel(self._session)
            if came and came[-1][0] in ENDS:
                return came
            time.sleep(0.001)
        raise AssertionError(f"no end of the operation; what came: {came}")


def _document(body: bytes) -> dict[str, Any]:
    prelude = prelude_of(body)
    text = body[payload_start(prelude) :] if prelude is not None else body
    value: dict[str, Any] = json.loads(text or b"{}")
    return value


def chat(**options: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": options.pop("text", "Hi")}]
    return {"model": CLEAN_MODEL, "messages": messages, **options}


def kinds(came: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [document.get("type", "").removeprefix("response.") for _, document in came]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_native_client_is_served_and_nothing_is_found(
    carrier: str, loop: Loop, tmp_path: Path
) -> None:
    kept = Kept()
    with (
        loop.within(_adapted(carrier, tmp_path, kept)) as provider,
        session(carrier, provider) as opened,
    ):
        native = Native(opened)
        usage = {"include_usage": True}
        streamed = native.ask(CHAT, chat(stream=True, stream_options=usage))
        whole = native.ask(CHAT, chat())
        called = native.ask(CHAT, chat(stream=True, tools=[TOOL]))
        missing = native.ask(CHAT, {"model": CLEAN_MODEL})
        unknown = native.ask("images.generate", {})
        response = native.ask("responses.create", {"model": "m", "input": "Hi", "stream": True})
    text = "".join(d["delta"] for _, d in streamed if d["type"].endswith("output_text.delta"))
    body = streamed[-1][1]["body"]
    assert text == body["choices"][0]["message"]["content"] != ""
    assert kinds(streamed)[-2:] == ["usage", "completed"]
    assert kinds(whole) == ["completed"]
    assert [k for k in kinds(called) if k != "tool_call.delta"] == [
        "tool_call.started",
        "tool_call.completed",
        "completed",
    ]
    assert missing[-1][1]["error"]["code"] == "missing_messages"
    assert unknown[-1][1]["error"]["code"] == "unsupported_operation"
    assert response[-1][1]["body"]["object"] == "response"
    broken = {
        v.rule.id
        for exchange in kept.opened_
        for v in exchange.violations
        if v.severity >= Severity.WARN and v.side.value == "response"
    }
    assert broken == set()


def _cancel(session: Any) -> None:
    meta = sdk.runtime.ControlRequestMetadata(
        operation_id=1001,
        control_sequence=1,
        reason_code=1,
        source_role=sdk.runtime.RuntimeRole.CLIENT,
        flags=0,
        diagnostic_bytes=0,
    )
    session.cancel_operation(meta)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_native_client_s_cancel_is_answered_and_the_session_goes_on(
    carrier: str, loop: Loop, tmp_path: Path
) -> None:
    kept = Kept()
    with (
        loop.within(_adapted(carrier, tmp_path, kept)) as provider,
        session(carrier, provider) as opened,
    ):
        native = Native(opened)
        came = native.ask(CHAT, chat(text="A long story", stream=True), _cancel)
        after = native.ask(CHAT, chat())
    assert came[-1][0] == "RESULT_PUSH"
    assert came[-1][1]["type"] == "response.cancelled"
    assert kinds(after) == ["completed"]
    assert {
        v.rule.id for e in kept.opened_ for v in e.violations if v.severity >= Severity.WARN
    } == set()
