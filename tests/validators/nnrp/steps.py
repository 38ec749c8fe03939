"""One operation in the hands of a test: the packets that are told it one by one, and what was found.

What belongs here: making packets of the pieces that a test names. What doesn't: what is promised.
"""

from __future__ import annotations

import json
from typing import Any

from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Exchange, Side
from teeline.validators.nnrp.capabilities import Capabilities, capabilities_of
from teeline.validators.nnrp.connection import Connection
from teeline.validators.nnrp.examples import conversation
from teeline.validators.nnrp.operation import Operation, Trail
from teeline.validators.rules import register
from teeline.validators.wire.nnrp import Splitter
from tests.validators.exchanges import NOW
from tests.validators.nnrp.packets import ENVELOPE

CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1790000000,
    "model": "gpt-4o-mini",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
}


class Steps:
    """A connection with one submitted operation, ``op``. ``at`` is the time of what comes next."""

    def __init__(
        self,
        envelope: Any = None,
        limits: Limits = DEFAULT_LIMITS,
        capabilities: bytes | None = None,
        timed: bool = True,
        submit: dict[str, Any] | None = None,
        **body: Any,
    ) -> None:
        self.limits = limits
        self.declared: Capabilities | None = capabilities_of(capabilities or b"")
        self.timed = timed
        self.at = NOW
        self.trail = Trail(Exchange(), limits, NOW)
        self.operations: list[Operation] = []
        self.connection = Connection(limits, self._open, lambda: self.trail, lambda _: None)
        self._splitters = {side: Splitter(limits.body) for side in Side}
        asked = {**ENVELOPE, "body": {**ENVELOPE["body"], **body}} if envelope is None else envelope
        packet = submit or {"json": asked}
        for sent in conversation(self._example({"c": "FRAME_SUBMIT", **packet}, opening=True)).sent:
            self._feed(sent.side, sent.data)

    def _open(self, at: float) -> Operation:
        op = Operation(Exchange(), self.limits, at, self.declared)
        op.timed = self.timed
        self.operations.append(op)
        return op

    @staticmethod
    def _example(packet: dict[str, Any], *, opening: bool = False) -> dict[str, Any]:
        bare = ["/4", "/3", "/2", "/1"]
        text = json.dumps(packet)
        return {"on": "nnrp-stream", "remove": bare, "insert": {"1": text}, "opening": opening}

    @property
    def op(self) -> Operation:
        return self.operations[0]

    def _feed(self, side: Side, data: bytes) -> None:
        for packet in self._splitters[side].feed(data):
            self.connection.packet(side, packet, self.at)

    def server(self, kind: str, after: float = 0.0, **packet: Any) -> Steps:
        """A packet from the server, so many seconds after the one before."""
        return self._packet(Side.RESPONSE, {"s": kind, **packet}, after)

    def client(self, kind: str, after: float = 0.0, **packet: Any) -> Steps:
        """A packet from the client."""
        return self._packet(Side.REQUEST, {"c": kind, **packet}, after)

    def _packet(self, side: Side, packet: dict[str, Any], after: float) -> Steps:
        self.at += after
        sequence = {"result_sequence": len(self.rules) + int((self.at - NOW) * 1e6) + self._next()}
        if packet.get("s") == "PARTIAL_RESULT":
            packet["meta"] = {**sequence, **packet.get("meta", {})}
        for sent in conversation(self._example(packet)).sent:
            self._feed(side, sent.data)
        return self

    def _next(self) -> int:
        self._count = getattr(self, "_count", 0) + 1
        return self._count

    def event(self, kind: str, after: float = 0.0, **members: Any) -> Steps:
        """A PARTIAL_RESULT with an event of this type, ``response.`` left out."""
        return self.server("PARTIAL_RESULT", after, json={"type": f"response.{kind}", **members})

    def text(self, delta: str, index: Any = 0) -> Steps:
        return self.event("output_text.delta", index=index, delta=delta)

    def tool(self, kind: str, call: Any = "call_1", **members: Any) -> Steps:
        known = {"index": 0, "item_id": "item_1", "call_id": call}
        return self.event(f"tool_call.{kind}", **{**known, **members})

    def ends(self, kind: str = "completed", after: float = 0.0, **document: Any) -> Steps:
        """A RESULT_PUSH with a document; a completed chat where none is given."""
        members = document or ({"body": CHAT} if kind == "completed" else {})
        return self.server("RESULT_PUSH", after, json={"type": f"response.{kind}", **members})

    def error(self, **error: Any) -> Steps:
        return self.ends("error", error={"type": "t", "code": "c", "message": "m", **error})

    @property
    def rules(self) -> dict[str, int]:
        """The NNRP rules that were broken at warn or above, with their counts."""
        seen = [*(op.exchange for op in self.operations), self.trail.exchange]
        return {
            v.rule.id: v.count
            for exchange in seen
            for v in exchange.violations
            if v.rule.family == "nnrp" and v.severity > 1
        }

    @property
    def noted(self) -> set[str]:
        """The NNRP rules of severity info."""
        found = {v.rule.id for op in self.operations for v in op.exchange.violations}
        return {r for r in found if r.startswith("nnrp.") and register()[r].severity == 1}
