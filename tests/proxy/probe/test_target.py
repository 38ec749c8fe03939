"""Where a key comes from, what is shown of it, and what a base URL becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.proxy.probe.target import (
    Target,
    TargetError,
    find_key,
    masked,
    scrubbed,
    with_version,
)

KEY = "sk-proj-abcdefghijkl9876"


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://api.openai.com/", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://relay.example/openai", "https://relay.example/openai/v1"),
        ("https://openrouter.example/api/v1", "https://openrouter.example/api/v1"),
        ("https://g.example/v1beta/openai", "https://g.example/v1beta/openai"),
        ("https://a.example/openai/deployments/d", "https://a.example/openai/deployments/d"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
    ],
)
def test_a_version_is_added_where_none_is_named(given: str, becomes: str) -> None:
    assert with_version(given) == becomes


@pytest.mark.parametrize(
    "text", ["", "x", "ftp://x", f"https://user:{KEY}@x", f"https://x?key={KEY}"]
)
def test_a_url_that_can_t_be_used_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        with_version(text)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("", ""),
        (KEY, "sk-...9876"),
        ("abcdefghijkl", "sk-...ijkl"),
        ("short", "sk-..."),
        ("x", "sk-..."),
    ],
)
def test_a_key_is_shown_by_its_last_four_and_a_short_one_not_at_all(key: str, shown: str) -> None:
    assert masked(key) == shown


def test_a_key_is_looked_for_in_order(tmp_path: Path) -> None:
    """Option, file, environment, .env; the first that is there."""
    file = tmp_path / "key"
    file.write_text("sk-file\nrest\n")
    (tmp_path / ".env").write_text("# c\nOTHER=1\nexport OPENAI_API_KEY='sk-dotenv' \n")
    environ = {"OPENAI_API_KEY": "sk-environ"}
    assert find_key("sk-option", str(file), environ, tmp_path) == "sk-option"
    assert find_key(None, str(file), environ, tmp_path) == "sk-file"
    assert find_key(None, None, environ, tmp_path) == "sk-environ"
    assert find_key(None, None, {}, tmp_path) == "sk-dotenv"
    assert find_key(None, None, {}, tmp_path / "nowhere") == ""


def test_a_key_that_no_field_can_carry_is_refused_and_not_quoted() -> None:
    """A line end would begin a header field of its own."""
    for key in ("sk-a\r\nX: y", "sk-ключ", "sk a b"):
        with pytest.raises(TargetError) as caught:
            find_key(key, None, {}, Path())
        assert key not in str(caught.value)


def test_a_key_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="No such file"):
        find_key(None, str(tmp_path / "none"), {}, tmp_path)


def test_what_a_server_repeats_of_the_key_is_masked() -> None:
    assert scrubbed(f"key {KEY}, {KEY}!", (KEY,)) == "key sk-...9876, sk-...9876!"


def test_other_secrets_are_known_by_their_names() -> None:
    target = Target(
        "https://x/v1",
        KEY,
        (("X-Api-Key", "second-secret"), ("X-Team", "blue-team")),
        query=(("sig", "third-secret"), ("api-version", "2025-01-01")),
    )
    assert target.secrets == (KEY, "second-secret", "third-secret")
    assert target.url("/models") == "https://x/v1/models?sig=third-secret&api-version=2025-01-01"


def test_the_key_s_field_is_bearer_in_authorization_alone() -> None:
    assert Target("u", KEY).auth(KEY) == (("Authorization", f"Bearer {KEY}"),)
    assert Target("u", KEY, auth_header="api-key").auth(KEY) == (("api-key", KEY),)
    assert Target("u").auth("") == ()
