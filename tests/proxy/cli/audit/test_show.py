"""``teeline audit show`` lets a reviewer see what happened, and do it again."""

from __future__ import annotations

from pathlib import Path

from tests.proxy.audit.logs import edit, files
from tests.proxy.cli.audit.logs import IDS, PLANTED, answer, audit, log


def test_an_exchange_is_shown_with_the_event_that_broke_the_protocol(tmp_path: Path) -> None:
    result = audit("show", "--dir", log(tmp_path), IDS[0])
    assert result.exit_code == 0
    text = result.stdout
    assert text.startswith(f"FAIL  POST /v1/chat/completions  {IDS[0]}\n")
    for line in (
        "request id  req-a",
        "client      127.0.0.1, key 0123456789abcdef",
        "timing      first byte +0.200 s, first event +0.250 s, end +1.500 s, largest gap 0.100 s",
        "    +    0.300 s  read       event 1  40 bytes",
        "  > +    0.400 s  read       event 2  44 bytes",
        "  > +    0.400 s  violation  event 2    chatstream.done-missing",
        "fail  chatstream.done-missing  response, event 2, byte 40, /choices/0  3 times",
    ):
        assert line in text.splitlines()
    assert "  why   " in text
    assert "  fix   " in text
    assert "curl -sS -N -i https://relay.example/v1/chat/completions" in text
    assert "curl -sS -N -i https://api.openai.com/v1/chat/completions" in text
    assert "$OPENAI_API_KEY" in text
    assert PLANTED not in text


def test_without_a_body_the_skeleton_is_printed_and_said(tmp_path: Path) -> None:
    text = audit("show", "--dir", log(tmp_path), IDS[1]).stdout
    assert "again the body was not captured: this is its skeleton" in text
    assert '"messages": [{"role": "user", "content": "..."}]' in text


def test_an_id_may_be_cut_or_be_the_relays(tmp_path: Path) -> None:
    log(tmp_path)
    assert answer("show", "--dir", tmp_path, "req-a")["record"]["id"] == IDS[0]
    several = audit("show", "--dir", tmp_path, IDS[0][:-1])
    assert several.exit_code == 2
    assert all(each[:18] in several.stdout for each in IDS)
    nothing = audit("show", "--dir", tmp_path, "nothing\x1b")
    assert nothing.exit_code == 2
    assert "no exchange has the id nothing\\x1b" in nothing.stderr


def test_machines_get_the_record_and_the_rules_words(tmp_path: Path) -> None:
    found = answer("show", "--dir", log(tmp_path), IDS[0])
    assert (found["v"], found["line"], found["intact"]) == (1, 2, True)
    assert found["record"]["capture"]["state"] == "complete"
    assert set(found["rules"]["chatstream.done-missing"]) == {"summary", "why", "fix"}
    assert found["again"]["relay"].startswith("curl ")


def test_a_record_that_was_edited_says_so(tmp_path: Path) -> None:
    log(tmp_path)
    audit("list", "--dir", tmp_path)
    edit(files(tmp_path)[0], lambda ls: [x.replace(b'"count":3', b'"count":1') for x in ls])
    assert "its own hash does not hold" in audit("show", "--dir", tmp_path, IDS[0]).stdout
