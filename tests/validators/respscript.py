"""Responses streams, written by hand from the documented order of events: items in, events out.

What belongs here: whole output items of every type, the events that tell one of them, and the frame of a
stream around them. A second writing of what checks/respstream.py and checks/respitems.py demand. What
doesn't: items made up at random (generate_responses.py), what is broken in a stream (the tests).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from teeline.validators.model import Exchange
from tests.validators.answers import CREATED, MODEL, SSE_HEADERS, dumps, inspected

Json = dict[str, Any]
Pieces = Callable[[str], Iterable[str]]

TARGET = "/v1/responses"
ASKED: Mapping[str, Any] = {
    "model": MODEL,
    "input": "Hi",
    "stream": True,
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "c"},
    ],
}
USAGE: Mapping[str, Any] = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 12,
}


def response(*items: Json, status: str = "completed", **changes: Any) -> Json:
    """A valid response object."""
    over = status not in ("queued", "in_progress")
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": {"code": "server_error", "message": "Broken"} if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": list(items),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": dict(USAGE) if over else None,
        **changes,
    }


# -- items -----------------------------------------------------------------------------------------


def output_text(text: str, **changes: Any) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **changes}


def refusal(text: str) -> Json:
    return {"type": "refusal", "refusal": text}


def message(*parts: Json | str, id: str = "msg_1", **changes: Any) -> Json:
    """A whole message; a text stands for the part that says it."""
    content = [output_text(p) if isinstance(p, str) else p for p in parts or ("Hello there",)]
    item = _item("message", id, "completed", role="assistant", content=content)
    return item | changes


def reasoning(*summaries: str, id: str = "rs_1", texts: Iterable[str] = (), **changes: Any) -> Json:
    """Whole reasoning: summaries, and texts of open models."""
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    content = [{"type": "reasoning_text", "text": text} for text in texts]
    return {
        "id": id,
        "type": "reasoning",
        "summary": summary,
        **({"content": content} if content else {}),
        **changes,
    }


def call(arguments: str = '{"a": 1}', id: str = "fc_1", **changes: Any) -> Json:
    members = {"call_id": f"call_{id}", "name": "f", "arguments": arguments}
    return _item("function_call", id, "completed", **members) | changes


def custom(text: str = "ls -l", id: str = "ctc_1", **changes: Any) -> Json:
    return _item("custom_tool_call", id, call_id=f"call_{id}", name="c", input=text) | changes


def _item(kind: str, id: str, status: str = "", **members: Any) -> Json:
    return {"id": id, "type": kind, **({"status": status} if status else {}), **members}


_DONE = "completed"
HOSTED: tuple[Json, ...] = (
    _item("function_call_output", "fco_1", _DONE, call_id="call_1", output="42"),
    _item("custom_tool_call_output", "cto_1", _DONE, call_id="call_2", output=[]),
    _item("web_search_call", "ws_1", _DONE, action={"type": "search", "query": "Louvre"}),
    _item("file_search_call", "fs_1", _DONE, queries=["Louvre"], results=None),
    _item("computer_call", "cu_1", _DONE, call_id="call_3", pending_safety_checks=[]),
    _item("computer_call_output", "cuo_1", _DONE, call_id="call_3", output={"type": "x"}),
    _item("image_generation_call", "ig_1", _DONE, result="AAAA"),
    _item(
        "code_interpreter_call", "ci_1", _DONE, container_id="cntr_1", code="1 + 1", outputs=None
    ),
    _item("mcp_call", "mcp_1", _DONE, server_label="s", name="ask", arguments='{"q": 1}'),
    _item("mcp_list_tools", "mcpl_1", server_label="s", tools=[]),
    _item("mcp_approval_request", "mcpr_1", server_label="s", name="ask", arguments="{}"),
    _item("mcp_approval_response", "mcpa_1", approval_request_id="mcpr_1", approve=True),
    _item("local_shell_call", "lsh_1", _DONE, call_id="call_4", action={"type": "exec"}),
    _item("local_shell_call_output", "lso_1", output="{}"),
    _item("shell_call", "sh_1", _DONE, call_id="call_5", action={"commands": ["ls", "pwd"]}),
    _item("shell_call_output", "sho_1", _DONE, call_id="call_5", output=[{"stdout": "a"}]),
    _item("apply_patch_call", "ap_1", _DONE, call_id="call_6", operation={"type": "x"}),
    _item("apply_patch_call_output", "apo_1", _DONE, call_id="call_6"),
    _item("tool_search_call", "ts_1", _DONE, call_id=None, execution="server", arguments={}),
    _item("tool_search_output", "tso_1", _DONE, call_id=None, execution="server", tools=[]),
    _item("additional_tools", "at_1", role="developer", tools=[]),
    _item("compaction", "cmp_1", encrypted_content="AAAA"),
    _item("program", "prg_1", call_id="call_7", code="f()", fingerprint="fp"),
    _item("program_output", "po_1", _DONE, call_id="call_7", result="1"),
)
"""One whole item of each type that is neither message, reasoning nor a call for the client."""
EVERY: tuple[Json, ...] = (
    message("Hello there"),
    reasoning("A greeting", "Answer it"),
    call(),
    custom(),
    *HOSTED,
)
"""One whole item of each of the 28 types."""


# -- the events of one item ------------------------------------------------------------------------

Inner = Iterable[tuple[str, Json]]
"""Events inside an item: what stands behind ``response.``, and its members beside the item's own."""


def halves(text: str) -> list[str]:
    """Two deltas for a text of more than one character."""
    middle = (len(text) + 1) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def told(item: Json, index: int = 0, pieces: Pieces = halves) -> list[Json]:
    """The events that tell one whole item, from its output_item.added to its output_item.done."""
    tell = _TOLD.get(item["type"])
    inner = () if tell is None else tell(item, pieces)
    place = {"item_id": item.get("id"), "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": skeleton(item)},
        *({"type": f"response.{name}", **place, **members} for name, members in inner),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


_EMPTIED: Json = {
    "content": [],
    "summary": [],
    "arguments": "",
    "input": "",
    "code": "",
    "result": None,
}
_STARTS_COMPLETED = frozenset({"apply_patch_call_output", "program_output"})
_STRUCTURED_ARGUMENTS = frozenset({"tool_search_call", "program"})


def skeleton(item: Json) -> Json:
    """An item as it is added: in progress, and with nothing said."""
    keep = item["type"] in _STRUCTURED_ARGUMENTS
    bare = {n: v if keep else _EMPTIED.get(n, v) for n, v in item.items()}
    if "status" in item and item["type"] not in _STARTS_COMPLETED:
        bare["status"] = "in_progress"
    return bare


def _text(name: str, member: str, text: str, pieces: Pieces, **where: Any) -> Inner:
    """A text in pieces, then whole."""
    more: Json = {"logprobs": []} if name == "output_text" else {}
    yield from ((f"{name}.delta", {**where, "delta": piece, **more}) for piece in pieces(text))
    if name == "function_call_arguments":
        more = {"name": "f"}
    yield f"{name}.done", {**where, member: text, **more}


_PARTS = {
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
}


def _content(item: Json, pieces: Pieces) -> Inner:
    """The content parts of a message, or of the reasoning of an open model."""
    for n, part in enumerate(item.get("content", ())):
        name, member = _PARTS[part["type"]]
        where = {"content_index": n}
        yield "content_part.added", {**where, "part": {**part, member: "", **_bare(part)}}
        yield from _text(name, member, part[member], pieces, **where)
        for at, annotation in enumerate(part.get("annotations", ())):
            found = {"annotation_index": at, "annotation": annotation}
            yield "output_text.annotation.added", {**where, **found}
        yield "content_part.done", {**where, "part": part}


def _bare(part: Json) -> Json:
    return {name: [] for name in ("annotations", "logprobs") if name in part}


def _reasoning(item: Json, pieces: Pieces) -> Inner:
    for n, part in enumerate(item["summary"]):
        where = {"summary_index": n}
        yield "reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
        yield from _text("reasoning_summary_text", "text", part["text"], pieces, **where)
        yield "reasoning_summary_part.done", {**where, "part": part}
    yield from _content(item, pieces)


def _phases(prefix: str, *names: str) -> Inner:
    return [(f"{prefix}.{name}", {}) for name in names]


def _end(item: Json) -> str:
    return "failed" if item.get("error") else "completed"


def _mcp(item: Json, pieces: Pieces) -> Inner:
    yield from _phases("mcp_call", "in_progress")
    yield from _text("mcp_call_arguments", "arguments", item["arguments"], pieces)
    yield from _phases("mcp_call", _end(item))


def _code(item: Json, pieces: Pieces) -> Inner:
    yield from _phases("code_interpreter_call", "in_progress")
    yield from _text("code_interpreter_call_code", "code", item["code"], pieces)
    yield from _phases("code_interpreter_call", "interpreting", "completed")


def _image(item: Json, pieces: Pieces) -> Inner:
    prefix = "image_generation_call"
    yield from _phases(prefix, "in_progress", "generating")
    for n, piece in enumerate(pieces(item["result"])):
        yield f"{prefix}.partial_image", {"partial_image_index": n, "partial_image_b64": piece}
    yield from _phases(prefix, "completed")


def _shell(item: Json, pieces: Pieces) -> Inner:
    """The one kind of event without item_id (null here counts as absent)."""
    for n, command in enumerate(item["action"].get("commands", ())):
        where = {"command_index": n, "item_id": None}
        yield "shell_call_command.added", {**where, "command": ""}
        for piece in pieces(command):
            yield "shell_call_command.delta", {**where, "delta": piece}
        yield "shell_call_command.done", {**where, "command": command}


def _shell_output(item: Json, pieces: Pieces) -> Inner:
    for n, output in enumerate(item["output"]):
        yield "shell_call_output_content.delta", {"command_index": n, "delta": output}
        yield "shell_call_output_content.done", {"command_index": n, "output": [output]}


_TOLD: Mapping[str, Callable[[Json, Pieces], Inner]] = {
    "message": _content,
    "reasoning": _reasoning,
    "function_call": lambda item, pieces: _text(
        "function_call_arguments", "arguments", item["arguments"], pieces
    ),
    "custom_tool_call": lambda item, pieces: _text(
        "custom_tool_call_input", "input", item["input"], pieces
    ),
    "mcp_call": _mcp,
    "code_interpreter_call": _code,
    "image_generation_call": _image,
    "shell_call": _shell,
    "shell_call_output": _shell_output,
    "mcp_list_tools": lambda item, pieces: _phases("mcp_list_tools", "in_progress", _end(item)),
    "web_search_call": lambda item, pieces: _phases(
        "web_search_call", "in_progress", "searching", "completed"
    ),
    "file_search_call": lambda item, pieces: _phases(
        "file_search_call", "in_progress", "searching", "completed"
    ),
    "compaction": lambda item, pieces: _phases("compaction", "compacting"),
}


# -- a whole stream --------------------------------------------------------------------------------


def opened(*, queued: bool = False, **changes: Any) -> list[Json]:
    """The lifecycle events that a stream begins with."""
    names = ("created", "queued", "in_progress") if queued else ("created", "in_progress")
    return [_lifecycle(name, (), queued=queued, **changes) for name in names]


def _lifecycle(name: str, items: Iterable[Json], *, queued: bool = False, **changes: Any) -> Json:
    status = "in_progress" if name == "created" else name
    if queued and name == "created":
        status = "queued"
    return {"type": f"response.{name}", "response": response(*items, status=status, **changes)}


def ended(*items: Json, how: str = "completed", **changes: Any) -> Json:
    """The terminal event, with the items that were done."""
    return _lifecycle(how, items, **changes)


def script(*items: Json, pieces: Pieces = halves, how: str = "completed") -> list[Json]:
    """A whole valid stream: its items one after the other."""
    events = [event for n, item in enumerate(items) for event in told(item, n, pieces)]
    return [*opened(), *events, ended(*items, how=how)]


def numbered(events: Iterable[Any], start: int = 0) -> list[Any]:
    """Events with the sequence_number that their place gives them; one that they have stays."""
    return [
        {"sequence_number": n, **event} if isinstance(event, dict) else event
        for n, event in enumerate(events, start)
    ]


def written(events: Iterable[Any], *, named: bool = True) -> bytes:
    """Events as they come over the wire; bytes stand for themselves."""
    return b"".join(e if isinstance(e, bytes) else _block(e, named=named) for e in events)


def _block(event: Any, *, named: bool) -> bytes:
    kind = event.get("type") if isinstance(event, dict) else None
    name = f"event: {kind}\n".encode() if named and isinstance(kind, str) else b""
    return name + b"data: " + dumps(event) + b"\n\n"


def streamed(events: Iterable[Any], request: Any = ASKED, **more: Any) -> Exchange:
    """What an inspector says of these events, numbered by their place."""
    body = written(numbered(events))
    return inspected(body, request, **{"target": TARGET, "headers": SSE_HEADERS, **more})
