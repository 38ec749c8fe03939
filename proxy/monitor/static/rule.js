// A rule: what it is, why it hurts, how to fix it, and what breaking it looks like.

import { badge, el, foreign, put, wayBack } from "/monitor/static/dom.js";

export async function showRule(main, id) {
  const answer = await fetch(`/monitor/api/rules/${encodeURIComponent(id)}`);
  if (answer.status === 401) return location.assign("/monitor/login");
  if (!answer.ok) return put(main, el("h1", { text: "No such rule" }), wayBack());
  const rule = await answer.json();
  document.title = `${rule.id} · teeline`;
  const observed = rule.severity === "info";
  return put(
    main,
    el("div", { class: "title" }, wayBack(), el("h1", {}, badge(rule.severity), " ", foreign(rule.id, 80))),
    el("dl", { class: "words" },
      ...[["What", rule.summary], ["Why it hurts", rule.why], ["How to fix it", rule.fix], ["Rests on", rule.source]].map(([name, text]) =>
        el("div", {}, el("dt", { text: name }), el("dd", {}, foreign(text, 4000))))),
    el("p", { class: "downloads" },
      el("a", { href: `/monitor/?rule=${encodeURIComponent(rule.id)}`, text: "Exchanges that broke this rule" }),
      el("a", { href: `/monitor/?rule=${encodeURIComponent(rule.family)}`, text: `All of family ${rule.family}` })),
    example(observed ? "Reported" : "Wrong", rule.bad, "bad"),
    example(observed ? "Not reported" : "Right", rule.good, "good"),
  );
}

function example(title, lines, kind) {
  if (!lines.length) return null;
  const shown = lines.map(([text, differs]) =>
    el("span", { class: differs ? `diff ${kind}` : "diff" },
      el("span", { class: "sign", text: differs ? (kind === "bad" ? "− " : "+ ") : "  " }), el("bdi", { text }), "\n"));
  return el("section", {}, el("h2", { text: title }), el("pre", { class: "example", tabindex: 0 }, ...shown));
}
