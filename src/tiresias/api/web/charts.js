// Charts by uPlot, in the colours of the page; beside each chart its latest figures are text.

import { html, useEffect, useRef } from "./vendor/preact-htm.js";
import { number } from "./text.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const colours = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7"];
const WHOLE = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat(); // steps of an axis
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [], [6, 3], [2, 3], [8, 3, 2, 3]];

// Instants of an axis on a clock of 24 hours; a day where one begins.
export const instants = (_, splits, axis, space, step_s) => splits.map((at) => {
  const then = new Date(at * 1000), two = { hour: "2-digit", minute: "2-digit" };
  if (step_s >= 86400 || then.getHours() + then.getMinutes() + then.getSeconds() === 0) return then.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return then.toLocaleTimeString("en-GB", step_s < 60 ? { ...two, second: "2-digit" } : two);
});

export function Chart({ title, x, series, height = 220, unit = "", isTime = true, log = false, xLabel = "", format = number, xFormat = number }) {
  const box = useRef(null);
  useEffect(() => {
    if (!window.uPlot || !box.current) return undefined;
    const make = () => {
      const line = { stroke: css("--line"), width: 1 };
      const axis = { stroke: css("--quiet"), grid: line, ticks: line, font: "12px system-ui, sans-serif" };
      box.current.textContent = "";
      return new uPlot({
        width: box.current.clientWidth || 300, height, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { time: isTime, distr: log ? 3 : 1 }, y: isTime ? { range: (_, low, high) => [0, high || 1] } : {} },
        axes: [{ ...axis, size: 32, ...(isTime ? { space: 70, values: instants } : { incrs: WHOLE, values: (_, values) => values.map((each) => (each === null ? "" : xFormat(each))) }) },
          { ...axis, size: 56, space: 28, values: (_, values) => values.map((each) => `${format(each)}${unit}`) }],
        series: [{}, ...series.map((each) => ({
          label: each.label, stroke: css(colours[each.colour % 8]), width: 2, dash: DASHES[each.colour % 8],
          fill: each.fill ? `${css(colours[each.colour % 8])}33` : undefined, spanGaps: true, points: { show: false },
          paths: each.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
        }))],
      }, [x, ...series.map((each) => each.values)], box.current);
    };
    let plot = make();
    const watch = new ResizeObserver(() => plot.setSize({ width: box.current.clientWidth, height }));
    watch.observe(box.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const again = () => { plot.destroy(); plot = make(); };
    dark.addEventListener("change", again);
    return () => { watch.disconnect(); dark.removeEventListener("change", again); plot.destroy(); };
  }, [x, series, height]);
  const last = (values) => { for (let at = values.length - 1; at >= 0; at -= 1) if (values[at] !== null) return values[at]; return null; };
  return html`<figure class="chart"><figcaption><strong>${title}</strong>
      <ul class="legend">${series.map((each) => html`<li><svg class="key" viewBox="0 0 20 10" aria-hidden="true"><line x1="0" y1="5" x2="20" y2="5" class="s${each.colour % 8}"
        stroke-dasharray=${DASHES[each.colour % 8].join(" ")} /></svg>${each.label}${each.text === undefined ? html` <span class="quiet">${number(last(each.values))}${unit}</span>` : html` <span class="quiet">${each.text}</span>`}</li>`)}</ul></figcaption>
    <div ref=${box} role="img" aria-label=${`${title}: ${series.map((each) => `${each.label} ${each.text ?? number(last(each.values)) + unit}`).join(", ")}`}></div>
    ${xLabel ? html`<p class="x-label quiet">${xLabel}</p>` : null}</figure>`;
}
