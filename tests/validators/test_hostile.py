"""Whatever a peer sends, inspectors don't raise, and what they hold is bounded."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

import pytest

from teeline.validators.limits import Limits
from tests.validators.exchanges import (
    byte_by_byte,
    cases,
    examples,
    findings,
    inspect,
    partition,
    whole,
)
from tests.validators.mutations import Mutator
from tests.validators.streams import DISORDERED

EXCHANGES = [*cases().values(), *(document for _, document in examples()), *DISORDERED]
VARIANTS = 4_000
"""In every run; ``python -m tests.validators.fuzz`` makes 200,000 and more."""


def test_no_variant_raises_and_none_depends_on_its_cut() -> None:
    mutator = Mutator(seed=20261130)
    for n in range(VARIANTS):
        document = mutator.variant(EXCHANGES[n % len(EXCHANGES)])
        expected = findings(inspect(document, whole))
        assert findings(inspect(document, partition(n))) == expected, json.dumps(document)


def sse(body: bytes, **head: Any) -> dict[str, Any]:
    return {
        "endpoint": "/v1/chat/completions",
        "request": {"model": "m", "messages": [], "stream": True},
        "response": {
            "status": 200,
            "headers": {"content-type": "text/event-stream", **head},
            "body_base64": base64.b64encode(body).decode("ascii"),
        },
    }


def plain(body: bytes, **head: Any) -> dict[str, Any]:
    document = sse(body, **{"content-type": "application/json", **head})
    document["request"]["stream"] = False
    return document


SMALL = Limits(
    body=20_000,
    line=10_000,
    event=15_000,
    decoded=8_000,
    ratio=50,
    depth=16,
    choices=4,
    tool_calls=4,
    arguments=500,
    text=500,
)
CHUNK = (
    b'data: {"id":"a","object":"chat.completion.chunk","created":1790000000,"model":"m",'
    b'"choices":[%s]}\n\n'
)


def call(index: int, arguments: str) -> bytes:
    entry = {
        "index": index,
        "id": f"call_{index}",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }
    delta = {
        "index": 0,
        "delta": {"role": "assistant", "tool_calls": [entry]},
        "finish_reason": None,
    }
    return CHUNK % json.dumps(delta).encode()


DELTA = b'{"index":0,"delta":{"content":"%s"},"finish_reason":null}' % (b"x" * 80)


def asked_for_json(document: dict[str, Any]) -> dict[str, Any]:
    document["request"]["response_format"] = {"type": "json_object"}
    return document


@pytest.mark.parametrize(
    ("document", "limit"),
    [
        (sse(b"data: " + b"x" * 12_000 + b"\n\n"), "line-limit"),
        (sse(b"data: " + b"x" * 12_000), "line-limit"),
        (sse(b"data: xxxxxxxx\n" * 2_000 + b"\n"), "event-limit"),
        (sse(b'data: {"a":' + b"[" * 40 + b"]" * 40 + b"}\n\n"), "depth-limit"),
        (plain(b" " * 30_000), "body-limit"),
        (plain(b'{"a":"' + b"x" * 30_000 + b'"}'), "body-limit"),
        (plain(b"[" * 1_000), "depth-limit"),
        (plain(gzip.compress(b"0" * 3_000_000), **{"content-encoding": "gzip"}), "decoded-limit"),
        (
            sse(zlib.compress(b": x\n" * 900_000), **{"content-encoding": "deflate"}),
            "decoded-limit",
        ),
        (
            sse(
                b"".join(
                    CHUNK % (b'{"index":%d,"delta":{},"finish_reason":null}' % n) for n in range(9)
                )
            ),
            "choice-limit",
        ),
        (sse(b"".join(call(n, "{}") for n in range(9))), "tool-call-limit"),
        (sse(call(0, "x" * 800)), "arguments-limit"),
        (asked_for_json(sse(CHUNK % DELTA * 9)), "text-limit"),
    ],
)
def test_a_limit_that_is_hit_is_named_however_the_bytes_are_cut(
    document: dict[str, Any], limit: str
) -> None:
    for cut in (whole, byte_by_byte, partition(1)):
        seen = inspect(document, cut, SMALL)
        assert seen.inspection == f"partial ({limit})"


def test_what_was_found_before_a_limit_stays_found() -> None:
    body = CHUNK % b'{"delta":{},"finish_reason":null}' + b"data: " + b"x" * 12_000
    seen = inspect(sse(body), whole, SMALL)
    assert "chatstream.choice-index-type" in {v.rule.id for v in seen.violations}


def test_a_body_that_is_no_inspectors_business_is_not_kept() -> None:
    document = plain(b"\x00" * 100_000)
    document["endpoint"] = "/v1/audio/speech"
    assert inspect(document, whole, SMALL).inspection == "full"
