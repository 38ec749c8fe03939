// The top of the page: a card an upstream, with its numbers and charts.

import { Chart } from "/monitor/static/chart.js";
import { badge, el, foreign, put, say } from "/monitor/static/dom.js";
import { count, rate, seconds, share } from "/monitor/static/format.js";

const BANDS = { excellent: "pass", passed: "pass", marginal: "warn", failed: "fail" };

export class Cards {
  constructor(live, facts) {
    this.live = live;
    this.facts = facts;
    this.cards = new Map();
    this.day = null;
    this.drawn = 0;
    this.grid = el("div", { class: "cards" });
    this.element = el(
      "section",
      { "aria-labelledby": "upstreams" },
      el("h2", { id: "upstreams", text: "Upstreams" }),
      this.grid,
    );
  }

  /** Called for each update; charts change every few seconds only, and are drawn that often. */
  show() {
    for (const told of this.live.upstreams) this.card(told.name).show(told);
    const now = performance.now();
    if (now - this.drawn < 2000 && this.drawn) return;
    this.drawn = now;
    this.draw();
  }

  /** The charts of a day (from the audit log), or with null those of now. */
  over(day) {
    this.day = day;
    this.draw();
  }

  draw() {
    for (const card of this.cards.values()) card.draw(this.live, this.day);
  }

  card(name) {
    let card = this.cards.get(name);
    if (!card) {
      card = new Card(name, this.facts.upstreams[name]);
      this.cards.set(name, card);
      this.grid.append(card.element);
    }
    return card;
  }
}

class Card {
  constructor(name, url) {
    this.name = name;
    this.band = el("span", { class: "band" });
    this.shownBand = "";
    this.values = {};
    const figures = [
      ["rate", "Requests", "requests a second, over the last minute"],
      ["open", "Open", "exchanges under way"],
      ["failing", "Failing", "share of the exchanges of the last 15 minutes that fail"],
      ["p50", "1st event p50", "time to a stream's first event, last 15 minutes"],
      ["p95", "1st event p95", "time to a stream's first event, last 15 minutes"],
      ["tokens", "Tokens", "output tokens a second as the relay reported them, over the last minute"],
    ];
    this.requests = new Chart({
      label: "Requests a second",
      lines: [{ name: "all", class: "all", filled: true }, { name: "failing", class: "failing", filled: true }],
      format: rate,
    });
    this.first = new Chart({
      label: "1st event",
      lines: [{ name: "p95", class: "high" }, { name: "p50", class: "all" }],
      format: seconds,
    });
    this.tokens = new Chart({
      label: "Tokens a second", lines: [{ name: "output", class: "all", filled: true }], format: rate,
    });
    this.note = el("p", { class: "quiet", hidden: true, text: "Times to the first event and tokens are known for the last 15 minutes." });
    this.element = el(
      "article",
      { class: "card", "aria-label": `Upstream ${name}` },
      el("div", { class: "card-head" }, el("h3", {}, foreign(name, 64)), this.band),
      url ? el("p", { class: "quiet url" }, foreign(url, 80)) : null,
      el("dl", { class: "figures" }, ...figures.map((figure) => this.figure(...figure))),
      el("div", { class: "charts" }, this.requests.element, this.first.element, this.tokens.element),
      this.note,
    );
  }

  figure(key, label, title) {
    const value = (this.values[key] = el("dd", { text: "–" }));
    return el("div", { class: "figure", title }, el("dt", { text: label }), value);
  }

  show(told) {
    const { values } = this;
    say(values.rate, `${rate(told.rate)} /s`);
    say(values.open, count(told.open));
    say(values.failing, share(told.failed, told.closed));
    values.failing.className = told.failed ? "bad" : "";
    say(values.p50, seconds(told.p50));
    say(values.p95, seconds(told.p95));
    say(values.tokens, `${rate(told.tokens_rate)} /s`);
    this.judge(told);
  }

  judge({ score, band, scored }) {
    const text = band ? `score ${score} · ${band}` : "no score yet";
    if (text === this.shownBand) return;
    this.shownBand = text;
    const title = `exchanges without a failure, last ${scored === "24 h" ? "24 hours" : "15 minutes"}`;
    put(this.band, band ? badge(BANDS[band] ?? "info", text) : el("span", { class: "quiet", text }));
    this.band.title = title;
  }

  draw(live, day) {
    for (const chart of [this.first, this.tokens]) chart.element.hidden = Boolean(day);
    this.note.hidden = !day;
    if (day) {
      const known = new Map((day.series[this.name] ?? []).map((point) => [point[0], point]));
      const points = [];
      for (let at = day.since; at < day.since + 86400 - 1; at += day.width) {
        const [, closed, failed] = known.get(at) ?? [at, 0, 0];
        points.push([at, closed / day.width, failed / day.width]);
      }
      this.requests.draw(points, day.since, day.since + 86400 - day.width);
      return;
    }
    const { slots, from, to, seconds: width } = live.window(this.name);
    this.requests.draw(slots.map((slot) => [slot[0], slot[1] / width, slot[3] / width]), from, to);
    this.first.draw(slots.map((slot) => [slot[0], slot[7], slot[6]]), from, to);
    this.tokens.draw(slots.map((slot) => [slot[0], slot[5] / width]), from, to);
  }
}
