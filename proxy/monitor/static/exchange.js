// One exchange, from its head down to the event that broke it.

import { badge, el, foreign, put, wayBack } from "/monitor/static/dom.js";
import { bytes, count, iso, seconds, time } from "/monitor/static/format.js";

const AGAIN = 1000;
const PATIENCE = 20;

/** Shows an exchange in `main`, and again as long as its record isn't there yet. */
export async function showExchange(main, id, facts, tries = 0) {
  const answer = await fetch(`/monitor/api/exchange/${encodeURIComponent(id)}`).catch(() => null);
  if (!answer) return later(main, id, facts, tries);
  if (answer.status === 401) return location.assign("/monitor/login");
  if (!answer.ok) {
    const why = (await answer.text()).trim().slice(0, 300);
    if (answer.status === 503 && tries < PATIENCE) return later(main, id, facts, tries);
    return put(main, el("h1", { text: "No such exchange" }), el("p", { class: "empty", text: why }), wayBack());
  }
  const exchange = await answer.json();
  document.title = `${exchange.verdict} ${exchange.model ?? exchange.operation} · teeline`;
  put(main, ...(exchange.settled ? whole(exchange, facts) : part(exchange)));
  if (!exchange.settled && (tries < PATIENCE || !exchange.ended)) later(main, id, facts, tries);
  return undefined;
}

const later = (main, id, facts, tries) => setTimeout(() => showExchange(main, id, facts, tries + 1), AGAIN);

function head(exchange) {
  const under = !exchange.ended;
  return el(
    "div",
    { class: "title" },
    wayBack(),
    el("h1", {}, badge(under ? "open" : exchange.verdict), " ", foreign(`${exchange.method ?? exchange.operation} ${exchange.path ?? ""}`.trim(), 160)),
    el("p", { class: "quiet mono" }, foreign(exchange.id, 64)),
  );
}

/** An exchange under way, or one whose record is being written: what its row says. */
function part(exchange) {
  const facts = [
    ["Began", time(exchange.at), iso(exchange.at)], ["Upstream", foreign(exchange.upstream)], ["Model", foreign(exchange.model)],
    ["Status", exchange.status ?? "–"], ["Events", count(exchange.events)], ["Received", bytes(exchange.bytes)],
    ["First byte", seconds(exchange.first_byte)], ["Request id", foreign(exchange.request_id)],
  ];
  const state = exchange.ended
    ? "This exchange is over; its record is being written, or was not kept."
    : "This exchange is under way; this page follows it.";
  return [head(exchange), el("p", { class: "note", text: state }), definitions(facts), ...violations(exchange.violations)];
}

function whole(exchange, facts) {
  const { timing } = exchange;
  return [
    head(exchange),
    exchange.intact ? null : el("p", { class: "note bad", text: "This record was changed after it was written: its own hash does not hold." }),
    definitions([
      ["Began", time(timing.start), iso(timing.start)],
      ["Upstream", foreign(exchange.upstream)],
      ["Operation", `${exchange.operation}${exchange.stream ? ", stream" : ""}`],
      ["Model", foreign(exchange.model)],
      ["Status", exchange.status ?? "–"],
      ["Ended", (exchange.ended ?? "–").replaceAll("_", " ")],
      ["Client's side", badge(exchange.client_verdict)],
      ["Inspection", foreign(exchange.inspection)],
      ["Request id", foreign(exchange.request_id, 200, { class: "mono" })],
      ["Trace id", trace(exchange.trace_id, facts.trace_url)],
      ["Client", foreign([exchange.client, exchange.key && `key ${exchange.key}`].filter(Boolean).join(", "))],
      ["Events", count(exchange.events)],
      ["Bytes", `${bytes(exchange.bytes.request)} sent, ${bytes(exchange.bytes.response)} received`],
      ["Usage", pairs(exchange.usage)],
      ["Finish", foreign(exchange.finish.join(", "))],
      ["Profile", foreign(exchange.profile)],
    ]),
    waterfall(timing),
    timeline(exchange),
    ...violations(exchange.violations, exchange.omitted),
    again(exchange, facts),
  ].filter(Boolean);
}

function definitions(facts) {
  return el("dl", { class: "facts" }, ...facts.map(([name, value, title]) =>
    el("div", {}, el("dt", { text: name }), el("dd", { title: title ?? null }, value instanceof Node ? value : String(value)))));
}

function trace(id, template) {
  const text = foreign(id, 64, { class: "mono" });
  if (!template || !/^[0-9a-f]{32}$/.test(id ?? "")) return text;
  return el("a", { href: template.replace("{trace_id}", id), target: "_blank", rel: "noopener noreferrer" }, text);
}

function pairs(usage) {
  const words = Object.entries(usage).map(([name, value]) => `${name.replaceAll("_", " ")} ${count(value)}`);
  return foreign(words.join(", "), 300);
}

// -- timing ------------------------------------------------------------------------------------------

function waterfall(timing) {
  const { start, end } = timing;
  if (start === null || end === null || end <= start) return null;
  const first = timing.first_byte ?? end;
  const event = timing.first_event ?? first;
  const spans = [
    ["Waiting for the answer", start, first, "waiting"],
    event > first ? ["Until the first event", first, event, "between"] : null,
    end > event ? [timing.first_event ? "Events" : "Receiving", event, end, "receiving"] : null,
  ].filter(Boolean);
  const total = end - start;
  const lines = spans.map(([name, from, to, kind]) => {
    const bar = el("div", { class: `bar ${kind}` });
    bar.style.insetInlineStart = `${(100 * (from - start)) / total}%`;
    bar.style.inlineSize = `${Math.max(0.4, (100 * (to - from)) / total)}%`;
    return el("li", {}, el("span", { text: name }), el("div", { class: "lane", "aria-hidden": "true" }, bar), el("span", { class: "number", text: seconds(to - from) }));
  });
  const gap = timing.largest_gap ? `, largest gap between two reads ${seconds(timing.largest_gap)}` : "";
  return el("section", { "aria-labelledby": "timing" },
    el("h2", { id: "timing", text: "Timing" }),
    el("p", { class: "quiet", text: `${seconds(total)} in all${gap}` }),
    el("ol", { class: "waterfall" }, ...lines));
}

function timeline(exchange) {
  if (!exchange.timeline.length) return null;
  const known = new Map(exchange.violations.map((each) => [each.number, each]));
  const entries = exchange.timeline.map((entry) => {
    const told = entry.broken === null ? null : known.get(entry.broken);
    const size = entry.kind === "head" ? `status ${entry.size}` : entry.size ? bytes(entry.size) : "";
    return el(
      "tr",
      { role: "row", class: entry.shows ? `marked ${entry.shows}` : "" },
      el("td", { class: "number", text: `+${seconds(Math.max(0, entry.after))}` }),
      el("td", {}, entry.shows ? el("span", { class: "shape", "aria-hidden": "true", text: "▶ " }) : null, foreign(entry.kind.replaceAll("_", " "), 32)),
      el("td", { class: "number", text: entry.index ? `event ${entry.index}` : "" }),
      el("td", { class: "number", text: size }),
      el("td", { class: "excerpt" }, ...(told ? beside(told) : []),
        entry.shows && !told ? el("span", { class: "quiet", text: `shows a violation (${entry.shows})` }) : null),
    );
  });
  const heads = [["After", "number"], ["What", ""], ["Event", "number"], ["Size", "number"], ["What broke here", ""]];
  return el("section", { "aria-labelledby": "timeline" },
    el("h2", { id: "timeline", text: "Timeline" }),
    el("div", { class: "scroll", role: "region", "aria-label": "Entries of the timeline", tabindex: 0 }, el("table", { class: "timeline", role: "table" },
      el("caption", { class: "visually-hidden", text: "What came when; entries that show a violation are marked" }),
      el("thead", {}, el("tr", { role: "row" }, ...heads.map(([name, kind]) => el("th", { scope: "col", class: kind, text: name })))),
      el("tbody", {}, ...entries))));
}

function beside(violation) {
  return [
    el("span", { class: "line" }, badge(violation.severity), " ", foreign(violation.rule, 64)),
    violation.evidence ? el("code", {}, foreign(violation.evidence, 200)) : null,
  ].filter(Boolean);
}

// -- violations --------------------------------------------------------------------------------------

function violations(found, omitted = 0) {
  const title = el("h2", { text: omitted ? `Violations, ${found.length} of ${found.length + omitted}` : "Violations" });
  if (!found.length) return [el("section", {}, title, el("p", { class: "empty", text: "None: this exchange kept to the protocol." }))];
  const broken = found.filter((each) => each.severity !== "info");
  const observed = found.filter((each) => each.severity === "info");
  return [el("section", {}, title, ...broken.map(violation),
    observed.length ? el("details", { open: !broken.length },
      el("summary", { text: `${observed.length} observation${observed.length > 1 ? "s" : ""}, which cost no verdict` }),
      ...observed.map(violation)) : null)];
}

function violation(each) {
  const lines = [["What", each.message], ["Why it hurts", each.why], ["How to fix it", each.fix]];
  return el(
    "article",
    { class: `violation ${each.severity}`, "aria-label": each.rule },
    el("h3", {}, badge(each.severity), " ", el("a", { href: `/monitor/rules/${encodeURIComponent(each.rule)}` }, foreign(each.rule, 64)),
      each.count > 1 ? el("span", { class: "quiet", text: ` ${count(each.count)} times` }) : null),
    each.place ? el("p", { class: "quiet" }, foreign(where(each.place), 300)) : null,
    each.evidence ? el("pre", {}, foreign(each.evidence, 300)) : null,
    el("dl", { class: "words" }, ...lines.filter(([, text]) => text).map(([name, text]) =>
      el("div", {}, el("dt", { text: name }), el("dd", {}, foreign(text, 2000))))),
  );
}

function where(place) {
  const unit = `${place.unit}${place.index ? ` ${place.index}` : ""}`;
  return [place.side, unit, place.byte ? `byte ${count(place.byte)}` : "", place.pointer].filter(Boolean).join(" · ");
}

// -- doing it again ----------------------------------------------------------------------------------

function again(exchange, facts) {
  const api = `/monitor/api/exchange/${encodeURIComponent(exchange.id)}`;
  const whole = exchange.captured === "complete";
  return el("section", { "aria-labelledby": "again" },
    el("h2", { id: "again", text: "Do it again" }),
    el("p", { class: "quiet", text: `${exchange.again.note}.` }),
    command("Against this relay", exchange.again.relay),
    command("Against OpenAI", exchange.again.official),
    facts.history ? el("p", { class: "downloads" },
      el("a", { href: `${api}/har`, download: "", text: "Download as HAR" }),
      whole ? el("a", { href: `${api}/exchange.json`, download: "", text: "Download as exchange file" })
        : el("span", { class: "quiet", text: "An exchange file needs both bodies, which were not captured." })) : null);
}

function command(name, text) {
  const said = el("span", { class: "quiet", role: "status" });
  const copy = el("button", { type: "button", text: "Copy", "aria-label": `Copy: ${name}` });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied";
    } catch {
      said.textContent = "Select the text to copy it: this address may not use the clipboard.";
    }
  });
  return el("div", { class: "command" }, el("p", {}, el("span", { text: name }), " ", copy, " ", said), el("pre", { tabindex: 0 }, el("code", { text })));
}
