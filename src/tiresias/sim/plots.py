"""Draws results as PNG files with Matplotlib's Agg, without a display and without global state.

Rules: every axis states its unit. Curves differ in colour, also for the colour-blind, and in line style, for
printing without colour. The size of a picture does not grow with the number of jobs: curves are thinned to
what pixels can show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
    StrMethodFormatter,
)
from numpy.typing import NDArray

from tiresias.sim.report import short_names

if TYPE_CHECKING:
    from tiresias.sim import Result
    from tiresias.sim.sizing import Sizing

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#444444")
"""Okabe and Ito's colours, without yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLES = ("-", "--", "-.", ":")
POINTS = 1500
"""More points than this along an axis cannot be distinguished in a picture of this size."""
BINS = 500
TICKS_S: Mapping[float, str] = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    21600: "6 h",
    86400: "1 d",
    864000: "10 d",
    8640000: "100 d",
}
UNITS_S = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

Values = NDArray[np.float64]


def draw_jct_cdf(results: Sequence[Result], path: Path) -> None:
    """Draw the distribution of JCT, one curve for each result of one trace, and write it to `path`."""
    figure, axes = jct_cdf(results)
    finish(figure, [axes], path)


def jct_cdf(results: Sequence[Result]) -> tuple[Figure, Axes]:
    """The distribution of JCT, one curve for each result of one trace."""
    figure = Figure(figsize=(7, 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    longest = shortest = 0.0
    names = short_names([{"policy": result.policy, "placer": result.placer} for result in results])
    for number, result in enumerate(results):
        jct_s = np.sort(result.jobs["jct_s"].drop_nulls().drop_nans().to_numpy())
        if not jct_s.size:
            continue
        x, y = _steps(jct_s)
        axes.plot(
            x,
            y,
            label=names[number],
            color=PALETTE[number % len(PALETTE)],
            linestyle=STYLES[number % len(STYLES)],
            linewidth=max(2.8 - 0.35 * number, 1.2),  # so that a curve under another is still visible
            drawstyle="steps-post",
        )
        longest = max(longest, float(jct_s[-1]))
        shortest = min(shortest or longest, float(np.quantile(jct_s, 0.002)))
    _duration_axis(axes, shortest or 1.0, longest or 10.0)
    axes.set_xlabel("job completion time, from submission (log scale)")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(alpha=0.25, linewidth=0.6)
    if longest:
        figure.legend(loc="outside upper right", ncols=min(len(results), 4), frameon=False, fontsize="small")
    if results:
        axes.set_title(title_of(results[0]), loc="left", fontsize="medium")
    return figure, axes


def waits_by_size(sizing: Sizing) -> tuple[Figure, Axes]:
    """Waits over the sizes that were simulated, with the wait that was wanted and the answer."""
    figure = Figure(figsize=(7, 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    unit_s, unit = _unit(max(each.p95_wait_s for each in sizing.tried) or 1.0)
    gpus = [each.gpus for each in sizing.tried]
    p95 = [each.p95_wait_s / unit_s for each in sizing.tried]
    average = [each.avg_wait_s / unit_s for each in sizing.tried]
    axes.plot(gpus, p95, color=PALETTE[0], marker="o", label="p95 wait")
    axes.plot(gpus, average, color=PALETTE[1], marker="s", linestyle="--", label="average wait")
    axes.axhline(sizing.wait_p95_s / unit_s, color=PALETTE[6], linestyle=":", label="wanted")
    axes.axvline(sizing.answer.gpus, color=PALETTE[2], linestyle="-.", label=f"{sizing.answer.gpus:,} GPUs")
    axes.set_xlabel("GPUs")
    axes.set_ylabel(f"wait ({unit})")
    axes.set_title(f"{sizing.policy}: waits by the size of the cluster")
    axes.legend()
    return figure, axes


def draw_fairness(results: Sequence[Result], path: Path) -> None:
    """Draw average JCT against the worst rho, one point for each result of one trace."""
    figure = Figure(figsize=(7, 4.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    summaries = [result.summary() for result in results]
    names = short_names(summaries)
    found = [(each, name) for each, name in zip(summaries, names, strict=True) if each["max_rho"] is not None]
    for number, (each, name) in enumerate(found):
        colour = PALETTE[number % len(PALETTE)]
        x, y = each["avg_jct_s"], each["max_rho"]
        axes.scatter([x], [y], s=36, color=colour, marker=MARKERS[number % len(MARKERS)], label=name)
    if found:
        jcts = [each["avg_jct_s"] for each, _ in found]
        _duration_axis(axes, min(jcts) / 1.5, max(jcts) * 1.5)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.axhline(1.0, color="#444444", linewidth=0.9, linestyle="--")
        figure.legend(loc="outside right upper", frameon=False, fontsize="small")
        axes.set_title(title_of(results[0]), loc="left", fontsize="medium")
    axes.set_xlabel("average job completion time (log scale)")
    axes.set_ylabel("worst rho: JCT / JCT on an equal part (log scale)")
    axes.grid(alpha=0.25, linewidth=0.6)
    finish(figure, [axes], path)


def draw_timeline(result: Result, path: Path) -> None:
    """Draw busy GPUs and the queue over time and write them to `path`."""
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    busy, queue = figure.subplots(2, 1, sharex=True)
    timeline = result.timeline
    if timeline.height > 1:
        at = timeline["at"].to_numpy().astype(np.float64)
        unit_s, unit = _unit(float(at[-1] - at[0]))
        for axes, column, colour in ((busy, "busy_gpus", PALETTE[0]), (queue, "waiting", PALETTE[1])):
            _draw_over_time(axes, at, timeline[column].to_numpy().astype(np.float64), unit_s, colour)
        queue.set_xlabel(f"{unit} since the first submission")
        busy.set_xlim(0, float(at[-1] - at[0]) / unit_s)
    gpus = result.cluster.gpus
    busy.axhline(gpus, color="#444444", linewidth=0.9, linestyle="--", label=f"all {gpus:,} GPUs")
    busy.set_ylabel("busy GPUs")
    busy.set_ylim(0, gpus * 1.08)
    queue.set_ylabel("waiting jobs")
    queue.set_ylim(bottom=0)
    for axes in (busy, queue):
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    handles, labels = busy.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False, fontsize="small")
    busy.set_title(f"{result.policy}: {title_of(result)}", loc="left", fontsize="medium")
    finish(figure, [busy, queue], path)


def _draw_over_time(axes: Axes, at: Values, value: Values, unit_s: float, colour: str) -> None:
    """Draw the steps if a picture can show them, otherwise their mean and range in each bin."""
    if at.size <= POINTS:
        axes.step((at - at[0]) / unit_s, value, where="post", color=colour, linewidth=1.1)
        return
    edges, mean, low, high = thin(at, value, BINS)
    x = (edges - at[0]) / unit_s
    shade = f"lowest to highest in {_span_text(float(edges[1] - edges[0]))}"
    axes.stairs(high, x, baseline=low, fill=True, color=colour, alpha=0.22, linewidth=0, label=shade)
    axes.stairs(mean, x, baseline=None, color=colour, linewidth=1.1, label="mean")


def thin(at: Values, value: Values, bins: int) -> tuple[Values, Values, Values, Values]:
    """A step function as edges of equal bins with each bin's time-weighted mean, lowest and highest."""
    edges = np.linspace(at[0], at[-1], bins + 1)
    area = np.concatenate(([0.0], np.cumsum(value[:-1] * np.diff(at))))
    holding = np.clip(np.searchsorted(at, edges, side="right") - 1, 0, len(at) - 1)
    upto = area[holding] + value[holding] * (edges - at[holding])
    mean = np.diff(upto) / np.maximum(np.diff(edges), 1e-12)
    low, high = np.empty(bins), np.empty(bins)
    for number in range(bins):
        within = value[holding[number] : max(np.searchsorted(at, edges[number + 1]), holding[number] + 1)]
        low[number], high[number] = within.min(), within.max()
    return edges, mean, low, high


def _steps(ordered: Values) -> tuple[Values, Values]:
    """The distribution function of sorted values, from 0 on, thinned to POINTS."""
    chosen = np.unique(np.linspace(0, ordered.size - 1, min(POINTS, ordered.size)).astype(np.int64))
    share = (chosen + 1) / ordered.size
    return np.concatenate((ordered[:1], ordered[chosen])), np.concatenate(([0.0], share))


def title_of(result: Result) -> str:
    """The trace and the size of the cluster."""
    name = result.trace_name.replace("$", r"\$")  # a dollar sign would begin a formula
    return f"{name}, {result.cluster.gpus:,} GPUs"


def _span_text(span_s: float) -> str:
    size, name = next(((size, name) for size, name in UNITS_S if span_s >= size), UNITS_S[-1])
    return f"{span_s / size:.2g} {name}"


def _unit(span_s: float) -> tuple[float, str]:
    """The largest unit of time of which the span has three or more."""
    return next(((size, name) for size, name in UNITS_S if span_s >= 3 * size), UNITS_S[-1])


def _duration_axis(axes: Axes, low_s: float, high_s: float) -> None:
    axes.set_xscale("log")
    low_s = max(low_s, 1e-2)
    axes.set_xlim(low_s * 0.9, max(high_s * 1.1, low_s * 10))
    axes.xaxis.set_major_locator(FixedLocator(list(TICKS_S)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: TICKS_S.get(round(value), "")))
    axes.xaxis.set_minor_locator(NullLocator())


def finish(figure: Figure, every: Iterable[Axes], path: Path) -> None:
    """Remove the frames at the top and on the right, and write the picture."""
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png")
