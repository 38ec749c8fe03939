"""Metrics as text for Prometheus (exposition format 0.0.4).

What belongs here: names, escaping and layout of that format. What doesn't: the numbers (metrics.py),
the port (admin.py). By hand, since a client library would keep the same numbers a second time.

Names follow OpenTelemetry's rules for Prometheus: dots become underscores, seconds are spelt out,
counters end in ``_total``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from teeline.proxy.telemetry.instruments import Instrument, Kind
from teeline.proxy.telemetry.metrics import Series, Value, attributes_of

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_UNITS: Final = {"s": "_seconds"}
_TYPES: Final = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.HISTOGRAM: "histogram"}
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = Mapping[str, str | int | bool]


def metric_name(instrument: Instrument) -> str:
    """The name of an instrument in Prometheus; a histogram's series add ``_bucket`` and so on."""
    name = instrument.name.replace(".", "_") + _UNITS.get(instrument.unit, "")
    return f"{name}_total" if instrument.kind is Kind.COUNTER else name


def label_name(attribute: str) -> str:
    return attribute.replace(".", "_")


def render(taken: Iterable[Series]) -> str:
    """The page that Prometheus scrapes."""
    return "".join(f"{line}\n" for series in taken for line in _lines(series))


def _lines(series: Series) -> Iterator[str]:
    instrument = series.instrument
    name = metric_name(instrument)
    yield f"# HELP {name} {instrument.description}"
    yield f"# TYPE {name} {_TYPES[instrument.kind]}"
    for key, value in series.values.items():
        labels = attributes_of(instrument, key)
        if isinstance(value, int):
            yield f"{name}{_braces(labels)} {value}"
        else:
            yield from _histogram(name, labels, instrument.bounds, value)


def _histogram(name: str, labels: Labels, bounds: Iterable[float], value: Value) -> Iterator[str]:
    assert isinstance(value, tuple)
    buckets, total = value
    # The labels once a series: a page may have thousands of them.
    written = _pairs(labels)
    before = f'{name}_bucket{{{written}{"," if written else ""}le="'
    below = 0
    for bound, count in zip([*(f"{b:.10g}" for b in bounds), "+Inf"], buckets, strict=True):
        below += count
        yield f'{before}{bound}"}} {below}'
    braces = f"{{{written}}}" if written else ""
    yield f"{name}_sum{braces} {total!r}"
    yield f"{name}_count{braces} {below}"


def _braces(labels: Labels) -> str:
    return f"{{{_pairs(labels)}}}" if labels else ""


def _pairs(labels: Labels) -> str:
    return ",".join(f'{label_name(name)}="{_text(value)}"' for name, value in labels.items())


def _text(value: str | int | bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # A lone surrogate, which a configuration file can hold, is no UTF-8.
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode()
