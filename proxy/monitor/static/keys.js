// Shortcuts, and the page that says which there are.

import { el } from "/monitor/static/dom.js";

const HELP = [
  ["?", "this list"], ["/", "filter by text"], ["p", "pause or resume the list"],
  ["o", "older exchanges"], ["n", "back to now"], ["l", "to the list"],
  ["j  k", "next and previous exchange, in a list"], ["Enter", "open an exchange"],
  ["w", "15 minutes or 24 hours"], ["g", "to the overview"], ["Esc", "leave a field, close this"],
];

/** Calls what a key stands for (`actions` by key); nothing while someone types. */
export function shortcuts(actions) {
  const help = dialog();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape" && typing) {
      event.preventDefault(); // or a search field would be emptied
      typing.blur();
      return;
    }
    if (typing || help.open) return;
    const action = event.key === "?" ? () => help.showModal() : actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
  return el("button", { type: "button", class: "help", "aria-label": "Keyboard shortcuts", text: "?", on: { click: () => help.showModal() } });
}

function dialog() {
  const list = el("dl", { class: "keys" }, ...HELP.map(([keys, what]) => el("div", {},
    el("dt", {}, ...keys.split("  ").map((key) => el("kbd", { text: key }))), el("dd", { text: what }))));
  const close = el("button", { type: "button", text: "Close" });
  const made = el("dialog", { "aria-labelledby": "keys-title" }, el("h2", { id: "keys-title", text: "Keyboard shortcuts" }), list, close);
  close.addEventListener("click", () => made.close());
  document.body.append(made);
  return made;
}
