"""The page on telemetry and the examples beside it name what there is, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from teeline.proxy.telemetry import names
from teeline.proxy.telemetry.attributes import Describer
from teeline.proxy.telemetry.instruments import INSTRUMENTS, Kind
from teeline.proxy.telemetry.page import SPAN, VIOLATION, WHO, telemetry_page
from teeline.proxy.telemetry.prometheus import label_name, metric_name
from teeline.validators.model import Marks
from tests.proxy.samples import exchange, violation

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
_WORD = re.compile(r"\b(?:teeline|gen_ai)_[a-z_]+\b")


def series_names() -> set[str]:
    found = set()
    for instrument in INSTRUMENTS:
        name = metric_name(instrument)
        if instrument.kind is Kind.HISTOGRAM:
            found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            found.add(name)
    return found


def labels() -> set[str]:
    return {label_name(name) for i in INSTRUMENTS for name in i.attributes}


def expressions(of: Any) -> Iterator[str]:
    """All queries and label templates in a document."""
    if isinstance(of, dict):
        for key, value in of.items():
            if key in ("expr", "query", "legendFormat", "summary") and isinstance(value, str):
                yield value
            yield from expressions(value)
    elif isinstance(of, list):
        for value in of:
            yield from expressions(value)


def test_every_attribute_that_is_sent_is_on_the_page() -> None:
    settings: dict[str, int | float | str] = dict.fromkeys(names.SETTINGS, 2)
    made = exchange(
        violation(),
        settings=settings,
        usage=dict.fromkeys(names.USAGE, 1),
        service_tier="x",
        marks=Marks(fingerprint="fp"),
        profile="p",
        error_type="server_error",
    )
    describer = Describer({"my-relay": ("h", 1)})
    assert set(describer.span(made)) == {*WHO, *SPAN}
    told = set(describer.log(made, made.violations[0]))
    assert told == {*WHO, *VIOLATION} - {names.COUNT, names.MESSAGE, names.LEFT_OUT}


def test_every_metric_is_on_the_page_with_its_two_names() -> None:
    page = telemetry_page()
    for instrument in INSTRUMENTS:
        assert f"### {instrument.name}\n\n`{metric_name(instrument)}`" in page


def test_queries_of_the_alerts_name_metrics_and_labels_that_there_are() -> None:
    rules = yaml.safe_load((EXAMPLES / "prometheus-rules.yaml").read_text(encoding="utf-8"))
    (group,) = rules["groups"]
    assert all({"alert", "expr", "annotations"} <= set(rule) for rule in group["rules"])
    words = {word for text in expressions(rules) for word in _WORD.findall(text)}
    assert words
    assert words <= series_names() | labels()


def test_queries_of_the_dashboard_name_metrics_and_labels_that_there_are() -> None:
    text = (EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8")
    dashboard = json.loads(text)
    words = {word for query in expressions(dashboard) for word in _WORD.findall(query)}
    assert words <= series_names() | labels()
    shown = {name for name in series_names() if name in words}
    assert {metric_name(i) for i in INSTRUMENTS if i.name != names.AUDIT_RECORDS} == {
        metric_name(i)
        for i in INSTRUMENTS
        if any(name.startswith(metric_name(i)) for name in shown)
    }
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_collectors_pipelines_name_components_that_are_set_up() -> None:
    config = yaml.safe_load((EXAMPLES / "collector.yaml").read_text(encoding="utf-8"))
    service = config["service"]
    used: dict[str, set[str]] = {"extensions": set(service["extensions"])}
    for pipeline in service["pipelines"].values():
        for kind, components in pipeline.items():
            used.setdefault(kind, set()).update(components)
    for kind in ("receivers", "processors", "exporters", "extensions"):
        assert used[kind] == set(config[kind])
    assert {name.partition("/")[0] for name in service["pipelines"]} == {
        *("traces", "metrics", "logs")
    }
    assert config["receivers"]["otlp"]["protocols"]["http"]["endpoint"].endswith(":4318")


def test_the_collector_tells_events_apart_by_the_names_they_have() -> None:
    config = yaml.safe_load((EXAMPLES / "collector.yaml").read_text(encoding="utf-8"))
    kept = {}
    for name, processor in config["processors"].items():
        if name.startswith("filter/"):
            (condition,) = processor["logs"]["log_record"]
            written = re.findall(r'"([^"]+)"', condition)[0]
            pattern = written.replace("\\\\", "\\")  # as the collector's language has it
            events = [names.VIOLATION_EVENT, names.SUMMARY_EVENT]
            events += [names.AUDIT_EVENT, names.AUDIT_HEAD_EVENT]
            kept[name] = {event for event in events if re.search(pattern, event)}
    assert kept == {
        "filter/audit": {names.AUDIT_EVENT, names.AUDIT_HEAD_EVENT},
        "filter/violations": {names.VIOLATION_EVENT, names.SUMMARY_EVENT},
    }
