"""The command line asks for the same again, and holds neither key nor content."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from teeline.config.model import CaptureConfig
from teeline.proxy.audit.bodies import BodyStore, Keep
from teeline.proxy.audit.record import exchange_record
from teeline.proxy.audit.reproduce import as_post, reproduction
from teeline.proxy.capture import Budget, Capture, Recording
from teeline.validators.events import RequestHead
from teeline.validators.model import Side
from teeline.validators.wsresponses import Message
from tests.proxy.samples import exchange

URL = "https://relay.example/openai/v1"
KEY = "Authorization: Bearer $OPENAI_API_KEY"


def recorded(folder: Path, body: bytes = b'{"model":"m"}', limit: int = 100) -> dict[str, Any]:
    made = Recording(limit, Budget(10_000))
    headers = (("Content-Type", "application/json"), ("OpenAI-Beta", "it's new"))
    made.request_head(RequestHead("POST", "/openai/v1/chat/completions?api-version=2", headers))
    made.request_body(body)
    fields = exchange_record(exchange(path="/openai/v1/chat/completions"))
    fields["capture"] = BodyStore(folder, Keep(1 << 30, 1e9)).store(made)
    return fields


def test_a_captured_request_is_sent_again_from_its_file(tmp_path: Path) -> None:
    again = reproduction(tmp_path, recorded(tmp_path), URL)
    relay, official = shlex.split(again.relay), shlex.split(again.official)
    assert relay[4] == "https://relay.example/openai/v1/chat/completions?api-version=2"
    assert official[4] == "https://api.openai.com/v1/chat/completions"
    assert relay[5:] == official[5:]
    assert relay[5:11] == [
        "-H",
        KEY,
        "-H",
        "Content-Type: application/json",
        "-H",
        "OpenAI-Beta: it's new",
    ]
    assert relay[11] == "--data-binary"
    assert Path(relay[12].removeprefix("@")).read_bytes() == b'{"model":"m"}'
    assert "as it was sent" in again.note


def test_without_a_body_the_skeleton_is_shown_and_said(tmp_path: Path) -> None:
    again = reproduction(tmp_path, exchange_record(exchange()), None)
    words = shlex.split(again.relay)
    assert words[4] == "https://RELAY/v1/chat/completions"
    assert '"model": "gpt-4o-mini", "stream": true, "messages"' in words[-1]
    assert again.note == "the body was not captured: this is its skeleton"


def test_an_erased_body_and_one_that_was_cut_are_said(tmp_path: Path) -> None:
    fields = recorded(tmp_path)
    for path in (tmp_path / "bodies").rglob("*"):
        if path.is_file():
            path.unlink()
    assert "erased" in reproduction(tmp_path, fields, URL).note
    made = Recording(5, Budget(1000))
    made.request_body(b"01234")
    made.request_body(b"5")
    fields["capture"] = BodyStore(tmp_path, Keep(1 << 30, 1e9)).store(made)
    assert "in part" in reproduction(tmp_path, fields, URL).note


def test_a_request_without_a_body_is_a_plain_one(tmp_path: Path) -> None:
    fields = exchange_record(exchange(method="GET", path="/v1/models", operation="models"))
    words = shlex.split(reproduction(tmp_path, fields, "http://r:8080/v1").relay)
    assert words[4:] == ["http://r:8080/v1/models", "-H", KEY]
    fields["method"] = "DELETE"
    assert "-X DELETE" in reproduction(tmp_path, fields, URL).relay


@pytest.mark.parametrize(
    "damage",
    [
        {"capture": []},
        {"capture": {"request": 1}},
        {"capture": {"request": {"sha256": ["x"], "size": "1", "headers": [1, ["a"]]}}},
        {"path": None, "method": None, "model": 7},
        {"path": "/a'; rm -rf /", "model": "$(rm)"},
    ],
)
def test_a_forged_record_makes_no_command_of_its_own(
    tmp_path: Path, damage: dict[str, Any]
) -> None:
    fields = exchange_record(exchange()) | damage
    again = reproduction(tmp_path, fields, URL)
    for line in (again.relay, again.official):
        assert shlex.split(line)[0] == "curl"
        assert "rm" not in shlex.split(line)


def test_a_message_on_a_websocket_is_made_the_post_it_stands_for(tmp_path: Path) -> None:
    message = b'{"type":"response.create","stream_id":"a","model":"m","input":"it\'s"}'
    capture = Capture(CaptureConfig(when="always"))
    made = capture.open_on_socket("relay", RequestHead("GET", "/v1/responses", ()))
    assert made is not None
    made.message(Message(Side.REQUEST, message))
    fields = exchange_record(exchange(path="/v1/responses", operation="responses"))
    fields["capture"] = BodyStore(tmp_path, Keep(1 << 30, 1e9)).store(made)
    again = reproduction(tmp_path, fields, URL)
    assert "WebSocket" in again.note
    source, _, curl = again.relay.partition(" | ")
    jq, option, expression, file = shlex.split(source)
    assert (jq, option, Path(file).read_bytes()) == ("jq", "-c", message)
    assert shlex.split(curl)[-2:] == ["--data-binary", "@-"]
    assert as_post(message) == b'{"model":"m","input":"it\'s","stream":true}'
    if shutil.which("jq"):
        done = subprocess.run([jq, option, expression, file], capture_output=True, check=True)
        assert done.stdout.strip() == as_post(message)


@pytest.mark.parametrize("message", [b"", b"{oops", b"[1]", b"\xff"])
def test_what_is_no_request_is_sent_as_it_is(message: bytes) -> None:
    assert as_post(message) == message
