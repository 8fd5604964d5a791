// Pieces that several pages use.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { useLive } from "./live.js";
import { plain } from "./text.js";

// Phases by a word and a sign, and only then by colour.
const PHASES = {
  PENDING: ["waiting", "○", "wait"], HELD: ["on hold", "❙❙", "hold"], STARTING: ["starting", "◔", "run"],
  RUNNING: ["running", "●", "run"], PAUSED: ["paused", "⊜", "hold"], STOPPING: ["saving", "◑", "save"], SUSPENDED: ["suspended", "◌", "wait"],
  SUCCEEDED: ["succeeded", "✓", "good"], FAILED: ["failed", "✗", "bad"], CANCELLED: ["cancelled", "–", "gone"],
};
export const CAUSES = { finished: ["✓", "finished"], preempted: ["◑", "preempted"], retried: ["↻", "ended and is tried again"], failed: ["✗", "failed"] };
export const ENDED = ["SUCCEEDED", "FAILED", "CANCELLED"];

export function Phase({ phase }) {
  const [word, sign, tone] = PHASES[phase] ?? [phase.toLowerCase(), "?", ""];
  return html`<span class="phase ${tone}"><span class="sign" aria-hidden="true">${sign}</span>${word}</span>`;
}

// One of eight colours of a job; those that come one after another, or every eighth, differ.
export const hue = (id) => `c${(id + 3 * (id >> 3)) % 8}`;

export const JobLink = ({ id, name }) =>
  html`<a href="#/jobs/${id}" class="name" title=${plain(name)}>${plain(name) || `job ${id}`}</a>`;

// Of an elastic job the range within which an allocator chooses.
export const range = (job) => (job.max_gpus === null ? "" : `${job.min_gpus}–${job.max_gpus}`);
export const Gpus = ({ job }) => html`${job.gpus}${job.max_gpus === null ? null : html` <span class="quiet" title="elastic: an allocator chooses within this range">(${range(job)})</span>`}`;

export const Failure = ({ error }) => (error ? html`<${Problem} error=${error} />` : null);

// That nobody answers stands once above the page, and not beside each of its parts.
function Problem({ error }) {
  const { state, at } = useLive();
  if ((error.status === 502 || error.status === 0) && state === "waiting" && at) return null;
  return html`<p class="problem" role="alert"><span aria-hidden="true">!</span> <${Phrase} text=${error.message} most=${2000} /></p>`;
}

// A phrase of the manager, in which commands stand between backticks.
export const Phrase = ({ text, most = 1000 }) => plain(text, most).split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

export const Loading = ({ what }) => html`<p class="quiet" role="status">Loading ${what}…</p>`;

export function Tile({ label, value, more }) {
  return html`<div class="tile"><div class="label">${label}</div><div class="value">${value}</div>
    ${more ? html`<div class="more">${more}</div>` : null}</div>`;
}

// A heading that sorts its column: one way, the other way, and then no more, which is `otherwise`.
export function Sorted({ by, sort, onSort, children, num = false, first = "", otherwise = "" }) {
  const name = sort.replace(/^-/, "");
  const is = name === by, falls = sort.startsWith("-"), begin = `${first}${by}`;
  const next = !is ? begin : sort !== begin && otherwise ? otherwise : falls ? by : `-${by}`;
  return html`<th scope="col" class=${num ? "num" : ""} aria-sort=${is ? (falls ? "descending" : "ascending") : "none"}>
    <button type="button" class="sort" onClick=${() => onSort(next)}>${children}
      <span aria-hidden="true">${is ? (falls ? " ▾" : " ▴") : ""}</span></button></th>`;
}

// The same as a list, where a table has no room for headings.
export function SortBy({ options, sort, onSort }) {
  const all = options.some(([value]) => value === sort) ? options : [...options, [sort, plain(sort, 40)]];
  return html`<label class="check small">Sort by <select value=${sort} onChange=${(event) => onSort(event.target.value)}>
    ${all.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label>`;
}

// A table that scrolls by itself. A heading that begins with # is one of numbers.
export function Table({ label, head, children }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`Table of ${label}`}><table><thead><tr>${head.filter(Boolean).map((text) =>
    html`<th scope="col" class=${text[0] === "#" ? "num" : ""}>${text.replace(/^#(?=.)/, "")}</th>`)}</tr></thead><tbody>${children}</tbody></table></div>`;
}

export function Meter({ share, tone = "run", children }) {
  return html`<span class="way"><svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="base" width="100" height="8" />
    <rect class=${tone} width=${100 * Math.min(1, Math.max(0, share))} height="8" /></svg><span>${children}</span></span>`;
}

export const Key = ({ of, children }) => html`<li><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class=${of} width="10" height="10" /></svg>${children}</li>`;

export function Pages({ offset, size, total, onOffset }) {
  if (total <= size && offset === 0) return null;
  const last = Math.min(total, offset + size);
  return html`<nav class="pages" aria-label="Pages">
    <button type="button" disabled=${offset === 0} onClick=${() => onOffset(Math.max(0, offset - size))}>Previous</button>
    <span>${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${total.toLocaleString("en")}</span>
    <button type="button" disabled=${last >= total} onClick=${() => onOffset(offset + size)}>Next</button></nav>`;
}

// A question before an action; the focus goes into it, Escape closes it, and then the focus returns.
export function Confirm({ title, children, action, danger = false, onDo, onClose }) {
  const box = useRef(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    const before = document.activeElement, it = box.current;
    it.showModal();
    return () => { it.close(); before?.focus?.(); };
  }, []);
  const act = async (event) => {
    event.preventDefault();
    setBusy(true);
    try { await onDo(); onClose(); } catch (error) { setProblem(error); setBusy(false); }
  };
  return html`<dialog ref=${box} aria-labelledby="confirm-title" onCancel=${onClose}>
    <form onSubmit=${act}><h2 id="confirm-title">${title}</h2>${children}<${Failure} error=${problem} />
    <div class="buttons"><button type="button" onClick=${onClose}>Keep as it is</button>
      <button type="submit" class=${danger ? "danger" : "main"} disabled=${busy}>${action}</button></div></form></dialog>`;
}

// The value of a parameter of the address, such as ?sort=-wait behind the view; so every view has a URL.
export function useParameter(name, otherwise = "") {
  const read = () => new URLSearchParams(location.hash.split("?")[1] ?? "").get(name) ?? otherwise;
  const [value, set] = useState(read);
  useEffect(() => {
    const on = () => set(read());
    addEventListener("hashchange", on);
    return () => removeEventListener("hashchange", on);
  }, []);
  const change = (next) => {
    const [view, query] = location.hash.split("?");
    const all = new URLSearchParams(query ?? "");
    if (String(next) === String(otherwise)) all.delete(name); else all.set(name, next);
    const text = all.toString();
    history.replaceState(null, "", `${view || "#/"}${text ? `?${text}` : ""}`);
    set(String(next));
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return [value, change];
}
