"""The page on ClickHouse: each of its questions gets the right answer on what teeline exported."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from teeline.proxy.audit.anchor import Anchor
from teeline.proxy.audit.files import DiskFile
from teeline.proxy.audit.writer import ChainWriter
from teeline.proxy.telemetry.metrics import MetricsSink
from teeline.proxy.telemetry.sink import Choices, TelemetrySink
from teeline.validators.events import Closed, Found
from teeline.validators.model import Exchange, Severity, Timing
from tests.proxy.audit.logs import KEEP, ORIGIN, Clock
from tests.proxy.samples import exchange, violation
from tests.proxy.telemetry.collector import Collector, collecting

pytest.importorskip("chdb", reason="the extra test-clickhouse isn't installed")

from tests.proxy.telemetry.clickhouse import Rows, answers, rows

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "clickhouse.md").read_text(encoding="utf-8")
QUESTIONS = dict(re.findall(r"^### (.*?)$.*?```sql\n(.*?)```", PAGE, re.S | re.M))
HOUR = 3600.0
BASE = (time.time() // HOUR - 3) * HOUR
"""The start of an hour that every question's window holds."""


class Sent(NamedTuple):
    """What arrived, and the chain that it was bound in."""

    rows: Rows
    chain: str
    bad: Sequence[Exchange]


def made(hour: int, *violations: Any, **changes: Any) -> Exchange:
    start = BASE + hour * HOUR + 60
    timing = Timing(start, start + 0.2, start + 0.25, start + 1.4, start + 1.5, 0.1)
    for each in violations:
        each.at = start + 1
    return exchange(*violations, timing=timing, **changes)


def traffic() -> tuple[list[Exchange], list[Exchange]]:
    """Two relays: ten exchanges of a good one, 30 failing and 2 warned ones of a bad one."""
    good = [
        made(hour, upstream="good", client_key="aaaa", request_id=f"good-{hour}-{number}")
        for hour in (0, 1)
        for number in range(5)
    ]
    bad = [
        made(1, violation(), upstream="bad", client_key="bbbb", model="m", usage={}, request_id="b")
        for _ in range(30)
    ]
    warned = [
        made(0, violation("usage.x", Severity.WARN), upstream="bad", client_key="aaaa", model="m")
        for _ in range(2)
    ]
    warned[0].request_id, warned[1].request_id = "req-1", "w"
    return good, [*bad, *warned]


async def send(collector: Collector, folder: Path) -> tuple[str, Sequence[Exchange]]:
    """Through the real sinks, the chain's writer and the exporters."""
    good, bad = traffic()
    environ = {
        **collector.environ,
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=process-1",
    }
    numbers = MetricsSink()
    choices = Choices(audit_records=True, chained=True)
    sink = TelemetrySink.from_environment(environ, choices=choices, meter=numbers.meter)
    assert sink is not None
    await numbers.start()
    await sink.start()
    writer = ChainWriter(
        folder,
        ORIGIN,
        keep=KEEP,
        clock=Clock(BASE + 2 * HOUR),
        open_file=DiskFile,
        anchor=Anchor(None, sink.witnessed),
        on_written=sink.written,
    )
    writer.start()
    for each in (*good, *bad):
        for found in each.violations:
            sink.found(Found(each, found))
            numbers.found(Found(each, found))
        sink.closed(Closed(each))
        numbers.closed(Closed(each))
    writer.append(good)
    writer.note_lost("queue-full", 7)
    writer.append(bad)
    writer.close()
    await sink.drain(60)
    await sink.close()
    await numbers.close()
    return writer.chain.id, bad


@pytest.fixture(name="sent", scope="module")
def _sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    with collecting() as collector:
        chain, bad = asyncio.run(send(collector, tmp_path_factory.mktemp("log")))
        yield Sent(rows(collector), chain, bad)


@pytest.fixture(name="found", scope="module")
def _found(sent: Sent) -> dict[str, list[list[Any]]]:
    """The answer to every question of the page."""
    return dict(zip(QUESTIONS, answers(sent.rows, *QUESTIONS.values()), strict=True))


def clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def test_every_block_of_the_page_is_a_question_with_a_heading() -> None:
    assert len(QUESTIONS) == PAGE.count("```sql") == 14


def test_what_the_relays_did(found: dict[str, list[list[Any]]]) -> None:
    rules = found["Which rules did each relay break, how often, since when?"]
    assert [row[:4] for row in rules] == [
        ["bad", "chatstream.done-missing", "fail", 30],
        ["bad", "usage.x", "warn", 2],
    ]
    assert rules[1][4].startswith(clock(BASE + 61.5))
    assert found["What share of each relay's exchanges fails, hour by hour?"] == [
        [clock(BASE), "bad", 2, 0],
        [clock(BASE), "good", 5, 0],
        [clock(BASE + HOUR), "bad", 30, 100],
        [clock(BASE + HOUR), "good", 5, 0],
    ]
    families = found["How does each relay stand, family by family?"]
    assert families == [["bad", "chatstream", 32, 6.2]]
    assert found["How long did answers take?"] == [
        ["bad", "m", 32, 0.25, 1.5, 1.5],
        ["good", "gpt-4o-mini", 10, 0.25, 1.5, 1.5],
    ]
    assert found["How many tokens did each relay report?"] == [
        ["bad", "m", 32, 2, 18, 24],
        ["good", "gpt-4o-mini", 10, 10, 90, 120],
    ]


def test_single_exchanges(found: dict[str, list[list[Any]]], sent: Sent) -> None:
    ((_, relay, verdict, body),) = found["What was this exchange?"]
    assert (relay, verdict, json.loads(body)["request_id"]) == ("bad", "warn", "req-1")
    assert found["Whose requests met failing answers?"] == [
        ["bbbb", 30, 30],
        ["aaaa", 12, 0],
    ]
    last = found["Which violations came last, and in which traces?"]
    assert len(last) == 3
    traces = {each.trace_id for each in sent.bad}
    assert all(row[1] in traces and row[2] == "chatstream.done-missing" for row in last)
    assert [row[5:] for row in last] == [["chat m", "200"]] * 3
    damped = found["Which violations were not told one by one?"]
    assert damped == [["bad", "chatstream.done-missing", 30, 5]]


def test_a_whole_chain_raises_no_question(found: dict[str, list[list[Any]]], sent: Sent) -> None:
    assert found["Which records aren't what was written?"] == []
    assert found["Which records are missing from a chain, or were put into it?"] == []
    assert found["Which chains have lost their tail?"] == []
    assert found["What was lost by teeline's own account?"] == [[sent.chain, "queue-full", 7]]
    counted = found["How many exchanges and drops did each process count?"]
    assert counted == [["process-1", "teeline.exchanges", 42]]


WHOLE = (
    "Which records aren't what was written?",
    "Which records are missing from a chain, or were put into it?",
    "Which chains have lost their tail?",
)


def damaged(sent: Sent, change: Any) -> list[list[list[Any]]]:
    """What the three questions about the chain say once its records were changed."""
    stored = copy.deepcopy({table: list(found) for table, found in sent.rows.items()})
    logs = stored["otel_logs"]
    chained = [row for row in logs if row["EventName"] == "teeline.audit.record"]
    stored["otel_logs"] = [row for row in logs if row not in chained] + change(chained)
    return answers(stored, *(QUESTIONS[name] for name in WHOLE))


def test_an_edited_record_is_found(sent: Sent) -> None:
    def edit(chained: list[dict[str, Any]]) -> list[dict[str, Any]]:
        chained[20]["Body"] = chained[20]["Body"].replace('"verdict":"fail"', '"verdict":"pass"')
        return chained

    assert damaged(sent, edit) == [[[sent.chain, 21]], [], []]


def test_a_removed_record_is_found(sent: Sent) -> None:
    edited = damaged(sent, lambda chained: chained[:20] + chained[22:])
    assert edited == [[], [[sent.chain, 23, 2]], []]


def test_a_record_that_was_made_anew_does_not_fit(sent: Sent) -> None:
    """Hash and all: the next one tells."""

    def forge(chained: list[dict[str, Any]]) -> list[dict[str, Any]]:
        forged = copy.deepcopy(chained[21])
        forged["LogAttributes"]["teeline.audit.seq"] = "21"
        return [*chained[:20], forged, *chained[21:]]

    written, missing, _ = damaged(sent, forge)
    assert written == [[sent.chain, 21]]
    assert missing == [[sent.chain, 21, 0], [sent.chain, 22, 0]]


def test_a_lost_tail_is_found_by_the_last_head(sent: Sent) -> None:
    count = sum(row["EventName"] == "teeline.audit.record" for row in sent.rows["otel_logs"])
    lost = damaged(sent, lambda chained: chained[:-3])
    assert lost == [[], [], [[sent.chain, count, count - 3, 0]]]


def test_records_that_came_twice_are_no_damage(sent: Sent) -> None:
    assert damaged(sent, lambda chained: chained + chained[5:9]) == [[], [], []]


def test_the_collectors_example_names_components_that_are_set_up() -> None:
    text = (DOCS / "examples" / "collector-clickhouse.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    service = config["service"]
    used: dict[str, set[str]] = {"extensions": set(service["extensions"])}
    for pipeline in service["pipelines"].values():
        for kind, components in pipeline.items():
            used.setdefault(kind, set()).update(components)
    for kind in ("receivers", "processors", "exporters", "extensions"):
        assert used[kind] == set(config[kind])
    assert set(service["pipelines"]) == {"traces", "metrics", "logs"}
