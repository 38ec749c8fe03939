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

from teeline.proxy.audit import bodies
from teeline.proxy.audit.bodies import FOLDER

OFFICIAL: Final = "https://api.openai.com"
UNKNOWN: Final = "https://RELAY"
"""Stands for a base URL that isn't on record."""

_SENT: Final = ("accept", "content-encoding", "content-type", "openai-beta")
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


def reproduction(folder: Path, fields: Mapping[str, Any], url: str | None) -> Reproduction:
    """For a record of the log in ``folder``; ``url`` is the upstream's base URL, if that is known."""
    target, headers, data, note = _body(folder, fields)
    method = str(fields.get("method") or "POST")
    relay = _origin(url) + target if url is not None else UNKNOWN + target
    official = OFFICIAL + _official_path(fields, target)
    lines = [_curl(method, to, headers, data) for to in (relay, official)]
    return Reproduction(lines[0], lines[1], note)


def _body(
    folder: Path, fields: Mapping[str, Any]
) -> tuple[str, Sequence[tuple[str, str]], Sequence[str], str]:
    """Target, header fields, curl's arguments for the body, and what is said of them."""
    path, capture = str(fields.get("path") or "/"), fields.get("capture")
    kept = capture.get("request") if isinstance(capture, Mapping) else None
    if not isinstance(capture, Mapping) or not isinstance(kept, Mapping):
        return (path, *_skeleton(fields, "the body was not captured"))
    target = capture.get("target")
    target = target if isinstance(target, str) and target.startswith("/") else path
    found = bodies.load(folder, kept.get("sha256"), kept.get("size"))
    if found.data is None:
        return (target, *_skeleton(fields, f"the body that was captured is {found.why}"))
    headers = _headers(kept.get("headers"))
    if not found.data:
        return target, headers, (), "the request has no body"
    digest = str(kept["sha256"])
    file = (folder / FOLDER / digest[:2] / digest).resolve()
    state = capture.get("state")
    note = "the request as it was sent; its body is the file that is named"
    if state != bodies.COMPLETE:
        note = "the body was captured in part: it was larger than capture.max_bytes"
    return target, headers, ("--data-binary", f"@{file}"), note


def _skeleton(
    fields: Mapping[str, Any], why: str
) -> tuple[Sequence[tuple[str, str]], Sequence[str], str]:
    if fields.get("method") != "POST":
        return (), (), f"{why}; a {fields.get('method')} needs none"
    operation = str(fields.get("operation"))
    body: dict[str, Any] = {"model": fields.get("model") or "MODEL"}
    if fields.get("stream"):
        body["stream"] = True
    body |= _SKELETONS.get(operation, {})
    headers = (("Content-Type", "application/json"),)
    return headers, ("--data-binary", json.dumps(body)), f"{why}: this is its skeleton"


def _headers(given: Any) -> list[tuple[str, str]]:
    found = []
    for field in given if isinstance(given, list) else ():
        if isinstance(field, list) and len(field) == 2 and all(isinstance(x, str) for x in field):
            name, value = field
            if name.lower() in _SENT:
                found.append((name, value))
    return found


def _curl(method: str, url: str, headers: Sequence[tuple[str, str]], data: Sequence[str]) -> str:
    words = ["curl", "-sS", "-N", "-i"]
    if method != ("POST" if data else "GET"):
        words += ["-X", shlex.quote(method)]
    words += [shlex.quote(url), "-H", '"Authorization: Bearer $OPENAI_API_KEY"']
    for name, value in headers:
        words += ["-H", shlex.quote(f"{name}: {value}")]
    return " ".join([*words, *map(shlex.quote, data)])


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
