// The past. History: use, queue and waits over a window of time, who got what, and which job held which GPU when.
// What-if: what the jobs that have ended would have got under other policies, or with more GPUs; the manager
// computes it while the stream is open, so leaving the page ends it.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { api, follow } from "./api.js";
import { Chart } from "./charts.js";
import { useData } from "./live.js";
import { CAUSES, Failure, JobLink, Key, Loading, Meter, Pages, Table, Tile, hue, useParameter } from "./parts.js";
import { clock, counted, duration, number, percent, plain, service } from "./text.js";

const WINDOWS = [["1h", 3600, "the last hour"], ["6h", 21600, "the last 6 hours"], ["1d", 86400, "the last day"], ["7d", 604800, "the last 7 days"],
  ["30d", 2592000, "the last 30 days"], ["all", 3e8, "all time"]];
const SHARES = 20, SLOTS = 32, RUNS = 20; // rows
const LANE = 18; // pixels
const none = () => false;

const seconds = (name) => (WINDOWS.find(([key]) => key === name) ?? WINDOWS[2])[1];

function Window({ value, onChange, label = "Time" }) {
  return html`<label class="check">${label} <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${WINDOWS.map(([key, , words]) => html`<option value=${key}>${words}</option>`)}</select></label>`;
}

export function History() {
  const [since, setSince] = useParameter("since", "1d");
  const [by, setBy] = useParameter("by", "user");
  const { data, error } = useData(api("/use", { since_s: seconds(since), by }), { concerns: none, every_ms: 30000 });
  return html`<div class="head"><h1>History</h1><div class="tools"><${Window} value=${since} onChange=${setSince} />
      <div class="switch" role="group" aria-label="Figures by">${["user", "tenant"].map((each) => html`<button type="button"
        aria-pressed=${by === each} onClick=${() => setBy(each)}>By ${each}</button>`)}</div></div></div>
    <${Failure} error=${error} />${data ? html`<${Use} use=${data} />` : error ? null : html`<${Loading} what="the history" />`}
    <${Timeline} since=${since} />`;
}

function Use({ use }) {
  const x = use.since_at.map((at) => at + use.step_s / 2);
  const mean = use.gpus.reduce((sum, each) => sum + each, 0) / use.gpus.length;
  const isEmpty = !use.shares.length && use.waiting_jobs.every((each) => each === 0);
  const top = use.shares.filter((share) => share.gpus);
  const line = (label, values, colour, more = {}) => ({ label, values, colour, ...more });
  return html`${use.is_cut ? html`<p class="warn">! More jobs ended in this time than are read at once: it begins at ${clock(use.begins_at)}.</p>` : null}
    <div class="tiles"><${Tile} label="GPUs in use, mean" value=${`${number(mean)} of ${number(use.capacity)}`} more=${use.capacity ? percent(mean / use.capacity) : ""} />
      <${Tile} label="Ended" value=${number(use.ended_jobs)} more=${`since ${clock(use.begins_at)}`} />
      <${Tile} label="Wait until the first start, p50" value=${duration(use.wait.p50_s)} more=${`of ${counted(use.wait.jobs, "job")}`} />
      <${Tile} label="Wait, p95" value=${duration(use.wait.p95_s)} more=${use.wait.jobs ? "5 of 100 jobs waited longer" : ""} /></div>
    ${isEmpty ? html`<section class="card"><p class="quiet empty">No job waited, ran or ended in this time.</p></section>` : html`<section class="card" aria-label="Over time"><div class="charts">
      <${Chart} title="GPUs" x=${x} series=${[line("in use", use.gpus, 0, { fill: true, text: `mean ${number(mean)}` }), line("there are now", x.map(() => use.capacity), 7)]} />
      <${Chart} title="Queue" x=${x} series=${[line("jobs that wait", use.waiting_jobs, 1), line("GPUs that they ask for", use.waiting_gpus, 3)]} />
      <${Chart} title="Wait of jobs that started" x=${x} format=${duration} series=${[line("p50", use.waits.map((each) => each.p50_s), 2, { text: duration(use.wait.p50_s) }),
        line("p95", use.waits.map((each) => each.p95_s), 4, { text: duration(use.wait.p95_s) })]} />
      ${top.length ? html`<${Chart} title=${`GPUs by ${use.by}`} x=${x} series=${top.map((share, at) => line(plain(share.who, 30) || "(none)", share.gpus, at, { text: service(share.gpu_s) }))} />` : null}
    </div></section><${Shares} use=${use} />`}`;
}

function Shares({ use }) {
  const all = use.shares.reduce((sum, each) => sum + each.gpu_s, 0) || 1;
  if (!use.shares.length) return html`<section class="card"><p class="quiet empty">No job ran or ended in this time.</p></section>`;
  return html`<section class="card" aria-labelledby="shares-title"><h2 id="shares-title">By ${use.by}</h2>
    <${Table} label="shares" head=${["Who", "Share of the GPU time", "#GPU time", "#Started", "#Ended", "#Wait p50", "#p95"]}>
    ${use.shares.slice(0, SHARES).map((share) => html`<tr key=${share.who}><td class="fit who">${plain(share.who, 60) || "(none)"}</td>
      <td><${Meter} share=${share.gpu_s / all}>${percent(share.gpu_s / all)}<//></td>
      <td class="num">${service(share.gpu_s)}</td><td class="num" data-label="started">${number(share.started_jobs)}</td><td class="num" data-label="ended">${number(share.ended_jobs)}</td>
      <td class="num" data-label="p50">${duration(share.wait.p50_s)}</td><td class="num" data-label="p95">${duration(share.wait.p95_s)}</td></tr>`)}<//>
    ${use.shares.length > SHARES ? html`<p class="quiet">${counted(use.shares.length - SHARES, "more")} not shown.</p>` : null}</section>`;
}

// One row per GPU, and below it the same runs as a table, for the keyboard.
function Timeline({ since }) {
  const [from, setFrom] = useParameter("gpus", "0");
  const [offset, setOffset] = useParameter("runs", "0");
  const nodes = useData(api("/nodes"), { concerns: none, every_ms: 60000 });
  const slots = (nodes.data?.nodes ?? []).flatMap((node) => node.slots.map((slot) => [node.name, slot.name]));
  const shown = slots.slice(Number(from) || 0).slice(0, SLOTS), first = Number(offset) || 0;
  const { data, error } = useData(shown.length ? api("/timeline", { since_s: Math.min(seconds(since), 604800), limit: 2000, node: [...new Set(shown.map(([node]) => node))] }) : null,
    { concerns: none, every_ms: 30000 });
  if (!data) return html`<${Failure} error=${error ?? nodes.error} />`;
  if (!data.runs.length) return null;
  const runs = {}, begin = data.runs.length ? Math.max(data.begins_at, Math.min(...data.runs.map((run) => run.granted_at))) : data.begins_at;
  for (const run of data.runs) for (const slot of run.slots) (runs[slot] ??= []).push(run);
  return html`<section class="card" aria-labelledby="line-title"><div class="head"><h2 id="line-title">Which job held which GPU</h2>
      <ul class="legend"><li><span class="slot c0" aria-hidden="true">12</span>held by job 12</li><${Key} of="load">loads<//><${Key} of="save">saves<//></ul></div>
    ${data.is_cut ? html`<p class="warn">! There were more runs: the latest 2,000 are shown.</p>` : null}
    <div class="lines">${shown.map(([, slot]) => html`<${Line} key=${slot} slot=${slot} runs=${runs[slot] ?? []} begin=${begin} end=${data.ends_at} />`)}</div>
    <p class="ends quiet"><span>${clock(begin)}</span><span>now</span></p>
    <${Pages} offset=${Number(from) || 0} size=${SLOTS} total=${slots.length} onOffset=${(value) => setFrom(String(value))} />
    <${Table} label="runs" head=${["Job", "#Run", "User", "Began", "#Held", "GPUs", "End"]}>
    ${data.runs.slice(first, first + RUNS).map((run) => html`<tr key=${run.id}><td><${JobLink} id=${run.job_id} name="" /></td><td class="num" data-label="run">${run.number}</td>
      <td class="who">${plain(run.user, 60)}</td><td>${clock(run.granted_at)}</td><td class="num">${duration((run.exited_at ?? data.ends_at) - run.granted_at)}</td>
      <td class="fit who">${plain(run.slots.join(", "), 60)}</td><td>${run.exited_at ? CAUSES[run.cause]?.join(" ") : "● holds them"}</td></tr>`)}<//>
    <${Pages} offset=${first} size=${RUNS} total=${data.runs.length} onOffset=${(value) => setOffset(String(value))} /></section>`;
}

// Runs that shared a GPU lie one below the other.
function lanesOf(runs, end) {
  const over = [], lanes = new Map();
  for (const run of [...runs].sort((one, other) => one.granted_at - other.granted_at)) {
    const free = over.findIndex((at) => at <= run.granted_at), lane = free < 0 ? over.length : free;
    over[lane] = run.exited_at ?? end;
    lanes.set(run.id, lane);
  }
  return [lanes, Math.max(1, over.length)];
}

function Line({ slot, runs, begin, end }) {
  const at = (value) => 100 * Math.min(1, Math.max(0, (value - begin) / Math.max(1e-9, end - begin)));
  const [lanes, count] = lanesOf(runs, end);
  const part = (name, y, from, to) => (to > from ? html`<rect class=${name} x=${`${at(from)}%`} y=${y} width=${`${Math.max(0.1, at(to) - at(from))}%`} height=${LANE} />` : null);
  return html`<div class="line"><span class="quiet name">${plain(slot, 40)}</span><svg role="img" height=${LANE * count} aria-label=${`${plain(slot, 40)}: ${counted(runs.length, "run")}`}>
    ${runs.map((run) => {
      const over = run.exited_at ?? end, stop = run.revoked_at ?? over, start = Math.min(run.started_at ?? over, stop), y = LANE * lanes.get(run.id);
      const open = () => { location.hash = `#/jobs/${run.job_id}`; };
      return html`<g key=${run.id} class=${`job ${hue(run.job_id)}`} onClick=${open}><title>${`job ${run.job_id}, run ${run.number} of ${plain(run.user, 60)}: ${duration(over - run.granted_at)} from ${clock(run.granted_at)}`}</title>
        ${part("load", y, run.granted_at, start)}${part("", y, start, stop)}${part("save", y, stop, over)}
        ${at(over) - at(run.granted_at) > 4 ? html`<text x=${`${at(start) + 0.4}%`} y=${y + 13}>${run.job_id}</text>` : null}</g>`;
    })}</svg></div>`;
}

// --- what if --------------------------------------------------------------------------------------------

const OFFERED = ["fifo", "fifo-skip", "tiresias", "tiresias-l", "las", "srsf"];
const words = (text) => text.split(/[\s,]+/).filter(Boolean);
const label = (each) => (each.more_gpus ? `${each.more_gpus} more GPUs` : each.policy);

export function WhatIf() {
  const used = useData(api("/policy"), { concerns: (event) => event.kind.startsWith("Policy") }).data?.name;
  const [policies, setPolicies] = useParameter("policies", "fifo,srsf");
  const [more, setMore] = useParameter("more", "8");
  const [since, setSince] = useParameter("since", "30d");
  const [state, set] = useState({});
  const stop = useRef(null);
  useEffect(() => () => stop.current?.abort(), []);
  const chosen = words(policies);
  const compute = async (event) => {
    event.preventDefault();
    stop.current?.abort();
    const ours = stop.current = new AbortController();
    const tell = (news) => { if (stop.current === ours) set((before) => ({ ...before, ...news })); };
    set({ busy: true });
    try {
      await follow(api("/what-if", { policy: chosen, more_gpus: words(more), since_s: seconds(since) }), null, (name, value) => {
        if (name === "begun") tell({ scenarios: value.scenarios });
        else if (name === "progress") tell({ progress: value });
        else if (name === "result") tell({ result: value, busy: false });
        else if (name === "failed") tell({ error: new Error(value.message), busy: false });
      }, ours.signal);
      tell({ busy: false });
      set((before) => (before.result || before.error ? before : { error: new Error("The manager ended while it was computed; try again.") }));
    } catch (error) {
      if (!ours.signal.aborted) tell({ busy: false, error });
    }
  };
  const cancel = () => { stop.current?.abort(); stop.current = null; set({ cancelled: true }); };
  const { busy, scenarios, progress, result, error, cancelled } = state;
  return html`<h1>What if</h1><section class="card" aria-labelledby="ask-title"><h2 id="ask-title">What would have been different?</h2>
    <p class="lead">The jobs that have ended are replayed as they came, on the same GPUs under other policies, and under the policy in use on more GPUs.</p>
    <form onSubmit=${compute}><fieldset><legend>Policies</legend>${OFFERED.filter((each) => each !== used).map((each) => html`<label class="check"><input type="checkbox" checked=${chosen.includes(each)}
        onChange=${(event) => setPolicies((event.target.checked ? [...chosen, each] : chosen.filter((one) => one !== each)).join())} /> ${each}</label>`)}
        <label class="check">others <input class="search" value=${chosen.filter((each) => !OFFERED.includes(each)).join()} maxlength="200" placeholder="two-level"
          onChange=${(event) => setPolicies([...chosen.filter((each) => OFFERED.includes(each)), ...words(event.target.value)].join())} /></label></fieldset>
      <div class="tools"><label class="check">More GPUs <input class="search short" value=${more} maxlength="40" placeholder="8, 16" inputmode="numeric" onChange=${(event) => setMore(words(event.target.value).join())} /></label>
        <${Window} value=${since} onChange=${setSince} label="Jobs that ended in" />
        <button type="submit" class="main">Compute</button>${busy ? html`<button type="button" onClick=${cancel}>Cancel</button>` : null}</div></form>
    <div role="status">${busy ? html`<${Progress} scenarios=${scenarios} progress=${progress} />` : cancelled ? html`<p>Cancelled; nothing is computed any more.</p>` : null}</div>
    <${Failure} error=${error} /></section>${result ? html`<${Result} found=${result} />` : null}`;
}

function Progress({ scenarios, progress }) {
  if (!scenarios || !progress) return html`<p>Reading the history…</p>`;
  const done = (progress.scenario + progress.done / Math.max(1, progress.jobs)) / scenarios.length;
  return html`<p><label>${label(scenarios[progress.scenario])}: ${number(progress.done)} of ${counted(progress.jobs, "job")} <progress max="1" value=${done}>${percent(done)}</progress></label></p>`;
}

// "With fifo you would have waited 40 min on average: 3.1 times as long."
function sentenceOf(each, now, isMine) {
  const it = (isMine ? each.mine : each.all).avg_wait_s, ours = (isMine ? now.mine : now.all).avg_wait_s;
  const who = isMine ? "you" : "a job";
  const than = Math.abs(it - ours) < Math.max(0.5, 0.005 * ours) ? "no difference" : ours < 0.5 ? `${duration(ours)} before` : it > ours ? `${number(Number((it / ours).toPrecision(2)))} times as long` : `${percent(1 - it / ours)} less`;
  return html`<strong>With ${label(each)}</strong> ${who} would have waited ${duration(it)} on average: ${than}.${each.policy === "srsf" && !each.more_gpus ? html` <span class="quiet">It knows every duration in advance.</span>` : null}`;
}

function Result({ found }) {
  if (!found.jobs) return html`<section class="card"><p class="empty">No job has run and ended in that time, so there is nothing to replay.</p></section>`;
  const [now, ...others] = found.outcomes, isMine = found.outcomes.every((each) => each.mine), close = found.fidelity;
  const most = Math.max(1e-9, ...found.outcomes.map((each) => (isMine ? each.mine : each.all).avg_wait_s));
  const base = isMine ? found.measured_mine : found.measured;
  const row = (name, gpus, all, mine) => html`<tr><td class="fit">${name}</td><td class="num" data-label="GPUs">${gpus}</td>
    <td><${Meter} tone="wait" share=${(mine ?? all).avg_wait_s / most}>${duration((mine ?? all).avg_wait_s)}<//></td>
    <td class="num" data-label="p95">${duration((mine ?? all).p95_wait_s)}</td>${isMine ? html`<td class="num" data-label="all jobs">${duration(all.avg_wait_s)}</td>` : null}
    <td class="num" data-label="to the end">${duration(all.avg_jct_s)}</td><td class="num" data-label="preempted">${number(all.preemptions)}</td></tr>`;
  return html`<section class="card" aria-labelledby="found-title"><h2 id="found-title">What ${isMine ? "you" : "jobs"} would have waited</h2>
    <p class="answer">Under ${plain(now.policy)}, as it was, ${isMine ? `your ${counted(base.jobs, "job")}` : counted(base.jobs, "job")} waited ${duration(base.avg_wait_s)} on average, and ${duration((isMine ? now.mine : now.all).avg_wait_s)} in the replay, with which the others are compared.</p>
    <ul class="answer">${others.map((each) => html`<li>${sentenceOf(each, now, isMine)}</li>`)}</ul>
    <${Table} label="scenarios" head=${["Scenario", "#GPUs", isMine ? "Your mean wait" : "Mean wait", "#p95", isMine && "#Mean wait, all jobs", "#Mean time to the end", "#Preemptions"]}>
      ${row(`${plain(now.policy)}, measured`, now.gpus, found.measured, isMine ? found.measured_mine : null)}${found.outcomes.map((each, at) => row(at ? label(each) : `${plain(each.policy)}, replayed`, each.gpus, each.all, isMine ? each.mine : null))}<//>
    <h3>How far this can be trusted</h3><p>Replayed under the policy in use, the ${counted(found.jobs, "job")} took ${number(close.avg_jct_ratio)} times as long on average as was measured${found.wait_ratio === null ? "" : ` and waited ${number(found.wait_ratio)} times as long`}.
      The time of a single job is off by ${percent(close.error_p50)} (median), ${percent(close.error_p95)} (p95). A difference below that says nothing.</p>
    <p class="quiet">A preemption costs ${duration(found.cost.seconds)} (${{ measured: `measured over ${counted(found.cost.count, "preemption")}`, starts: "the time that runs take to start: none was preempted", given: "as given" }[found.cost.basis]}).
      ${found.rejected ? ` ${counted(found.rejected, "job")} larger than the cluster is now left out.` : ""}${found.is_cut ? " Only the latest jobs were replayed." : ""}</p></section>`;
}
