"""Hostile and accidental variants of exchanges, the same ones for the same seed."""

from __future__ import annotations

import base64
import copy
import json
import random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3.5, 1e308, 2**63, 2**70, "", "x", "[DONE]",
    "\ud83d", "\x00\x1b[31m", "é" * 40,
    [], {}, [[]], [None], [1, "a", {}], {"a": {"b": [1]}}, {"type": []}, {"index": {}}, [[[[[[]]]]]],
    "a" * 5000, {str(n): n for n in range(50)}, [{"index": n} for n in range(40)],
)  # fmt: skip
ODD_KEYS = (
    "index",
    "id",
    "delta",
    "message",
    "error",
    "choices",
    "type",
    "usage",
    "tool_calls",
    "output",
    "content",
    "status",
    "data",
    "embedding",
    "text",
    "object",
    "finish_reason",
    "role",
    "tools",
    "tool_choice",
    "strict",
    "stream",
    "response",
    "item",
    "item_id",
    "part",
    "output_index",
    "content_index",
    "summary_index",
    "sequence_number",
    "arguments",
    "call_id",
    "",
    "a/b~c",
    "\ud800",
)
ODD_BYTES = (
    b"\n", b"\r", b"\r\n", b"\n\n", b"data:", b"data: ", b":", b"event: error\n", b"[DONE]",
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"{", b"}", b"[", b'"', b"\\ud83d", b"NaN", b"1e999",
    b"<html>", b"error: {", b"id: 1\n", b"retry: x\n", b"\xe2\x80\xa8",
)  # fmt: skip

REQUEST_HEADERS: tuple[list[list[str]], ...] = (
    [],
    [["content-type", ""], ["authorization", ""]],
    [["Content-Type", "text/plain"], ["content-type", "application/json"], ["cookie", "\xff"]],
    [["content-encoding", "gzip"], ["api-key", "x"]],
    [["content-encoding", "rot13"], ["idempotency-key", "x"]],
)
ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/completions",
    "/openai/deployments/d/chat/completions?api-version=1&key=x",
    "/v1/responses/resp_1",
)


class Mutator:
    """Makes variants of exchange files: in their JSON values, in their bytes, in their heads."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def variant(self, document: dict[str, Any]) -> dict[str, Any]:
        """One variant; the original is not touched."""
        chance = self._chance
        changed = copy.deepcopy(document)
        response = changed["response"]
        body = self.body(document)
        for _ in range(chance.choice((1, 1, 2, 4))):
            body = chance.choice((self._structured, self._structured, self._bytes))(body)
        for key in ("body_text", "body_base64", "chunks", "chunks_base64"):
            response.pop(key, None)
        response["body_base64"] = base64.b64encode(body).decode("ascii")
        if not body:
            response.pop("times", None)  # they have one for each read
        if chance.random() < 0.15:
            response["status"] = chance.choice(
                (200, 201, 204, 206, 302, 304, 400, 401, 429, 500, 503, 599)
            )
        if chance.random() < 0.15:
            response["headers"] = {**dict(response.get("headers") or {}), **self._fields()}
        if chance.random() < 0.1:
            response["connection"] = chance.choice(("closed", "aborted", "client_closed"))
        if chance.random() < 0.4:
            self._asked(changed)
        return changed

    def _asked(self, changed: dict[str, Any]) -> None:
        """Changes the request: its values, its bytes, its fields, or the operation it names."""
        chance = self._chance
        if isinstance(changed.get("request"), dict):
            for _ in range(chance.choice((1, 1, 3))):
                changed["request"] = self._value(changed["request"])
        if chance.random() < 0.2 and changed.get("request") is not None:
            body = json.dumps(changed.pop("request")).encode()
            changed["request_base64"] = base64.b64encode(self._bytes(body)).decode("ascii")
        if chance.random() < 0.2:
            changed["request_headers"] = chance.choice(REQUEST_HEADERS)
        if chance.random() < 0.2:
            changed["endpoint"] = chance.choice(ENDPOINTS)

    @staticmethod
    def body(document: dict[str, Any]) -> bytes:
        response = document["response"]
        if "body_text" in response:
            return str(response["body_text"]).encode("utf-8", "surrogatepass")
        if "body_base64" in response:
            return base64.b64decode(response["body_base64"])
        if "chunks" in response:
            return "".join(response["chunks"]).encode("utf-8", "surrogatepass")
        return b"".join(base64.b64decode(c) for c in response.get("chunks_base64", ()))

    def _fields(self) -> dict[str, str]:
        return self._chance.choice(
            (
                {
                    "content-type": self._chance.choice(
                        ("", "text/html", "application/json", "text/event-stream; charset=gbk")
                    )
                },
                {
                    "content-encoding": self._chance.choice(
                        ("gzip", "br", "zstd", "deflate", "gzip, br", "rot13")
                    )
                },
                {
                    "retry-after": self._chance.choice(
                        ("soon", "-1", "1e9", "Mon, 99 Foo 2026 25:61:61 GMT", "9" * 400)
                    )
                },
                {
                    "x-ratelimit-remaining-requests": self._chance.choice(
                        ("many", "1", "", "9" * 4000)
                    )
                },
            )
        )

    def _structured(self, body: bytes) -> bytes:
        """Changes one value inside the JSON of a body, or of one of its events."""
        pieces = body.split(b"\n\n")
        at = self._chance.randrange(len(pieces))
        head, marker, text = pieces[at].rpartition(b"data: ")
        try:
            value = json.loads(text)
        except ValueError:
            return self._bytes(body)
        written = json.dumps(self._value(value), ensure_ascii=self._chance.random() < 0.5)
        pieces[at] = head + marker + written.encode("utf-8", "surrogatepass")
        if self._chance.random() < 0.2:
            self._chance.shuffle(pieces)
        return b"\n\n".join(pieces)

    def _value(self, value: Any) -> Any:
        """The value with one thing in it changed, somewhere."""
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            key = chance.choice(list(value))
            action = chance.random()
            if action < 0.15:
                return {k: v for k, v in value.items() if k != key}
            if action < 0.25:
                return {chance.choice(ODD_KEYS) if k == key else k: v for k, v in value.items()}
            return {**value, key: self._value(value[key])}
        if isinstance(value, list) and value and chance.random() < 0.8:
            at = chance.randrange(len(value))
            action = chance.random()
            if action < 0.15:
                return value[:at] + value[at + 1 :]
            if action < 0.3:
                return [*value, value[at]]
            return [*value[:at], self._value(value[at]), *value[at + 1 :]]
        return copy.deepcopy(chance.choice(ODD_VALUES))

    def _bytes(self, body: bytes) -> bytes:
        chance = self._chance
        at, to = sorted((chance.randint(0, len(body)), chance.randint(0, len(body))))
        action = chance.randrange(5)
        if action == 0:
            return body[:at] + chance.choice(ODD_BYTES) + body[at:]
        if action == 1:
            return body[:at] + body[min(to, at + 40) :]
        if action == 2:
            return body[:at]
        if action == 3:
            return body[:at] + body[at : at + 60] * 2 + body[at + 60 :]
        return body[:at] + bytes(chance.randrange(256) for _ in range(8)) + body[at + 8 :]
