"""An OpenAI-like server on the real NNRP SDK, whose answers are chosen by the request's model.

What belongs here: what each model does, by the profile. What doesn't: the SDK's server itself (nnrp_sdk.py),
servers that break the profile (tests/proxy/nnrp/scripted.py).

``python -m tests.clients.nnrp_openai CARRIER PROVIDER`` serves until its input ends. Only the end of a
process ends the connections of a native server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.clients import nnrp_sdk as sdk

WORDS: Final = ("Hel", "lo", " wor", "ld")
USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
ARGUMENTS: Final = ('{"city":', '"Paris"}')
CAPABILITIES: Final = {
    "profile": "openai-compatible",
    "schema_version": "openai-compatible/1",
    "compatibility_levels": [1, 2, 3],
    "operations": [
        {"name": name, "streaming": True, "non_streaming": True, "tool_calls": True}
        for name in (
            "chat.completions.create",
            "responses.create",
            "models.list",
            "embeddings.create",
        )
    ],
}
_MODELS: Final = {
    "object": "list",
    "data": [{"id": "m", "object": "model", "created": 1_790_000_000, "owned_by": "test"}],
}
_EMBEDDINGS: Final = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    "model": "m",
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}


class Asked:
    """One operation: what was asked, and ways to answer it."""

    def __init__(self, operation: Any, cancelled: set[int]) -> None:
        body = bytes(operation.submit.tail.body)
        self.envelope: dict[str, Any] = json.loads(body[body.index(b"{") :])
        self._operation, self._cancelled = operation, cancelled
        self._sequence = 0

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = self.envelope["body"]
        return found

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    @property
    def cancelled(self) -> bool:
        return self._operation.operation_id in self._cancelled

    async def event(self, event: Any) -> None:
        self._sequence += 1
        data = sdk.encoded(event)
        meta = sdk.runtime.PartialResultMetadata(
            operation_id=self._operation.operation_id,
            result_sequence=self._sequence,
            object_id=0,
            delta_sequence=self._sequence,
            body_bytes=len(data),
            flags=0,
        )
        await self._operation.send_partial_result(meta, data)

    async def text(self, *words: str) -> None:
        for word in words:
            await self.event({"type": "response.output_text.delta", "index": 0, "delta": word})

    async def usage(self) -> None:
        counts = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
        await self.event({"type": "response.usage", "usage": counts})

    async def completed(self, body: Any) -> None:
        document = sdk.encoded({"type": "response.completed", "body": body})
        await self._operation.send_result(sdk.result_meta(1), sdk.typed(document))

    async def empty(self) -> None:
        await self._operation.send_result(sdk.result_meta(0), b"")

    async def error(self, kind: str, code: str) -> None:
        error = {"type": kind, "code": code, "message": "as it was asked for"}
        document = sdk.encoded({"type": "response.error", "error": error})
        await self._operation.send_result(sdk.result_meta(1, 500), sdk.typed(document))

    async def drop(self, reason: str) -> None:
        runtime = sdk.runtime
        meta = runtime.ResultDropReasonMetadata(
            operation_id=self._operation.operation_id,
            result_sequence=self._sequence + 1,
            drop_reason_code=runtime.ResultDropReasonCode[reason],
            source_role=runtime.RuntimeRole.RUNTIME,
            flags=0,
            diagnostic_bytes=0,
        )
        await self._operation.send_result_drop(meta, b"")


def completion(
    asked: Asked, content: str | None = "".join(WORDS), **message: Any
) -> dict[str, Any]:
    """A chat completion that answers a request."""
    finish = "tool_calls" if "tool_calls" in message else "stop"
    told = {"role": "assistant", "content": content, "refusal": None, **message}
    choice = {"index": 0, "message": told, "logprobs": None, "finish_reason": finish}
    return {
        "id": f"chatcmpl-{asked.envelope['request_id']}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": asked.body["model"],
        "choices": [choice],
        "usage": USAGE,
    }


async def _says(asked: Asked) -> None:
    """Says Hello world, or what the last message says behind ``echo:``."""
    words: tuple[str, ...] = WORDS
    said = asked.body["messages"][-1]["content"]
    if said.startswith("echo:"):
        words = (said.removeprefix("echo:"),)
    if asked.stream:
        await asked.text(*words)
        await asked.usage()
    await asked.completed(completion(asked, "".join(words)))


async def _chunks(asked: Asked) -> None:
    """As ``m``, each event with the chunk that it came from."""
    for word in WORDS:
        chunk = {
            "id": "chatcmpl-theirs",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": asked.body["model"],
            "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}],
            "x_precise": 12345678901234567890123,
        }
        event = {"type": "response.output_text.delta", "index": 0, "delta": word}
        await asked.event({**event, "openai_chunk": chunk})
    await asked.completed(completion(asked))


async def _calls(asked: Asked) -> None:
    """Calls the weather tool."""
    call = {"index": 0, "item_id": "fc_1", "call_id": "call_1"}
    function = {"name": "get_weather", "arguments": "".join(ARGUMENTS)}
    if asked.stream:
        kind = "response.tool_call."
        await asked.event({"type": kind + "started", "name": "get_weather", **call})
        for piece in ARGUMENTS:
            await asked.event({"type": kind + "delta", "arguments_delta": piece, **call})
        await asked.event({"type": kind + "completed", **function, **call})
        await asked.usage()
    calls = [{"id": "call_1", "type": "function", "function": function}]
    await asked.completed(completion(asked, None, tool_calls=calls))


async def _until_cancelled(asked: Asked) -> None:
    """Streams until somebody cancels; then a native server can't send events any more, and drops."""
    number = 0
    while not asked.cancelled:
        number += 1
        with contextlib.suppress(sdk.native.NativeInvalidStateError):
            await asked.text(f"w{number} ")
        await asyncio.sleep(0.002)
    CANCELLED.append(asked.envelope["request_id"])
    await asked.drop("PEER_CANCELLED")


CANCELLED: list[str] = []
"""Request ids of operations that were cancelled while they ran."""
GIVEN: list[dict[str, Any]] = []
"""Envelopes as they came."""


async def _nothing(asked: Asked) -> None:
    """Never answers until it is cancelled."""
    while not asked.cancelled:
        await asyncio.sleep(0.002)
    CANCELLED.append(asked.envelope["request_id"])
    await asked.drop("PEER_CANCELLED")


async def _broken_off(asked: Asked) -> None:
    await asked.text(WORDS[0])
    await asked.error("server_error", "backend_error")


async def _dropped(asked: Asked) -> None:
    await asked.drop("DEADLINE_EXPIRED")


async def _empty(asked: Asked) -> None:
    if asked.stream:
        await asked.text(*WORDS)
        await asked.usage()
    await asked.empty()


MODELS: Final[dict[str, Callable[[Asked], Coroutine[Any, Any, None]]]] = {
    "m": _says,
    "chunks": _chunks,
    "tools": _calls,
    "endless": _until_cancelled,
    "silent": _nothing,
    "broken-off": _broken_off,
    "dropped": _dropped,
    "empty": _empty,
}
ERRORS: Final = {
    "invalid": ("invalid_request_error", "missing_messages"),
    "unknown-model": ("invalid_request_error", "unsupported_model"),
    "auth": ("authentication_error", "invalid_api_key"),
    "rate": ("rate_limit_error", "rate_limit_exceeded"),
    "overload": ("server_error", "overloaded"),
    "late": ("server_error", "timeout"),
    "backend-error": ("server_error", "backend_error"),
}


async def _responses(asked: Asked) -> None:
    if asked.stream:
        await asked.text(*WORDS)
        await asked.usage()
    part = {"type": "output_text", "text": "".join(WORDS), "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    body = asked.body
    await asked.completed(
        {
            "id": f"resp_{asked.envelope['request_id']}",
            "object": "response",
            "created_at": 1_790_000_000,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "model": body["model"],
            "output": [{**message, "content": [part]}],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 4,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 13,
            },
            "user": None,
        }
    )


async def answer(operation: Any, cancelled: set[int]) -> None:
    """What the server does with one operation."""
    asked = Asked(operation, cancelled)
    GIVEN.append(asked.envelope)
    name = asked.envelope["operation"]
    if name == "models.list":
        await asked.completed(_MODELS)
    elif name == "embeddings.create":
        await asked.completed(_EMBEDDINGS)
    elif asked.body["model"] in ERRORS:
        await asked.error(*ERRORS[asked.body["model"]])
    elif name == "responses.create":
        await _responses(asked)
    else:
        await MODELS[asked.body["model"]](asked)


@contextmanager
def serving_process(carrier: str, provider: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server in a process of its own, which may be killed; it listens by the time it is given."""
    command = [sys.executable, "-m", __name__, carrier, provider]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def _main() -> None:
    with sdk.serving(sys.argv[1], sys.argv[2], answer):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    _main()
