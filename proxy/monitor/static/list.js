// The exchanges: live, held, or of the past; and those that are under way.

import { badge, el, foreign, put, say } from "/monitor/static/dom.js";
import { bytes, count, iso, seconds, time } from "/monitor/static/format.js";

/** Rows of the list; with those of the other tables the page stays below 300. */
export const MOST = 200;
const HELD = 200;
const HEADS = [
  ["Began", "began"], ["Verdict", "verdict"], ["Upstream", "upstream"], ["Operation", "operation"], ["Model", "model"],
  ["Status", "number status"], ["First byte", "number first"], ["Took", "number took"], ["Size", "number size"],
  ["What broke", "broken"],
];

export function table(caption, body) {
  return el(
    "table",
    { class: "exchanges", role: "table" },
    el("caption", { class: "visually-hidden", text: caption }),
    el("thead", {}, el("tr", { role: "row" }, ...HEADS.map(([head, kind]) => el("th", { scope: "col", class: kind, text: head })))),
    body,
  );
}

/** One exchange as a row. */
export function row(exchange) {
  const under = !exchange.ended;
  return el(
    "tr",
    { role: "row", class: under ? "open" : exchange.verdict, "data-id": exchange.id, "data-end": exchange.at + (exchange.seconds ?? 0) },
    el("td", { class: "began" }, el("a", {
      href: `/monitor/exchange/${encodeURIComponent(exchange.id)}`, tabindex: "-1", title: iso(exchange.at), text: time(exchange.at),
    })),
    el("td", { class: "verdict" }, under ? badge("open") : badge(exchange.verdict), client(exchange)),
    el("td", { class: "upstream" }, foreign(exchange.upstream, 32)),
    el("td", { class: "operation" }, foreign(exchange.operation, 24), exchange.stream ? el("span", { class: "tag", text: "stream" }) : null),
    el("td", { class: "model" }, foreign(exchange.model, 40)),
    el("td", { class: "number status", text: exchange.status ?? "–" }),
    el("td", { class: "number first", text: seconds(exchange.first_byte) }),
    el("td", { class: "number took", text: seconds(exchange.seconds) }),
    el("td", { class: "number size", text: bytes(exchange.bytes) }),
    el("td", { class: "broken" }, ...broken(exchange)),
  );
}

function client(exchange) {
  const word = exchange.client_verdict;
  return word === "pass" ? null : el("span", { class: "tag", title: "the client's own request broke a rule", text: `client ${word}` });
}

function broken(exchange) {
  const told = exchange.broken.filter((each) => each.severity !== "info");
  const parts = told.slice(0, 2).map((each) => foreign(each.rule, 48, { class: "rule-id", title: each.message.slice(0, 300) }));
  const more = told.length - parts.length;
  if (more > 0) parts.push(el("span", { class: "quiet", text: `+${more}` }));
  if (exchange.ended && exchange.ended !== "complete") parts.push(el("span", { class: "tag", text: exchange.ended.replaceAll("_", " ") }));
  if (exchange.inspection !== "full") parts.push(foreign(exchange.inspection, 40, { class: "tag" }));
  return parts;
}

/** Arrows and j/k within a table: one row of it can be reached by Tab, the others from there. */
export function roving(body) {
  const links = () => [...body.querySelectorAll("td.began a")];
  const go = (link) => {
    if (!link) return false;
    for (const other of body.querySelectorAll('a[tabindex="0"]')) other.tabIndex = -1;
    link.tabIndex = 0;
    link.focus();
    return true;
  };
  body.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const all = links();
    const at = all.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: all.length - 1 };
    if (at >= 0 && event.key in steps && go(all[steps[event.key]])) {
      event.preventDefault();
      event.stopPropagation();
    }
  });
  // A click anywhere on a row opens it, as long as nothing is being selected.
  body.addEventListener("click", (event) => {
    const link = event.target.closest("tr")?.querySelector("td.began a");
    if (link && !event.target.closest("a") && !getSelection().toString()) link.click();
  });
  return { first: () => go(links()[0]), reachable: () => reachable(body) };
}

function reachable(body) {
  if (!body.querySelector('a[tabindex="0"]')) {
    const first = body.querySelector("td.began a");
    if (first) first.tabIndex = 0;
  }
}

/** The list. `mode` is live, paused or past. */
export class List extends EventTarget {
  constructor(facts) {
    super();
    this.facts = facts;
    this.mode = "live";
    this.held = [];
    this.missed = 0;
    this.older = null;
    this.body = el("tbody");
    this.roving = roving(this.body);
    this.title = el("h2", { id: "exchanges", text: "Exchanges" });
    this.note = el("span", { class: "quiet", id: "list-note" });
    this.pause = el("button", { type: "button", class: "pause", "aria-keyshortcuts": "p", on: { click: () => this.toggle() } });
    this.more = el("button", { type: "button", text: "Older", "aria-keyshortcuts": "o", on: { click: () => this.goBack() } });
    this.now = el("button", { type: "button", text: "Back to now", on: { click: () => this.goLive() } });
    this.when = el("input", { type: "datetime-local", id: "until", step: 1 });
    this.when.addEventListener("change", () => this.goTo());
    this.none = el("p", { class: "empty" });
    this.element = el("div", { class: "list" });
    this.build();
    this.tell();
  }

  build() {
    const back = this.facts.history
      ? el("label", { class: "when-field" }, el("span", { text: "Up to" }), this.when)
      : el("span", { class: "quiet", text: "No audit log is written: there is no history." });
    this.bar = el("div", { class: "section-head" }, this.title, this.note, el("span", { class: "grow" }), back, this.now, this.pause);
    put(this.element, el("div", { class: "scroll" }, table("Exchanges, newest first", this.body)), this.none, this.more);
  }

  // -- what is shown -------------------------------------------------------------------------------

  /** A new list: rows newest first. */
  replace(rows, older = null) {
    this.older = older;
    this.held = [];
    this.missed = 0;
    put(this.body, ...rows.slice(0, MOST).map(row));
    this.roving.reachable();
    this.tell();
  }

  /** Rows that happened, newest first, and how many more did. */
  add(rows, missed) {
    if (this.mode === "past") return;
    this.missed += missed;
    if (this.mode === "paused" || this.body.contains(document.activeElement)) {
      // Whoever reads a row must not have it taken away.
      // What is in the list came as history and comes again as live: it isn't new.
      const fresh = rows.filter((exchange) => !this.knows(exchange.id));
      this.held = [...fresh, ...this.held].slice(0, HELD);
      if (fresh.length || missed) this.tell();
      return;
    }
    const waiting = this.held.length ? [...rows, ...this.held] : rows;
    this.held = [];
    this.insert(waiting);
    if (waiting.length || missed) this.tell();
  }

  insert(rows) {
    const made = document.createDocumentFragment();
    for (const exchange of rows.slice(0, MOST)) if (!this.knows(exchange.id)) made.append(row(exchange));
    this.body.prepend(made);
    while (this.body.childElementCount > MOST) this.body.lastElementChild.remove();
    this.roving.reachable();
  }

  knows(id) {
    // Only the newest can come twice: as history, and as live.
    let at = this.body.firstElementChild;
    for (let seen = 0; at && seen < 100; seen += 1, at = at.nextElementSibling) if (at.dataset.id === id) return true;
    return false;
  }

  tell() {
    const words = [];
    if (this.mode === "past") words.push("of the past");
    else if (this.held.length) words.push(`${count(this.held.length)}${this.held.length === HELD ? " or more" : ""} new wait`);
    if (this.missed && this.mode !== "past") words.push(`${count(this.missed)} not listed: too many at once`);
    say(this.note, words.join(" · "));
    say(this.pause, this.mode === "paused" ? "Resume" : "Pause");
    this.pause.setAttribute("aria-pressed", String(this.mode === "paused"));
    this.pause.hidden = this.mode === "past";
    this.now.hidden = this.mode !== "past";
    this.more.hidden = !this.facts.history || (this.mode === "past" && !this.older) || !this.body.firstElementChild;
    this.none.hidden = Boolean(this.body.firstElementChild);
    say(this.none, this.mode === "past" ? "No exchange up to there." : "No exchange yet. Point a client's OPENAI_BASE_URL here.");
    this.dispatchEvent(new Event("mode"));
  }

  // -- where in time -------------------------------------------------------------------------------

  toggle() {
    if (this.mode === "past") return this.goLive();
    this.mode = this.mode === "paused" ? "live" : "paused";
    if (this.mode === "live") this.add([], 0);
    this.tell();
  }

  goLive() {
    this.travel({});
  }

  goBack() {
    const last = this.body.lastElementChild;
    if (this.mode === "past" && this.older) this.travel({ before: this.older });
    else if (last && this.mode !== "past") this.travel({ until: last.dataset.end });
  }

  goTo() {
    const at = this.when.value ? new Date(this.when.value).getTime() / 1000 : NaN;
    if (Number.isFinite(at)) this.travel({ until: at });
  }

  /** Puts a time into the address; whoever listens fetches what belongs to it. */
  travel(where) {
    const parameters = new URLSearchParams(location.search);
    parameters.delete("until");
    parameters.delete("before");
    for (const [name, value] of Object.entries(where)) parameters.set(name, value);
    const text = parameters.toString();
    history.pushState(null, "", text ? `/monitor/?${text}` : "/monitor/");
    this.dispatchEvent(new Event("travel"));
  }
}

/** What is under way: rows of the same kind that come and go. */
export class Streams {
  constructor() {
    this.body = el("tbody");
    this.roving = roving(this.body);
    this.rows = new Map();
    this.count = el("span", { class: "quiet" });
    this.element = el(
      "section",
      { "aria-labelledby": "under-way", hidden: true },
      el("div", { class: "section-head" }, el("h2", { id: "under-way", text: "Under way" }), this.count),
      el("div", { class: "scroll" }, table("Exchanges under way", this.body)),
    );
  }

  show(streams, open, now) {
    const kept = new Map();
    // From the oldest on, so that the newest comes to stand on top.
    for (const exchange of [...streams].reverse()) {
      const told = JSON.stringify([exchange.events, exchange.bytes, exchange.status, exchange.broken_count]);
      let shown = this.rows.get(exchange.id);
      if (!shown) {
        shown = { element: row(exchange), told };
        this.body.prepend(shown.element);
      } else if (shown.told !== told && !shown.element.contains(document.activeElement)) {
        const next = row(exchange);
        shown.element.replaceWith(next);
        shown = { element: next, told };
      }
      say(shown.element.querySelector(".took"), seconds(Math.max(0, now - exchange.at)));
      kept.set(exchange.id, shown);
    }
    for (const [id, shown] of this.rows) if (!kept.has(id)) shown.element.remove();
    this.rows = kept;
    this.element.hidden = !streams.length;
    this.roving.reachable();
    const more = open - streams.length;
    say(this.count, more > 0 ? `${count(streams.length)} of ${count(open)}` : count(streams.length));
  }
}
