// The output of a job over all its runs, as it is written. Only the end is kept in the page.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { api, bytes, follow } from "./api.js";
import { Failure } from "./parts.js";
import { logLine, number } from "./text.js";

const TAIL_BYTES = 65536;
const LINES = 1000, LONGEST = 20000; // characters of a line that has not ended

export function Log({ id, runs, isOver }) {
  const [open, setOpen] = useState(true);
  const [lines, setLines] = useState([]);
  const [state, setState] = useState({ problem: null, text: "" });
  const [chosen, setChosen] = useState("");
  const box = useRef(null), stays = useRef(true);
  const has = runs.length > 0;
  useEffect(() => {
    if (!has || !open) return undefined;
    const stop = new AbortController();
    const kept = { lines: [], rest: "", left: 0, run: null };
    let drawing = false;
    const draw = () => { drawing = false; if (!stop.signal.aborted) setLines([...kept.lines, ...(kept.rest ? [logLine(kept.rest, kept.left)] : [])]); };
    const add = (text, run) => {
      if (kept.run !== null && run !== kept.run) { if (kept.rest) kept.lines.push(logLine(kept.rest, kept.left)); kept.rest = ""; kept.left = 0; kept.lines.push(`── run ${run} ──`); }
      kept.run = run;
      const parts = (kept.rest + text).split("\n");
      kept.rest = parts.pop();
      for (const each of parts) { kept.lines.push(logLine(each, kept.left)); kept.left = 0; }
      if (kept.rest.length > LONGEST) { kept.left += kept.rest.length - LONGEST; kept.rest = kept.rest.slice(0, LONGEST); }
      if (kept.lines.length > LINES) kept.lines.splice(0, kept.lines.length - LINES);
      if (!drawing) { drawing = true; requestAnimationFrame(draw); }
    };
    (async () => {
      let position = null;
      for (let wait_ms = 300; !stop.signal.aborted; wait_ms = Math.min(3000, wait_ms * 1.6)) {
        try {
          if (position === null) {
            const tail = await bytes(api(`/jobs/${id}/logs`, { offset: -TAIL_BYTES, run: chosen }));
            const run = Number(tail.headers.get("X-Run")), end = Number(tail.headers.get("X-Offset"));
            position = `${run}:${end}`;
            kept.run = run;
            add(end > TAIL_BYTES ? tail.text.slice(tail.text.indexOf("\n") + 1) : tail.text, run);
            setState({ problem: null, text: end > TAIL_BYTES ? `The last ${number(TAIL_BYTES / 1024)} KiB; all of it: tir logs ${id}` : "" });
            if (chosen && tail.headers.get("X-Over") === "true") return;
          }
          let ended = false;
          await follow(api(`/jobs/${id}/logs`, { follow: true }), position, (name, value, at) => {
            if (at) position = at;
            if (name === "log") add(value.text, value.run);
            if (name === "end") ended = true;
          }, stop.signal);
          if (ended) return;
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error.status >= 400 && error.status < 500) { setState({ problem: error, text: "" }); return; }
        }
        await new Promise((then) => setTimeout(then, wait_ms));
      }
    })();
    return () => stop.abort();
  }, [id, has, open, chosen]);
  useEffect(() => { if (stays.current && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  const onScroll = () => { const it = box.current; if (it) stays.current = it.scrollHeight - it.scrollTop - it.clientHeight < 30; };
  return html`<section class="card" aria-labelledby="log-title"><div class="head"><h2 id="log-title">Output</h2><div class="tools">
      ${runs.length > 1 ? html`<label>Run <select value=${chosen} onChange=${(event) => { setLines([]); setChosen(event.target.value); }}>
        <option value="">latest</option>${runs.slice(-50).map((run) => html`<option value=${run.number}>${run.number}</option>`)}</select></label>` : null}
      <button type="button" class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Hide" : "Show"}</button></div></div>
    <${Failure} error=${state.problem} />
    ${!has ? html`<p class="quiet">It has not run yet, so there is no output.</p>` : !open ? null
      : html`<p class="quiet">${state.text}</p><pre class="log" ref=${box} tabindex="0" role="log" aria-label="Output of the job" onScroll=${onScroll}>${lines.join("\n")}${lines.length === 0 && isOver ? "(no output)" : ""}</pre>`}</section>`;
}
