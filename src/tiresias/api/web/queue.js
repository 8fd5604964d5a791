// Queue: how the policy orders the jobs, how far each is from the next level, and who would be displaced next.

import { html } from "./vendor/preact-htm.js";
import { api } from "./api.js";
import { useData, useNow } from "./live.js";
import { Failure, Gpus, JobLink, Loading, Meter, Pages, Phase, Table, useParameter } from "./parts.js";
import { counted, duration, number, plain, service } from "./text.js";

const SIZE = 50; // jobs
const KINDS = {
  order: "This policy has one order, and no queues. A job that does not fit is passed by those that do.",
  strict: "This policy has one strict order: no job starts before those ahead of it have started.",
  allocator: "This is an allocator: it decides about all jobs at once who holds GPUs, on which slots and until when.",
};
const concerns = (event) => event.job_id !== null || event.kind.startsWith("Wish") || event.kind.startsWith("Policy");

export function Queue() {
  const now = useNow();
  const queue = useData(api("/queue"), { concerns, every_ms: 10000 });
  const [offset, setOffset] = useParameter("offset", "0");
  const at = Number(offset) || 0;
  const jobs = useData(api("/jobs", { limit: SIZE, offset: at }), { concerns, every_ms: 10000 });
  if (!queue.data) return html`<h1>Queue</h1><${Failure} error=${queue.error} />${queue.error ? null : html`<${Loading} what="the queue" />`}`;
  const info = queue.data, allots = info.kind === "allocator";
  return html`<h1>Queue <span class="quiet">${plain(info.policy)}</span></h1><${Failure} error=${queue.error ?? jobs.error} />
    <section class="card" aria-labelledby="levels-title"><h2 id="levels-title">${info.kind === "levels" ? "Levels" : "Order"}</h2>
      <p class="lead">${info.kind === "levels"
        ? `A job begins in Q1 and falls to the next level when it has received the service named there (GPUs × time). Jobs of a higher level go first.`
        : KINDS[info.kind]}</p>
      ${info.again_at === null ? null : html`<p>It decides again ${info.again_at > now + 1 ? `in ${duration(info.again_at - now)}` : "now"}, or as soon as a job comes or ends.</p>`}
      ${info.learned.map((text) => html`<p class="quiet">${plain(text, 500)}</p>`)}
      <${Levels} info=${info} /></section>
    <${Displaced} info=${info} />
    <section class="card" aria-labelledby="order-title"><h2 id="order-title">${allots ? "Jobs" : "Jobs in the order in which they are served"}</h2>
      ${jobs.data === null ? html`<${Loading} what="jobs" />` : jobs.data.jobs.length === 0 ? html`<p class="quiet empty">There are no active jobs.</p>`
        : html`<${Order} jobs=${jobs.data.jobs} levels=${info.kind === "levels" ? info.levels : null} leases=${allots ? info.leases : null} begin=${at} />`}
      <${Pages} offset=${at} size=${SIZE} total=${jobs.data?.total ?? 0} onOffset=${(value) => setOffset(String(value))} /></section>`;
}

function Levels({ info }) {
  const most = Math.max(1, ...info.levels.map((level) => level.running_gpus + level.wanted_gpus));
  return html`<ol class="levels">${info.levels.map((level) => {
    const run = 100 * level.running_gpus / most, wait = 100 * level.wanted_gpus / most;
    const bounds = info.kind !== "levels" ? "all jobs" : level.to_gpu_s === null ? `from ${service(level.from_gpu_s)} on` : `up to ${service(level.to_gpu_s)}`;
    return html`<li class="level"><div class="level-name">${info.kind === "levels" ? html`<strong>Q${level.number}</strong> ` : null}<span class="quiet">${bounds}</span></div>
      <svg class="level-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="run" x="0" width=${run} height="10" /><rect class="wait" x=${run} width=${wait} height="10" /></svg>
      <div class="level-text"><span class="phase run"><span class="sign" aria-hidden="true">●</span>${level.running_jobs ? `${number(level.running_jobs)} running on ${counted(level.running_gpus, "GPU")}` : "none runs"}</span>
        <span class="phase wait"><span class="sign" aria-hidden="true">○</span>${level.waiting_jobs ? `${number(level.waiting_jobs)} waiting for ${counted(level.wanted_gpus, "GPU")}` : "none waits"}</span></div></li>`;
  })}</ol>`;
}

function Displaced({ info }) {
  const kept = info.not_preemptible ? `${counted(info.not_preemptible, "run")} cannot be preempted at present.` : "";
  return html`<section class="card" aria-labelledby="displaced-title"><h2 id="displaced-title">Who would be displaced next</h2>
    ${info.kind === "allocator" ? html`<p>Nobody can be named: an allocator decides anew about all jobs. A job with a lease keeps its GPUs until that ends. ${kept}</p>`
      : !info.preempts ? html`<p>Nobody: this policy never preempts.</p>`
      : info.next_displaced.length === 0 ? html`<p>Nobody: no run that may be preempted holds GPUs. ${kept}</p>`
      : html`<p class="lead">If a job with a better rank needs GPUs, these runs stop first, in this order. ${kept}</p>
        <ol class="displaced">${info.next_displaced.map((job) => html`<li key=${job.id}><${JobLink} id=${job.id} name=${job.name} />
          <span class="quiet">${plain(job.user, 60)}, ${counted(job.gpus, "GPU")}${job.queue === null ? "" : `, Q${job.queue}`}, ${service(job.service_gpu_s)} received
          ${job.resumable === false ? "; it does not save, so its work would be lost" : ""}</span></li>`)}</ol>`}</section>`;
}

function Order({ jobs, levels, leases, begin }) {
  const now = useNow();
  return html`<${Table} label="jobs in order" head=${["#", "Job", "User", "Phase", "#GPUs", "#Received", levels ? "Way to the next level" : "#In phase for", leases && "#Lease ends in"]}>
    ${jobs.map((job, number) => html`<tr key=${job.id} data-job=${job.id}><td class="num quiet">${begin + number + 1}</td>
      <td class="fit"><${JobLink} id=${job.id} name=${job.name} /></td><td class="fit who">${plain(job.user, 60)}</td><td class="state"><${Phase} phase=${job.phase} /></td>
      <td class="num" data-label="GPUs"><${Gpus} job=${job} /></td><td class="num">${service(job.service_gpu_s)}</td>
      ${levels ? html`<td><${Way} job=${job} levels=${levels} /></td>` : html`<td class="num" data-label="for">${job.since_at === null ? "–" : duration(now - job.since_at)}</td>`}
      ${leases ? html`<td class="num" data-label="lease">${leases[job.id] ? duration(leases[job.id] - now) : "–"}</td>` : null}</tr>`)}<//>`;
}

function Way({ job, levels }) {
  if (job.queue === null) return html`<span class="quiet">no GPUs, no queue</span>`;
  const level = levels[job.queue - 1];
  if (!level || level.to_gpu_s === null) return html`<span>Q${job.queue}, the last</span>`;
  const left = Math.max(0, level.to_gpu_s - job.service_gpu_s);
  const share = (job.service_gpu_s - level.from_gpu_s) / (level.to_gpu_s - level.from_gpu_s);
  const text = job.phase === "RUNNING" ? `Q${job.queue + 1} in ${duration(left / job.gpus)}` : `${service(left)} left in Q${job.queue}`;
  return html`<${Meter} share=${share}>${text}<//>`;
}
