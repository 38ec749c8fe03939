"""Valid answers made up at random: everything that the documented protocol allows, and nothing else.

What belongs here: chat.completion documents and chunk streams with the request that they answer, the
same ones for the same seed. What doesn't: what is then broken in them (faults.py).
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from typing import Any

from teeline.validators.model import Exchange
from tests.validators.answers import CREATED, JSON_HEADERS, SSE_HEADERS, inspected
from tests.validators.exchanges import Cut, whole

Json = dict[str, Any]

WORDS = (
    "Hello",
    " there",
    "é",
    "你好",
    " 😀",
    "\n\n",
    '"quoted"',
    "\\",
    "data: [DONE]",
    "\u2028",
    "\x85",
    "</think>",
    "0",
    " ",
    "{",
    "}",
    "a\tb",
    "Wörld",
    "[DONE]",
    "\u0000",
    "null",
    " Ω≈ç",
    "👩‍👩‍👧",
    "event: x\n\n",
    "finish",
)
MODELS = (
    ("gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
    ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    ("openai/gpt-4o", "gpt-4o"),
    ("gpt-4-turbo-preview", "gpt-4-0125-preview"),
    ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
    ("my.model", "my-model"),
)
AZURE_HEAD: Json = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0}],
}
CITATION: Json = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 1, "url": "https://x", "title": "t"},
}
_UNSEEN: Json = {"type": "error", "code": "timeout", "message": "No result"}
MODERATION: Json = {"input": _UNSEEN, "output": _UNSEEN}
KINDS = ("text", "text", "text", "refusal", "calls", "calls", "function_call", "audio", "reasoning")


@dataclass
class Answer:
    """One answer with its request: ``events`` of a stream, or one of them that is the whole body."""

    request: Json
    events: list[Json]
    streamed: bool
    endpoint: str = "/v1/chat/completions"
    line_end: str = "\n"
    indent: bool = False
    ascii: bool = False
    before: dict[int, str] = field(default_factory=dict)
    """Lines put before an event, by its number from 0."""
    done: bool = True

    def body(self) -> bytes:
        """As it comes over the wire."""
        if not self.streamed:
            return self._dumps(self.events[0]).encode()
        blocks = [self._block(n, event) for n, event in enumerate(self.events)]
        text = "".join(blocks) + ("data: [DONE]\n\n" if self.done else "")
        return text.replace("\n", self.line_end).encode()

    def _block(self, number: int, event: Json) -> str:
        lines = self._dumps(event).split("\n")
        return self.before.get(number, "") + "".join(f"data: {line}\n" for line in lines) + "\n"

    def _dumps(self, value: Json) -> str:
        return json.dumps(value, ensure_ascii=self.ascii, indent=1 if self.indent else None)

    def inspected(self, body: bytes | None = None, cut: Cut = whole) -> Exchange:
        """What an inspector says of it, or of other bytes in its place."""
        headers = SSE_HEADERS if self.streamed else JSON_HEADERS
        given = self.body() if body is None else body
        return inspected(given, self.request, target=self.endpoint, headers=headers, cut=cut)


class Generator:
    """Makes up answers, the same ones in the same order for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def document(self) -> Answer:
        """A chat.completion and the request that it answers."""
        request, kinds, model = self._request(streamed=False)
        choices = [self._choice(n, kind, request) for n, kind in enumerate(kinds)]
        body = self._envelope(model) | {"object": "chat.completion", "choices": choices}
        body["usage"] = self._usage(request)
        return Answer(
            request,
            [self._shuffled(body)],
            streamed=False,
            endpoint=self._endpoint(body),
            indent=self._maybe(0.2),
            ascii=self._maybe(),
        )

    def stream(self) -> Answer:
        """The chunks of an answer and the request that it answers."""
        request, kinds, model = self._request(streamed=True)
        envelope = self._envelope(model) | {"object": "chat.completion.chunk"}
        queues = [self._deltas(n, kind, request) for n, kind in enumerate(kinds)]
        events = [envelope | {"choices": choices} for choices in self._interleaved(queues)]
        self._end(events, envelope, request)
        answer = Answer(request, events, streamed=True, ascii=self._maybe())
        answer.endpoint = self._azure_rows(events)
        self._dress(answer)
        return answer

    # -- the request -------------------------------------------------------------------------------

    def _request(self, *, streamed: bool) -> tuple[Json, list[str], str]:
        """A request, the kind of each choice that answers it, and the model that does."""
        chance = self._chance
        wanted, model = chance.choice(MODELS)
        request: Json = {"model": wanted, "messages": [{"role": "user", "content": "Hi"}]}
        n = chance.choice((1, 1, 1, 2, 3))
        kinds = [chance.choice(KINDS) for _ in range(n)]
        if n > 1 or self._maybe(0.2):
            request["n"] = n
        self._ask_for_tools(request, kinds)
        if self._maybe(0.3) and set(kinds) <= {"text"}:
            request |= {"logprobs": True, "top_logprobs": 2}
        if self._maybe(0.3):
            request["max_completion_tokens"] = 1_000
        if self._maybe(0.3):
            request["stop"] = chance.choice(("###", ["###", "STOP!"]))
        if "audio" in kinds:
            request["modalities"] = ["text", "audio"]
        if streamed:
            request["stream"] = True
            if self._maybe():
                request["stream_options"] = {"include_usage": True}
        return request, kinds, model

    def _ask_for_tools(self, request: Json, kinds: list[str]) -> None:
        if "function_call" in kinds:
            request["functions"] = [{"name": "f", "parameters": {"type": "object"}}]
        if "calls" in kinds:
            names = [
                {"type": "function", "function": {"name": name, "strict": self._maybe()}}
                for name in "fgh"
            ]
            request["tools"] = [*names, {"type": "custom", "custom": {"name": "c"}}]
            kinds[:] = ["calls" if kind == "function_call" else kind for kind in kinds]
            request.pop("functions", None)
            if self._maybe(0.3):
                request["tool_choice"] = "auto"
            if set(kinds) == {"calls"} and self._maybe(0.3):
                request["tool_choice"] = "required"

    # -- the parts of an answer --------------------------------------------------------------------

    def _maybe(self, share: float = 0.5) -> bool:
        return self._chance.random() < share

    def _shuffled(self, value: Json) -> Json:
        """JSON objects have no order."""
        names = list(value)
        self._chance.shuffle(names)
        return {name: value[name] for name in names}

    def _text(self) -> str:
        chance = self._chance
        return "A" + "".join(chance.choice(WORDS) for _ in range(chance.randint(1, 8)))

    def _pieces(self, text: str) -> list[str]:
        chance = self._chance
        cuts = sorted(chance.randint(0, len(text)) for _ in range(chance.randint(0, 5)))
        bounds = [0, *cuts, len(text)]
        return [text[a:b] for a, b in itertools.pairwise(bounds)]

    def _envelope(self, model: str) -> Json:
        chance = self._chance
        envelope: Json = {
            "id": f"chatcmpl-{chance.randrange(10**6)}",
            "created": CREATED,
            "model": model,
        }
        if self._maybe():
            envelope["system_fingerprint"] = chance.choice((None, "fp_1"))
        if self._maybe():
            envelope["service_tier"] = chance.choice((None, "default", "priority"))
        if self._maybe(0.2):
            envelope |= {"provider": "x", "timings": {"n": 1}, "moderation": None}
        return envelope

    def _usage(self, request: Json) -> Json:
        chance = self._chance
        prompt, completion = chance.randint(1, 500), chance.randint(1, 900)
        usage: Json = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        if self._maybe():
            cached = chance.choice((0, prompt, None))
            usage["prompt_tokens_details"] = chance.choice(
                (None, {}, {"cached_tokens": cached, "audio_tokens": 0})
            )
        if self._maybe():
            reasoning = chance.randint(0, completion)
            usage["completion_tokens_details"] = {
                "reasoning_tokens": reasoning,
                "accepted_prediction_tokens": 0,
            }
        if self._maybe(0.2):
            usage |= {"cost": 0.01, "queue_time": 0.5}
        return usage

    def _finish(self, kind: str) -> str:
        if kind == "calls":
            return "tool_calls"
        if kind == "function_call":
            return "function_call"
        return (
            self._chance.choice(("stop", "stop", "length", "content_filter"))
            if kind == "text"
            else "stop"
        )

    def _calls(self) -> list[Json]:
        calls: list[Json] = []
        for n in range(self._chance.randint(1, 3)):
            name = self._chance.choice("fghc")
            inner: Json = (
                {"name": name, "input": self._text()}
                if name == "c"
                else {"name": name, "arguments": self._arguments()}
            )
            outer = "custom" if name == "c" else "function"
            calls.append({"id": f"call_{n}", "type": outer, outer: inner})
        return calls

    def _arguments(self) -> str:
        members: Json = {
            self._text(): self._chance.choice((1, None, [{}], self._text(), -0.5e-3))
            for _ in range(2)
        }
        return json.dumps(members if self._maybe(0.8) else {}, ensure_ascii=self._maybe())

    def _logprobs(self, text: str) -> Json:
        top = [
            {"token": text[:3], "logprob": -0.25, "bytes": [1]},
            {"token": "x", "logprob": -9999.0, "bytes": None},
        ]
        token = {
            "token": text[:3],
            "logprob": self._chance.choice((-0.25, 0, -9999.0)),
            "bytes": None,
            "top_logprobs": top[: self._chance.randint(0, 2)],
        }
        return {"content": [token], "refusal": None}

    def _endpoint(self, body: Json) -> str:
        """Azure annotates answers and names deployments in the path."""
        if not self._maybe(0.15):
            return "/v1/chat/completions"
        body["prompt_filter_results"] = [{"prompt_index": 0}]
        for choice in body["choices"]:
            choice["content_filter_results"] = {"hate": {"filtered": False}}
        return "/openai/deployments/d/chat/completions?api-version=2024-10-21"

    # -- a document --------------------------------------------------------------------------------

    def _choice(self, index: int, kind: str, request: Json) -> Json:
        message = self._message(kind)
        choice: Json = {
            "index": index,
            "message": self._shuffled(message),
            "finish_reason": self._finish(kind),
        }
        choice["logprobs"] = self._logprobs(message["content"]) if request.get("logprobs") else None
        if self._maybe(0.2):
            choice["stop_reason"] = None
        return self._shuffled(choice)

    def _message(self, kind: str) -> Json:
        message: Json = {"role": "assistant", "content": None, "refusal": None}
        if self._maybe(0.3):
            message["annotations"] = self._chance.choice(([], [CITATION]))
        if kind in ("text", "reasoning"):
            message["content"] = self._text()
        if kind == "reasoning":
            message["reasoning_content"] = self._text()
        if kind == "refusal":
            message["refusal"] = self._text()
        if kind == "calls":
            message |= {
                "content": self._chance.choice((None, "", "Let me see")),
                "tool_calls": self._calls(),
            }
        if kind == "function_call":
            message["function_call"] = {"name": "f", "arguments": self._arguments()}
        if kind == "audio":
            message["audio"] = {
                "id": "audio_1",
                "expires_at": CREATED,
                "data": "AAAA",
                "transcript": "Hi",
            }
        return message

    # -- a stream ----------------------------------------------------------------------------------

    def _deltas(self, index: int, kind: str, request: Json) -> list[Json]:
        """The elements of ``choices`` that bring one choice, in their order."""
        opening: Json = {
            "role": "assistant",
            "content": self._chance.choice(("", None)),
            "refusal": None,
        }
        deltas = [opening, *self._said(kind)]
        finish = self._finish(kind)
        choices: list[Json] = [
            {"index": index, "delta": delta, "finish_reason": None} for delta in deltas
        ]
        if kind == "text" and self._maybe(0.2):
            choices[-1]["finish_reason"] = finish
        else:
            choices.append({"index": index, "delta": {}, "finish_reason": finish})
        for choice in choices:
            text = choice["delta"].get("content")
            if request.get("logprobs") and text:
                choice["logprobs"] = self._logprobs(text)
            elif self._maybe():
                choice["logprobs"] = None
        return choices

    def _said(self, kind: str) -> list[Json]:
        if kind in ("text", "refusal"):
            name = "content" if kind == "text" else "refusal"
            return [{name: piece} for piece in self._pieces(self._text())]
        if kind == "reasoning":
            return [
                {"reasoning_content": "Hm"},
                {"reasoning_content": "."},
                {"content": self._text()},
            ]
        if kind == "audio":
            return [{"audio": {"id": "audio_1", "data": "AA"}}, {"audio": {"transcript": "Hi"}}]
        if kind == "function_call":
            pieces = [{"function_call": {"arguments": p}} for p in self._pieces(self._arguments())]
            return [{"function_call": {"name": "f", "arguments": ""}}, *pieces]
        return [
            {"tool_calls": [entry]}
            for n, call in enumerate(self._calls())
            for entry in self._fragments(n, call)
        ]

    def _fragments(self, index: int, call: Json) -> list[Json]:
        """One call from its head to its last fragment; several servers send it whole."""
        outer = call["type"]
        member = "input" if outer == "custom" else "arguments"
        text = call[outer][member]
        if self._maybe(0.2):
            return [{"index": index, **call}]
        head = {"index": index, **call, outer: {"name": call[outer]["name"], member: ""}}
        return [head, *({"index": index, outer: {member: piece}} for piece in self._pieces(text))]

    def _interleaved(self, queues: list[list[Json]]) -> list[list[Json]]:
        """The ``choices`` of each chunk: any order among choices, several in one chunk at times."""
        chunks = [[queues[0].pop(0)]]
        while any(queues):
            queue = self._chance.choice([queue for queue in queues if queue])
            choice = queue.pop(0)
            if choice["index"] not in [c["index"] for c in chunks[-1]] and self._maybe(0.2):
                chunks[-1].append(choice)
            else:
                chunks.append([choice])
        return chunks

    def _end(self, events: list[Json], envelope: Json, request: Json) -> None:
        """Usage as it was asked for, and what may follow it."""
        asked = "stream_options" in request
        if not asked and self._maybe(0.2):
            events.append(envelope | {"choices": [], "usage": self._usage(request)})
        if asked:
            for event in events:
                event["usage"] = None
            events.append(envelope | {"choices": [], "usage": self._usage(request)})
            if self._maybe(0.2):
                events.append(envelope | {"choices": [], "moderation": MODERATION})
        if self._maybe(0.3):
            for event in events:
                event["obfuscation"] = "a" * self._chance.randint(0, 5)

    def _azure_rows(self, events: list[Json]) -> str:
        if not self._maybe(0.15):
            return "/v1/chat/completions"
        row: Json = {
            "index": 0,
            "finish_reason": None,
            "content_filter_results": {},
            "content_filter_offsets": {},
        }
        for _ in range(self._chance.randint(0, 2)):
            at = self._chance.randint(1, len(events))
            events.insert(at, AZURE_HEAD | {"choices": [row]})
            del events[at]["prompt_filter_results"]
        events.insert(0, dict(AZURE_HEAD))
        return "/openai/deployments/d/chat/completions?api-version=2024-10-21"

    def _dress(self, answer: Answer) -> None:
        """Framing that the grammar allows: line ends, comments, event and id fields, several data lines."""
        answer.line_end = self._chance.choice(("\n", "\n", "\r\n", "\r"))
        answer.indent = self._maybe(0.15)
        odd = self._chance.choice(
            ("", "", ": keep-alive\n", ": PING\n\n", "event: message\n", "\n", "id: 7\nretry: 5\n")
        )
        answer.before = {n: odd for n in range(len(answer.events)) if odd and self._maybe()}
