// Job: its runs and why each ended, how far it is, its output, and what its owner may do with it.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { api, bytes, change, follow } from "./api.js";
import { Chart } from "./charts.js";
import { useData, useNow } from "./live.js";
import { inWords } from "./now.js";
import { CAUSES, Confirm, ENDED, Failure, JobLink, Key, Loading, Phase, Phrase, range, useParameter } from "./parts.js";
import { clock, counted, duration, logLine, number, percent, plain, sentence, service } from "./text.js";

export function Job({ id, me }) {
  const concerns = (event) => String(event.job_id) === id;
  const detail = useData(api(`/jobs/${encodeURIComponent(id)}`), { concerns, every_ms: 5000 });
  const other = detail.error?.status === 403 ? detail.error : null;
  const open = useData(other ? api("/jobs", { job: id, all: "true" }) : null, { concerns });
  const openWhy = useData(other ? api(`/jobs/${encodeURIComponent(id)}/why`) : null, { concerns });
  if (other && open.data?.jobs.length) {
    return html`<${Head} job=${open.data.jobs[0]} /><section class="card"><h2>Why</h2>
      <p>${sentence(openWhy.data?.text)}</p><p class="quiet">This job belongs to ${plain(open.data.jobs[0].user)}; its details are theirs.</p></section>`;
  }
  if (!detail.data) return html`<h1>Job ${plain(id)}</h1><${Failure} error=${detail.error} />${detail.error ? null : html`<${Loading} what="the job" />`}`;
  const job = detail.data.summary;
  const isMine = me.role === "admin" || me.user === job.user;
  return html`<${Head} job=${job} />${isMine ? html`<${Actions} detail=${detail.data} me=${me} onDone=${detail.again} />` : null}
    <${Failure} error=${detail.error} />
    <${Why} job=${job} why=${detail.data.why} id=${id} />
    <${Runs} runs=${detail.data.runs} job=${job} />
    <${Progress} job=${job} /><${Metrics} id=${job.id} isOver=${ENDED.includes(job.phase)} />
    <${Log} id=${job.id} runs=${detail.data.runs} isOver=${ENDED.includes(job.phase)} />
    <${Facts} detail=${detail.data} />`;
}

function Head({ job }) {
  const now = useNow();
  const wait = job.first_started_at ? job.first_started_at - job.submitted_at : null;
  return html`<div class="job-head"><h1><span class="name">${plain(job.name) || "job"}</span> <span class="quiet">job ${job.id}</span></h1>
    <p class="job-line"><${Phase} phase=${job.phase} /> <span>${plain(job.user)}${job.tenant ? ` · ${plain(job.tenant)}` : ""}</span>
      <span>${job.gpus ? counted(job.gpus, "GPU") : "no GPUs"}${job.max_gpus === null ? "" : `, elastic: ${range(job)}`}</span>${job.queue === null ? null : html`<span>Q${job.queue}</span>`}
      <span>${service(job.service_gpu_s)} received</span>
      ${wait === null ? html`<span>waiting for ${duration((job.finished_at ?? now) - job.submitted_at)}</span>` : html`<span>first started after ${duration(wait)}</span>`}
      ${job.finished_at ? html`<span>ended after ${duration(job.finished_at - job.submitted_at)}</span>` : null}
      ${job.priority === "normal" ? null : html`<span>priority ${plain(job.priority)}</span>`}</p></div>`;
}

const ACTIONS = {
  cancel: ["Cancel", "The job ends. Its run is asked to save and to stop, and has its grace time for that.", true],
  hold: ["Hold", "The job is put on hold. If it runs, its run is asked to save and to stop. It starts again after “Release”."],
  release: ["Release", "The job may run again as soon as its rank allows."],
  requeue: ["Requeue", "Its run is asked to save and to stop, and the job goes back to the queue."],
};

function Actions({ detail, me, onDone }) {
  const job = detail.summary;
  const [asked, ask] = useState(null);
  const [priority, setPriority] = useState(job.priority);
  const chosen = useRef(job.priority);  // at once: a key that follows soon must not send the former choice
  const choose = (each) => { chosen.current = each; setPriority(each); };
  if (ENDED.includes(job.phase)) return null;
  const held = job.phase === "HELD" || job.reason === "OnHold" || job.reason === "Held";
  const runs = ["STARTING", "RUNNING"].includes(job.phase);
  const may = ["cancel", held ? "release" : "hold", ...(runs ? ["requeue"] : [])];
  const act = (name) => async () => { await change("POST", api(`/jobs/${job.id}/${name}`)); onDone(); };
  const who = job.user === me.user ? "" : `It belongs to ${plain(job.user)}. `;
  return html`<div class="actions" role="group" aria-label="Actions">
    ${may.map((name) => html`<button type="button" class=${name === "cancel" ? "danger" : ""} onClick=${() => ask(name)}>${ACTIONS[name][0]}…</button>`)}
    <button type="button" onClick=${() => { choose(job.priority); ask("priority"); }}>Priority…</button>
    ${asked && asked !== "priority" ? html`<${Confirm} title=${`${ACTIONS[asked][0]} job ${job.id}?`} action=${ACTIONS[asked][0]} danger=${Boolean(ACTIONS[asked][2])}
      onDo=${act(asked)} onClose=${() => ask(null)}><p>${who}${ACTIONS[asked][1]}${job.resumable === false && runs && asked !== "release"
        ? html` <strong>It does not save: its work since the start of the run is lost.</strong>` : null}</p><//>` : null}
    ${asked === "priority" ? html`<${Confirm} title=${`Priority of job ${job.id}`} action="Change" onClose=${() => ask(null)}
      onDo=${async () => { await change("PATCH", api(`/jobs/${job.id}`), { priority: chosen.current }); onDone(); }}>
      <p>${who}Jobs of a higher class go before all others, whatever the policy says.</p>
      <fieldset><legend>Priority class</legend>${["high", "normal", "low"].map((each) => html`<label class="check"><input type="radio" name="priority" value=${each}
        checked=${priority === each} disabled=${each === "high" && me.role !== "admin"} onChange=${() => choose(each)} /> ${each}${each === "high" && me.role !== "admin" ? " (admins only)" : ""}</label>`)}</fieldset><//>` : null}</div>`;
}

function Why({ job, why, id }) {
  const waits = job.phase === "PENDING" || job.phase === "SUSPENDED";
  const eta = useData(ENDED.includes(job.phase) ? null : api(`/jobs/${encodeURIComponent(id)}/eta`), { concerns: () => false, every_ms: 30000 });
  const found = eta.data;
  return html`<section class="card" aria-labelledby="why-title"><h2 id="why-title">Why</h2><p>${sentence(why.text, 2000)}</p>
    ${why.stopped ? html`<p>Its last run was stopped ${plain(why.stopped, 500)}.</p>` : null}
    ${job.loss ? html`<p class="warn">! ${plain(job.loss, 300)}</p>` : null}
    ${why.ahead.length ? html`<p>Ahead: ${why.ahead.map((other, number) => html`${number ? ", " : ""}<${JobLink} id=${other} name="" />`)}${why.ahead_jobs > why.ahead.length ? ` and ${number(why.ahead_jobs - why.ahead.length)} more` : ""}.</p>` : null}
    ${found && waits && found.starts_p50_s !== null ? html`<p>It ${inWords(found)}.</p>` : null}
    ${found && found.ends_p50_s !== null && !job.progress?.eta_s ? html`<p>It ends in about ${duration(found.ends_p50_s)}, within ${duration(found.ends_p90_s)} in 9 of 10 cases.</p>` : null}
    ${found?.unknown ? html`<p class="quiet">When it ${waits ? "starts" : "ends"} cannot be known: ${plain(found.unknown)}.</p>` : null}
    ${found?.measured ? html`<p class="quiet">${sentence(found.measured, 400)}</p>` : null}
    ${why.next_step ? html`<p class="quiet">Next: <${Phrase} text=${why.next_step} /></p>` : null}</section>`;
}

function Runs({ runs, job }) {
  const now = useNow();
  if (!runs.length) return html`<section class="card"><h2>Runs</h2><p class="quiet">It has not run yet.</p></section>`;
  const shown = runs.slice(-50);
  const begin = Math.min(job.submitted_at, shown[0].granted_at), end = job.finished_at ?? now, span = Math.max(1, end - begin);
  const x = (at) => 100 * (at - begin) / span;
  return html`<section class="card" aria-labelledby="runs-title"><div class="head"><h2 id="runs-title">Runs</h2>
      <ul class="legend"><${Key} of="load">loads<//><${Key} of="run">runs<//><${Key} of="save">saves<//></ul></div>
    ${runs.length > shown.length ? html`<p class="quiet">The last ${shown.length} of ${number(runs.length)} runs.</p>` : null}
    <ol class="runs">${shown.map((run) => {
      const started = run.started_at ?? run.exited_at ?? now, stopped = run.revoked_at ?? run.exited_at ?? now, over = run.exited_at ?? now;
      const [sign, word] = CAUSES[run.cause] ?? ["●", run.revoked_at ? "is stopping" : run.started_at ? "is running" : "is starting"];
      return html`<li key=${run.id} class="run-row"><span class="num">${run.number}</span>
        <svg class="run-bar" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label=${`run ${run.number}: from ${clock(run.granted_at)} for ${duration(over - run.granted_at)}`}>
          <rect class="base" width="100" height="12" /><rect class="load" x=${x(run.granted_at)} width=${Math.max(0.3, x(Math.min(started, over)) - x(run.granted_at))} height="12" />
          <rect class="run" x=${x(Math.min(started, stopped))} width=${Math.max(0, x(stopped) - x(Math.min(started, stopped)))} height="12" />
          ${run.revoked_at ? html`<rect class="save" x=${x(stopped)} width=${Math.max(0.3, x(over) - x(stopped))} height="12" />` : null}</svg>
        <span class="run-text"><span><span class="sign" aria-hidden="true">${sign}</span> ${word} ${run.exited_at ? "after" : "for"} ${duration(over - run.granted_at)}${run.revoked_text ? ` ${plain(run.revoked_text, 400)}` : ""}</span>
          <span class="quiet">${clock(run.granted_at)} on ${plain(run.slots.join(", "), 120) || "no GPUs"}</span>${run.sentence ? html`<span>${sentence(run.sentence, 400)}</span>` : null}
          ${run.revoked_for ? html`<a href="#/jobs/${run.revoked_for}">see job ${run.revoked_for}</a>` : null}
          ${run.evidence ? html`<code>${plain(run.evidence, 300)}</code>` : null}</span></li>`;
    })}</ol></section>`;
}

function Progress({ job }) {
  const found = job.progress;
  if (!found || (found.step === null && !Object.keys(found.metrics).length)) return null;
  const metrics = Object.entries(found.metrics).slice(0, 24);
  return html`<section class="card" aria-labelledby="progress-title"><h2 id="progress-title">Progress</h2>
    ${found.fraction === null ? null : html`<progress max="1" value=${found.fraction} aria-label="Progress">${percent(found.fraction)}</progress>`}
    <dl class="facts">${found.step === null ? null : html`<div><dt>Step</dt><dd>${number(found.step)}${found.total_steps ? ` of ${number(found.total_steps)}` : ""}</dd></div>`}
      ${found.steps_per_s === null ? null : html`<div><dt>Steps per second</dt><dd>${number(found.steps_per_s)}</dd></div>`}
      ${found.eta_s === null ? null : html`<div><dt>Left, by its own reports</dt><dd>${duration(found.eta_s)}</dd></div>`}
      ${metrics.map(([name, value]) => html`<div><dt>${plain(name, 60)}</dt><dd>${typeof value === "number" ? number(value) : plain(value, 200)}</dd></div>`)}</dl></section>`;
}

function Facts({ detail }) {
  const command = useMemo(() => detail.command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(" "), [detail.command]);
  const rows = [
    ["Command", html`<code>${command.slice(0, 3000).split("\n").map((line) => plain(line, 3000)).join("\n")}</code>`], ["Directory", html`<code>${plain(detail.cwd, 500)}</code>`],
    ["Submitted", clock(detail.summary.submitted_at)], ["Preemptible", detail.preemptible ? "yes" : "no"],
    ["Saves its work", detail.summary.resumable === null ? "not known yet" : detail.summary.resumable ? "yes" : "no"],
    ["Grace time", duration(detail.grace_s)], ["Retries", `${detail.retries_used} of ${detail.retries} used`],
    ["Time limit", detail.time_limit_s ? duration(detail.time_limit_s) : "none"], ["Comment", plain(detail.comment, 2000)],
  ].filter(([, value]) => value);
  return html`<section class="card" aria-labelledby="facts-title"><h2 id="facts-title">As it was submitted</h2>
    <dl class="facts wide">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>`;
}

const CURVES = 6; // curves

// The metrics that a training reports, as curves over its steps.
function Metrics({ id, isOver }) {
  const { data } = useData(api(`/jobs/${id}/metrics`), { concerns: () => false, every_ms: isOver ? 0 : 10000 });
  const names = data ? Object.keys(data.metrics).slice(0, CURVES) : [];
  if (!names.length || data.steps.length < 2) return null;
  return html`<section class="card" aria-labelledby="metrics-title"><h2 id="metrics-title">Metrics</h2>
    <div class="charts">${names.map((name) => html`<${Chart} key=${name} title=${plain(name, 60)} x=${data.steps} isTime=${false}
      series=${[{ label: "latest", values: data.metrics[name], colour: 0 }]} height=${150} unit="" xLabel="step" />`)}</div>
    ${Object.keys(data.metrics).length > CURVES ? html`<p class="quiet">The first ${CURVES} of ${Object.keys(data.metrics).length} metrics.</p>` : null}</section>`;
}

// --- its output over all its runs, as it is written; only the end is kept in the page --------------------------

const TAIL_BYTES = 65536;
const LINES = 1000, LONGEST = 20000; // characters of a line that has not ended

function Log({ id, runs, isOver }) {
  const [open, setOpen] = useState(true);
  const [lines, setLines] = useState([]);
  const [state, setState] = useState({ problem: null, text: "" });
  const [chosen, setChosen] = useParameter("run");
  const box = useRef(null), stays = useRef(true);
  const has = runs.length > 0;
  useEffect(() => {
    if (!has || !open) return undefined;
    setLines([]);
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
      ${runs.length > 1 ? html`<label>Run <select value=${chosen} onChange=${(event) => { setChosen(event.target.value); }}>
        <option value="">latest</option>${runs.slice(-50).map((run) => html`<option value=${run.number}>${run.number}</option>`)}</select></label>` : null}
      <button type="button" class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Hide" : "Show"}</button></div></div>
    <${Failure} error=${state.problem} />
    ${!has ? html`<p class="quiet">It has not run yet, so there is no output.</p>` : !open ? null
      : html`<p class="quiet">${state.text}</p><pre class="log" ref=${box} tabindex="0" role="log" aria-label="Output of the job" onScroll=${onScroll}>${lines.join("\n")}${lines.length === 0 && isOver ? "(no output)" : ""}</pre>`}</section>`;
}
