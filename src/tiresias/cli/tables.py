"""Figures as tables for people, by Rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiresias.cli.units import NOTHING, common_unit, count, duration, percent, ratio, significant

if TYPE_CHECKING:
    from tiresias.sim import Result
    from tiresias.sim.report import Point

ORACLE = "srsf"
HOUR_S = 3600.0
DURATIONS = ("avg_jct_s", "p50_jct_s", "p95_jct_s", "avg_wait_s")


def plain_table(*headers: str, left: int = 1) -> Table:
    """A table with a line under its head; the first `left` columns are words, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number < left else "right", no_wrap=number >= left)
    return table


def one_result(result: Result, cluster: str, skipped_rows: int) -> RenderableType:
    """A result at a glance."""
    of = result.summary()
    times = plain_table("", "average", "median", "p95", "p99", "max")
    jct = [of[name] for name in ("avg_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "max_jct_s")]
    times.add_row("completion (JCT)", *map(duration, jct))
    times.add_row("waiting", duration(of["avg_wait_s"]), "", duration(of["p95_wait_s"]), "", "")
    title = Text(f"{result.policy} on {cluster} ({of['gpus']:,} GPUs, {result.placer}), {result.trace_name}")
    title.stylize("bold", 0, len(result.policy))
    jobs = [f"{of['jobs']:,} finished", f"{of['rejected_jobs']:,} rejected" if of["rejected_jobs"] else ""]
    jobs.append(f"{count(skipped_rows, 'bad row')} skipped" if skipped_rows else "")
    lines = Table.grid(padding=(0, 2))
    lines.add_row("jobs", ", ".join(each for each in jobs if each))
    lines.add_row("makespan", duration(of["makespan_s"]))
    lost = f"{significant(of['lost_gpu_s'] / HOUR_S)} GPU-hours lost to them"
    lines.add_row("preemptions", f"{of['preemptions']:,}, {lost}" if of["preemptions"] else "none")
    lines.add_row("GPU utilisation", percent(of["gpu_utilization"]))
    lines.add_row("simulated", f"{of['events']:,} events in {duration(of['wall_s'])}")
    return Group(title, Text(), times, Text(), lines)


def comparison(summaries: Sequence[dict[str, Any]]) -> RenderableType:
    """Policies side by side, each with its ratio to the best and to the oracle."""
    size, unit = common_unit(each[name] for each in summaries for name in DURATIONS[:3])
    table = plain_table(
        "policy",
        f"avg\nJCT, {unit}",
        f"median\nJCT, {unit}",
        f"p95\nJCT, {unit}",
        f"avg\nwait, {unit}",
        "preemp-\ntions",
        "lost\nGPU-h",
        "utili-\nsation",
        "vs\nbest",
        f"vs\n{ORACLE}",
    )
    averages = {each["policy"]: each["avg_jct_s"] for each in summaries}
    best = min((value for value in averages.values() if value is not None), default=None)
    for each in summaries:
        times = [None if each[name] is None else each[name] / size for name in DURATIONS]
        table.add_row(
            each["policy"],
            *map(significant, times),
            f"{each['preemptions']:,}",
            significant(each["lost_gpu_s"] / HOUR_S),
            percent(each["gpu_utilization"]),
            ratio(each["avg_jct_s"], best),
            ratio(each["avg_jct_s"], averages.get(ORACLE)),
            style="bold" if best is not None and each["avg_jct_s"] == best else "",
        )
    if ORACLE in averages:
        return table
    return Group(
        table, Text(f"\n{ORACLE}, the oracle, is not among the policies: add it to see the distance to it.")
    )


def sweep_frontier(points: Sequence[Point]) -> RenderableType:
    """For each cluster its best policy and setting, and whether it is Pareto-optimal."""
    best = [point for point in points if point.is_best]
    size, unit = common_unit(point.avg_jct_s for point in best)
    table = plain_table(
        "cluster",
        "best policy",
        "setting",
        "GPUs",
        f"avg\nJCT, {unit}",
        f"p95\nJCT, {unit}",
        f"avg\nwait, {unit}",
        "utili-\nsation",
        "Pareto-\noptimal",
        left=3,
    )
    for point in best:
        table.add_row(
            point.cluster,
            point.policy,
            point.options or NOTHING,
            f"{point.gpus:,}",
            *(significant(point.means[name] / size) for name in ("avg_jct_s", "p95_jct_s", "avg_wait_s")),
            percent(point.means["gpu_utilization"]),
            "yes" if point.is_pareto else "no",
            style="bold" if point.is_pareto else "",
        )
    if best and best[0].seeds > 1:
        return Group(table, Text(f"\nEach figure is the mean over {best[0].seeds} seeds."))
    return table
