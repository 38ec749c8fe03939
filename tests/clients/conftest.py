"""The peers of all tests of this folder, each started once; a fresh proxy for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from teeline.proxy.demo.relay import Relay
from teeline.proxy.schemapool import SchemaPool
from tests.clients.peers import Loop, Teeline, Witness, program, serving
from tests.ports import free_port
from tests.proxy.raw import proxy

MODEL = Path(__file__).parents[1] / "models" / "tiny-qwen2-f16.gguf"

Start = Callable[[str], Teeline]


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def checker(loop: Loop) -> Iterator[SchemaPool]:
    with loop.within(SchemaPool(timeout=10.0)) as pool:
        yield pool


@pytest.fixture
def teeline(loop: Loop, checker: SchemaPool) -> Iterator[Start]:
    """Starts a proxy in front of a base URL (``http://host:port/v1``)."""
    with ExitStack() as running:

        def start(upstream: str) -> Teeline:
            witness = Witness()
            up = running.enter_context(loop.within(proxy(upstream, witness, checker=checker)))
            return Teeline(up.port, witness)

        yield start


@pytest.fixture(scope="session")
def relay(loop: Loop) -> Iterator[str]:
    """The base URL of the demo's relay: faults of many kinds, chosen by the model's name."""
    relay = Relay()
    yield loop.run(relay.start())
    loop.run(relay.stop())


@pytest.fixture(scope="session")
def llmock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of llmock: a stand-in for the API that means to conform."""
    port = free_port()
    command = [program("llmock"), "serve", "--host", "127.0.0.1", "--port", str(port)]
    with serving(command, port, tmp_path_factory.mktemp("llmock") / "log") as base_url:
        yield base_url


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of llama.cpp's server with a real, tiny model."""
    port = free_port()
    command = [program("llama-server-vulkan"), "-m", str(MODEL), "--alias", "tiny-qwen2"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--offline", "--no-ui", "--jinja"]
    command += ["-t", "1", "-c", "8192", "-np", "2"]
    with serving(command, port, tmp_path_factory.mktemp("llama") / "log") as base_url:
        yield base_url
