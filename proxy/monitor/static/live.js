// What the server tells as it happens: one event stream, and the state that it makes.

const SLOT = 5;
const SLOTS = 180;

/** Tells its listeners `state` (of the connection), `snapshot` and `update`. */
export class Live extends EventTarget {
  constructor() {
    super();
    this.series = new Map();
    this.upstreams = [];
    this.faults = [];
    this.streams = [];
    this.at = Date.now() / 1000;
    this.source = null;
    this.state = "connecting";
  }

  /** Begins, or begins again with another filter (the parameters of the page's address). */
  connect(query) {
    this.source?.close();
    this.become("connecting");
    const source = new EventSource(`/monitor/api/events?${query}`);
    this.source = source;
    source.addEventListener("open", () => this.become("live"));
    source.addEventListener("error", () => this.failed(source));
    source.addEventListener("snapshot", (event) => this.take("snapshot", event));
    source.addEventListener("update", (event) => this.take("update", event));
  }

  /** Ends the stream until the next `connect`. */
  close() {
    this.source?.close();
    this.source = null;
    this.become("asleep");
  }

  become(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  async failed(source) {
    this.become("lost");
    // A browser gives up where it was refused: is a session over, or is the server only busy?
    if (source.readyState !== EventSource.CLOSED) return;
    const answer = await fetch("/monitor/api/facts").catch(() => null);
    if (answer?.status === 401) location.assign("/monitor/login");
    else setTimeout(() => source === this.source && this.connect(new URL(source.url).search.slice(1)), 5000);
  }

  take(kind, event) {
    performance.mark("teeline-take");
    const told = JSON.parse(event.data);
    this.become("live");
    this.at = told.at;
    this.upstreams = told.upstreams;
    this.streams = told.streams;
    this.lost = told.lost;
    if (told.faults) this.faults = told.faults;
    if (kind === "snapshot") this.series.clear();
    for (const [name, slots] of Object.entries(told.series)) this.merge(name, slots);
    this.dispatchEvent(new CustomEvent(kind, { detail: told }));
    // Told to whoever observes, and not kept: this page is open for days.
    performance.measure("teeline-update", "teeline-take");
    performance.clearMeasures("teeline-update");
    performance.clearMarks("teeline-take");
  }

  merge(name, slots) {
    let kept = this.series.get(name);
    if (!kept) this.series.set(name, (kept = new Map()));
    for (const slot of slots) kept.set(slot[0], slot);
    for (const at of kept.keys()) {
      if (at > this.at - SLOT * SLOTS) break;
      kept.delete(at);
    }
  }

  /** The last 15 minutes of an upstream, a slot each five seconds, those without anything included. */
  window(name) {
    const kept = this.series.get(name) ?? new Map();
    const last = Math.floor(this.at / SLOT) * SLOT;
    const slots = [];
    for (let ago = SLOTS - 1; ago >= 1; ago -= 1) {
      const at = last - ago * SLOT;
      slots.push(kept.get(at) ?? [at, 0, 0, 0, 0, 0, null, null]);
    }
    return { slots, from: last - (SLOTS - 1) * SLOT, to: last - SLOT, seconds: SLOT };
  }
}
