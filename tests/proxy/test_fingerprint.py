"""Clients are told apart by their keys, and no key comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.proxy.fingerprint import Fingerprint, SecretError, load, load_or_make

KEY = "sk-proj-planted"
SECRET = b"s" * 32


def of(*fields: tuple[str, str]) -> str:
    return Fingerprint(SECRET).of(fields)


def test_the_same_key_is_the_same_client_wherever_it_stands() -> None:
    bearer = of(("Authorization", "Bearer " + KEY))
    assert len(bearer) == 16
    assert bearer == of(("Host", "h"), ("authorization", "bearer  " + KEY))
    assert bearer == of(("api-key", KEY)) == of(("X-Api-Key", KEY + " "))
    assert bearer == Fingerprint(SECRET).of_key(KEY)
    assert KEY not in bearer


def test_other_keys_and_other_secrets_are_others() -> None:
    assert of(("api-key", KEY)) != of(("api-key", KEY + "x"))
    assert of(("api-key", KEY)) != Fingerprint(b"t" * 32).of((("api-key", KEY),))


def test_no_key_is_no_fingerprint() -> None:
    assert of() == of(("Authorization", "Bearer ")) == of(("Cookie", KEY)) == ""


def test_the_first_start_makes_a_secret_that_others_share(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret"
    made = load_or_make(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes().strip()) == 64
    assert list(path.parent.iterdir()) == [path]
    assert load_or_make(path).of_key("k") == load(path).of_key("k") == made.of_key("k")


def test_a_secret_that_is_none_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(SecretError, match="can't be read"):
        load(path)
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(SecretError, match="shorter than 32 bytes"):
        load(path)
    path.write_bytes(SECRET)
    path.chmod(0o640)
    with pytest.raises(SecretError, match="chmod 600"):
        load_or_make(path)
    (tmp_path / "file").touch()
    with pytest.raises(SecretError, match="can't be made"):
        load_or_make(tmp_path / "file" / "secret")
