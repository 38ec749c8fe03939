"""The official ``openai`` package as these tests use it.

What belongs here: clients with settings that leave nothing to chance, and what comes of a request as
one comparable value. What doesn't: what is promised (the tests). Where the package is missing, the
tests that import this module skip or fail as peers.py says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from tests.clients.peers import PATIENCE, missing

if find_spec("openai") is None:
    missing("openai")

import openai as openai

KEY = "sk-test-0000"

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

WEATHER_OF_RESPONSES = {"type": "function", "strict": False, **WEATHER["function"]}
"""The same tool as the Responses API spells it."""


def client(base_url: str, **options: Any) -> openai.OpenAI:
    """A client that asks once, unless it is told otherwise."""
    return openai.OpenAI(**_settings(base_url, options))


def async_client(base_url: str, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**_settings(base_url, options))


def _settings(base_url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"base_url": base_url, "api_key": KEY, "max_retries": 0, "timeout": PATIENCE, **options}


def saying(text: str) -> Any:
    """Messages of a user; ``Any``, since the SDK's own types take no plain dict."""
    return [{"role": "user", "content": text}]


_MADE_ID = re.compile(r"chatcmpl-demo-[0-9]+")


@dataclass(slots=True, eq=False)
class Outcome:
    """All that a program using the SDK gets to see of one request: objects, then perhaps an error.

    Two are equal where a program could tell nothing but the ids apart, which the relay makes anew.
    """

    got: list[Any] = field(default_factory=list)
    error: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())

    def _told(self) -> str:
        return _MADE_ID.sub("chatcmpl-demo", repr((self.got, self.error)))

    def failed(self, error: Exception) -> None:
        cause = type(error.__cause__).__name__
        self.error = f"{type(error).__module__}.{type(error).__name__}: {error} ({cause})"

    @property
    def exception(self) -> str:
        """The error's type alone; empty where there was none."""
        return self.error.partition(":")[0].rpartition(".")[2]


def ask(base_url: str, request: Mapping[str, Any]) -> Outcome:
    """What ``chat.completions.create`` gives: the answer, or each chunk of it."""
    outcome = Outcome()
    with client(base_url) as sdk:
        try:
            answer = sdk.chat.completions.create(**request)
            if isinstance(answer, openai.Stream):
                for chunk in answer:
                    outcome.got.append(chunk)
            else:
                outcome.got.append(answer)
        except Exception as error:  # noqa: BLE001  whatever it is, it is what a program would see
            outcome.failed(error)
    return outcome


def ask_async(base_url: str, request: Mapping[str, Any]) -> Outcome:
    """The same as ``ask``, with the asynchronous client."""
    return asyncio.run(_ask_async(base_url, request))


async def _ask_async(base_url: str, request: Mapping[str, Any]) -> Outcome:
    outcome = Outcome()
    async with async_client(base_url) as sdk:
        try:
            answer = await sdk.chat.completions.create(**request)
            if isinstance(answer, openai.AsyncStream):
                async for chunk in answer:
                    outcome.got.append(chunk)
            else:
                outcome.got.append(answer)
        except Exception as error:  # noqa: BLE001  whatever it is, it is what a program would see
            outcome.failed(error)
    return outcome


def ask_helper(base_url: str, request: Mapping[str, Any]) -> Outcome:
    """What the ``stream`` helper gives: each event of it, and the completion that it puts together."""
    outcome = Outcome()
    given = {key: value for key, value in request.items() if key != "stream"}
    with client(base_url) as sdk:
        try:
            with sdk.chat.completions.stream(**given) as stream:
                for event in stream:
                    outcome.got.append(event)
                outcome.got.append(stream.get_final_completion())
        except Exception as error:  # noqa: BLE001  whatever it is, it is what a program would see
            outcome.failed(error)
    return outcome


def ask_responses(base_url: str, request: Mapping[str, Any]) -> Outcome:
    """What ``responses.create`` gives: the response, or each event of it."""
    outcome = Outcome()
    with client(base_url) as sdk:
        try:
            answer = sdk.responses.create(**request)
            if isinstance(answer, openai.Stream):
                for event in answer:
                    outcome.got.append(event)
            else:
                outcome.got.append(answer)
        except Exception as error:  # noqa: BLE001  whatever it is, it is what a program would see
            outcome.failed(error)
    return outcome
