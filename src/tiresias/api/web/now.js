// Now: every GPU and who holds it, the jobs, and what has just happened.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { api, get } from "./api.js";
import { live, useData, useLive, useNow } from "./live.js";
import { ENDED, Failure, Gpus, JobLink, Loading, Pages, Phase, SortBy, Sorted, Tile, hue, useParameter } from "./parts.js";
import { clock, counted, duration, number, percent, plain, sentence } from "./text.js";

const ROWS = 24; // nodes
const SHARERS = 3; // jobs of one GPU
const EVENTS = 14;
const STATES = { // sign, word
  busy: ["", "in use"], free: ["·", "free"], saving: ["~", "saving"], foreign: ["×", "used by others"],
  out: ["!", "out of service"], drained: ["–", "drained"],
};
const slots = (event) => /^(Run|Node|Slot)/.test(event.kind);
const counts = (event) => slots(event) || event.kind.startsWith("Job");

export function Now({ me }) {
  const status = useData(api("/status"), { concerns: counts, every_ms: 15000 });
  const nodes = useData(api("/nodes"), { concerns: slots, every_ms: 10000 });
  return html`<h1 class="hidden">Now</h1><${Problems} status=${status.data} /><${Failure} error=${status.error} />
    <${Tiles} status=${status.data} nodes=${nodes.data} />
    <${Grid} nodes=${nodes.data} />
    <${JobTable} mine=${me.user} /><${News} />`;
}

function Problems({ status }) {
  if (!status) return null;
  const found = [status.problem, status.start_problem, status.clock_problem, status.plugin_problem].filter(Boolean);
  return found.map((each) => html`<p class="problem" role="alert"><span aria-hidden="true">!</span> ${plain(each, 1000)}</p>`);
}

function Tiles({ status, nodes }) {
  if (!status) return html`<div class="tiles"><${Loading} what="the state" /></div>`;
  const jobs = status.jobs;
  const running = (jobs.RUNNING ?? 0) + (jobs.STARTING ?? 0) + (jobs.PAUSED ?? 0), waiting = (jobs.PENDING ?? 0) + (jobs.SUSPENDED ?? 0);
  const all = nodes?.nodes.flatMap((node) => node.slots) ?? [];
  const read = all.filter((slot) => slot.utilisation !== null);
  const used = status.slots - status.free_slots;
  return html`<div class="tiles">
    <${Tile} label="GPUs in use" value=${`${number(used)} of ${number(status.slots)}`}
      more=${read.length ? `they work ${percent(read.reduce((sum, slot) => sum + slot.utilisation, 0) / read.length)} of the time`
        : `${status.free_slots ? counted(status.free_slots, "is free", "are free") : "none is free"}; how busy is not known`} />
    <${Tile} label="Running" value=${number(running)} more=${[jobs.PAUSED && `${number(jobs.PAUSED)} paused`, jobs.STOPPING && `${number(jobs.STOPPING)} saving`].filter(Boolean).join(", ") || "jobs"} />
    <${Tile} label="Waiting" value=${number(waiting)} more=${jobs.HELD ? `${number(jobs.HELD)} on hold` : "jobs"} />
    <${Tile} label="Policy" value=${plain(status.policy)} more=${html`<a href="#/queue">who is next, and why</a>`} /></div>`;
}

function Grid({ nodes }) {
  const [chosen, setChosen] = useState(null);
  const [all, setAll] = useState(false);
  if (!nodes) return html`<section class="card"><h2>GPUs</h2><${Loading} what="GPUs" /></section>`;
  const count = {};
  let shared = 0;
  for (const node of nodes.nodes) {
    for (const slot of node.slots) {
      count[slot.state] = (count[slot.state] ?? 0) + 1;
      if (slot.job_ids.length > 1) shared += 1;
    }
  }
  const size = Math.max(0, ...nodes.nodes.map((node) => node.slots.length)), wide = size <= 4 ? 4 : size <= 8 ? 8 : 16;
  const shown = all ? nodes.nodes.slice(0, 100) : nodes.nodes.slice(0, ROWS);
  return html`<section class="card" aria-labelledby="gpus-title"><div class="head"><h2 id="gpus-title">GPUs</h2>
      <ul class="legend">${Object.entries(STATES).filter(([state]) => count[state]).map(([state, [sign, word]]) => html`
        <li><span class="slot ${state}" aria-hidden="true">${state === "saving" ? "~12" : sign || "12"}</span>${number(count[state])} ${word}</li>`)}${shared ? html`<li><span class="slot shared" aria-hidden="true"><span class="c1">12</span><span class="c2">13</span></span>${number(shared)} shared</li>` : null}</ul></div>
    <div class="nodes n${wide}">${shown.map((node) => html`<${NodeRow} key=${node.name} node=${node} chosen=${chosen} onChoose=${setChosen} />`)}</div>
    ${nodes.nodes.length > shown.length ? html`<p class="quiet">${counted(nodes.nodes.length - shown.length, "more node")} not shown.
      ${all ? null : html`<button type="button" class="plain" onClick=${() => setAll(true)}>Show 100</button>`}</p>` : null}
  </section>`;
}

function NodeRow({ node, chosen, onChoose }) {
  const state = node.is_silent ? "does not answer" : node.is_drained ? "drained" : "";
  const where = [node.rack && `rack ${node.rack}`, node.gpu_type].filter(Boolean).join(", ");
  return html`<div class="node"><div class="node-name"><span class="name">${plain(node.name)}</span>
      <span class="quiet">${state ? html`<strong class="warn">! ${state}</strong>` : plain(where)}</span></div>
    <ul class="slots" aria-label=${`GPUs of ${plain(node.name)}`}>${node.slots.map((slot) => html`<li>
      <${Slot} slot=${slot} chosen=${chosen} onChoose=${onChoose} /></li>`)}</ul>
    ${node.reason ? html`<p class="quiet reason">${plain(node.reason)}</p>` : null}</div>`;
}

function Slot({ slot, chosen, onChoose }) {
  const [sign, word] = STATES[slot.state] ?? ["?", slot.state];
  const index = slot.name.slice(slot.name.lastIndexOf(":") + 1);
  const figures = slot.utilisation === null ? "" : `, works ${percent(slot.utilisation)} of the time` +
    (slot.memory_used_bytes ? `, ${number(slot.memory_used_bytes / 2 ** 30)} of ${number(slot.memory_bytes / 2 ** 30)} GiB` : "") +
    (slot.temperature_c ? `, ${slot.temperature_c} °C` : "");
  const told = (id) => `GPU ${index}: ${word}${id === null ? "" : ` by job ${id}`}${slot.job_ids.length > 1 ? `, shared by ${counted(slot.job_ids.length, "job")}` : ""}${figures}${slot.reason ? `, ${plain(slot.reason)}` : ""}`;
  const text = told(slot.job_id);
  const bar = slot.utilisation === null ? null : html`<svg class="use" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect width=${Math.round(slot.utilisation * 100)} height="4" /></svg>`;
  if (slot.job_id === null) return html`<span class="slot ${slot.state}" title=${text} role="img" aria-label=${text}>${sign}${bar}</span>`;
  const link = (id, more) => html`<a href="#/jobs/${id}" class="${more} ${hue(id)} ${chosen === id ? "chosen" : ""}" title=${told(id)}
    aria-label=${told(id)} onMouseEnter=${() => onChoose(id)} onMouseLeave=${() => onChoose(null)}
    onFocus=${() => onChoose(id)} onBlur=${() => onChoose(null)}>${slot.state === "saving" ? "~" : ""}${id}${bar}</a>`;
  if (slot.job_ids.length < 2) return link(slot.job_id, `slot ${slot.state}`);
  const shown = slot.job_ids.slice(0, SHARERS), more = slot.job_ids.length - shown.length;
  return html`<span class="slot shared">${shown.map((id) => link(id, ""))}${more ? html`<span title=${slot.job_ids.join(", ")}>+${more}</span>` : null}</span>`;
}

function News() {
  const events = useLive().events.filter((event) => event.kind !== "TimerFired" && !event.kind.startsWith("Wish"));
  return html`<section class="card" aria-labelledby="news-title"><h2 id="news-title">What has just happened</h2>
    ${events.length === 0 ? html`<p class="quiet">Nothing yet.</p>` : html`<ol class="news">
      ${events.slice(0, EVENTS).map((event) => html`<li key=${event.seq} data-seq=${event.seq}>
        <time>${clock(event.at)}</time> ${event.job_id === null ? null : html`<${JobLink} id=${event.job_id} name="" />`} <span>${plain(event.text)}</span></li>`)}</ol>`}
  </section>`;
}

// --- the list of jobs --------------------------------------------------------------------------------------
// Searched, sorted and paged by the manager, so that ten thousand jobs cost no more than fifty.

const SIZE = 50; // rows
const ASKED = 8; // waiting jobs whose start is estimated
const ASK_AGAIN_MS = 30000;
// Facts from which the phase of a row follows at once, before the list is asked for again.
const AFTER = { RunGranted: "STARTING", RunStarted: "RUNNING", RunRevoked: "STOPPING" };

const ORDERS = [["rank", "who is next"], ["-id", "latest"], ["name", "name"], ["user", "user"], ["phase", "phase"], ["-gpus", "most GPUs"], ["-wait", "longest wait"]];

const concerns = (event) => event.job_id !== null || event.kind.startsWith("Wish");

function JobTable({ mine }) {
  const [who, setWho] = useParameter("who", "mine");
  const [search, setSearch] = useParameter("search");
  const [sort, setSort] = useParameter("sort", "rank");
  const [ended, setEnded] = useParameter("ended", "no");
  const [offset, setOffset] = useParameter("offset", "0");
  const at = Number(offset) || 0;
  const path = api("/jobs", {
    limit: SIZE, offset: at, sort, search, user: who === "mine" ? mine : "", all: ended === "yes" ? "true" : "",
  });
  const { data, error } = useData(mine || who === "all" ? path : null, { concerns });
  const starts = useStarts(data?.jobs ?? []);
  const to = (set) => (value) => { if (at) setOffset("0"); set(value); };
  const rows = data ? data.jobs.slice(0, SIZE).map((job) => patched(job, data.seq)) : null;
  return html`<section class="card" aria-labelledby="jobs-title">
    <div class="head"><h2 id="jobs-title">Jobs</h2>
      <div class="tools">
        <div class="switch" role="group" aria-label="Whose jobs">
          <button type="button" aria-pressed=${who === "mine"} onClick=${() => to(setWho)("mine")}>Mine</button>
          <button type="button" aria-pressed=${who !== "mine"} onClick=${() => to(setWho)("all")}>All</button></div>
        <label class="check"><input type="checkbox" checked=${ended === "yes"}
          onChange=${(event) => to(setEnded)(event.target.checked ? "yes" : "no")} /> ended too</label>
        <${SortBy} options=${ORDERS} sort=${sort} onSort=${to(setSort)} />
        <${Search} value=${search} onSearch=${to(setSearch)} /></div></div>
    <${Failure} error=${error} />
    ${rows === null ? (error ? null : html`<${Loading} what="jobs" />`)
      : rows.length === 0 ? html`<p class="quiet empty">${search ? "No job matches." : who === "mine"
        ? html`You have no active jobs. Submit one: <code>tir submit -g 1 -- python train.py</code>` : "There are no active jobs."}</p>`
      : html`<${Rows} rows=${rows} starts=${starts} sort=${sort} onSort=${to(setSort)} />`}
    ${rows?.some((job) => starts[job.id]) && starts.measured ? html`<p class="quiet">${sentence(starts.measured, 400)}</p>` : null}
    <${Pages} offset=${at} size=${SIZE} total=${data?.total ?? 0} onOffset=${(value) => setOffset(String(value))} />
  </section>`;
}

function Search({ value, onSearch }) {
  const [text, setText] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => { if (text !== value) onSearch(text); }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input type="search" class="search" aria-label="Search by name, user, tenant or id" placeholder="Search…"
    value=${text} maxlength="200" onInput=${(event) => setText(event.target.value)} />`;
}

function patched(job, seq) {
  const news = live.events.find((event) => event.job_id === job.id && event.seq > seq && event.kind in AFTER);
  return news && !ENDED.includes(job.phase) ? { ...job, phase: AFTER[news.kind], since_at: news.at } : job;
}

function Rows({ rows, starts, sort, onSort }) {
  const now = useNow();
  const queues = rows.some((job) => job.queue !== null);
  const head = (by, text, more = {}) => html`<${Sorted} by=${by} sort=${sort} onSort=${onSort} otherwise="rank" ...${more}>${text}<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table of jobs"><table class="jobs">
    <thead><tr>${head("id", "Id", { num: true })}${head("name", "Name")}${head("user", "User")}${head("phase", "Phase")}
      ${head("gpus", "GPUs", { num: true, first: "-" })}${queues ? html`<th scope="col" class="num">Queue</th>` : null}
      ${head("wait", "For", { num: true, first: "-" })}<th scope="col">What happens</th></tr></thead>
    <tbody>${rows.map((job) => html`<tr key=${job.id} data-job=${job.id}>
      <td class="num">${job.id}</td><td class="fit"><${JobLink} id=${job.id} name=${job.name} /></td>
      <td class="fit who">${plain(job.user, 60)}${job.tenant ? html` <span class="quiet">${plain(job.tenant, 60)}</span>` : null}</td>
      <td class="state"><${Phase} phase=${job.phase} /></td><td class="num" data-label="GPUs"><${Gpus} job=${job} /></td>
      ${queues ? html`<td class=${job.queue === null ? "num none" : "num"}>${job.queue === null ? "–" : `Q${job.queue}`}</td>` : null}
      <td class="num" data-label="for">${duration(time(job, now))}</td><td class="why">${reason(job, starts[job.id])}</td></tr>`)}</tbody>
  </table></div>`;
}

const time = (job, now) => (job.finished_at ? job.finished_at - job.submitted_at : job.since_at === null ? null : now - job.since_at);

function reason(job, start) {
  if (job.finished_at !== null) return plain(job.reason_text || job.reason);
  if (job.phase === "RUNNING" || job.phase === "PAUSED") {
    const parts = [];
    if (job.progress?.fraction) parts.push(`${Math.round(job.progress.fraction * 100)} % done`);
    if (job.progress?.eta_s) parts.push(`${duration(job.progress.eta_s)} left`);
    if (job.preemptions) parts.push(`preempted ${job.preemptions === 1 ? "once" : counted(job.preemptions, "time")}`);
    if (job.loss) parts.push(plain(job.loss));
    return parts.join(", ");
  }
  return html`${plain(job.reason_text)}${start ? html`<span class="eta">${start}</span>` : null}`;
}

// When the first few waiting jobs of the page start; asked for seldom, because each answer is a replay.
function useStarts(jobs) {
  const [starts, set] = useState({});
  const waiting = jobs.filter((job) => job.phase === "PENDING" || job.phase === "SUSPENDED").slice(0, ASKED).map((job) => job.id);
  const key = waiting.join();
  useEffect(() => {
    let over = false;
    const ask = async () => {
      for (const id of waiting) {
        if (over || document.hidden) return;
        try {
          const eta = await get(api(`/jobs/${id}/eta`));
          if (!over) set((before) => ({ ...before, [id]: inWords(eta), measured: eta.measured }));
        } catch { /* it has ended meanwhile */ }
      }
    };
    ask();
    const clock = setInterval(ask, ASK_AGAIN_MS);
    return () => { over = true; clearInterval(clock); };
  }, [key]);
  return starts;
}

export function inWords(eta) {
  if (eta.starts_p50_s === null) return "";
  if (eta.starts_p90_s < 1) return "starts about now";
  if (duration(eta.starts_p50_s) === duration(eta.starts_p90_s)) return `starts in about ${duration(eta.starts_p50_s)}`;
  return `starts in about ${duration(eta.starts_p50_s)}, within ${duration(eta.starts_p90_s)} in 9 of 10 cases`;
}
