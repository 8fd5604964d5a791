// Now: every GPU and who holds it, the jobs, and what has just happened.

import { html, useState } from "./vendor/preact-htm.js";
import { api } from "./api.js";
import { useData, useLive } from "./live.js";
import { JobTable } from "./jobs.js";
import { Failure, JobLink, Loading, Tile } from "./parts.js";
import { clock, counted, number, percent, plain } from "./text.js";

const ROWS = 60; // nodes
const EVENTS = 14;
const STATES = { // sign, word
  busy: ["", "in use"], free: ["·", "free"], saving: ["~", "saving"], foreign: ["×", "used by others"],
  out: ["!", "out of service"], drained: ["–", "drained"],
};
const slots = (event) => /^(Run|Node|Slot|Job)/.test(event.kind);

export function Now({ me }) {
  const status = useData(api("/status"), { concerns: slots, every_ms: 15000 });
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
  const running = (jobs.RUNNING ?? 0) + (jobs.STARTING ?? 0), waiting = (jobs.PENDING ?? 0) + (jobs.SUSPENDED ?? 0);
  const all = nodes?.nodes.flatMap((node) => node.slots) ?? [];
  const read = all.filter((slot) => slot.utilisation !== null);
  const used = status.slots - status.free_slots;
  return html`<div class="tiles">
    <${Tile} label="GPUs in use" value=${`${number(used)} of ${number(status.slots)}`}
      more=${read.length ? `they work ${percent(read.reduce((sum, slot) => sum + slot.utilisation, 0) / read.length)} of the time`
        : status.free_slots ? counted(status.free_slots, "is free", "are free") : "none is free"} />
    <${Tile} label="Running" value=${number(running)} more=${jobs.STOPPING ? `${number(jobs.STOPPING)} saving` : "jobs"} />
    <${Tile} label="Waiting" value=${number(waiting)} more=${jobs.HELD ? `${number(jobs.HELD)} on hold` : "jobs"} />
    <${Tile} label="Policy" value=${plain(status.policy)} more=${html`<a href="#/queue">who is next, and why</a>`} /></div>`;
}

function Grid({ nodes }) {
  const [chosen, setChosen] = useState(null);
  const [all, setAll] = useState(false);
  if (!nodes) return html`<section class="card"><h2>GPUs</h2><${Loading} what="GPUs" /></section>`;
  const count = {};
  for (const node of nodes.nodes) for (const slot of node.slots) count[slot.state] = (count[slot.state] ?? 0) + 1;
  const shown = all ? nodes.nodes.slice(0, 100) : nodes.nodes.slice(0, ROWS);
  return html`<section class="card" aria-labelledby="gpus-title"><div class="head"><h2 id="gpus-title">GPUs</h2>
      <ul class="legend">${Object.entries(STATES).filter(([state]) => count[state]).map(([state, [sign, word]]) => html`
        <li><span class="slot ${state}" aria-hidden="true">${sign || "12"}</span>${number(count[state])} ${word}</li>`)}</ul></div>
    <div class="nodes">${shown.map((node) => html`<${NodeRow} key=${node.name} node=${node} chosen=${chosen} onChoose=${setChosen} />`)}</div>
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
      <${Slot} slot=${slot} isChosen=${chosen !== null && chosen === slot.job_id} onChoose=${onChoose} /></li>`)}</ul>
    ${node.reason ? html`<p class="quiet reason">${plain(node.reason)}</p>` : null}</div>`;
}

function Slot({ slot, isChosen, onChoose }) {
  const [sign, word] = STATES[slot.state] ?? ["?", slot.state];
  const index = slot.name.slice(slot.name.lastIndexOf(":") + 1);
  const figures = slot.utilisation === null ? "" : `, works ${percent(slot.utilisation)} of the time` +
    (slot.memory_used_bytes ? `, ${number(slot.memory_used_bytes / 2 ** 30)} of ${number(slot.memory_bytes / 2 ** 30)} GiB` : "") +
    (slot.temperature_c ? `, ${slot.temperature_c} °C` : "");
  const text = `GPU ${index}: ${word}${slot.job_id === null ? "" : ` by job ${slot.job_id}`}${figures}${slot.reason ? `, ${plain(slot.reason)}` : ""}`;
  const bar = slot.utilisation === null ? null : html`<svg class="use" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect width=${Math.round(slot.utilisation * 100)} height="4" /></svg>`;
  if (slot.job_id === null) return html`<span class="slot ${slot.state}" title=${text} role="img" aria-label=${text}>${sign}${bar}</span>`;
  return html`<a href="#/jobs/${slot.job_id}" class="slot ${slot.state} c${slot.job_id % 8} ${isChosen ? "chosen" : ""}" title=${text}
    aria-label=${text} onMouseEnter=${() => onChoose(slot.job_id)} onMouseLeave=${() => onChoose(null)}
    onFocus=${() => onChoose(slot.job_id)} onBlur=${() => onChoose(null)}>${slot.state === "saving" ? "~" : ""}${slot.job_id}${bar}</a>`;
}

export function News() {
  const { events } = useLive();
  return html`<section class="card" aria-labelledby="news-title"><h2 id="news-title">What has just happened</h2>
    ${events.length === 0 ? html`<p class="quiet">Nothing yet.</p>` : html`<ol class="news">
      ${events.filter((event) => event.kind !== "TimerFired").slice(0, EVENTS).map((event) => html`<li key=${event.seq} data-seq=${event.seq}>
        <time>${clock(event.at)}</time> ${event.job_id === null ? null : html`<${JobLink} id=${event.job_id} name="" />`} <span>${plain(event.text)}</span></li>`)}</ol>`}
  </section>`;
}
