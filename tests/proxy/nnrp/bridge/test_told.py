"""Events and documents of a server are read, or refused with a word that says what they are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teeline.proxy.nnrp.bridge.failure import FailureError
from teeline.proxy.nnrp.bridge.told import NOTHING, document_of, dumped, event_of, objects


def test_a_chunk_is_cut_out_as_its_bytes() -> None:
    event = event_of(b'{"type":"t","openai_chunk": {"n":12345678901234567890123,"x":1.10}}')
    assert event.chunk == b'{"n":12345678901234567890123,"x":1.10}'


def test_the_word_openai_chunk_in_a_text_is_no_chunk() -> None:
    assert event_of(b'{"type":"t","delta":"\\"openai_chunk\\""}').chunk == b""
    assert event_of(b'{"type":"t","delta":{"openai_chunk":{}}}').chunk == b""


def test_a_completed_body_is_cut_out_as_its_bytes() -> None:
    document = document_of(b'{"body": {"n":1.10} ,"type":"response.completed"}')
    assert document.body == b'{"n":1.10}' and document.completed == {"n": 1.1}


def test_an_empty_success_is_nothing() -> None:
    assert document_of(None) is NOTHING


BAD_EVENTS = [b"", b"{", b"[]", b"1", b"{}", b'{"type":1}', b"\xff", b'{"type":"a"}{"type":"b"}',
              b'\xef\xbb\xbf{"type":"a"}', b'data: {"type":"a"}\n\n',
              b'{"type":"a","b":' + b"[" * 1000 + b"]" * 1000 + b"}"]  # fmt: skip


@pytest.mark.parametrize("data", BAD_EVENTS)
def test_what_is_no_event_is_refused(data: bytes) -> None:
    for read in (event_of, document_of):
        with pytest.raises(FailureError) as caught:
            read(data)
        assert (caught.value.status, caught.value.code) == (502, "upstream_invalid")


@pytest.mark.parametrize(
    "document",
    [
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.completed"},
        {"type": "response.completed", "body": []},
        {"type": "response.completed", "body": None},
    ],
)
def test_what_does_not_end_an_operation_is_no_document(document: Any) -> None:
    with pytest.raises(FailureError):
        document_of(json.dumps(document).encode())


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for read in (event_of, document_of):
        try:
            read(b'{"type":"t","openai_chunk":' + data)
            read(data)
        except FailureError:
            continue


@pytest.mark.parametrize("value", [2**70, "\ud800", {"a": [2**70, "\ud800", 1.5]}])
def test_every_value_can_be_written(value: Any) -> None:
    assert json.loads(dumped(value)) == value


@pytest.mark.parametrize("value", [None, 1, "a", [], {"a": None}, {"a": {}}, {"a": [1, None]}])
def test_objects_of_what_has_none_are_none(value: Any) -> None:
    assert objects(value, "a") == []
