"""How an exchange is done again by hand: a command line for curl.

What belongs here: the command for the relay and the same for OpenAI's own API, with the body that was
captured, or a skeleton of one. What doesn't: capture itself.

The key is always ``$OPENAI_API_KEY``; bodies are named by their file, never printed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from teeline.proxy.audit import bodies
from teeline.proxy.audit.bodies import FOLDER

OFFICIAL: Final = "https://api.openai.com"
UNKNOWN: Final = "https://RELAY"
"""Stands for a base URL that isn't on record."""

_SENT: Final = ("accept", "content-encoding", "content-type", "openai-beta")
_OF_MESSAGES: Final = ("type", "stream_id", "event_id")
"""Members of a client's message that its request doesn't have."""
_AS_POST: Final = f"del({', '.join(f'.{name}' for name in _OF_MESSAGES)}) + {{stream: true}}"
_PATHS: Final = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "embeddings": "/v1/embeddings",
    "completions": "/v1/completions",
}
_SKELETONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "chat": {"messages": [{"role": "user", "content": "..."}]},
    "responses": {"input": "..."},
    "embeddings": {"input": "..."},
    "completions": {"prompt": "..."},
}


class Reproduction(NamedTuple):
    """Two command lines, and in words how far they say what was sent."""

    relay: str
    official: str
    note: str


class _Request(NamedTuple):
    """What is sent: ``data`` are curl's arguments for the body, ``source`` the command that makes it."""

    target: str
    headers: Sequence[tuple[str, str]]
    data: Sequence[str]
    note: str
    source: str = ""


def reproduction(folder: Path, fields: Mapping[str, Any], url: str | None) -> Reproduction:
    """For a record of the log in ``folder``; ``url`` is the upstream's base URL, if that is known."""
    request = _request(folder, fields)
    method = str(fields.get("method") or "POST")
    relay = (_origin(url) if url is not None else UNKNOWN) + request.target
    official = OFFICIAL + _official_path(fields, request.target)
    lines = [_curl(method, to, request) for to in (relay, official)]
    return Reproduction(lines[0], lines[1], request.note)


def as_post(message: bytes) -> bytes:
    """The body of the POST that a client's message on a WebSocket stands for.

    A ``response.create`` has the members of the request beside its own; over HTTP the answer to it is a
    stream. What is no JSON object stays as it is.
    """
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError:
        return message
    if not isinstance(value, dict):
        return message
    kept = {name: member for name, member in value.items() if name not in _OF_MESSAGES}
    return orjson.dumps({**kept, "stream": True})


def _request(folder: Path, fields: Mapping[str, Any]) -> _Request:
    path, capture = str(fields.get("path") or "/"), fields.get("capture")
    kept = capture.get("request") if isinstance(capture, Mapping) else None
    if not isinstance(capture, Mapping) or not isinstance(kept, Mapping):
        return _skeleton(path, fields, "the body was not captured")
    target = capture.get("target")
    target = target if isinstance(target, str) and target.startswith("/") else path
    found = bodies.load(folder, kept.get("sha256"), kept.get("size"))
    if found.data is None:
        return _skeleton(target, fields, f"the body that was captured is {found.why}")
    headers = _headers(kept.get("headers"))
    if not found.data:
        return _Request(target, headers, (), "the request has no body")
    digest = str(kept["sha256"])
    file = str((folder / FOLDER / digest[:2] / digest).resolve())
    note = "the request as it was sent; its body is the file that is named"
    sent = _Request(target, headers, ("--data-binary", f"@{file}"), note)
    if capture.get("carrier") == bodies.WEBSOCKET:
        source = f"jq -c {shlex.quote(_AS_POST)} {shlex.quote(file)} | "
        note = "it was sent as a message on a WebSocket; jq makes the same POST of it"
        sent = sent._replace(data=("--data-binary", "@-"), note=note, source=source)
    if capture.get("state") != bodies.COMPLETE:
        note = "the body was captured in part: it was larger than capture.max_bytes"
        sent = sent._replace(note=note)
    return sent


def _skeleton(target: str, fields: Mapping[str, Any], why: str) -> _Request:
    if fields.get("method") != "POST":
        return _Request(target, (), (), f"{why}; a {fields.get('method')} needs none")
    operation = str(fields.get("operation"))
    body: dict[str, Any] = {"model": fields.get("model") or "MODEL"}
    if fields.get("stream"):
        body["stream"] = True
    body |= _SKELETONS.get(operation, {})
    headers = (("Content-Type", "application/json"),)
    data = ("--data-binary", json.dumps(body))
    return _Request(target, headers, data, f"{why}: this is its skeleton")


def _headers(given: Any) -> list[tuple[str, str]]:
    found = []
    for field in given if isinstance(given, list) else ():
        if isinstance(field, list) and len(field) == 2 and all(isinstance(x, str) for x in field):
            name, value = field
            if name.lower() in _SENT:
                found.append((name, value))
    return found


def _curl(method: str, url: str, request: _Request) -> str:
    words = ["curl", "-sS", "-N", "-i"]
    if method != ("POST" if request.data else "GET"):
        words += ["-X", shlex.quote(method)]
    words += [shlex.quote(url), "-H", '"Authorization: Bearer $OPENAI_API_KEY"']
    for name, value in request.headers:
        words += ["-H", shlex.quote(f"{name}: {value}")]
    return request.source + " ".join([*words, *map(shlex.quote, request.data)])


def _origin(url: str) -> str:
    """Scheme and authority: a record's path is that of the upstream already."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _official_path(fields: Mapping[str, Any], target: str) -> str:
    """Where the same is asked of OpenAI: relays put paths of their own before it."""
    path, mark, query = target.partition("?")
    if fields.get("method") == "POST" and (known := _PATHS.get(str(fields.get("operation")))):
        beyond = path.rpartition(known.removeprefix("/v1"))[2]
        return known + (beyond if beyond != path else "")
    at = path.find("/v1/")
    return (path[at:] if at >= 0 else path) + mark + query
