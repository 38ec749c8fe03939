// What is shown, held in the address: a page can be sent to somebody else as it stands.

import { el } from "/monitor/static/dom.js";

export const NAMES = ["upstream", "model", "operation", "verdict", "rule", "status", "text"];
const OPERATIONS = ["chat", "responses", "embeddings", "completions", "models", "connection", "other"];

const VERDICTS = ["pass", "warn", "fail"];
/** What a value must be, and how that is said. */
const FORMS = {
  status: [/^([1-5]xx|[1-9]\d\d)$/i, "Write a code like 429, or a class like 5xx."],
  verdict: [/^(pass|warn|fail)$/, "A verdict is pass, warn or fail."],
};

/** What is wrong with a value; empty for nothing. */
function wrong(name, value) {
  const [form, words] = FORMS[name] ?? [];
  if (form && !form.test(value)) return words;
  return value.length > 256 ? "At most 256 characters." : "";
}

/** The filters of the address that can be ones, as parameters for the API. */
export function query() {
  const given = new URLSearchParams(location.search);
  const kept = new URLSearchParams();
  for (const name of NAMES) {
    for (const value of given.getAll(name).slice(0, 16)) if (value && !wrong(name, value)) kept.append(name, value);
  }
  return kept;
}

/** The form above the list. Tells `changed` when the address holds other filters. */
export class Filters extends EventTarget {
  constructor(upstreams) {
    super();
    const options = (words, every) => [
      el("option", { value: "", text: every }), ...words.map((word) => el("option", { value: word, text: word })),
    ];
    this.fields = {
      text: field("search", "text", "id, request id or message"),
      verdict: el("select", { id: "f-verdict" }, ...options(VERDICTS, "any verdict")),
      upstream: el("select", { id: "f-upstream" }, ...options(upstreams, "any upstream")),
      operation: el("select", { id: "f-operation" }, ...options(OPERATIONS, "any operation")),
      model: field("search", "model", "exact name"),
      rule: field("search", "rule", "id or family"),
      status: field("search", "status", "429 or 5xx"),
    };
    this.clear = el("button", { type: "button", text: "Clear", on: { click: () => this.set(new URLSearchParams(), until()) } });
    this.element = el(
      "form",
      { class: "filters", role: "search", "aria-label": "Filter exchanges" },
      ...Object.entries(this.fields).map(([name, input]) =>
        el("div", { class: `filter ${name}` }, el("label", { for: `f-${name}`, text: name[0].toUpperCase() + name.slice(1) }), input)),
      this.clear,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.read();
    });
    this.element.addEventListener("change", () => this.read());
    this.write();
  }

  focus() {
    this.fields.text.focus();
    this.fields.text.select();
  }

  /** Puts other filters into the address; `moment`: the time up to which is looked. */
  set(parameters, moment = null) {
    const moved = until() !== moment || new URLSearchParams(location.search).has("before");
    if (parameters.toString() === query().toString() && !moved) return;
    const asked = new URLSearchParams(parameters);
    if (moment) asked.set("until", moment);
    history.pushState(null, "", asked.size ? `/monitor/?${asked}` : "/monitor/");
    this.write();
    this.dispatchEvent(new Event("changed"));
  }

  read() {
    const parameters = query();
    for (const [name, input] of Object.entries(this.fields)) {
      const value = input.value.trim();
      // A link may have asked for several values; a field that wasn't touched keeps them.
      if (value === shown(parameters, name)) continue;
      const words = value && wrong(name, value);
      input.setCustomValidity(words);
      if (words) {
        input.reportValidity();
        continue;
      }
      parameters.delete(name);
      if (value) parameters.set(name, value);
    }
    if (parameters.toString() !== query().toString()) this.set(parameters, until());
  }

  /** Brings the fields to what the address says. */
  write() {
    const parameters = query();
    for (const [name, input] of Object.entries(this.fields)) {
      const value = shown(parameters, name);
      if (input.tagName === "SELECT" && ![...input.options].some((option) => option.value === value)) {
        input.append(el("option", { value, text: value }));
      }
      input.value = value;
      input.setCustomValidity("");
      input.parentElement?.classList.toggle("set", value !== "");
    }
    this.clear.hidden = parameters.size === 0;
  }
}

const until = () => new URLSearchParams(location.search).get("until");

const shown = (parameters, name) => parameters.getAll(name).join(" ");

function field(type, name, placeholder) {
  return el("input", {
    id: `f-${name}`, type, placeholder, maxlength: 256, autocomplete: "off", spellcheck: "false",
    autocapitalize: "none", dir: "auto",
  });
}
