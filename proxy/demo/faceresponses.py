"""The demo relay's clean face, second half: the Responses API and embeddings.

What belongs here: response objects, their streams, vectors. What doesn't: what is said (face.py).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from teeline.proxy.demo.face import CREATED, Said, counts, member, said_to, text_in
from teeline.proxy.demo.scenarios import ANSWER_ID, EVENT_STREAM, MODEL, Answer

_MESSAGE: Final = "msg_clean1"
_CALL: Final = "fc_clean1"
_ECHOED: Final[Mapping[str, Any]] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "max_output_tokens": None,
    "previous_response_id": None,
    "truncation": "disabled",
    "text": {"format": {"type": "text"}},
}
_VECTOR: Final = (0.5, -0.5, 0.5, 0.5)
_MOST_INPUTS: Final = 64


def responses(asked: Mapping[str, Any]) -> Answer:
    """The answer to ``POST /responses``."""
    given = asked.get("input")
    prompt = text_in(given)
    last = given[-1] if isinstance(given, list) and given else None
    schema = member(asked, "text", "format", "schema")
    limit = asked.get("max_output_tokens")
    called = member(last, "type") == "function_call_output"
    said = said_to(asked, prompt, schema, limit, called)
    if asked.get("stream") is True:
        events = enumerate(_events(asked, prompt, said))
        return Answer(tuple(_block(number, event) for number, event in events), EVENT_STREAM)
    return Answer((_dumps(_final(asked, prompt, said)).encode(),))


def _response(asked: Mapping[str, Any], status: str, **more: Any) -> dict[str, Any]:
    echoed = {name: asked.get(name, default) for name, default in _ECHOED.items()}
    return {
        "id": ANSWER_ID,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": MODEL,
        "output": [],
        "usage": None,
        **echoed,
        **more,
    }


def _final(asked: Mapping[str, Any], prompt: str, said: Said) -> dict[str, Any]:
    sent, generated = counts(prompt, said)
    usage = {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": generated,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + generated,
    }
    status = "incomplete" if said.cut else "completed"
    why = {"reason": "max_output_tokens"} if said.cut else None
    item = _item(said, said.text, status)
    return _response(asked, status, output=[item], usage=usage, incomplete_details=why)


def _item(said: Said, text: str, status: str) -> dict[str, Any]:
    """The item of the output with what has been said of it so far."""
    if said.name:
        return {
            "id": _CALL,
            "type": "function_call",
            "status": status,
            "call_id": "call_clean1",
            "name": said.name,
            "arguments": text,
        }
    content = [_part(text)] if text else []
    return {
        "id": _MESSAGE,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _events(asked: Mapping[str, Any], prompt: str, said: Said) -> Iterator[dict[str, Any]]:
    final = _final(asked, prompt, said)
    status = final["status"]
    for word in ("created", "in_progress"):
        yield {"type": f"response.{word}", "response": _response(asked, "in_progress")}
    item = _item(said, "", "in_progress")
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield from _call_events(said) if said.name else _text_events(said)
    done = _item(said, said.text, status)
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    yield {"type": f"response.{status}", "response": final}


def _call_events(said: Said) -> Iterator[dict[str, Any]]:
    at = {"item_id": _CALL, "output_index": 0}
    kind = "response.function_call_arguments"
    for token in said.tokens:
        yield {"type": f"{kind}.delta", **at, "delta": token}
    yield {"type": f"{kind}.done", **at, "name": said.name, "arguments": said.text}


def _text_events(said: Said) -> Iterator[dict[str, Any]]:
    at = {"item_id": _MESSAGE, "output_index": 0, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": _part("")}
    for token in said.tokens:
        yield {"type": "response.output_text.delta", **at, "delta": token, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": said.text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": _part(said.text)}


def _block(number: int, event: Mapping[str, Any]) -> bytes:
    kind = event["type"]
    document = {"type": kind, "sequence_number": number, **event}
    return f"event: {kind}\ndata: {_dumps(document)}\n\n".encode()


# -- embeddings -------------------------------------------------------------------------------------------


def embeddings(asked: Mapping[str, Any]) -> Answer:
    """The answer to ``POST /embeddings``: one and the same vector for each input."""
    given = asked.get("input")
    inputs = given[:_MOST_INPUTS] if isinstance(given, list) and given else [given]
    vector: Any = list(_VECTOR)
    if asked.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack(f"<{len(_VECTOR)}f", *_VECTOR)).decode("ascii")
    data = [{"object": "embedding", "index": n, "embedding": vector} for n in range(len(inputs))]
    usage = {"prompt_tokens": len(inputs), "total_tokens": len(inputs)}
    document = {"object": "list", "data": data, "model": MODEL, "usage": usage}
    return Answer((_dumps(document).encode(),))


def _dumps(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
