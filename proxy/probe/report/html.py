"""The report of a check as one HTML file that can be sent to a relay's operator.

What belongs here: layout. Nothing is loaded from anywhere, nothing runs, everything that a peer or a user
chose is escaped; the file shows the same on a machine without network.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from teeline.proxy.probe.outcome import CheckOutcome
from teeline.proxy.probe.report.view import (
    DISCLAIMER,
    Told,
    View,
    cost_words,
    points,
    share_words,
    streams,
    view,
)
from teeline.proxy.reports.model import TOOL, Style, tool_version
from teeline.proxy.text import printable
from teeline.validators.scoring import DetectorScore

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
table{border-collapse:collapse;width:100%}
td,th{padding:.3rem .6rem;border-bottom:1px solid #d8dee4;text-align:left}
td.n,th.n{text-align:right}
.total{font-size:2rem;font-weight:700}.fail,.failed{color:#b3261e}.warn,.marginal{color:#8a5a00}
.pass,.passed,.excellent{color:#1a6b2f}.info,.skip{color:#57606a}
section{border-left:4px solid #d8dee4;padding:.1rem 1rem;margin:1rem 0}
section.fail{border-color:#b3261e}section.warn{border-color:#d39e00}section>*{color:#1b1f24}
dl{display:grid;grid-template-columns:4rem 1fr;gap:.2rem 1rem;margin:.5rem 0}dt{color:#57606a}dd{margin:0}
code,pre{font:13px/1.45 ui-monospace,monospace;background:#f6f8fa;overflow-wrap:anywhere}
pre{padding:.5rem;white-space:pre-wrap;margin:0}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}section>*{color:#e6edf3}
code,pre{background:#161b22}td,th{border-color:#30363d}}
""".strip()
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def render(outcome: CheckOutcome, style: Style) -> str:
    """The whole page."""
    seen = view(outcome, show_info=style.show_info)
    title = f"Relay check: {_text(outcome.target.base_url)}"
    body = "\n".join((*_head(seen, title), *_table(seen), *_findings(seen), *_foot(seen)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>{title}</title>\n'
        f"<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _text(words: str, limit: int = 600) -> str:
    return escape(printable(words, limit))


def _head(seen: View, title: str) -> Iterator[str]:
    outcome, card = seen.outcome, seen.card
    yield f"<h1>{title}</h1>"
    yield (
        f'<p><span class="total {card.band.value}">{seen.total}</span> '
        f'<strong class="{card.band.value}">{card.band.value}</strong>, result '
        f'<strong class="{card.result.value}">{card.result.value}</strong></p>'
    )
    for name, part in seen.by_protocol:
        yield f"<p>{name}: {points(part.total)}, {part.band.value}, result {part.result.value}</p>"
    key = _text(outcome.target.masked or "none")
    yield f"<p>model <code>{_text(outcome.settings.model)}</code>, key <code>{key}</code></p>"


def _table(seen: View) -> Iterator[str]:
    yield '<table><thead><tr><th>detector<th class="n">weight<th class="n">score<th>result'
    yield "<th>what took points</tr></thead><tbody>"
    yield from (_row(score) for score in seen.card.detectors)
    yield "</tbody></table>"


def _row(score: DetectorScore) -> str:
    weight = score.detector.weight or "-"
    start = f'<tr><td>{score.detector.name}<td class="n">{weight}'
    if score.score is None:
        return f'{start}<td class="n">-<td class="skip">skipped<td>{_text(score.skipped)}</tr>'
    taken = ", ".join(
        f"<code>{_text(x.finding.violation.rule.id)}</code> -{x.points}"
        for x in score.deductions
        if x.points
    )
    shown = score.score if score.detector.weight else "-"
    result = score.result.value
    return f'{start}<td class="n">{shown}<td class="{result}">{result}<td>{taken}</tr>'


def _findings(seen: View) -> Iterator[str]:
    if seen.told:
        yield "<h2>Findings</h2>"
    for told in seen.told:
        yield _finding(told)


def _finding(told: Told) -> str:
    share = f", {share_words(told.share)}" if told.share is not None else ""
    cost = f", -{told.points}" if told.points else ""
    rows = [("where", _text(told.place)), ("seen", f"<code>{_text(told.evidence)}</code>")]
    rows += [("why", _text(told.rule.why, 2000)), ("fix", _text(told.rule.fix, 2000))]
    rows += [("again", f"<pre>{_text(told.curl, 4000)}</pre>")]
    described = "".join(
        f"<dt>{name}<dd>{words}" for name, words in rows if told.evidence or name != "seen"
    )
    return (
        f'<section class="{told.severity.word}"><h3>{told.severity.word}: '
        f"<code>{_text(told.rule.id)}</code></h3><p>{_text(told.rule.summary)} "
        f"({told.detector}{cost}{share})</p><dl>{described}</dl></section>"
    )


def _foot(seen: View) -> Iterator[str]:
    outcome = seen.outcome
    if outcome.differences is not None:
        yield f"<h2>{len(outcome.differences)} differences from the baseline</h2><ul>"
        yield from (f"<li><code>{_text(line)}</code></li>" for line in outcome.differences)
        yield "</ul>"
    lines = [*outcome.notes, *map(str, streams(outcome))]
    if lines:
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"
    yield f"<p>{_text(cost_words(outcome))}</p>"
    yield f"<p>{DISCLAIMER} Made by {TOOL} {_text(tool_version())}.</p>"
