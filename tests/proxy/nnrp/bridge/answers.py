"""Answers that NNRP servers of these tests give, right ones all of them.

What belongs here: documents, and servers that answer each submit alike. What doesn't: servers that break
the profile (the tests), the connection itself (scripted.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import Message
from tests.proxy.nnrp.bridge.bridged import Answer, bridged
from tests.proxy.nnrp.scripted import Peer, Script, Submit
from tests.proxy.raw import run

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_790_000_000,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}
COMPLETED = {"type": "response.completed", "body": COMPLETION}
RESPONSE = {
    "id": "resp_theirs",
    "object": "response",
    "created_at": 1_790_000_000,
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "model": "m",
    "output": [
        {
            "id": "msg_theirs",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
            ],
        }
    ],
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
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    },
    "user": None,
}


def text(delta: str, **more: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "index": 0, "delta": delta, **more}


def answering(answer: Callable[[Peer, Submit], Awaitable[None]]) -> Script:
    """A server that answers each submit so, one after the other, and cancels it where it is told to."""

    async def script(peer: Peer) -> None:
        await peer.opened(in_flight=50)
        while True:
            packet = await peer.packet()
            if packet.type == Message.FRAME_SUBMIT:
                await answer(peer, Submit(packet))
            elif packet.type == Message.SESSION_CLOSE:
                await peer.send(encode.session_close_ack(packet.session, 0))

    return script


async def hello(peer: Peer, submit: Submit) -> None:
    """Says Hello as it was asked to."""
    if submit.envelope["body"].get("stream"):
        for sequence, delta in enumerate(("Hel", "lo"), 1):
            await peer.event(submit, sequence, text(delta))
        counts = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        await peer.event(submit, 3, {"type": "response.usage", "usage": counts})
    responses = submit.envelope["operation"] == "responses.create"
    body = RESPONSE if responses else COMPLETION
    await peer.result(submit, {"type": "response.completed", "body": body})


def asked(answer: Callable[[Peer, Submit], Awaitable[None]], /, **body: Any) -> Answer:
    """What a chat request gets from a server that answers so."""

    async def test() -> Answer:
        async with bridged(answering(answer)) as (up, _):
            return await up.chat(**body)

    return run(test())
