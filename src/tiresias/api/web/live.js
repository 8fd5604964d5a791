// What all pages share: the stream of events, and data that is asked for again when an event says that it changed.
// The list of jobs says at which event it is valid; the stream begins there, so nothing is missed. After a break it
// goes on behind the last event that was seen, so nothing comes twice.

import { useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { api, follow, get, session } from "./api.js";

const KEPT = 200; // events
const MANY = ["LossReported", "RunPaced"]; // facts that a page need not keep: there is one per run and moment
const SOON_MS = 40; // events that come together cause one request
const CALM = 80; // between two requests lies so many times what the last one took
const LEAST_MS = 1000, MOST_MS = 5000;

export const live = { state: "connecting", events: [], seq: null, seen: 0, problem: null, at: 0 }; // `at`: of the latest word from the manager
const watchers = new Set(), changed = new Set();

function tell() { for (const each of watchers) each(); }

let drawing = false;
function tellSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; tell(); });
}

function received(event) {
  live.seq = event.seq;
  live.seen += 1;
  if (!MANY.includes(event.kind)) live.events.unshift(event);
  if (live.events.length > KEPT) live.events.length = KEPT;
  for (const each of changed) each(event);
  tellSoon();
}

let running = null;
export function connect() {
  running?.abort();
  running = new AbortController();
  loop(running.signal);
}

async function loop(signal) {
  let wait_ms = 200;
  while (!signal.aborted && session.get()) {
    try {
      if (live.seq === null) {
        const page = await get(api("/jobs", { limit: 1 }), signal);
        live.seq = page.seq;
        const before = await get(api("/events", { since: Math.max(0, page.seq - KEPT), limit: KEPT }), signal);
        live.events = before.events.filter((each) => each.seq <= page.seq && !MANY.includes(each.kind)).reverse();
      }
      await follow(api("/events", { follow: true }), live.seq, (name, value, id) => {
        if (live.state !== "live") {
          live.state = "live"; live.problem = null; wait_ms = 200;
          for (const each of changed) each(null);
          tellSoon();
        }
        live.at = Date.now() / 1000;
        if (name === "event") received(value);
        else if (id) live.seq = Math.max(live.seq, Number(id));
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
      live.problem = error;
    }
    if (signal.aborted) return;
    live.state = "waiting";
    tellSoon();
    await new Promise((then) => setTimeout(then, wait_ms));
    wait_ms = Math.min(wait_ms * 1.6, 3000);
  }
}

export function useLive() {
  const [, draw] = useState(0);
  useEffect(() => {
    const each = () => draw((number) => number + 1);
    watchers.add(each);
    return () => watchers.delete(each);
  }, []);
  return live;
}

// The answer to a GET, asked for again after events that concern it, and every `every_ms` if given.
export function useData(path, { concerns = () => true, every_ms = 0 } = {}) {
  const [found, set] = useState({ data: null, error: null, path: null });
  const again = useRef(() => {});
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer = 0, took_ms = 0, last = -1e9, isAsking = false, isDue = false;
    const ask = async () => {
      timer = 0; isAsking = true; isDue = false;
      const began = performance.now();
      try {
        const data = await get(path, stop.signal);
        set({ data, error: null, path });
      } catch (error) {
        if (stop.signal.aborted) return;
        set((before) => ({ data: before.path === path ? before.data : null, error, path }));
      }
      last = performance.now(); took_ms = last - began; isAsking = false;
      if (isDue) plan();
    };
    const plan = () => {
      if (isAsking) { isDue = true; return; }
      if (timer) return;
      const pause = Math.min(MOST_MS, Math.max(LEAST_MS, took_ms * CALM));
      timer = setTimeout(ask, Math.max(SOON_MS, last + pause - performance.now()));
    };
    const on = (event) => { if (event === null || concerns(event)) plan(); };
    again.current = () => { last = -1e9; plan(); };
    changed.add(on);
    const clock = every_ms ? setInterval(() => { if (!document.hidden) plan(); }, every_ms) : 0;
    ask();
    return () => { stop.abort(); clearTimeout(timer); clearInterval(clock); changed.delete(on); };
  }, [path]);
  const isThis = found.path === path;
  return { data: isThis ? found.data : null, error: isThis ? found.error : null, again: again.current };
}

// The present instant in seconds, once per second: for durations that grow.
export function useNow() {
  const [now, set] = useState(Date.now() / 1000);
  useEffect(() => {
    const clock = setInterval(() => { if (!document.hidden) set(Date.now() / 1000); }, 1000);
    return () => clearInterval(clock);
  }, []);
  return now;
}
