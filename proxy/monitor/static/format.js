// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const day = new Intl.DateTimeFormat(undefined, {
  month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false,
});

const missing = (value) => value === null || value === undefined;

export const count = (value) => (missing(value) ? "–" : whole.format(value));

export function rate(value) {
  if (missing(value)) return "–";
  if (value >= 100) return whole.format(Math.round(value));
  return value >= 10 ? value.toFixed(1) : value.toFixed(value === 0 ? 0 : 2);
}

export function share(part, of) {
  if (!of) return "–";
  const percent = (100 * part) / of;
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  return `${percent.toFixed(percent < 10 && percent > 0 ? 1 : 0)} %`;
}

export function seconds(value) {
  if (missing(value)) return "–";
  if (value < 0.01) return `${(value * 1000).toFixed(value ? 1 : 0)} ms`;
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  return value < 100 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : `${Math.round(value)} s`;
}

export function bytes(value) {
  if (missing(value)) return "–";
  if (value < 1000) return `${value} B`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  return `${(value / 1e6).toFixed(1)} MB`;
}

/** The time of day, with the day where it is another one than today's. */
export function time(at) {
  if (missing(at)) return "–";
  const date = new Date(at * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return (today ? clock : day).format(date);
}

export const iso = (at) => (missing(at) ? "" : new Date(at * 1000).toISOString());

export function ago(at, now) {
  const passed = Math.max(0, now - at);
  if (passed < 5) return "now";
  if (passed < 60) return `${Math.round(passed)} s ago`;
  if (passed < 3600) return `${Math.round(passed / 60)} min ago`;
  return passed < 86400 ? `${Math.round(passed / 3600)} h ago` : `${Math.round(passed / 86400)} d ago`;
}
