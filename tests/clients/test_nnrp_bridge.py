"""The official package reaches the SDK's own server through the bridge, and gets what it would from OpenAI.

teeline stands in front of the bridge and a tap behind it: both find every exchange clean.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.bridge.handler import Times
from teeline.proxy.nnrp.bridge.server import BridgeOptions, BridgeServer
from teeline.proxy.nnrp.client import ClientLimits, NnrpClient
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.validators.model import Severity
from teeline.validators.nnrp.capabilities import capabilities_of
from tests.clients import nnrp_openai as theirs
from tests.clients import nnrp_sdk as nnrp
from tests.clients.peers import PATIENCE, Loop
from tests.clients.sdk import (
    WEATHER,
    client,
    openai,
    saying,
)
from tests.ports import free_port
from tests.proxy.nnrp.peers import Kept, tapping
from tests.proxy.raw import proxy

CARRIERS = ("tcp", "ipc", "websocket")
DECLARED = capabilities_of(json.dumps(theirs.CAPABILITIES).encode())


class Way:
    """The way from a client to the SDK's server: teeline, the bridge, a tap."""

    def __init__(self, loop: Loop, folder: Path, carrier: str) -> None:
        self._loop, self._carrier = loop, carrier
        self.http, self.nnrp = Kept(), Kept()
        self.base_url = ""
        self._client: NnrpClient | None = None
        if carrier == "ipc":
            self._upstream = Address(path=str(folder / "up"))
            self.provider = f"unix://{folder / 'up'}"
            self._listen = Address(path=str(folder / "tap"))
        else:
            self._upstream = Address("127.0.0.1", free_port())
            scheme = "ws" if carrier == "websocket" else "tcp"
            self.provider = f"{scheme}://{self._upstream}"
            self._listen = Address("127.0.0.1", free_port())

    @contextmanager
    def server(self) -> Iterator[None]:
        """Runs the server, which may be started again afterwards."""
        with nnrp.serving(self._carrier, self.provider, theirs.answer):
            yield

    @asynccontextmanager
    async def open(self, times: Times, limits: ClientLimits) -> AsyncIterator[None]:
        tap, observers = tapping(self._upstream, self._listen, [self.nnrp])
        await tap.start()
        scheme = "ws://" if self._carrier == "websocket" else ""
        endpoint = Endpoint.parse(f"{scheme}{self._listen}")
        nnrp_client = NnrpClient(endpoint, limits=limits)
        self._client = nnrp_client
        assert DECLARED is not None
        bridge = BridgeServer(nnrp_client, BridgeOptions(capabilities=DECLARED, times=times))
        bound = await bridge.start(ListenAddress("127.0.0.1", 0))
        async with proxy(f"http://{bound}", self.http) as front:
            self.base_url = f"http://127.0.0.1:{front.port}/v1"
            yield
        bridge.hurry()
        await bridge.stop()
        await nnrp_client.close()
        await tap.stop()
        await observers.settle(2.0)

    @property
    def sessions(self) -> int:
        """Sessions that the bridge has open."""
        return self._client.sessions if self._client is not None else 0

    def breaches(self) -> set[str]:
        """The rules that anybody broke on either wire."""
        return {
            violation.rule.id
            for exchange in (*self.http.opened_, *self.nnrp.opened_)
            for violation in exchange.violations
            if violation.severity >= Severity.WARN
        }


@contextmanager
def way(
    loop: Loop,
    folder: Path,
    carrier: str = "tcp",
    times: Times | None = None,
    limits: ClientLimits | None = None,
) -> Iterator[Way]:
    """The whole way; ``base_url`` is where clients go."""
    found = Way(loop, folder, carrier)
    opened = found.open(times or Times(), limits or ClientLimits())
    with found.server(), loop.within(opened):
        yield found


def test_everything_is_answered_and_clean_on_every_carrier(loop: Loop, tmp_path: Path) -> None:
    for carrier in CARRIERS:
        folder = tmp_path / carrier
        folder.mkdir()
        with way(loop, folder, carrier) as up, client(up.base_url) as sdk:
            _asks_everything(sdk)
        assert up.breaches() == set(), carrier
        assert len(up.http.opened_) == len(up.nnrp.opened_) == 9, carrier


def _asks_everything(sdk: Any) -> None:
    chat = sdk.chat.completions
    whole = chat.create(model="m", messages=saying("Hi"))
    assert whole.choices[0].message.content == "Hello world"
    assert whole.usage.total_tokens == 13
    options = {"include_usage": True}
    chunks = list(
        chat.create(model="m", messages=saying("Hi"), stream=True, stream_options=options)
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello world"
    assert chunks[-1].usage.model_dump(exclude_none=True) == theirs.USAGE
    replayed = list(chat.create(model="chunks", messages=saying("Hi"), stream=True))
    assert {chunk.id for chunk in replayed} == {"chatcmpl-theirs"}
    called = chat.create(model="tools", messages=saying("Hi"), tools=[WEATHER])
    assert called.choices[0].message.tool_calls[0].function.arguments == '{"city":"Paris"}'
    with chat.stream(model="tools", messages=saying("Hi"), tools=[WEATHER]) as stream:
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert (call.id, call.function.arguments) == ("call_1", '{"city":"Paris"}')
    answered = sdk.responses.create(model="m", input="Hi")
    assert answered.output_text == "Hello world"
    with sdk.responses.stream(model="m", input="Hi") as events:
        assert events.get_final_response().output_text == "Hello world"
    assert [model.id for model in sdk.models.list()] == ["m"]
    vectors = sdk.embeddings.create(model="m", input="Hi", encoding_format="float")
    assert vectors.data[0].embedding == [0.5, 0.25]


CLASSES = {
    "invalid": openai.BadRequestError,
    "unknown-model": openai.NotFoundError,
    "auth": openai.AuthenticationError,
    "rate": openai.RateLimitError,
    "overload": openai.InternalServerError,
    "late": openai.InternalServerError,
    "backend-error": openai.InternalServerError,
    "dropped": openai.InternalServerError,
}


@pytest.mark.parametrize("stream", [False, True])
def test_each_class_of_error_is_the_package_s_own(loop: Loop, tmp_path: Path, stream: bool) -> None:
    with way(loop, tmp_path) as up, client(up.base_url) as sdk:
        for model, kind in CLASSES.items():
            with pytest.raises(kind) as caught:
                sdk.chat.completions.create(model=model, messages=saying("Hi"), stream=stream)
            assert caught.value.type
    # The server tells no diagnostics beside an overload, which the tap observes.
    assert up.breaches() == set()


def test_a_stream_that_breaks_off_is_an_error_after_what_came(loop: Loop, tmp_path: Path) -> None:
    came = []
    with way(loop, tmp_path) as up, client(up.base_url) as sdk:
        stream = sdk.chat.completions.create(model="broken-off", messages=saying("Hi"), stream=True)
        with pytest.raises(openai.APIError, match="as it was asked for"):
            for chunk in stream:
                came.append(chunk.choices[0].delta.content or "")
    assert "".join(came) == "Hel"
    assert up.breaches() == set()


def test_an_empty_success_is_a_whole_stream(loop: Loop, tmp_path: Path) -> None:
    asked = {"model": "empty", "messages": saying("Hi")}
    with (
        way(loop, tmp_path) as up,
        client(up.base_url) as sdk,
        sdk.chat.completions.stream(**asked) as stream,
    ):
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content == "Hello world"
    assert completion.choices[0].finish_reason == "stop"
    assert up.breaches() == set()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_client_that_leaves_has_its_operation_cancelled(
    loop: Loop, tmp_path: Path, carrier: str
) -> None:
    theirs.CANCELLED.clear()
    with way(loop, tmp_path, carrier) as up, client(up.base_url) as sdk:
        headers = {"X-Request-Id": "the-one-that-left"}
        stream = sdk.chat.completions.create(
            model="endless", messages=saying("Hi"), stream=True, extra_headers=headers
        )
        assert next(stream).choices
        stream.close()
        _until(lambda: theirs.CANCELLED == ["the-one-that-left"])
        after = sdk.chat.completions.create(model="m", messages=saying("Hi"))
        assert after.choices[0].message.content == "Hello world"
    assert up.breaches() == set()


def test_an_operation_that_takes_too_long_is_a_timeout(loop: Loop, tmp_path: Path) -> None:
    theirs.CANCELLED.clear()
    with way(loop, tmp_path, times=Times(whole=0.2)) as up, client(up.base_url) as sdk:
        with pytest.raises(openai.InternalServerError) as caught:
            sdk.chat.completions.create(model="silent", messages=saying("Hi"))
        assert (caught.value.status_code, caught.value.code) == (504, "timeout")
        _until(lambda: len(theirs.CANCELLED) == 1)
    assert up.breaches() == set()


def test_no_key_and_no_hint_reaches_the_server(loop: Loop, tmp_path: Path) -> None:
    theirs.GIVEN.clear()
    with way(loop, tmp_path) as up, client(up.base_url, api_key="sk-very-secret") as sdk:
        headers = {"X-Timeout-Ms": "77"}
        sdk.chat.completions.create(model="m", messages=saying("Hi"), extra_headers=headers)
    (envelope,) = theirs.GIVEN
    assert set(envelope) == {"schema_version", "operation", "request_id", "body"}
    assert "sk-very-secret" not in json.dumps(envelope)


def test_a_server_that_is_started_again_is_used_again(loop: Loop, tmp_path: Path) -> None:
    """Between operations nobody notices; one that was under way gets an error and no silence."""
    up = Way(loop, tmp_path, "tcp")
    asked: dict[str, Any] = {"model": "m", "messages": saying("Hi")}
    with loop.within(up.open(Times(), ClientLimits())), client(up.base_url) as sdk:
        with theirs.serving_process("tcp", up.provider):
            assert sdk.chat.completions.create(**asked).usage
        _until(lambda: not up.sessions)
        with theirs.serving_process("tcp", up.provider):
            assert sdk.chat.completions.create(**asked).usage
            stream = sdk.chat.completions.create(
                model="endless", messages=saying("Hi"), stream=True
            )
            assert next(stream).choices
        with pytest.raises(openai.APIError, match="lost"):
            list(stream)
        with theirs.serving_process("tcp", up.provider):
            assert sdk.chat.completions.create(**asked).usage


def _until(holds: Any) -> None:
    """Waits for something that happens in another thread."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        threading.Event().wait(0.01)
