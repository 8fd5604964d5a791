"""Draws placement: how much each model was slowed down, and which slots each job holds at an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from tiresias.core.model import Cluster, Node
from tiresias.sim.plots import PALETTE, finish, title_of
from tiresias.sim.report import short_names

if TYPE_CHECKING:
    from tiresias.sim import Result
    from tiresias.sim.picture import Moment

HATCHES = ("", "////", "....")
FREE = "#eeeeee"
MOST_NAMED = 14
"""More jobs than this cannot be distinguished by colour: the largest are named, the others are grey."""
OTHERS = "#9a9a9a"


def draw_slowdown(results: Sequence[Result], path: Path) -> None:
    """Draw the mean slowdown of the jobs of each model, one bar for each result, and write it to `path`."""
    names = short_names([{"policy": each.policy, "placer": each.placer} for each in results])
    means = [slowdown_by_model(result) for result in results]
    models = sorted({model for mean in means for model in mean})
    models.sort(key=lambda model: -_worst(model, means))
    figure = Figure(figsize=(max(7.0, 1.5 + 0.75 * len(models)), 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    width = 0.84 / max(len(results), 1)
    for number, (name, mean) in enumerate(zip(names, means, strict=True)):
        x = np.arange(len(models)) + (number - (len(results) - 1) / 2) * width
        axes.bar(
            x,
            [mean.get(model, 0.0) for model in models],
            width,
            label=name,
            color=PALETTE[number % len(PALETTE)],
            hatch=HATCHES[number // len(PALETTE) % len(HATCHES)],
        )
    axes.axhline(1.0, color="#444444", linewidth=0.9)
    axes.set_xticks(range(len(models)), models, rotation=30, ha="right", fontsize="small")
    axes.set_ylabel("times as long as on the fewest nodes")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    if results:
        network = next((each.network for each in results if each.network != "none"), "none")
        axes.set_title(f"{title_of(results[0])}, network {network}", loc="left", fontsize="medium")
        figure.legend(loc="outside lower center", ncols=min(len(results), 5), frameon=False, fontsize="small")
    finish(figure, [axes], path)


def slowdown_by_model(result: Result) -> dict[str, float]:
    """The mean slowdown of the finished jobs of several GPUs, by model."""
    gangs = result.jobs.filter(pl.col("gpus") > 1)
    means = gangs.group_by("model").agg(pl.col("slowdown").mean()).sort("model")
    return {model or "unknown": float(mean) for model, mean in means.iter_rows()}


def _worst(model: str, means: Sequence[Mapping[str, float]]) -> float:
    return max(mean.get(model, 0.0) for mean in means)


def draw_cluster(moment: Moment, cluster: Cluster, title: str, path: Path) -> None:
    """Draw every slot of the cluster, coloured by the job that holds it, and write it to `path`."""
    racks: dict[str, list[tuple[int, Node]]] = {}
    for position, node in enumerate(cluster.nodes):
        if node.gpus:
            racks.setdefault(node.rack, []).append((position, node))
    colours = _colours(moment)
    rows = _rows(max(len(nodes) for nodes in racks.values()), len(racks))
    widest = max(node.gpus for node in cluster.nodes)
    columns = [-(-len(nodes) // rows) for nodes in racks.values()]
    across = sum(each * (widest + 1.2) + 1.5 for each in columns)
    size = (min(16.0, max(6.0, across * 0.16 + 1)), min(14.0, max(3.5, rows * 0.26 + 2)))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    axes = figure.add_subplot()
    boxes: list[Rectangle] = []
    left = 0.0
    for (rack, nodes), count in zip(racks.items(), columns, strict=True):
        axes.text(left, -0.9, rack, fontsize="small", fontweight="bold", va="bottom")
        for nth, (position, node) in enumerate(nodes):
            x = left + nth // rows * (widest + 1.2)
            boxes += _node(moment, position, node, (x, nth % rows * 1.35), colours)
        left += count * (widest + 1.2) + 1.5
    axes.add_collection(PatchCollection(boxes, match_original=True), autolim=False)
    axes.set_xlim(-0.5, max(left - 1.5, 1))
    axes.set_ylim(rows * 1.35 + 0.2, -1.6)
    axes.set_axis_off()
    axes.set_title(title, loc="left", fontsize="medium")
    handles = [Patch(color=colour, label=moment.label(job)) for job, colour in colours.items()]
    if len(moment.jobs) > len(colours):
        handles.append(Patch(color=OTHERS, label=f"{len(moment.jobs) - len(colours)} other jobs"))
    handles.append(Patch(facecolor=FREE, edgecolor="#888888", label=f"free ({moment.free} GPUs)"))
    columns_of_names = max(2, int(size[0] / 2.4))
    figure.legend(
        handles=handles, loc="outside lower left", ncols=columns_of_names, frameon=False, fontsize="x-small"
    )
    finish(figure, [axes], path)


def _node(
    moment: Moment,
    position: int,
    node: Node,
    corner: tuple[float, float],
    colours: Mapping[int, tuple[float, float, float, float]],
) -> list[Rectangle]:
    """A box for each slot, and a frame around them; there may be thousands, so they are not drawn singly."""
    x, y = corner
    boxes = []
    for slot in range(node.gpus):
        job = moment.holders.get((position, slot))
        colour = FREE if job is None else colours.get(job, OTHERS)
        boxes.append(Rectangle((x + slot, y), 0.92, 1.0, facecolor=colour, edgecolor="none", lw=0.0))
    frame = Rectangle((x - 0.1, y - 0.08), node.gpus + 0.12, 1.16, fill=False, lw=0.5, ec="#666666")
    return [*boxes, frame]


def _colours(moment: Moment) -> dict[int, tuple[float, float, float, float]]:
    """A colour for each of the largest jobs."""
    from matplotlib import colormaps

    shades = colormaps["tab20"]
    largest = sorted(moment.jobs, key=lambda job: (-moment.jobs[job].demand.gpus, job))[:MOST_NAMED]
    order = [*range(0, 14, 2), *range(1, 14, 2)]  # strong colours first, and none that is grey
    return {job: shades(order[number]) for number, job in enumerate(largest)}


def _rows(most: int, racks: int) -> int:
    """How many nodes are drawn below each other: one column per rack, unless the picture gets too tall."""
    return most if most <= 24 else max(24, -(-most // max(1, 6 // racks)))
