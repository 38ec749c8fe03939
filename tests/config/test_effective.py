"""What a configuration comes to can be read again, and says where each value was set."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from teeline.config.effective import lines
from teeline.config.load import Setting, gathered, load
from teeline.config.model import Config

FILE = """\
upstreams:
  - url: https://relay.example/v1
    timeouts: {idle: 90}
    proxy: http://user:sk-secret@proxy.example:3128
  - {name: spare, url: https://other.example, prefix: /spare}
rules: {severity: {chatstream.done-missing: warn}}
"""
ENVIRON = {"TEELINE__SHUTDOWN__DEADLINE": "5"}
FLAGS = [Setting(("listen",), "127.0.0.1:0", "--listen")]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "teeline.yaml"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def shown(file: str) -> list[str]:
    made = load(file, ENVIRON, FLAGS)
    return list(lines(made, gathered(file, ENVIRON, FLAGS)))


def origin(found: list[str], setting: str) -> str:
    (line,) = (line for line in found if line.strip().removeprefix("- ").startswith(setting))
    return line.partition("# ")[2]


def test_each_value_says_where_it_was_set(file: str) -> None:
    found = shown(file)
    assert origin(found, "url: https://relay.example/v1") == f"{file}:2:5"
    assert origin(found, "idle: 90") == f"{file}:3:16"
    assert origin(found, "deadline: 5") == "TEELINE__SHUTDOWN__DEADLINE"
    assert origin(found, "listen: 127.0.0.1:0") == "--listen"
    assert origin(found, "name: relay.example") == "default"


def test_it_is_the_same_configuration_when_it_is_read_again(file: str, tmp_path: Path) -> None:
    """But for the login of a proxy, which isn't shown."""
    again = tmp_path / "again.yaml"
    again.write_text("\n".join(shown(file)), encoding="utf-8")
    first, second = load(file, ENVIRON, FLAGS), load(str(again))
    assert [u.name for u in second.upstreams] == [u.name for u in first.upstreams]
    assert second.rules == first.rules and second.shutdown == first.shutdown
    assert second.limits == first.limits and second.admin == first.admin


def test_no_secret_is_shown(file: str) -> None:
    text = "\n".join(shown(file))
    assert "sk-secret" not in text
    assert "http://proxy.example:3128" in text


def test_every_setting_is_there(file: str) -> None:
    tree = yaml.safe_load("\n".join(shown(file)))
    assert set(tree) == {name for name in Config.__dataclass_fields__ if name != "listen_tls"}
