"""The books of what was exported and lost are exact, and what is said of a failure is short and safe."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace.sampling import DEFAULT_OFF, DEFAULT_ON

from teeline.proxy.telemetry.pipeline import (
    REQUEST,
    ExportReason,
    Outlet,
    Sampling,
    Tally,
    is_sampled,
    parent_context,
    span_context,
)
from tests.proxy.audit.logs import Clock
from tests.proxy.samples import exchange

EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def tally(capacity: int = 3, clock: Clock | None = None) -> Tally:
    return Tally("spans", capacity, ExportReason(), clock or Clock())


def test_no_more_is_admitted_than_the_queue_holds() -> None:
    books = tally()
    assert [books.admit() for _ in range(5)] == [True, True, True, False, False]
    assert books.dropped == 2
    books.take(2)
    assert [books.admit() for _ in range(3)] == [True, True, False]
    assert books.dropped == 3


def test_losses_are_told_once_a_minute_and_recovery_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    books = tally(clock=clock)
    books.lost(1)
    books.lost(1)
    clock.now += 60
    books.lost(1)
    books.sent(1)
    books.sent(1)
    books.lost(1)
    assert caplog.messages == [
        "telemetry: spans could not be exported (no answer); 1 lost so far; traffic goes on",
        "telemetry: spans could not be exported (no answer); 3 lost so far; traffic goes on",
        "telemetry: the collector takes spans again",
        "telemetry: spans could not be exported (no answer); 4 lost so far; traffic goes on",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("spans", 503, "Service Unavailable"), "HTTP 503"),
        ((ConnectionError("http://c/?key=sk-secret"), "spans", 1.5), "ConnectionError"),
        (("spans",), "no answer"),
    ],
)
def test_an_exporters_own_words_are_kept_back_and_its_reason_learnt(
    arguments: tuple[object, ...], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    reason = ExportReason()
    reason.install()
    logging.getLogger(EXPORTER).error("failed" + " %s" * len(arguments), *arguments)
    reason.remove()
    assert reason.text == text
    assert caplog.messages == []
    logging.getLogger(EXPORTER).error("heard again")
    assert caplog.messages == ["heard again"]


def test_a_stopped_outlet_counts_all_as_lost_and_stops_its_exporter_once() -> None:
    stops: list[int] = []

    def never(batch: Sequence[int]) -> bool:
        raise AssertionError("nothing may be sent")

    books = tally()
    outlet = Outlet(books, lambda item: item, never, lambda: stops.append(1))
    outlet.stop()
    outlet.stop()
    assert not outlet.send([1, 2])
    assert books.dropped == 2
    assert stops == [1]


def test_what_the_sampler_leaves_out_is_neither_sent_nor_lost() -> None:
    sent: list[int] = []

    def send(batch: Sequence[int]) -> bool:
        sent.extend(batch)
        return True

    def sampled(item: int) -> int | None:
        return item if item > 1 else None

    books = tally()
    outlet = Outlet(books, sampled, send, lambda: None)
    assert outlet.send([1, 2, 3])
    assert outlet.send([1])
    assert sent == [2, 3]
    assert (books.exported, books.dropped) == (2, 0)


def test_what_was_built_has_its_place_in_the_queue_until_it_is_sent() -> None:
    sent: list[int] = []

    def send(batch: Sequence[int]) -> bool:
        sent.extend(batch)
        return True

    books = tally(capacity=2)
    outlet = Outlet(books, lambda item: item, send, lambda: None)
    assert books.admit() and books.admit()
    outlet.add([1])
    outlet.add([2])
    assert (outlet.waiting, sent, books.admit()) == (2, [], False)
    assert outlet.release()
    assert (outlet.waiting, sent, books.admit()) == (0, [1, 2], True)
    assert outlet.release()
    assert (sent, books.exported) == ([1, 2], 2)


def test_a_batch_beyond_what_receivers_take_is_sent_in_several_requests() -> None:
    """In its order; what one request loses is lost alone."""
    books = tally(10)
    for _ in range(10):
        assert books.admit()
    requests: list[list[int]] = []

    def send(built: Sequence[int]) -> bool:
        requests.append(list(built))
        return len(requests) != 2

    outlet = Outlet(books, lambda item: item, send, lambda: None, lambda item: item * REQUEST // 10)
    assert not outlet.send([6, 4, 1, 9, 30, 2, 2, 2, 2, 1])
    assert requests == [[6, 4], [1, 9], [30], [2, 2, 2, 2, 1]]
    assert (books.exported, books.dropped) == (8, 2)


def test_a_span_has_the_ids_of_its_exchange_and_the_flags_of_the_decision() -> None:
    made = exchange(trace_id="0a" * 16, span_id="0b" * 8)
    for sampler, flags in [(DEFAULT_ON, 1), (DEFAULT_OFF, 0)]:
        decision = Sampling(sampler).decide(made, "chat", keep=False)
        context = span_context(made, decision)
        assert is_sampled(decision) == bool(flags)
        assert (context.trace_id, context.span_id) == (int("0a" * 16, 16), int("0b" * 8, 16))
        assert context.trace_flags == flags


def test_a_client_span_is_a_remote_parent_and_its_absence_none() -> None:
    assert parent_context(exchange()) is None
    parent = parent_context(exchange(trace_id="0a" * 16, parent_span_id="0c" * 8))
    assert parent is not None
    assert parent.is_remote
    assert (parent.trace_id, parent.span_id) == (int("0a" * 16, 16), int("0c" * 8, 16))
    decision = Sampling(DEFAULT_OFF).decide(exchange(parent_span_id="0c" * 8), "chat", keep=False)
    assert is_sampled(decision)
