"""An answer that is taken for like an earlier one gets what the full check says of it, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.checks.chatknown import KnownChat
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.history import History
from teeline.validators.inspector import Inspector
from teeline.validators.model import Ended, Exchange, Headers, Verdict
from tests.validators.answers import ASKED, completion, dumps, ids
from tests.validators.exchanges import NOW, findings
from tests.validators.schemas import answer_schema_checks
from tests.validators.talk import JSON, PATHS, Talk


def inspected(
    history: History, path: str, request: bytes, headers: Headers, answer: bytes
) -> Exchange:
    inspector = Inspector(Exchange(id="x"), history=history)
    outputs = list(inspector.request_head(RequestHead("POST", path, (("a", "b"),)), NOW))
    outputs += inspector.request_body(request, NOW)
    outputs += inspector.request_end(NOW)
    outputs += inspector.response_head(ResponseHead(200, headers), NOW)
    outputs += inspector.response_body(answer, NOW)
    outputs += inspector.end(Ended.COMPLETE, NOW)
    answer_schema_checks(inspector, outputs, NOW)
    return inspector.exchange


def seen(exchange: Exchange) -> tuple[Any, ...]:
    names = [name for name in Exchange.__slots__ if name != "violations"]
    return findings(exchange), {name: getattr(exchange, name) for name in names}


class Taken:
    """Answers that were taken for known ones, and those that were only like them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.accepted = self.refused = 0
        accept = KnownChat.accept

        def counted(*args: Any) -> bool:
            accepted = accept(*args)
            self.accepted += accepted
            self.refused += not accepted
            return accepted

        patch.setattr(KnownChat, "accept", counted)


def test_it_says_what_the_full_check_says(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    for seed in range(300):
        talk, quick, full = Talk(seed), History(), History()
        full.answers = {}
        for _ in range(25):
            exchange = talk.exchange()
            assert seen(inspected(quick, *exchange)) == seen(inspected(full, *exchange)), exchange
    assert taken.accepted > 1000
    assert taken.refused > 500


def test_answers_of_one_form_need_one_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    history = History()
    for n in range(50):
        body = dumps(completion({"content": f'word {n}\n"é"'}, id=f"chatcmpl-{n}x"))
        exchange = inspected(history, PATHS[0], dumps({**ASKED, "temperature": n / 50}), JSON, body)
        assert exchange.verdict is Verdict.PASS
    assert (taken.accepted, taken.refused) == (49, 0)


def test_an_upstreams_answers_say_nothing_of_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken(monkeypatch)
    for n in range(3):
        inspected(History(), PATHS[0], dumps(ASKED), JSON, dumps(completion(id=f"chatcmpl-{n}x")))
    assert taken.accepted == 0


def test_an_id_that_came_before_is_found_in_a_known_answer_too() -> None:
    history = History()
    for n in (1, 2):
        inspected(history, PATHS[0], dumps(ASKED), JSON, dumps(completion(id=f"chatcmpl-abc{n}")))
    again = inspected(history, PATHS[0], dumps(ASKED), JSON, dumps(completion(id="chatcmpl-abc2")))
    assert "cross.duplicate-id" in ids(again)
