// The metrics that a training reports, as curves over its steps.

import { html } from "./vendor/preact-htm.js";
import { api } from "./api.js";
import { Chart } from "./charts.js";
import { useData } from "./live.js";
import { plain } from "./text.js";

const SHOWN = 6; // curves

export function Metrics({ id, isOver }) {
  const { data } = useData(api(`/jobs/${id}/metrics`), { concerns: () => false, every_ms: isOver ? 0 : 10000 });
  const names = data ? Object.keys(data.metrics).slice(0, SHOWN) : [];
  if (!names.length || data.steps.length < 2) return null;
  return html`<section class="card" aria-labelledby="metrics-title"><h2 id="metrics-title">Metrics</h2>
    <div class="charts">${names.map((name) => html`<${Chart} key=${name} title=${plain(name, 60)} x=${data.steps} isTime=${false}
      series=${[{ label: plain(name, 60), values: data.metrics[name], colour: 0 }]} height=${150} unit="" xLabel="step" />`)}</div>
    ${Object.keys(data.metrics).length > SHOWN ? html`<p class="quiet">The first ${SHOWN} of ${Object.keys(data.metrics).length} metrics.</p>` : null}</section>`;
}
