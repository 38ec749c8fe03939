// Faults of one kind as one line: how often, since when, and whether it grows.

import { bars } from "/monitor/static/chart.js";
import { badge, el, foreign, put, say } from "/monitor/static/dom.js";
import { ago, count, iso } from "/monitor/static/format.js";

const ARROWS = { rising: "↗", falling: "↘", steady: "→", new: "+" };
const HEADS = [
  ["Severity", ""], ["Rule", ""], ["Upstream", ""], ["Model", ""], ["Count", "number"], ["Trend", ""],
  ["First seen", ""], ["Last seen", ""],
];
const FIRST = 6;

export class Faults {
  constructor() {
    this.rows = new Map();
    this.body = el("tbody");
    this.none = el("p", { class: "empty" });
    this.table = el(
      "table",
      { class: "faults", role: "table" },
      el("caption", { class: "visually-hidden", text: "Faults by rule, upstream and model" }),
      el("thead", {}, el("tr", { role: "row" }, ...HEADS.map(([head, kind]) => el("th", { scope: "col", class: kind, text: head })))),
      this.body,
    );
    this.count = el("span", { class: "quiet" });
    this.whole = false;
    this.more = el("button", { type: "button", class: "more", on: { click: () => this.toggle() } });
    this.element = el(
      "section",
      { "aria-labelledby": "faults" },
      el("div", { class: "section-head" }, el("h2", { id: "faults", text: "Faults" }), this.count),
      el("div", { class: "scroll", tabindex: "-1" }, this.table),
      this.none,
      this.more,
    );
  }

  toggle() {
    this.whole = !this.whole;
    this.show(...this.told);
  }

  /** `faults` in their order; `span` says over which time, `now` is the server's. */
  show(every, span, now) {
    this.told = [every, span, now];
    const faults = this.whole ? every : every.slice(0, FIRST);
    this.more.hidden = every.length <= FIRST;
    say(this.more, this.whole ? "Show the worst only" : `Show all ${every.length}`);
    this.table.hidden = !faults.length;
    this.none.hidden = faults.length > 0;
    say(this.none, `No fault in the last ${span}.`);
    say(this.count, faults.length ? `${every.length} kind${every.length > 1 ? "s" : ""}, last ${span}` : "");
    const kept = new Map();
    faults.forEach((fault, index) => {
      const key = JSON.stringify([fault.rule, fault.upstream, fault.model]);
      const row = this.rows.get(key) ?? new Fault(fault);
      kept.set(key, row);
      row.show(fault, now);
      // Moved only where it isn't yet: moving a row takes the focus from it.
      if (this.body.children[index] !== row.element) {
        this.body.insertBefore(row.element, this.body.children[index] ?? null);
      }
    });
    for (const [key, row] of this.rows) if (!kept.has(key)) row.element.remove();
    this.rows = kept;
  }
}

class Fault {
  constructor(fault) {
    const query = new URLSearchParams({ rule: fault.rule, upstream: fault.upstream });
    if (fault.model) query.set("model", fault.model);
    this.severity = el("td");
    this.count = el("td", { class: "number", "data-label": "Count" });
    this.link = el("a", { href: `/monitor/?${query}`, "data-filter": "" }, this.total = el("span"));
    this.count.append(this.link);
    this.trend = el("td", { class: "trend", "data-label": "Trend" });
    this.first = el("td", { class: "when", "data-label": "First seen" });
    this.last = el("td", { class: "when", "data-label": "Last seen" });
    this.element = el(
      "tr",
      { role: "row" },
      this.severity,
      el("td", { class: "rule" }, el("a", { href: `/monitor/rules/${encodeURIComponent(fault.rule)}` }, foreign(fault.rule, 64))),
      el("td", { "data-label": "Upstream" }, foreign(fault.upstream, 40)),
      el("td", { "data-label": "Model" }, foreign(fault.model, 40)),
      this.count, this.trend, this.first, this.last,
    );
  }

  show(fault, now) {
    if (this.shown !== fault.severity) {
      this.shown = fault.severity;
      put(this.severity, badge(fault.severity));
    }
    say(this.total, count(fault.count));
    this.link.setAttribute("aria-label", `${count(fault.count)} exchanges that broke ${fault.rule}`);
    const drawn = fault.trend.join();
    if (this.drawn !== drawn) {
      this.drawn = drawn;
      put(this.trend, bars(fault.trend), el("span", { class: "word", text: `${ARROWS[fault.tendency] ?? ""} ${fault.tendency}` }));
    }
    say(this.first, ago(fault.first, now));
    say(this.last, ago(fault.last, now));
    this.first.title = iso(fault.first);
    this.last.title = iso(fault.last);
  }
}
