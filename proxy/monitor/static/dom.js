// Elements from names and texts. The only way in which anything gets into the page: text stays text,
// whatever it holds, and keeps its own direction.

/** An element. `attributes`: `class`, `text`, `on` (listeners), anything else by setAttribute. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for graphics. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") element.textContent = value;
    else if (key === "class") element.setAttribute("class", value);
    else if (key === "on") {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A text that someone else wrote: isolated, so that it can't turn its neighbours around, and cut. */
export function foreign(text, limit = 120, attributes = {}) {
  const whole = text === null || text === undefined || text === "" ? "–" : String(text);
  const cut = whole.length > limit;
  const shown = cut ? `${whole.slice(0, limit - 1)}…` : whole;
  return el("bdi", { ...attributes, text: shown, title: cut ? whole.slice(0, 1000) : null });
}

/** Replaces what an element holds. */
export function put(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets a text only where it differs: unchanged nodes cost no layout. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const SHAPES = { pass: "●", warn: "▲", fail: "■", info: "◆", open: "◌" };

/** A state as a shape and a word, and only then a colour. */
export function badge(word, label = word) {
  return el(
    "span",
    { class: `badge ${SHAPES[word] ? word : ""}` },
    el("span", { class: "shape", "aria-hidden": "true", text: SHAPES[word] ?? "·" }),
    el("span", { text: label }),
  );
}

const LIST = "teeline-list";

/** Remembers which list this is, so that a page that was opened from it leads back to it. */
export const remember = () => sessionStorage.setItem(LIST, location.search);

/** The way back. */
export const wayBack = () => el("p", {}, el("a", { href: `/monitor/${sessionStorage.getItem(LIST) ?? ""}`, text: "All exchanges" }));
