"""The page on the audit log says what the commands and the index have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from teeline.config.load import Setting, load
from teeline.config.model import AuditConfig
from teeline.proxy.audit.index import Index
from teeline.proxy.audit.schema import connect
from teeline.proxy.cli.audit import COMMANDS, command
from tests.proxy.audit.logs import write_log

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.split("\n")[0][:50])
def test_every_query_answers(tmp_path: Path, query: str) -> None:
    write_log(tmp_path)
    db = connect(tmp_path)
    Index(tmp_path, db).catch_up()
    rows = db.execute(query).fetchall()
    db.close()
    assert rows or "losses" in query


def test_every_command_has_its_row() -> None:
    assert len(QUERIES) >= 5
    for name in COMMANDS:
        assert re.search(rf"^\| `{name}\b", PAGE, re.M), name
        assert command.get_command(None, name).name == name  # type: ignore[union-attr,arg-type]


def test_the_settings_are_those_of_the_configuration(tmp_path: Path) -> None:
    """Both blocks can be used as they stand; that of the log names every setting and its default."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    file = tmp_path / "teeline.yaml"
    file.write_text("upstreams: [{name: relay, url: 'https://h/v1'}]\n" + "".join(blocks))
    config = load(str(file), flags=[Setting(("listen",), "127.0.0.1:0", "--listen")])
    assert config.audit == AuditConfig()
    assert set(yaml.safe_load(blocks[0])["audit"]) == {
        *("dir", "keep_days", "keep_bytes", "file_bytes", "file_hours", "compress", "anchor"),
        *("fingerprint_secret_file", "index", "otlp"),
    }
    assert config.capture.enabled
