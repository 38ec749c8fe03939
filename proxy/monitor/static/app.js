// Which page this is, and how its parts hear of what happens.

import { Cards } from "/monitor/static/cards.js";
import { el, put, remember, say } from "/monitor/static/dom.js";
import { showExchange } from "/monitor/static/exchange.js";
import { Faults } from "/monitor/static/faults.js";
import { Filters, query } from "/monitor/static/filters.js";
import { count } from "/monitor/static/format.js";
import { shortcuts } from "/monitor/static/keys.js";
import { List, Streams } from "/monitor/static/list.js";
import { Live } from "/monitor/static/live.js";
import { showRule } from "/monitor/static/rule.js";

const DAY_EVERY = 60_000;
const SAID_EVERY = 10_000;
const PATIENCE = 5;
const AGAIN = 2000;
const ASLEEP_AFTER = 60_000;
const STATES = { live: ["●", "live"], connecting: ["◌", "connecting"], lost: ["■", "connection lost, trying again"], asleep: ["◌", "asleep"] };

const main = document.getElementById("main");
const tools = document.getElementById("tools");
const foot = document.getElementById("foot");

async function begin() {
  const answer = await fetch("/monitor/api/facts").catch(() => null);
  if (!answer) return put(main, el("h1", { text: "teeline doesn't answer" }), el("p", { class: "empty", text: "Load this page again when it runs." }));
  if (answer.status === 401) return location.assign("/monitor/login");
  const facts = await answer.json();
  tell(facts, 0);
  if (facts.sessions) tools.append(signOut());
  const [, , page, id] = location.pathname.split("/");
  if (page === "exchange" || page === "rules") {
    tools.prepend(shortcuts({ g: () => location.assign("/monitor/") }));
    return page === "rules" ? showRule(main, decodeURIComponent(id)) : showExchange(main, decodeURIComponent(id), facts);
  }
  return new Overview(facts).begin();
}

/** The foot: what this is, and what is missing on the page. */
function tell(facts, lost) {
  const missing = lost ? `${count(lost)} exchanges and findings are missing on this page: the proxy was too busy to tell` : "";
  say(foot, [`teeline ${facts.version}`, facts.note, missing].filter(Boolean).join(" · "));
}

function signOut() {
  return el("button", {
    type: "button", text: "Sign out",
    on: { click: () => fetch("/monitor/api/logout", { method: "POST" }).then(() => location.assign("/monitor/login")) },
  });
}

class Overview {
  constructor(facts) {
    this.facts = facts;
    this.live = new Live();
    this.cards = new Cards(this.live, facts);
    this.faults = new Faults();
    this.streams = new Streams();
    this.list = new List(facts);
    this.filters = new Filters(Object.keys(facts.upstreams));
    this.day = null;
    this.chosen = "now";
    this.known = null;
    this.connected = null;
    this.saidAt = -Infinity;
    this.asked = 0;
  }

  begin() {
    const list = el("section", { "aria-labelledby": "exchanges" }, this.list.bar, this.filters.element, this.list.element);
    put(main, el("h1", { class: "visually-hidden", text: "What goes through" }), this.cards.element, this.faults.element, this.streams.element, list);
    tools.prepend(this.span(), shortcuts({
      "/": () => this.filters.focus(), p: () => this.list.toggle(), o: () => this.list.goBack(),
      n: () => this.list.mode === "past" && this.list.goLive(), l: () => this.list.roving.first(),
      w: () => this.choose(this.chosen === "day" ? "now" : "day"), g: () => location.assign("/monitor/"),
    }));
    this.live.addEventListener("state", () => this.connection());
    this.live.addEventListener("snapshot", (event) => this.snapshot(event.detail));
    this.live.addEventListener("update", (event) => this.update(event.detail));
    this.filters.addEventListener("changed", () => this.load());
    this.list.addEventListener("travel", () => this.load());
    window.addEventListener("popstate", () => {
      this.filters.write();
      this.load();
    });
    document.addEventListener("click", (event) => this.filterLink(event));
    document.addEventListener("visibilitychange", () => this.sleep());
    this.connection();
    setInterval(() => this.chosen === "day" && !document.hidden && this.choose("day"), DAY_EVERY);
    this.load();
  }

  /** A link that only filters needs no new page. */
  filterLink(event) {
    const link = event.target.closest?.("a[data-filter]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    this.filters.set(new URL(link.href).searchParams);
    this.list.title.scrollIntoView({ block: "start" });
    this.filters.focus();
  }

  /** A tab that nobody sees gives its stream back: a browser has six connections to a server, all tabs together. */
  sleep() {
    clearTimeout(this.falling);
    if (document.hidden) {
      this.falling = setTimeout(() => this.live.close(), ASLEEP_AFTER);
    } else if (this.live.source === null && this.connected !== null) {
      if (this.list.mode === "live") this.load();
      else this.live.connect(this.connected);
    }
  }

  // -- the list ------------------------------------------------------------------------------------

  /** What the address asks for: the past, or now. */
  async load() {
    const asked = (this.asked += 1);
    remember();
    const place = new URLSearchParams(location.search);
    const past = this.facts.history && (place.has("until") || place.has("before"));
    this.list.mode = past ? "past" : "live";
    const parameters = query();
    if (past) for (const name of ["until", "before"]) if (place.has(name)) parameters.set(name, place.get(name));
    const history = this.facts.history ? await this.history(parameters, asked) : null;
    if (asked !== this.asked) return;
    this.list.replace(history?.rows ?? [], history?.older ?? null);
    const filter = query().toString();
    if (this.live.source === null || filter !== this.connected) {
      this.connected = filter;
      this.live.connect(filter);
    }
  }

  /** A page of the past; asked again for a while where the index is still in the making. */
  async history(parameters, asked) {
    for (let tries = 0; tries < PATIENCE && asked === this.asked; tries += 1) {
      const answer = await fetch(`/monitor/api/exchanges?${parameters}`).catch(() => null);
      if (answer?.ok) return answer.json();
      if (answer) this.announce((await answer.text()).trim().slice(0, 200), true);
      if (answer?.status !== 503) break;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
    return null;
  }

  snapshot(told) {
    this.list.add(told.rows, 0);
    this.show(told);
  }

  update(told) {
    this.list.add(told.rows, told.unlisted);
    this.show(told);
  }

  show(told) {
    this.cards.show();
    tell(this.facts, told.lost);
    if (told.faults) this.news(told.faults);
    if (told.faults && !this.day) this.faults.show(told.faults, "15 minutes", told.at);
    const open = told.upstreams.reduce((sum, upstream) => sum + upstream.open, 0);
    this.streams.show(told.streams, open, told.at);
  }

  // -- what is said --------------------------------------------------------------------------------

  connection() {
    const [shape, word] = STATES[this.live.state];
    const state = document.getElementById("state");
    state.className = `state ${this.live.state}`;
    put(state, el("span", { class: "shape", "aria-hidden": "true", text: shape }), el("span", { text: word }));
    if (this.live.state === "lost") this.announce(word, true);
  }

  /** Kinds of faults that weren't there before are said, and not more often than one can listen to. */
  news(faults) {
    const kinds = new Set(faults.map((fault) => `${fault.rule} ${fault.upstream}`));
    if (this.known === null) {
      this.known = kinds;
      return;
    }
    const fresh = [...kinds].filter((kind) => !this.known.has(kind));
    if (!fresh.length || performance.now() - this.saidAt < SAID_EVERY) return;
    for (const kind of fresh) this.known.add(kind);
    this.announce(fresh.length === 1 ? `New fault: ${fresh[0]}` : `${count(fresh.length)} new kinds of faults`);
  }

  announce(text, urgent = false) {
    const now = performance.now();
    if (!urgent && now - this.saidAt < SAID_EVERY) return;
    this.saidAt = now;
    say(document.getElementById("said"), text);
  }

  // -- 15 minutes or 24 hours ----------------------------------------------------------------------

  span() {
    const radio = (value, text, off) => el("label", { class: off ? "off" : "", title: off ? "No audit log is written: there is no history." : null },
      el("input", { type: "radio", name: "span", value, checked: value === "now", disabled: off, on: { change: () => this.choose(value) } }), el("span", { text }));
    this.radios = el("fieldset", { class: "span" }, el("legend", { class: "visually-hidden", text: "Time shown" }),
      radio("now", "15 min", false), radio("day", "24 h", !this.facts.history));
    return this.radios;
  }

  async choose(value) {
    if (!this.facts.history) return;
    this.chosen = value;
    for (const input of this.radios.querySelectorAll("input")) input.checked = input.value === value;
    const answer = value === "day" ? await fetch("/monitor/api/day").catch(() => null) : null;
    if (this.chosen !== value) return;
    if (value === "day" && !answer?.ok) {
      this.announce("The last 24 hours can't be told now", true);
      if (!this.day) this.choose("now");
      return;
    }
    this.day = answer ? await answer.json() : null;
    this.cards.over(this.day);
    if (this.day) this.faults.show(this.day.faults, "24 hours", this.live.at);
    else this.faults.show(this.live.faults, "15 minutes", this.live.at);
  }
}

begin();
