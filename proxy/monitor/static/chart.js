// Small charts: a few lines over time, drawn as SVG.

import { el, say, svg } from "/monitor/static/dom.js";

const WIDTH = 300;
const HEIGHT = 48;

/** One chart. `lines`: name and class of each, the first one filled if it says so. */
export class Chart {
  constructor({ label, lines, format }) {
    this.label = label;
    this.lines = lines;
    this.format = format;
    this.points = [];
    this.paths = lines.map((line) => svg("path", { class: `line ${line.class}` }));
    this.areas = lines.map((line) => (line.filled ? svg("path", { class: `area ${line.class}` }) : null));
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
    this.drawing = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: "plot" },
      svg("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
      ...this.areas.filter(Boolean), ...this.paths, this.cursor,
    );
    this.value = el("span", { class: "chart-value" });
    this.element = el(
      "figure",
      { class: "chart" },
      el("figcaption", {}, el("span", { class: "chart-label", text: label }), this.value),
      this.drawing,
    );
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.rest());
  }

  /** `points`: time and one value a line (null: none), in the order of time, within from..to. */
  draw(points, from, to) {
    this.points = points;
    this.from = from;
    this.to = to;
    const most = Math.max(1e-9, ...points.flatMap((point) => point.slice(1).map((value) => value ?? 0)));
    const x = (at) => ((at - from) / (to - from)) * WIDTH;
    const y = (value) => HEIGHT - 1 - (value / most) * (HEIGHT - 6);
    this.lines.forEach((line, index) => {
      const { path, area } = traced(points, index + 1, x, y);
      this.paths[index].setAttribute("d", path);
      this.areas[index]?.setAttribute("d", area);
    });
    this.drawing.setAttribute("aria-label", this.summary(most));
    this.most = most;
    this.rest();
  }

  summary(most) {
    if (!this.points.length) return `${this.label}: nothing yet`;
    return `${this.label}: at most ${this.format(most)}, last ${this.told(this.points.at(-1))}`;
  }

  told(point) {
    const values = this.lines.map((line, index) => `${line.name} ${this.format(point[index + 1])}`);
    return values.join(", ");
  }

  rest() {
    this.cursor.setAttribute("x1", -9);
    this.cursor.setAttribute("x2", -9);
    say(this.value, this.points.length ? `max ${this.format(this.most)}` : "");
  }

  point(event) {
    if (!this.points.length) return;
    const box = this.drawing.getBoundingClientRect();
    const at = this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from);
    const nearest = this.points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
    const x = ((nearest[0] - this.from) / (this.to - this.from)) * WIDTH;
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    const when = new Date(nearest[0] * 1000).toLocaleTimeString(undefined, { hour12: false });
    say(this.value, `${when} · ${this.told(nearest)}`);
  }
}

/** A line, broken where there is no value, and the area below it. */
function traced(points, index, x, y) {
  let path = "";
  let area = "";
  let begun = null;
  let last = null;
  const end = () => {
    if (begun !== null) area += `L${last} ${HEIGHT}L${begun} ${HEIGHT}Z`;
    begun = null;
  };
  for (const point of points) {
    const value = point[index];
    if (value === null || value === undefined) {
      end();
      continue;
    }
    const at = x(point[0]).toFixed(1);
    const step = `${begun === null ? "M" : "L"}${at} ${y(value).toFixed(1)}`;
    // A value that stands alone is a dot.
    path += begun === null ? `${step}h.01` : step;
    area += step;
    begun ??= at;
    last = at;
  }
  end();
  return { path, area };
}

/** A trend as bars, for a table's cell; the words beside it say the same. */
export function bars(values) {
  const most = Math.max(1, ...values);
  const width = 4;
  const drawn = values.map((value, index) => {
    const height = value ? Math.max(1.5, (value / most) * 16) : 0.75;
    return svg("rect", {
      x: index * width, y: 16 - height, width: width - 1, height, class: value ? "bar" : "bar none",
    });
  });
  return svg(
    "svg",
    { class: "bars", viewBox: `0 0 ${values.length * width} 16`, "aria-hidden": "true" },
    ...drawn,
  );
}
