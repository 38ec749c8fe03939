"""What the configuration asks for is what the log gets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from teeline.config.load import Setting, load
from teeline.config.model import CaptureConfig, Config
from teeline.proxy.audit.configured import AuditError, auditing, kept_bodies


def config(folder: Path, **settings: Any) -> Config:
    given = {"upstreams": [{"url": "https://relay.example/v1"}], ("audit", "dir"): str(folder)}
    flags = [
        Setting(key if isinstance(key, tuple) else (key,), value, "test")
        for key, value in given.items()
    ]
    flags += [Setting(tuple(name.split("__")), value, "test") for name, value in settings.items()]
    return load(flags=flags)


def opening(folder: Path, made: Config) -> dict[str, Any]:
    async def start_and_close() -> None:
        found = auditing(made)
        assert found is not None
        await found.sink.start()
        await found.sink.close()

    asyncio.run(start_and_close())
    (path,) = folder.glob("audit-*.jsonl")
    line: dict[str, Any] = json.loads(path.read_bytes().splitlines()[0])
    return line


def test_upstreams_are_on_record_with_their_urls(tmp_path: Path) -> None:
    first = opening(tmp_path, config(tmp_path))
    assert first["upstreams"] == {"relay.example": "https://relay.example/v1"}
    assert first["profiles"] == ["relay.example=auto"]


def test_keys_get_fingerprints_and_bodies_are_kept_only_where_asked_for(tmp_path: Path) -> None:
    made = auditing(config(tmp_path))
    assert made is not None
    assert made.capture is None
    assert (tmp_path / "fingerprint-secret").exists()
    asked = auditing(config(tmp_path, capture__when="fail"))
    assert asked is not None
    assert asked.capture is not None
    assert asked.fingerprint.of_key("k") == made.fingerprint.of_key("k")


def test_no_log_needs_nothing(tmp_path: Path) -> None:
    assert auditing(config(tmp_path / "x", audit__enabled=False)) is None
    assert not (tmp_path / "x").exists()


def test_what_can_not_be_begun_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match=r"audit folder .* can't be written: Not a directory"):
        auditing(config(tmp_path / "file" / "x"))
    secret = tmp_path / "fingerprint-secret"
    secret.write_bytes(b"s" * 40)
    secret.chmod(0o644)
    with pytest.raises(AuditError, match="chmod 600"):
        auditing(config(tmp_path))


def test_what_is_kept_is_said_in_words() -> None:
    assert kept_bodies(CaptureConfig("fail", ("chat",), ("a", "b"))) == (
        "when: fail; rules: chat; upstreams: a, b"
    )
    assert kept_bodies(CaptureConfig(rules=("chat",))) == "rules: chat"
