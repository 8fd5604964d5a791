// A finished comparison or sweep, as `tiresias compare --open` and `tiresias sweep --open` show it.

import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { api, get, session, signIn } from "./api.js";
import { Chart } from "./charts.js";
import { Failure, Loading, Meter, Pages, SortBy, Sorted, Tile, useParameter } from "./parts.js";
import { counted, duration, number, percent, plain } from "./text.js";

const SIZE = 50, LINES = 8; // rows, and curves of a chart
const COMPARE = [["", "Comparison", Comparison], ["time", "Over time", OverTime], ["tenants", "Tenants", Tenants]];
const SWEEP = [["", "Sweep", Sweep]];
const view = () => location.hash.replace(/^#\/?/, "").split("?")[0];

function App({ problem }) {
  const [found, set] = useState({ error: problem ? new Error(problem) : null });
  const [where, setWhere] = useState(view);
  useEffect(() => {
    const on = () => setWhere(view());
    addEventListener("hashchange", on);
    if (session.get() && !problem) get(api("/simulation")).then((data) => set({ data }), (error) => set({ error }));
    return () => removeEventListener("hashchange", on);
  }, []);
  const { data, error } = found;
  const views = data?.kind === "sweep" ? SWEEP : COMPARE.filter(([path]) => path !== "tenants" || data?.results.some((each) => Object.keys(each.tenants).length > 1));
  const [, name, Page] = views.find(([path]) => path === where) ?? [];
  useEffect(() => { document.title = `${name ?? "Simulation"} · Tiresias`; }, [name]);
  return html`<header class="top"><a class="brand" href="#/"><img src="/web/icon.svg" alt="" width="22" height="22" />Tiresias</a>
      <nav aria-label="Pages">${data ? views.map(([path, text]) => html`<a href="#/${path}" aria-current=${where === path ? "page" : undefined}>${text}</a>`) : null}</nav></header>
    <main id="main" tabindex="-1"><${Failure} error=${error} />${!data ? error ? null : html`<${Loading} what="the simulation" />`
      : Page ? html`<${Page} data=${data} />` : html`<h1>There is no page ${plain(where)}</h1><p><a href="#/">The first page</a> has the figures.</p>`}
      ${(data?.notes ?? []).slice(0, 20).map((text) => html`<p class="quiet">${plain(text, 1000)}</p>`)}</main>`;
}

const order = (rows, sort) => {
  const name = sort.replace(/^-/, ""), sign = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((one, other) => {
    const a = one[name] ?? null, b = other[name] ?? null;
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
  });
};

function Sheet({ label, rows, columns, extra = () => null }) {
  const [sort, setSort] = useParameter("sort", "avg_jct_s");
  const [offset, setOffset] = useParameter("offset", "0");
  const at = Number(offset) || 0;
  return html`<${SortBy} options=${columns.map(([by, text]) => [by, text])} sort=${sort} onSort=${setSort} /><div class="scroll" tabindex="0" role="region" aria-label=${`Table of ${label}`}><table><thead><tr>${columns.map(([by, text, , isText]) =>
      html`<${Sorted} by=${by} sort=${sort} onSort=${setSort} num=${!isText}>${text}<//>`)}</tr></thead>
    <tbody>${order(rows, sort).slice(at, at + SIZE).map((row) => html`<tr class=${extra(row) ? "best" : ""}>${columns.map(([by, text, shown, isText]) =>
      html`<td class=${isText ? "fit" : "num"} data-label=${isText ? undefined : text}>${shown(row[by], row)}</td>`)}</tr>`)}</tbody></table></div>
    <${Pages} offset=${at} size=${SIZE} total=${rows.length} onOffset=${(value) => setOffset(String(value))} />`;
}

function Comparison({ data }) {
  const best = Math.min(...data.results.map((each) => each.avg_jct_s));
  const fastest = data.results.find((each) => each.avg_jct_s === best);
  const shown = data.results.slice(0, LINES);
  const columns = [["label", "Policy", (value, row) => html`${plain(value, 80)}${row === fastest ? html` <strong>★ best</strong>` : null}`, true],
    ["avg_jct_s", "Mean JCT", (value) => html`<${Meter} share=${value / Math.max(...data.results.map((each) => each.avg_jct_s))}>${duration(value)}<//>`, true],
    ["ratio", "× best", (_, row) => number(Number((row.avg_jct_s / best).toPrecision(3)))], ["p50_jct_s", "median", duration], ["p95_jct_s", "p95", duration],
    ["avg_wait_s", "Mean wait", duration], ["makespan_s", "Makespan", duration], ["preemptions", "Preemptions", number], ["gpu_utilization", "Use", percent], ["max_rho", "Worst rho", number]];
  return html`<h1>${plain(data.trace, 120)} <span class="quiet">on ${plain(data.cluster, 80)}</span></h1>
    <div class="tiles"><${Tile} label="Jobs" value=${number(data.results[0]?.jobs ?? 0)} more=${data.results[0]?.rejected_jobs ? `${number(data.results[0].rejected_jobs)} rejected` : "all were run"} />
      <${Tile} label="GPUs" value=${number(data.gpus)} /><${Tile} label="Best mean JCT" value=${duration(best)} more=${plain(fastest?.label)} />
      <${Tile} label="Policies" value=${number(data.results.length)} more=${data.results.some((each) => each.policy === "srsf") ? "srsf knows every duration in advance" : ""} /></div>
    <section class="card" aria-labelledby="figures"><h2 id="figures">Figures</h2><${Sheet} label="policies" rows=${data.results.map((each) => Object.assign(each, { ratio: each.avg_jct_s }))} columns=${columns} extra=${(row) => row === fastest} /></section>
    <section class="card"><${Chart} title="Jobs that had ended after so long" height=${300} x=${data.jct_s} isTime=${false} log=${true} xLabel="JCT" xFormat=${duration} format=${percent}
      series=${shown.map((each, at) => ({ label: plain(each.label, 60), values: each.cdf, colour: at, text: `half within ${duration(each.p50_jct_s)}` }))} />
      ${data.results.length > LINES ? html`<p class="quiet">The first ${LINES} of ${data.results.length}.</p>` : null}</section>`;
}

function OverTime({ data }) {
  const begin = data.at[0] ?? 0, hours = data.at.map((at) => (at - begin) / 3600), shown = data.results.slice(0, LINES);
  const lines = (name) => shown.map((each, at) => ({ label: plain(each.label, 60), values: each[name], colour: at, text: `mean ${number(each[name].reduce((sum, one) => sum + one, 0) / each[name].length)}` }));
  return html`<h1>Over time</h1><section class="card"><${Chart} title=${`GPUs in use, of ${number(data.gpus)}`} x=${hours} isTime=${false} xLabel="hours" height=${280} series=${lines("busy_gpus")} /></section>
    <section class="card"><${Chart} title="Jobs that wait" x=${hours} isTime=${false} xLabel="hours" height=${280} series=${lines("waiting")} /></section>`;
}

function Tenants({ data }) {
  const names = [...new Set(data.results.flatMap((each) => Object.keys(each.tenants)))].slice(0, 20);
  return html`<h1>Tenants</h1>${data.results.slice(0, 6).map((each) => html`<section class="card"><h2>${plain(each.label, 60)}</h2>
    <${Sheet} label=${`tenants under ${plain(each.label, 60)}`} rows=${names.filter((name) => each.tenants[name]).slice(0, 12).map((name) => ({ name, ...each.tenants[name] }))} columns=${[["name", "Tenant", (value) => plain(value, 60) || "(none)", true], ["share_gpus", "Share, GPUs", number],
      ["avg_jct_s", "Mean JCT", duration], ["p50_jct_s", "median", duration], ["avg_wait_s", "Mean wait", duration], ["max_rho", "Worst rho", number]]} /></section>`)}`;
}

function Sweep({ data }) {
  const ways = new Map();
  for (const point of data.points) {
    const name = [point.policy, point.options].filter(Boolean).join(" ");
    if (!ways.has(name)) ways.set(name, []);
    ways.get(name).push(point);
  }
  const sizes = [...new Set(data.points.map((each) => each.gpus))].sort((one, other) => one - other);
  const shown = [...ways].slice(0, LINES);
  const columns = [["cluster", "Cluster", (value, row) => html`${plain(value, 60)}${row.is_best ? html` <strong>★ best of its size</strong>` : null}${row.is_pareto ? html` <span class="quiet">◆ nothing smaller is as fast</span>` : null}`, true],
    ["gpus", "GPUs", number], ["policy", "Policy", (value, row) => html`${plain(value, 60)}${row.options ? html`<br /><span class="quiet">${plain(row.options, 100)}</span>` : null}`, true],
    ["avg_jct_s", "Mean JCT", duration], ["p95_jct_s", "p95", duration], ["avg_wait_s", "Mean wait", duration], ["preemptions", "Preemptions", number], ["gpu_utilization", "Use", percent], ["seeds", "Seeds", number]];
  return html`<h1>Sweep <span class="quiet">${counted(data.points.length, "point")}</span></h1>
    ${sizes.length > 1 ? html`<section class="card"><${Chart} title="Mean JCT by the size of the cluster" x=${sizes} isTime=${false} xLabel="GPUs" height=${300} format=${duration}
      series=${shown.map(([name, points], at) => ({ label: plain(name, 60), colour: at, text: "", values: sizes.map((gpus) => points.find((each) => each.gpus === gpus)?.avg_jct_s ?? null) }))} />
      ${ways.size > LINES ? html`<p class="quiet">The first ${LINES} of ${ways.size}.</p>` : null}</section>` : null}
    <section class="card" aria-labelledby="points"><h2 id="points">Points</h2><${Sheet} label="points" rows=${data.points} columns=${columns} extra=${(row) => row.is_best} /></section>`;
}

const problem = await signIn();
const box = document.getElementById("app");
box.textContent = "";
render(html`<${App} problem=${problem || (session.get() ? "" : "Run the command again, and open the address that it prints. The address is good once, for a minute.")} />`, box);
