// The list of jobs: searched, sorted and paged by the manager, so that ten thousand jobs cost no more than fifty.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { api, get } from "./api.js";
import { live, useData, useNow } from "./live.js";
import { ENDED, Failure, JobLink, Loading, Pages, Phase, Sorted, useParameter } from "./parts.js";
import { counted, duration, plain } from "./text.js";

const SIZE = 50; // rows
const ASKED = 8; // waiting jobs whose start is estimated
const ASK_AGAIN_MS = 30000;
// Facts from which the phase of a row follows at once, before the list is asked for again.
const AFTER = { RunGranted: "STARTING", RunStarted: "RUNNING", RunRevoked: "STOPPING" };

const concerns = (event) => event.job_id !== null || event.kind.startsWith("Wish");

export function JobTable({ mine, isMineAtFirst = true, title = "Jobs", extra = null }) {
  const [who, setWho] = useParameter("who", isMineAtFirst ? "mine" : "all");
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
    <div class="head"><h2 id="jobs-title">${title}</h2>
      <div class="tools">
        <div class="switch" role="group" aria-label="Whose jobs">
          <button type="button" aria-pressed=${who === "mine"} onClick=${() => to(setWho)("mine")}>Mine</button>
          <button type="button" aria-pressed=${who !== "mine"} onClick=${() => to(setWho)("all")}>All</button></div>
        <label class="check"><input type="checkbox" checked=${ended === "yes"}
          onChange=${(event) => to(setEnded)(event.target.checked ? "yes" : "no")} /> ended too</label>
        <${Search} value=${search} onSearch=${to(setSearch)} /></div></div>
    ${extra}<${Failure} error=${error} />
    ${rows === null ? (error ? null : html`<${Loading} what="jobs" />`)
      : rows.length === 0 ? html`<p class="quiet empty">${search ? "No job matches." : who === "mine"
        ? "You have no active jobs. Submit one: tir submit -g 1 -- python train.py" : "There are no active jobs."}</p>`
      : html`<${Rows} rows=${rows} starts=${starts} sort=${sort} onSort=${to(setSort)} />`}
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
  const head = (by, text, more = {}) => html`<${Sorted} by=${by} sort=${sort} onSort=${onSort} ...${more}>${text}<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table of jobs"><table class="jobs">
    <thead><tr>${head("id", "Id", { num: true })}${head("name", "Name")}${head("user", "User")}${head("phase", "Phase")}
      ${head("gpus", "GPUs", { num: true, first: "-" })}${queues ? html`<th scope="col" class="num">Queue</th>` : null}
      ${head("wait", "For", { num: true, first: "-" })}<th scope="col">What happens</th></tr></thead>
    <tbody>${rows.map((job) => html`<tr key=${job.id} data-job=${job.id}>
      <td class="num">${job.id}</td><td class="fit"><${JobLink} id=${job.id} name=${job.name} /></td>
      <td class="fit who">${plain(job.user, 60)}${job.tenant ? html` <span class="quiet">${plain(job.tenant, 60)}</span>` : null}</td>
      <td><${Phase} phase=${job.phase} /></td><td class="num" data-label="GPUs">${job.gpus}</td>
      ${queues ? html`<td class="num">${job.queue === null ? "–" : `Q${job.queue}`}</td>` : null}
      <td class="num" data-label="for">${duration(time(job, now))}</td><td class="why">${reason(job, starts[job.id])}</td></tr>`)}</tbody>
  </table></div>`;
}

const time = (job, now) => (job.finished_at ? job.finished_at - job.submitted_at : job.since_at === null ? null : now - job.since_at);

function reason(job, start) {
  if (job.finished_at !== null) return plain(job.reason_text || job.reason);
  if (job.phase === "RUNNING") {
    const parts = [];
    if (job.progress?.fraction) parts.push(`${Math.round(job.progress.fraction * 100)} % done`);
    if (job.progress?.eta_s) parts.push(`${duration(job.progress.eta_s)} left`);
    if (job.preemptions) parts.push(`preempted ${counted(job.preemptions, "time")}`);
    if (job.loss) parts.push(plain(job.loss));
    return parts.join(", ");
  }
  return html`${plain(job.reason_text)}${start ? html`<span class="eta">${start}</span>` : null}`;
}

// When the first few waiting jobs of the page start; asked for seldom, because each answer is a replay.
function useStarts(jobs) {
  const [starts, set] = useState({});
  const waiting = jobs.filter((job) => job.phase === "PENDING").slice(0, ASKED).map((job) => job.id);
  const key = waiting.join();
  useEffect(() => {
    let over = false;
    const ask = async () => {
      for (const id of waiting) {
        if (over || document.hidden) return;
        try {
          const eta = await get(api(`/jobs/${id}/eta`));
          if (!over) set((before) => ({ ...before, [id]: inWords(eta) }));
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

