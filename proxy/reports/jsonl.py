"""The report as JSON Lines: one exchange a line, then a line that sums up.

What belongs here: the lines around the objects. What doesn't: the objects' members (json.py).
"""

from __future__ import annotations

from teeline.proxy.reports.json import ascii_json, exchange, head, problem, summary
from teeline.proxy.reports.model import Report, Style


def render(report: Report, style: Style) -> str:
    """``{"v", "kind": "exchange", ...}`` a line, ``"problem"`` for what was not checked, ``"summary"``."""
    lines = [{"v": 1, "kind": "exchange", **exchange(reported)} for reported in report.exchanges]
    lines += [{"v": 1, "kind": "problem", **problem(found)} for found in report.problems]
    lines.append({"v": 1, "kind": "summary", **head(report), **summary(report)})
    return "".join(f"{ascii_json(line)}\n" for line in lines)
