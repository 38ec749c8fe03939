"""Valid answers of embeddings, models and legacy completions made up at random, with what they answer.

What belongs here: what must hold between the members of an answer, and between it and its request. What
doesn't: values by their tables (values.py), what is then broken (faults_lists.py).
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Any

from teeline.validators.fields.completions import (
    COMPLETION_CHOICE,
    COMPLETION_CHUNK_CHOICE,
    TEXT_COMPLETION,
)
from teeline.validators.fields.embeddings import EMBEDDING, EMBEDDINGS
from teeline.validators.fields.models import LISTED_MODEL, MODEL_LIST, RETRIEVED_MODEL
from teeline.validators.fields.usage import CHAT_USAGE
from teeline.validators.model import Exchange
from tests.validators.answers import CREATED, JSON_HEADERS, SSE_HEADERS, inspected
from tests.validators.exchanges import Cut, whole
from tests.validators.generate import Answer, Json
from tests.validators.values import VENDOR, Values

LEGACY = (
    ("gpt-3.5-turbo-instruct", "gpt-3.5-turbo-instruct:20230824-v2"),
    ("davinci-002", "davinci:2023-07-21-v2"),
    ("my-model", "my-model"),
)


@dataclass
class ListAnswer(Answer):
    """An answer to a request of any method; a GET has no document."""

    method: str = "POST"

    def inspected(self, body: bytes | None = None, cut: Cut = whole) -> Exchange:
        return inspected(
            self.body() if body is None else body,
            None if self.method == "GET" else self.request,
            method=self.method,
            target=self.endpoint,
            headers=SSE_HEADERS if self.streamed else JSON_HEADERS,
            cut=cut,
        )


class ListGenerator(Values):
    """Makes up answers, the same ones in the same order for the same seed."""

    def answer(self) -> ListAnswer:
        made = self.one(self.embeddings, self.models, self.completion, self.completion_stream)()
        made.indent, made.ascii = self.maybe(0.15), self.maybe()
        return made

    # -- embeddings --------------------------------------------------------------------------------

    def embeddings(self) -> ListAnswer:
        """Vectors in either encoding, in any order, for inputs in every form."""
        count = self.chance.randint(1, 4)
        request: Json = {"model": "text-embedding-3-small", "input": self._inputs(count)}
        size = self.chance.randint(1, 8)
        encoding = self.one(None, "float", "base64")
        if encoding:
            request["encoding_format"] = encoding
        if self.maybe(0.3):
            request["dimensions"] = size
        data = [self._embedding(n, size, encoding) for n in range(count)]
        self.chance.shuffle(data)
        prompt = self.chance.randint(1, 99)
        body = self.members(
            EMBEDDINGS.fields,
            data=data,
            object="list",
            model=request["model"],
            usage={"prompt_tokens": prompt, "total_tokens": prompt},
            **self.one(*VENDOR),
        )
        return ListAnswer(request, [body], streamed=False, endpoint="/v1/embeddings")

    def _inputs(self, count: int) -> Any:
        if count == 1 and self.maybe():
            return self.text() if self.maybe() else [1, 2, 3]
        return [self.text() if self.maybe() else [n, 1] for n in range(count)]

    def _embedding(self, index: int, size: int, encoding: str | None) -> Json:
        numbers = [0.5, *(self.one(-0.25, 1e-9, 0.0, -1.0) for _ in range(size - 1))]
        vector: str | list[float] = numbers
        if encoding == "base64":
            vector = base64.b64encode(struct.pack(f"<{size}f", *numbers)).decode()
        return self.members(EMBEDDING.fields, index=index, object="embedding", embedding=vector)

    # -- models ------------------------------------------------------------------------------------

    def models(self) -> ListAnswer:
        """The list, or a single one by its name."""
        if self.maybe():
            names = [f"model-{n}" for n in range(self.many(4))]
            data = [self.members(LISTED_MODEL.fields, id=name, created=CREATED) for name in names]
            body = self.members(MODEL_LIST.fields, data=data, object="list")
            return ListAnswer({}, [body], streamed=False, endpoint="/v1/models", method="GET")
        name = self.one("gpt-4o", "openai/gpt-4o", "a b", "ft:gpt-4o:x::1")
        body = self.members(RETRIEVED_MODEL.fields, id=name, created=CREATED, **self.one(*VENDOR))
        target = "/v1/models/" + name.replace(" ", "%20")
        return ListAnswer({}, [body], streamed=False, endpoint=target, method="GET")

    # -- completions -------------------------------------------------------------------------------

    def completion(self) -> ListAnswer:
        """A whole text_completion."""
        request, count, model = self._request()
        choices = [self._choice(n, request) for n in range(count)]
        body = self.members(
            TEXT_COMPLETION.fields,
            **self._envelope(model),
            choices=choices,
            usage=self._usage(),
            **self.one(*VENDOR),
        )
        return ListAnswer(request, [body], streamed=False, endpoint="/v1/completions")

    def completion_stream(self) -> ListAnswer:
        """The chunks of several choices, their usage where it was asked for, and ``[DONE]``."""
        request, count, model = self._request()
        request["stream"] = True
        asked = self.maybe()
        if asked:
            request["stream_options"] = {"include_usage": True}
        envelope = self._envelope(model)
        queues = [self._chunks(n, request) for n in range(count)]
        events = []
        while any(queues):
            choice = self.one(*[queue for queue in queues if queue]).pop(0)
            usage: Json = {"usage": None} if asked else {}
            events.append(self.shuffled({**envelope, "choices": [choice], **usage}))
        if asked:
            events.append({**envelope, "choices": [], "usage": self._usage()})
        made = ListAnswer(request, events, streamed=True, endpoint="/v1/completions")
        made.line_end = self.one("\n", "\n", "\r\n", "\r")
        return made

    def _request(self) -> tuple[Json, int, str]:
        """A request, how many choices answer it, and the model that does."""
        wanted, model = self.one(*LEGACY)
        prompts = self.chance.randint(1, 3)
        texts = [self.text() for _ in range(prompts)]
        request: Json = {"model": wanted, "prompt": texts if prompts > 1 else self.text()}
        n = self.one(1, 1, 2)
        if n > 1:
            request["n"] = n
        if self.maybe(0.3):
            request["logprobs"] = 2
        if self.maybe(0.3):
            request["max_tokens"] = 1_000
        if self.maybe(0.2):
            request["echo"] = True
        return request, n * prompts, model

    def _envelope(self, model: str) -> Json:
        return {
            "id": f"cmpl-{self.chance.randrange(10**6)}",
            "object": "text_completion",
            "created": CREATED,
            "model": model,
        }

    def _usage(self) -> Json:
        prompt, completion = self.chance.randint(1, 99), self.chance.randint(600, 900)
        counts = (prompt, completion, prompt + completion)
        usage: Json = dict(zip(CHAT_USAGE.keys, counts, strict=True))
        if self.maybe(0.3):
            usage[CHAT_USAGE.prompt_details] = {"cached_tokens": self.chance.randint(0, prompt)}
            usage[CHAT_USAGE.completion_details] = self.one(None, {}, {"reasoning_tokens": 0})
        return usage

    def _logprobs(self, request: Json, text: str) -> Json | None:
        if "logprobs" not in request or not text:
            return None
        top = {text[:3]: -0.25}
        return {"tokens": [text[:3]], "token_logprobs": [-0.25], "top_logprobs": [top]}

    def _choice(self, index: int, request: Json) -> Json:
        text = self.text()
        logprobs = self._logprobs(request, text)
        fields = COMPLETION_CHOICE.fields
        return self.members(fields, index=index, text=text, logprobs=logprobs)

    def _chunks(self, index: int, request: Json) -> list[Json]:
        """The elements of ``choices`` that bring one choice."""
        finish = next(f for f in COMPLETION_CHOICE.fields if f.name == "finish_reason")
        pieces = [piece for piece in (self.pieces(self.text()) or [self.text()]) if piece]
        made = [
            self.members(
                COMPLETION_CHUNK_CHOICE.fields,
                index=index,
                text=piece,
                logprobs=self._logprobs(request, piece),
                finish_reason=None,
            )
            for piece in pieces
        ]
        end = self.value(finish)
        if self.maybe(0.3):
            made[-1]["finish_reason"] = end
        else:
            made.append({"index": index, "text": "", "logprobs": None, "finish_reason": end})
        return made
