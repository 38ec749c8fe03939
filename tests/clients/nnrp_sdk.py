"""A server and a client on the real NNRP SDK, whose answers are chosen by the request's model.

What belongs here: everything that touches the SDK. Its native side blocks, so each of the two has a thread.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance.conversation import Conversation
from tests.clients.peers import missing

try:
    # Imported by name: the SDK is a test's peer only, and type checks must do without it.
    sdk_client: Any = importlib.import_module("nnrp.client")
    core: Any = importlib.import_module("nnrp.core")
    native: Any = importlib.import_module("nnrp.native")
    runtime: Any = importlib.import_module("nnrp.runtime")
    schema: Any = importlib.import_module("nnrp.schema")
    sdk_server: Any = importlib.import_module("nnrp.server")
except ImportError:
    missing("nnrp-py")

ENDPOINT = "nnrp://openai.local"
POLICY = {"tcp": "FORCE_TCP", "ipc": "FORCE_IPC", "websocket": "FORCE_WEBSOCKET"}
_SECONDS = 5.0
_PATIENT = sdk_server.NativeServerAcceptOptions(timeout_ms=3_600_000)
"""Longer than any test: where the wait for a session runs out, the SDK drops one that is being opened."""
Send = Callable[..., Any]


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


DELTA = encoded({"type": "response.output_text.delta", "index": 0, "delta": "Hello"})
COMPLETED = {
    "type": "response.completed",
    "body": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    },
}


def typed(payload: bytes, copies: int = 1, **changes: Any) -> bytes:
    """A body with typed payload frames."""
    options = {"stream_semantics": schema.StreamSemantics.SNAPSHOT, **changes}
    kind = core.PayloadKind.STRUCTURED_EVENT
    frames = tuple(core.build_typed_payload_frame(kind, payload, **options) for _ in range(copies))
    descriptors, payloads = core.pack_typed_payload_frames(frames)
    return bytes(
        core.pack_body(
            typed_payload_descriptor_region=descriptors, typed_payload_frame_region=payloads
        )
    )


def result_meta(frames: int, status: int = 200) -> Any:
    kinds = core.PayloadKind
    return core.ResultPushMetadata(
        status_code=status,
        result_flags=core.ResultFlags.NONE,
        section_count=0,
        tile_count=0,
        active_profile_id=0,
        reserved0=0,
        inference_ms=0,
        queue_ms=0,
        server_total_ms=0,
        reserved1=0,
        tile_base_id=0,
        tile_index_bytes=0,
        result_class=core.ResultClass.COMPLETE,
        payload_kind_bitmap=kinds.STRUCTURED_EVENT if frames else kinds.NONE,
        payload_frame_count=frames,
    )


async def _answer(operation: Any) -> None:
    """Answers one submit by the model that it names."""
    body = bytes(operation.submit.tail.body)
    start = body.index(b"{")
    asked = json.JSONDecoder().raw_decode(body[start:].decode("utf-8", "replace"))[0]
    model = asked["body"]["model"]
    for number, event in enumerate(EVENTS.get(model, (DELTA,)), 1):
        meta = runtime.PartialResultMetadata(
            operation_id=operation.operation_id,
            result_sequence=number,
            object_id=0,
            delta_sequence=number,
            body_bytes=len(event),
            flags=0,
        )
        await operation.send_partial_result(meta, event)
    count, body = RESULTS.get(model, RESULTS["clean"])()
    await operation.send_result(result_meta(count), body)


EVENTS: Mapping[str, tuple[bytes, ...]] = {
    "two-events": (DELTA + DELTA,),
    "sse": (b"data: " + DELTA + b"\n\n",),
    "typed-event": (b"",),
}
RESULTS: Mapping[str, Callable[[], tuple[int, bytes]]] = {
    "clean": lambda: (1, typed(encoded(COMPLETED))),
    "empty": lambda: (0, b""),
    "empty-prelude": lambda: (0, bytes(core.pack_body())),
    "raw": lambda: (1, encoded(COMPLETED)),
    "append": lambda: (
        1,
        typed(encoded(COMPLETED), stream_semantics=schema.StreamSemantics.APPEND),
    ),
    "two-frames": lambda: (2, typed(encoded(COMPLETED), 2)),
    "count": lambda: (2, typed(encoded(COMPLETED))),
    "profile": lambda: (1, typed(encoded(COMPLETED), profile_id=7)),
    "utf8": lambda: (1, typed(encoded(COMPLETED).replace(b"Hello", b"\xff\xfe"))),
    "lie": lambda: (1, b""),
}


Answer = Callable[[Any, set[int]], Coroutine[Any, Any, None]]
"""Answers an operation; the ids of operations that were cancelled are in the set."""


async def _answered(operation: Any, cancelled: set[int]) -> None:
    await _answer(operation)


@contextmanager
def serving(carrier: str, provider: str, answer: Answer = _answered) -> Iterator[str]:
    """A native server on one carrier; its provider endpoint."""
    ready, stop = threading.Event(), threading.Event()
    options = sdk_server.NativeServerBootstrapOptions(
        endpoint=ENDPOINT,
        provider_routes={carrier: sdk_server.NativeServerProviderRoute(provider_endpoint=provider)},
        transport_policy=core.TransportPolicy[POLICY[carrier]],
        session_defaults=sdk_server.NativeServerSessionOptions(),
    )
    serve = _serve(options, ready, stop, answer)
    thread = threading.Thread(target=lambda: asyncio.run(serve), daemon=True)
    thread.start()
    assert ready.wait(_SECONDS)
    try:
        yield provider
    finally:
        stop.set()
        asyncio.run(_last_session(provider, thread))


async def _last_session(provider: str, server: threading.Thread) -> None:
    """The session that a server to be stopped still waits for; one of ours, which may lose its server."""
    conversation = await Conversation.open(Endpoint.parse(provider))
    await asyncio.to_thread(server.join, _SECONDS)
    conversation.abort()
    await conversation.close()
    assert not server.is_alive()


async def _serve(
    options: Any, ready: threading.Event, stop: threading.Event, answer: Answer
) -> None:
    with sdk_server.listen_native_server(options) as server:
        ready.set()
        sessions = []
        while not stop.is_set():
            session = await server.accept(_PATIENT)
            sessions.append(asyncio.create_task(_session(session, stop, answer)))
        await asyncio.gather(*sessions, return_exceptions=True)


async def _session(session: Any, stop: threading.Event, answer: Answer) -> None:
    answers: list[asyncio.Task[None]] = []
    cancelled: set[int] = set()
    while not stop.is_set():
        try:
            events = await asyncio.to_thread(session.poll_events, max_events=8, timeout_ms=2)
        except native.NativeWouldBlockError:
            continue
        for event in events:
            operation = event.as_submit()
            if operation is not None:
                answers.append(asyncio.create_task(answer(operation, cancelled)))
            elif _ends_session(event):
                await asyncio.to_thread(session.close)
                return
            else:
                cancelled |= _cancels(event)
        await asyncio.sleep(0.001)
    for task in answers:
        task.cancel()
    await asyncio.gather(*answers, return_exceptions=True)


def _cancels(event: Any) -> set[int]:
    """The operation that an event cancels."""
    told = event.as_runtime()
    if told is None or told.header.message_type is not core.MessageType.CANCEL:
        return set()
    return {told.metadata.value.operation_id}


def _ends_session(event: Any) -> bool:
    told = event.as_runtime()
    return told is not None and told.header.message_type is core.MessageType.SESSION_CLOSE


def ask(
    carrier: str,
    provider: str,
    models: list[str],
    submits: int = 1,
    change: Callable[[Any], Any] = lambda request: request,
    **frame: Any,
) -> list[list[str]]:
    """Asks once for each model on one session; the messages that came for each.

    ``submits`` payload frames with the fields ``frame`` go into a request; ``change`` makes another of it.
    """
    options = sdk_client.NativeClientOptions(
        endpoint=ENDPOINT,
        provider_routes={carrier: sdk_client.NativeClientProviderRoute(provider_endpoint=provider)},
        transport_policy=core.TransportPolicy[POLICY[carrier]],
    )
    with sdk_client.connect_native_client_connection(options) as connection:
        session = asyncio.run(connection.open_session())
        return [
            _asked(session, number, model, submits, change, frame)
            for number, model in enumerate(models, 1)
        ]


def _asked(
    session: Any,
    number: int,
    model: str,
    submits: int,
    change: Callable[[Any], Any],
    frame: Mapping[str, Any],
) -> list[str]:
    envelope = envelope_of(model)
    fields = {
        "profile_id": 0,
        "payload_kind": core.PayloadKind.STRUCTURED_EVENT,
        "payload": envelope,
        "stream_semantics": schema.StreamSemantics.SNAPSHOT,
        **frame,
    }
    frames = tuple(sdk_client.TypedPayloadInputFrame(**fields) for _ in range(submits))
    identity = sdk_client.SubmitIdentity(1000 + number, number)
    input_ = sdk_client.TypedPayloadSubmitInput(identity, sdk_client.SubmitPolicy(), frames)
    session.submit_operation(change(sdk_client.SubmitRequest.typed_payload(input_)))
    return _until_its_end(session)


def envelope_of(model: str) -> bytes:
    """A request for a streamed chat completion."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    return encoded(
        {
            "schema_version": "openai-compatible/1",
            "operation": "chat.completions.create",
            "body": body,
        }
    )


def _until_its_end(session: Any) -> list[str]:
    came: list[str] = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        for event in session.poll_events(max_events=8, timeout_ms=2):
            header = getattr(event, "header", None)
            if header is not None:
                came.append(header.message_type.name)
        if came and came[-1] in ("RESULT_PUSH", "RESULT_DROP_REASON"):
            return came
        time.sleep(0.001)
    raise AssertionError(f"no end of the operation; what came: {came}")
