"""Operations of all kinds through the bridge, while clients leave and the server drops, breaks, restarts.

    python -m tests.proxy.nnrp.soak 1000 [SEED]

What belongs here: the load, and the judgement of every single answer. What doesn't: what happens in one
case (tests/proxy/nnrp/bridge). Each client must get a proper end: a whole answer with its own text, or an
error that is whole itself. An answer may only be an error where the server gave one or was lost meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from teeline.proxy.nnrp.client import ClientLimits
from teeline.validators.wire import nnrpencode as encode
from teeline.validators.wire.nnrp import Message
from teeline.validators.wire.nnrpcodes import DropReason
from tests.proxy.nnrp.bridge.bridged import Answer, Bridged, bridged
from tests.proxy.nnrp.scripted import Peer, Server, Submit

KINDS: Final = {"plain": 8, "tools": 3, "empty": 3, "drop": 2, "error": 2, "reset": 1, "leave": 3,
                "leave-early": 2, "late": 2}  # fmt: skip
"""What operations do, and how often beside each other."""
AT_ONCE: Final = 20
PATIENCE: Final = 60.0
"""Seconds in which each operation must have its end."""
_USAGE: Final = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
_WEATHER: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@dataclass(slots=True)
class Tally:
    """What became of the operations; ``faults`` are ends that were not proper."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    restarts: int = 0
    cancels: int = 0
    seconds: float = 0.0


# -- the server ----------------------------------------------------------------------------------------


class Answering:
    """Answers by the kind that the request's user names; counts cancels."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def __call__(self, peer: Peer) -> None:
        await peer.opened(in_flight=8)
        while True:
            packet = await peer.packet()
            if packet.type == Message.FRAME_SUBMIT:
                await self._answer(peer, Submit(packet))
            elif packet.type == Message.CANCEL:
                self._tally.cancels += 1
            elif packet.type == Message.SESSION_CLOSE:
                await peer.send(encode.session_close_ack(packet.session, 0))

    async def _answer(self, peer: Peer, submit: Submit) -> None:
        body = submit.envelope["body"]
        kind, stream = body["user"], body.get("stream") is True
        words = body["messages"][0]["content"].split(" ")
        if kind in ("leave-early", "late"):
            return
        if stream:
            for number, word in enumerate(words, 1):
                delta = word if number == len(words) else word + " "
                event = {"type": "response.output_text.delta", "index": 0, "delta": delta}
                await peer.event(submit, number, event)
        if kind in _ENDS:
            await _ENDS[kind](peer, submit, body, len(words) + 1)


async def _plain(peer: Peer, submit: Submit, body: Any, sequence: int) -> None:
    if body.get("stream"):
        await peer.event(submit, sequence, {"type": "response.usage", "usage": _USAGE})
    await peer.result(submit, _completed(submit, body, {"content": body["messages"][0]["content"]}))


async def _tools(peer: Peer, submit: Submit, body: Any, sequence: int) -> None:
    call_id = f"call_{submit.envelope['request_id']}"
    call = {"index": 0, "item_id": "item", "call_id": call_id}
    if body.get("stream"):
        kind = "response.tool_call."
        await peer.event(submit, sequence, {"type": kind + "started", "name": "f", **call})
        done = {"type": kind + "completed", "name": "f", "arguments": '{"a":1}', **call}
        await peer.event(submit, sequence + 1, done)
    function = {"name": "f", "arguments": '{"a":1}'}
    calls = [{"id": call_id, "type": "function", "function": function}]
    message = {"content": body["messages"][0]["content"], "tool_calls": calls}
    await peer.result(submit, _completed(submit, body, message))


def _completed(submit: Submit, body: Any, message: Any) -> dict[str, Any]:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    told = {"role": "assistant", "refusal": None, **message}
    choice = {"index": 0, "message": told, "logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    answer = {"id": f"chatcmpl-{submit.envelope['request_id']}", "object": "chat.completion",
              "created": 1_790_000_000, "model": body["model"], "choices": [choice],
              "usage": usage}  # fmt: skip
    return {"type": "response.completed", "body": answer}


async def _empty(peer: Peer, submit: Submit, body: Any, sequence: int) -> None:
    if not body.get("stream"):
        await _plain(peer, submit, body, sequence)
        return
    await peer.event(submit, sequence, {"type": "response.usage", "usage": _USAGE})
    await peer.result(submit, None)


async def _drop(peer: Peer, submit: Submit, body: Any, sequence: int) -> None:
    named = (submit.session, submit.frame, submit.id, sequence)
    await peer.send(encode.result_drop_reason(*named, DropReason.DEADLINE))


async def _error(peer: Peer, submit: Submit, body: Any, sequence: int) -> None:
    error = {"type": "server_error", "code": "backend_error", "message": "m"}
    await peer.result(submit, {"type": "response.error", "error": error}, 500)


async def _reset(peer: Peer, submit: Submit, body: Any, sequence: int) -> None:
    peer.reset()
    raise ConnectionResetError


_ENDS: Final[dict[str, Callable[[Peer, Submit, Any, int], Awaitable[None]]]] = {
    "plain": _plain,
    "tools": _tools,
    "empty": _empty,
    "drop": _drop,
    "error": _error,
    "reset": _reset,
}


# -- the clients ---------------------------------------------------------------------------------------


class Load:
    """The operations, some at once."""

    def __init__(self, up: Bridged, server: Server, tally: Tally, chance: random.Random) -> None:
        self._up, self._server, self._tally, self._chance = up, server, tally, chance
        # Restarts and resets: what was open meanwhile may be an error.
        self._losses = self._losing = 0

    async def run(self, count: int) -> None:
        numbers = iter(range(count))
        restart_at = {count * n // 6 for n in range(1, 6)}

        async def one_after_another() -> None:
            for number in numbers:
                if number in restart_at:
                    await self._restart()
                await self._operation(number)

        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))

    async def _restart(self) -> None:
        self._tally.restarts += 1
        with self._loss():
            await self._server.restart()

    @contextmanager
    def _loss(self) -> Iterator[None]:
        self._losses += 1
        self._losing += 1
        try:
            yield
        finally:
            self._losing -= 1

    async def _operation(self, number: int) -> None:
        (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
        stream, said = self._chance.random() < 0.6, f"number {number} says hello"
        before, losing = self._losses, self._losing
        try:
            async with asyncio.timeout(PATIENCE):
                if kind.startswith("leave"):
                    await self._left(kind, said)
                    self._tally.ends["left"] += 1
                    return
                if kind == "reset":
                    with self._loss():
                        answer = await self._asked(kind, said, stream)
                else:
                    answer = await self._asked(kind, said, stream)
        except TimeoutError:
            self._tally.faults.append(f"{number} {kind}: no end in {PATIENCE:.0f} s")
            return
        lost = losing > 0 or self._losses != before
        fault = _fault(kind, said, answer, stream=stream, lost=lost)
        if fault:
            self._tally.faults.append(f"{number} {kind} stream={stream}: {fault}")
        self._tally.ends["error" if _is_error(answer) else "answer"] += 1

    async def _asked(self, kind: str, said: str, stream: bool) -> Answer:
        headers = {"X-Timeout-Ms": "50"} if kind == "late" else {}
        return await self._up.ask("/v1/chat/completions", _body(kind, said, stream), headers)

    async def _left(self, kind: str, said: str) -> None:
        """Leaves before there is an answer, or behind its first bytes."""
        url = self._up.url + "/v1/chat/completions"
        data = json.dumps(_body(kind, said, stream=True))
        try:
            async with asyncio.timeout(0.02 if kind == "leave-early" else PATIENCE):
                async with self._up.http.post(url, data=data) as response:
                    await response.content.readany()
                    response.close()
        except (TimeoutError, aiohttp.ClientError):
            return


def _body(kind: str, said: str, stream: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": said}],
        "user": kind,
        "stream": stream,
    }
    return {**body, "tools": [_WEATHER]} if kind == "tools" else body


def _is_error(answer: Answer) -> bool:
    return answer.status != 200 or (b'data: {"error":' in answer.body)


def _fault(kind: str, said: str, answer: Answer, *, stream: bool, lost: bool) -> str:
    """What is wrong with an end; empty for nothing."""
    if answer.cut:
        return "the answer was cut"
    if answer.status != 200:
        told = answer.json.get("error", {})
        if not {"message", "type", "code"} <= told.keys():
            return f"status {answer.status} without an error object"
    elif stream:
        ended = answer.data[-1] == b"[DONE]"
        if ended == _is_error(answer):
            return "neither an end mark nor an error, or both"
        text = "".join(
            choice["delta"].get("content") or ""
            for chunk in answer.chunks
            for choice in chunk.get("choices", ())
        )
        if not (text == said if ended else said.startswith(text)):
            return "another text"
    elif answer.json["choices"][0]["message"]["content"] != said:
        return "another text"
    fails = kind in ("drop", "error", "reset", "late")
    if fails and not _is_error(answer):
        return "an answer where the server gave none"
    if not fails and _is_error(answer) and not lost:
        return f"an error where the server answered: status {answer.status}"
    return ""


async def soak(count: int, seed: int) -> Tally:
    """Runs so many operations; fails where teeline's rules find one of the bridge's two sides unclean."""
    tally = Tally()
    started = time.monotonic()
    # Few sessions, shared: what breaks one takes others along.
    limits = ClientLimits(sessions=6, in_flight=8)
    async with bridged(
        Answering(tally), limits, hints={"x-timeout-ms": "timeout_ms"}, open_requests=2 * AT_ONCE
    ) as (up, server):
        await Load(up, server, tally, random.Random(seed)).run(count)
    tally.seconds = time.monotonic() - started
    return tally


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    tally = asyncio.run(soak(count, seed))
    sys.stdout.write(
        f"{count} operations, seed {seed}, {tally.seconds:.1f} s: "
        f"{', '.join(f'{n} {end}' for end, n in sorted(tally.ends.items()))}; "
        f"{tally.restarts} restarts, {tally.cancels} cancels seen; {len(tally.faults)} faults\n"
    )
    for fault in tally.faults:
        sys.stdout.write(f"  {fault}\n")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
