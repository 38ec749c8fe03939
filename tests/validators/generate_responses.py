"""Valid answers of the Responses API made up at random: objects and streams, with the request they answer.

What belongs here: what must hold between the members of an answer. What doesn't: values by their tables
(values.py), the order of an item's events (respscript.py), what is then broken (faults_responses.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teeline.validators.fields.items import ITEMS, UNFINISHED
from teeline.validators.fields.parts import ANNOTATIONS
from teeline.validators.fields.responses import RESPONSE
from teeline.validators.fields.table import Field
from teeline.validators.fields.usage import RESPONSES_USAGE
from teeline.validators.model import Exchange
from tests.validators import judged
from tests.validators.answers import CREATED, JSON_HEADERS, SSE_HEADERS, inspected
from tests.validators.exchanges import Cut, whole
from tests.validators.generate import MODELS, Answer, Json
from tests.validators.respscript import ended, numbered, opened, told
from tests.validators.values import VENDOR, Values

TARGET = "/v1/responses"
TOOLS: tuple[Json, ...] = (
    {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False},
    {"type": "function", "name": "g", "parameters": {"type": "object"}},
    {"type": "custom", "name": "c"},
    {"type": "web_search_preview"},
    {"type": "mcp", "server_label": "s", "server_url": "https://x"},
)
KINDS = (*("message", "function_call", "reasoning") * 6, "custom_tool_call", *sorted(ITEMS))
SHELL_OUTPUT: Json = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
OF_TOOLS: Mapping[str, Json] = {
    "web_search_call": {"action": {"type": "search", "query": "x"}},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": "a"}},
    "computer_call_output": {"output": {"type": "computer_screenshot"}},
    "local_shell_call": {"action": {"type": "exec", "command": ["ls"], "env": {}}},
    "tool_search_call": {"execution": "server"},
    "tool_search_output": {"execution": "client"},
    "additional_tools": {"role": "developer"},
}
"""What hosted tools are asked and answer, as the official types have it; no table looks into it."""
FAILED: Mapping[str, Any] = {
    "mcp_call": {"type": "mcp_protocol_error", "code": 1, "message": "x"},
    "mcp_list_tools": "No answer",
}
BESIDE: tuple[Json, ...] = (
    {"type": "keepalive"},
    {"type": "codex.rate_limits", "x": 1},
    {"type": "response.newer", "output_index": 99, "delta": {}},
)
"""Events that belong to no item and break nothing."""


@dataclass
class ResponsesAnswer(Answer):
    """An answer of the Responses API. Its events are named, and no ``[DONE]`` follows."""

    endpoint: str = TARGET
    done: bool = False
    method: str = "POST"

    def _block(self, number: int, event: Json) -> str:
        before = self.before.get(number, "")
        data = super()._block(number, event).removeprefix(before)
        kind = event.get("type")
        return before + (f"event: {kind}\n" if isinstance(kind, str) else "") + data

    def inspected(self, body: bytes | None = None, cut: Cut = whole) -> Exchange:
        return inspected(
            self.body() if body is None else body,
            None if self.method == "GET" else self.request,
            method=self.method,
            target=self.endpoint,
            headers=SSE_HEADERS if self.streamed else JSON_HEADERS,
            cut=cut,
        )


class ResponsesGenerator(Values):
    """Makes up answers, the same ones in the same order for the same seed."""

    def document(self) -> ResponsesAnswer:
        """A whole response: created, polled or cancelled."""
        status = self.one("completed", "completed", "completed", "incomplete", "failed")
        method = self.one("POST", "POST", "POST", "GET")
        if method == "GET":
            status = self.one(status, "queued", "in_progress", "cancelled")
        items = [self.item(n, self.one(*KINDS)) for n in range(self.chance.randint(1, 4))]
        if status in ("queued", "in_progress"):
            items = self.some([self.begun(item) for item in items])
        request = self.request(items)
        return ResponsesAnswer(
            request,
            [self.response(items, request, status)],
            streamed=False,
            endpoint=f"{TARGET}/resp_1" if method == "GET" else TARGET,
            method=method,
            indent=self.maybe(0.2),
            ascii=self.maybe(),
        )

    def stream(self) -> ResponsesAnswer:
        """The events of an answer, from its first to its terminal one; some are resumed in the middle."""
        how = self.one("completed", "completed", "completed", "incomplete", "failed")
        items = [self.item(n, self.one(*KINDS)) for n in range(self.chance.randint(1, 4))]
        request = {**self.request(items), "stream": True}
        fixed = self._fixed(self.response(items, request, how))
        queued = self.maybe(0.2)
        events = [*opened(queued=queued, **fixed), *self._interleaved(items)]
        events.append(ended(*items, how=how, **fixed, **self._last(how)))
        for _ in range(self.many()):
            events.insert(self.chance.randint(1, len(events) - 1), dict(self.one(*BESIDE)))
        answer = ResponsesAnswer(request, numbered(events, self.one(0, 0, 1)), streamed=True)
        self._dress(answer)
        return answer

    # -- the request -------------------------------------------------------------------------------

    def request(self, items: list[Json]) -> Json:
        """A request that these items may answer."""
        kinds = [item["type"] for item in items]
        calls = sum(kind in ("function_call", "custom_tool_call") for kind in kinds)
        request: Json = {"model": "", "input": self.one("Hi", [{"role": "user", "content": "Hi"}])}
        if calls or self.maybe(0.4):
            request["tools"] = list(TOOLS)
        if calls and self.maybe(0.3):
            request["tool_choice"] = self.one("auto", "required")
        if calls < 2 and self.maybe(0.2):
            request["parallel_tool_calls"] = False
        if self.maybe(0.3):
            request["max_output_tokens"] = 1_000
        if self.maybe(0.3):
            request["instructions"] = self.text()
        if self.maybe(0.3):
            request["metadata"] = {"a": self.text()}
        return request

    # -- the response object -----------------------------------------------------------------------

    def response(self, items: list[Json], request: Json, status: str) -> Json:
        """A response with these items, and what it repeats of its request."""
        request["model"], model = self.one(*MODELS)
        given: Json = {
            "id": f"resp_{self.chance.randrange(10**6)}",
            "object": "response",
            "created_at": CREATED + self.one(0, 0.5),
            "status": status,
            "model": model,
            "output": items,
            "error": self._error() if status == "failed" else None,
            "instructions": request.get("instructions"),
            "metadata": request.get("metadata", {}),
            "tools": [dict(tool) for tool in request.get("tools", ())],
            "tool_choice": request.get("tool_choice", "auto"),
            "max_output_tokens": request.get("max_output_tokens"),
            "usage": None if status in ("queued", "in_progress") else self.usage(),
            "previous_response_id": None,
            "output_text": None,
            "text": self.one(None, {"format": {"type": "text"}}),
            "incomplete_details": self._cut() if status == "incomplete" else None,
        }
        return self.members(RESPONSE.fields, **given, **self.one(*VENDOR))

    def _error(self) -> Json:
        return {"code": self.one("server_error", "image_too_small"), "message": self.text()}

    def _cut(self) -> Json:
        reason = next(f for f in judged.INCOMPLETE_DETAILS if f.name == "reason")
        return {"reason": self.value(reason)}

    def usage(self) -> Json:
        """Counters that add up; all zeros at times, as in official answers."""
        given, made = self.chance.randint(1, 500), self.chance.randint(600, 900)
        if self.maybe(0.1):
            given = made = 0
        details = self.members(
            judged.RESPONSES_INPUT_DETAILS,
            cached_tokens=self.chance.randint(0, given),
            cache_write_tokens=self.chance.randint(0, given),
        )
        table = RESPONSES_USAGE
        return self.shuffled(
            {
                table.prompt: given,
                table.completion: made,
                table.total: given + made,
                table.prompt_details: details,
                table.completion_details: {"reasoning_tokens": self.chance.randint(0, made)},
            }
        )

    # -- items -------------------------------------------------------------------------------------

    def item(self, number: int, kind: str) -> Json:
        """A whole item of a known type."""
        given: Json = {"type": kind, "id": f"{kind[:4]}_{number}", **self._of_kind(number, kind)}
        fields = judged.item(kind)
        words = next((f.values for f in fields if f.name == "status"), frozenset())
        status = self.one(*sorted(words - UNFINISHED - {"incomplete"})) if words else ""
        more = {"status": status} if status else {}
        return self.members(fields, **more, **given, **self.one(*VENDOR))

    def _of_kind(self, number: int, kind: str) -> Json:
        """Members whose values must be more than of their type."""
        if kind == "message":
            return {"role": "assistant", "content": [self.part() for _ in range(1 + self.many())]}
        if kind == "reasoning":
            return self._reasoning()
        if kind == "function_call":
            return {"call_id": f"call_{number}", "name": "f", "arguments": self.arguments()}
        if kind == "custom_tool_call":
            return {"call_id": f"call_{number}", "name": "c", "input": self.text()}
        if kind in ("code_interpreter_call", "image_generation_call"):
            return {"code" if kind.startswith("code") else "result": self.text()}
        if kind == "shell_call":
            commands = [self.text() for _ in range(self.many())]
            return {"action": {"commands": commands}, "environment": None}
        if kind == "shell_call_output":
            return {"output": [dict(SHELL_OUTPUT) for _ in range(self.many())]}
        failed = FAILED.get(kind) if self.maybe(0.3) else None
        return dict(OF_TOOLS.get(kind, {})) | ({"error": failed} if failed else {})

    def _reasoning(self) -> Json:
        made: Json = {
            "summary": [{"type": "summary_text", "text": self.text()} for _ in range(self.many())],
            "encrypted_content": self.one(None, self.text()),
        }
        if self.maybe(0.3):
            made["content"] = [{"type": "reasoning_text", "text": self.text()}]
        return made

    def part(self) -> Json:
        """A part of a message."""
        kind = self.one("output_text", "output_text", "refusal")
        given: Json = {"type": kind}
        if kind == "output_text":
            kinds = self.some(sorted(ANNOTATIONS))
            given["annotations"] = [self.members(judged.annotation(kind)) for kind in kinds]
        return self.members(judged.part(kind), **given)

    def begun(self, item: Json) -> Json:
        """An item that is still being made, with what it owes by then."""
        kind = item["type"]
        owed = {f.name for f in judged.item(kind, final=ITEMS[kind].early)}
        kept = {name: value for name, value in item.items() if name in owed}
        return kept | ({"status": "in_progress"} if _begins(kind) else {})

    # -- events ------------------------------------------------------------------------------------

    def _fixed(self, response: Json) -> Json:
        """What the response objects of a stream have in common."""
        apart = ("status", "output", "error", "incomplete_details", "usage", "output_text")
        return {name: value for name, value in response.items() if name not in apart}

    def _last(self, how: str) -> Json:
        more: Json = {"usage": self.usage()}
        if how == "incomplete":
            more["incomplete_details"] = self._cut()
        if how == "failed":
            more |= {"error": self._error(), "usage": self.one(None, more["usage"])}
        return more

    def _interleaved(self, items: list[Json]) -> list[Json]:
        """The events of all items: one after the other, or some open at the same time."""
        queues = [self._told(item, n) for n, item in enumerate(items)]
        if self.maybe(0.6):
            return [event for queue in queues for event in queue]
        events = [queue.pop(0) for queue in queues]
        while any(queues):
            events.append(self.one(*[queue for queue in queues if queue]).pop(0))
        return events

    def _told(self, item: Json, index: int) -> list[Json]:
        events = told(item, index, self.pieces)
        if self.maybe(0.1) and item["type"] != "message":
            events = [events[0], events[-1]]  # relays tell hosted tools in short
        for event in events:
            if event["type"].endswith(".delta") and self.maybe(0.3):
                event["obfuscation"] = "a" * self.many(5)
        return [self.shuffled(event) for event in events]

    def _dress(self, answer: ResponsesAnswer) -> None:
        """Framing that the grammar allows."""
        answer.line_end = self.one("\n", "\n", "\r\n", "\r")
        answer.indent = self.maybe(0.1)
        answer.ascii = self.maybe()
        odd = self.one("", "", ": keep-alive\n\n", "\n", "retry: 5\n")
        answer.before = {n: odd for n in range(len(answer.events)) if odd and self.maybe()}
        if self.maybe(0.1):
            answer.method, answer.endpoint = "GET", f"{TARGET}/resp_1?stream=true"
            start = self.chance.randrange(len(answer.events))
            answer.events, answer.before = answer.events[start:], {}


def _begins(kind: str) -> bool:
    """Whether items of a type may be in progress."""
    status: Field | None = next((f for f in judged.item(kind) if f.name == "status"), None)
    return status is not None and "in_progress" in status.values
