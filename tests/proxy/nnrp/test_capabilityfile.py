"""Capability documents as files: read within bounds, and one line where one can't be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teeline.proxy.nnrp import capabilityfile
from teeline.proxy.nnrp.capabilityfile import DocumentError, declared_in, read_document


def test_a_document_is_what_it_declares(tmp_path: Path) -> None:
    file = tmp_path / "capabilities.json"
    entry = {"name": "responses.create", "streaming": True}
    file.write_text(json.dumps({"operations": [entry], "models": [{"id": "m"}]}))
    declared = declared_in(file)
    assert declared is not None
    assert declared.operations["responses.create"].streaming is True
    assert declared.models == {"m"}
    assert read_document(file) == file.read_bytes()


def test_no_file_declares_nothing() -> None:
    assert declared_in(None) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        (b"[]", "no JSON object"),
        (b"\xff", "no JSON object"),
        (b'{"a":"' + b"x" * 100 + b'"}', "larger than 64 bytes"),
    ],
)
def test_a_file_that_can_t_be_used_is_a_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, words: str
) -> None:
    monkeypatch.setattr(capabilityfile, "MAX_DOCUMENT", 64)
    file = tmp_path / "odd\x1b[31m.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DocumentError, match=words) as caught:
        declared_in(file)
    assert "json: " in str(caught.value)
    assert str(caught.value).isprintable()
