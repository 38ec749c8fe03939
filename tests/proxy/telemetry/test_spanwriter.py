"""A span that is written directly is the SDK's span as the SDK's encoder writes it, field for field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    DEFAULT_ON,
    Decision,
    Sampler,
    SamplingResult,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import TraceState

from teeline.proxy.telemetry import spanwriter
from teeline.proxy.telemetry.attributes import Describer
from teeline.proxy.telemetry.pipeline import ExportReason, Sampling, Tally
from teeline.proxy.telemetry.spans import Builder
from teeline.proxy.telemetry.spanwriter import SpanWriter
from teeline.validators.model import Ended, Exchange, Marks, Severity, Timing
from tests.proxy.samples import START, exchange, violation

RESOURCE = Resource({"service.name": "teeline", "n": 1}, "https://schema.example")
SCOPE = InstrumentationScope("teeline", "1.2.3")


class Pair:
    """Both ways to write spans, each with what it remembers."""

    def __init__(self, sampler: Sampler = DEFAULT_ON) -> None:
        servers = {"my-relay": ("relay.example", 443)}
        self._built = Builder(
            SpanExporter(),
            Tally("spans", 10, ExportReason()),
            Describer(servers),
            Sampling(sampler),
            RESOURCE,
            SCOPE,
            events=2,
        )
        self.writer = SpanWriter(Describer(servers), Sampling(sampler), RESOURCE, SCOPE, events=2)

    def same(self, *made: Exchange) -> ExportTraceServiceRequest:
        """What is written of these exchanges; fails where the SDK writes anything else."""
        spans = [span for each in made if (span := self._built.span(each)) is not None]
        written = [data for each in made if (data := self.writer.span(each)) is not None]
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.writer.request(written))
        assert request == encode_spans(spans)
        return request


CHANGES: dict[str, Sequence[Any]] = {
    "id": ("another",),
    "upstream": ("", "other", "u" * 300),
    "parent_span_id": ("ab" * 8,),
    "operation": ("", "responses", "embeddings", "models"),
    "model": (None, "other-model", "m" * 300),
    "stream": (False,),
    "settings": (
        {"temperature": 0, "seed": -5, "choices": 2**40, "encoding_format": "float"},
        {"temperature": 0.0, "choices": 1},
        {"temperature": 1, "seed": 1},
        {"temperature": 1.0, "seed": 1.0},
        {"output": "json", "service_tier": "flex"},
    ),
    "status": (None, 400, 500, 10**40),
    "response_id": (None, "chatcmpl-2"),
    "response_model": (None, "m2"),
    "service_tier": ("flex",),
    "usage": (
        {},
        {"prompt_tokens": 10**30, "completion_tokens": 0, "made_up": 4},
        {"prompt_tokens": 2**63 - 1, "completion_tokens": -(2**63)},
        {"prompt_tokens": 127, "completion_tokens": 128, "input_tokens": 16383},
        {"made_up": 1, "prompt_tokens": 16384},
        {"a.cached_tokens": 1, "prompt_tokens": 3, "b.cached_tokens": 2},
    ),
    "finish": ([], ["stop", "\u6f22", "length"], ["stop"] * 40),
    "error_type": ("server_error", "no word at all"),
    "marks": (Marks(fingerprint="fp_1"), Marks(fingerprint="not a word")),
    "profile": ("mistral",),
    "timing": (Timing(), Timing(START), Timing(START, None, START - 5), Timing(2.0**70)),
    "ended": (None, *Ended),
    "inspection": ("partial (body-limit)", "\x1b"),
    "violations": (
        [violation(), violation("usage.x", Severity.WARN), violation(count=10**30)],
        [violation(severity=Severity.WARN)],
        [violation(severity=Severity.INFO)],
    ),
}
EVERY = [{name: value} for name, values in CHANGES.items() for value in values]


@pytest.mark.parametrize("changes", [{}, *EVERY])
def test_a_span_is_written_as_the_sdk_writes_it(changes: dict[str, Any]) -> None:
    request = Pair().same(exchange(**changes))
    assert len(request.resource_spans[0].scope_spans[0].spans) == 1


def test_what_is_kept_of_one_exchange_never_shows_in_another() -> None:
    """Every field that a span shows is varied in turn, all through the same writer."""
    pair = Pair()
    for changes in (*EVERY, *reversed(EVERY)):
        pair.same(exchange(), exchange(**changes))


def test_a_name_that_folds_shows_once_it_is_admitted() -> None:
    """What was written of an exchange with a name that nobody knew is not kept."""
    pair = Pair()
    unknown = {"model": "new", "status": 404, "response_model": None}
    for changes in (unknown, unknown, {"model": "new"}, unknown):
        request = pair.same(exchange(**changes))
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "chat new"
    for number in range(60):
        pair.same(exchange(error_type=f"error_{number}"), exchange(error_type="error_59"))


def test_a_batch_is_written_as_the_sdk_writes_it() -> None:
    pair = Pair()
    for _ in range(2):
        pair.same(*[exchange(**changes) for changes in EVERY])


def test_a_sampler_is_asked_and_may_set_a_state() -> None:
    class Marking(Sampler):
        def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
            state = TraceState([("a", "1"), ("b", "2")])
            return SamplingResult(Decision.RECORD_AND_SAMPLE, None, state)

        def get_description(self) -> str:
            return "marking"

    request = Pair(Marking()).same(exchange())
    assert request.resource_spans[0].scope_spans[0].spans[0].trace_state == "a=1,b=2"
    assert Pair(ALWAYS_OFF).writer.span(exchange()) is None


@pytest.mark.parametrize(
    ("trace", "span"),
    [
        ("x" * 32, "b" * 16),
        ("a" * 32, ""),
        ("1", "b" * 16),
        ("a" * 30, "b" * 18),
        ("a" * 30 + "  ", "b" * 16),
        ("a" * 30 + "  ", "b" * 18),
    ],
)
def test_ids_that_are_none_are_refused(trace: str, span: str) -> None:
    with pytest.raises(ValueError):
        Pair().writer.span(exchange(trace_id=trace, span_id=span))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spanwriter, "_KEPT", 3)
    pair = Pair()
    for number in range(10):
        pair.same(exchange(inspection=f"partial ({number})"))
        pair.same(exchange(usage={f"{number}.cached_tokens": 1}))
        assert len(pair.writer._shared) <= 3
        assert len(pair.writer._counters) <= 3
