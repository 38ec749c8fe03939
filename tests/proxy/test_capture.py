"""Bodies are kept of those exchanges alone that were asked for, within bounds, without keys."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from teeline.config.model import CaptureConfig
from teeline.proxy.audit import bodies
from teeline.proxy.audit.sink import AuditSink
from teeline.proxy.capture import Capture, Recording
from teeline.proxy.fingerprint import Fingerprint
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Severity, Side
from teeline.validators.wsresponses import Message
from tests.proxy.audit.logs import ORIGIN, entries, found
from tests.proxy.raw import answering, client, proxy, run
from tests.proxy.samples import exchange, violation

KEY = "sk-planted-0123456789"
HEAD = RequestHead(
    "POST",
    f"/v1/chat/completions?api-version=1&key={KEY}#x",
    (("Authorization", f"Bearer {KEY}"), ("Content-Type", "application/json"), ("X-Key", KEY)),
)


def capture(**settings: Any) -> Capture:
    return Capture(CaptureConfig(**settings))


def opened(made: Capture, upstream: str = "relay") -> Recording:
    recording = made.open(upstream)
    assert recording is not None
    return recording


@pytest.mark.parametrize(
    ("settings", "severities", "wanted"),
    [
        ({"when": "always"}, [], True),
        ({"when": "fail"}, [], False),
        ({"when": "fail"}, [Severity.WARN], False),
        ({"when": "fail"}, [Severity.FAIL], True),
        ({"when": "warn"}, [Severity.INFO], False),
        ({"when": "warn"}, [Severity.WARN], True),
        ({"rules": ("chatstream",)}, [Severity.INFO], True),
        ({"rules": ("chatstream.*",)}, [Severity.INFO], True),
        ({"rules": ("chatstream.done-missing",)}, [Severity.INFO], True),
        ({"rules": ("chat",)}, [Severity.FAIL], False),
    ],
)
def test_what_is_kept_is_what_was_asked_for(
    settings: dict[str, Any], severities: list[Severity], wanted: bool
) -> None:
    made = exchange(*(violation(severity=severity) for severity in severities))
    assert capture(**settings).wants(made) is wanted


def test_other_upstreams_and_refused_requests_are_not_recorded() -> None:
    made = capture(when="always", upstreams=("a",))
    assert made.open("b") is None
    assert made.open("") is None
    assert made.open("a") is not None


def test_heads_are_kept_by_a_list_of_names_and_queries_too() -> None:
    recording = opened(capture(when="always"))
    recording.request_head(HEAD)
    recording.response_head(ResponseHead(200, (("Set-Cookie", KEY), ("content-type", "a/b"))))
    assert recording.target == "/v1/chat/completions?api-version=1"
    assert recording.request.headers == (("Content-Type", "application/json"),)
    assert recording.response.headers == (("content-type", "a/b"),)


def test_a_body_beyond_its_limit_is_partial_and_keeps_its_start() -> None:
    recording = opened(capture(when="always", max_bytes=10))
    for piece in (b"01234", b"56789", b"x", b""):
        recording.request_body(piece)
    assert (b"".join(recording.request.pieces), recording.request.partial) == (b"0123456789", True)
    assert not recording.response.partial


def test_all_recordings_together_are_bounded_and_give_their_room_back() -> None:
    made = capture(when="always", memory=1000)
    first, second = opened(made), opened(made)
    first.response_body(b"x" * 900)
    second.response_body(b"y" * 100)
    assert second.response.partial
    first.release()
    first.release()
    third = opened(made)
    third.response_body(b"z" * 900)
    assert not third.response.partial


BODY = b'{"model":"m","messages":[{"role":"user","content":"xyzzy prompt"}]}'
ANSWER = b'{"id":"x","other":"xyzzy answer"}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b" % (KEY.encode(), len(BODY), BODY)
)
REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: planted-cookie\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
)


async def one_exchange(folder: Path, config: CaptureConfig | None) -> None:
    made = Capture(config) if config is not None else None
    keep = bodies.Keep(1 << 30, 1e9) if config is not None else None
    sink = AuditSink(folder, origin=ORIGIN, capture=made, keep_bodies=keep)
    options: dict[str, Any] = {"capture": made, "fingerprint": Fingerprint(b"s" * 32)}
    async with (
        answering(REPLY) as upstream,
        proxy(upstream.url, sink, **options) as running,
        client(running.port) as wire,
    ):
        await wire.send(REQUEST)
        assert (await wire.read_message(answer=True)).body == ANSWER
        await asyncio.sleep(0.05)


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_an_exchange_through_the_proxy_leaves_its_bodies_beside_the_log(tmp_path: Path) -> None:
    run(one_exchange(tmp_path, CaptureConfig(when="fail")))
    (record,) = [entry for entry in entries(tmp_path) if "kind" not in entry]
    kept = record["capture"]
    assert kept["state"] == "complete"
    for side, body in (("request", BODY), ("response", ANSWER)):
        assert bodies.load(tmp_path, kept[side]["sha256"], kept[side]["size"]).data == body
    assert record["client"]["key"] == Fingerprint(b"s" * 32).of_key(KEY)
    assert found(tmp_path) == []
    log = b"".join(path.read_bytes() for path in tmp_path.glob("audit-*"))
    for planted in (KEY.encode(), b"xyzzy", b"planted"):
        assert planted not in log
    assert KEY.encode() not in everything(tmp_path)
    assert b"planted-cookie" not in everything(tmp_path)


@pytest.mark.parametrize(
    "config", [None, CaptureConfig(rules=("chatstream",))], ids=["off", "another rule"]
)
def test_nothing_of_a_body_is_written_where_it_was_not_asked_for(
    tmp_path: Path, config: CaptureConfig | None
) -> None:
    run(one_exchange(tmp_path, config))
    (record,) = [entry for entry in entries(tmp_path) if "kind" not in entry]
    assert "capture" not in record
    assert not (tmp_path / "bodies").exists()
    assert b"planted" not in everything(tmp_path)
    assert json.loads(BODY)["model"] == record["model"]


def test_messages_on_a_websocket_are_kept_as_the_post_and_the_stream_they_stand_for() -> None:
    made = capture(when="always")
    recording = made.open_on_socket("relay", RequestHead("GET", f"/v1/responses?key={KEY}", ()))
    assert recording is not None
    asked = b'{"type": "response.create", "model": "m"}'
    recording.message(Message(Side.REQUEST, asked, kind="response.create"))
    for data, kind in (
        (b'{"type": "response.created"}', "response.created"),
        (b'{\r\n "type": "response.done"\n}', "response.done"),
        (b"[DONE]", ""),
        (b"", ""),
        (b'{"type": "a\\nb"}', "a\nb"),
    ):
        recording.message(Message(Side.RESPONSE, data, kind=kind))
    assert (recording.target, recording.on_socket) == ("/v1/responses", True)
    assert b"".join(recording.request.pieces) == asked
    assert b"".join(recording.response.pieces) == (
        b'event: response.created\ndata: {"type": "response.created"}\n\n'
        b'event: response.done\ndata: {\ndata:  "type": "response.done"\ndata: }\n\n'
        b"data: [DONE]\n\n"
        b"data: \n\n"
        b'data: {"type": "a\\nb"}\n\n'
    )
    assert not recording.request.partial and not recording.response.partial
    for side in Side:
        recording.message(Message(side, b"cut", whole=False))
    assert recording.request.partial and recording.response.partial


def test_an_upstream_that_is_not_captured_has_no_recording_of_a_websocket_either() -> None:
    made = capture(when="always", upstreams=("other",))
    assert made.open_on_socket("relay", RequestHead("GET", "/v1/responses", ())) is None
