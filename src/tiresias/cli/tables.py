"""Results as tables for people, made with Rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiresias.cli.preemption import preemption_remarks
from tiresias.cli.units import NOTHING, common_unit, count, duration, percent, ratio, significant
from tiresias.core.defaults import ORACLE

if TYPE_CHECKING:
    from tiresias.sim import Result
    from tiresias.sim.report import Point

HOUR_S = 3600.0
GAP = 2
RHO = "max\nrho"
DURATIONS = ("avg_jct_s", "p50_jct_s", "p95_jct_s")


def plain_table(*headers: str, left: int = 1) -> Table:
    """A table with a line under its head; the first `left` columns are words, the others numbers."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False
    )
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number < left else "right", no_wrap=number >= left)
    return table


def one_result(result: Result, cluster: str, skipped_rows: int) -> RenderableType:
    """The figures of one simulation."""
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
    if "failed_jobs" in of:
        lines.add_row("failures", failures(of))
    if "max_rho" in of:
        lines.add_row("fairness", _fairness(of))
    if "cpu_runs" in of:
        ended = f"{count(of['cpu_jobs'], 'job')} ended there, {percent(of['cpu_work'])} of the work"
        lines.add_row("on CPUs", f"{count(of['cpu_runs'], 'run')}, {ended}" if of["cpu_runs"] else "nothing")
    if result.network != "none":
        slow = f"{_times(of['avg_slowdown'])} on average, {_times(of['work_slowdown'])} of the work"
        lines.add_row("slowdown", f"{slow} (jobs of several GPUs; network {result.network})")
        lines.add_row("models", result.models)
    if of["fragmentation_wait_s"]:
        waited = f"{duration(of['fragmentation_wait_s'])} of all jobs, though enough GPUs were free"
        lines.add_row("waited for slots", waited)
    lines.add_row("simulated", f"{of['events']:,} events in {duration(of['wall_s'])}")
    return Group(title, Text(), times, Text(), lines)


def failures(of: dict[str, Any]) -> str:
    """What failed, and what that took."""
    if not of["failed_jobs"]:
        return f"no job has failed; {count(of['failed_runs'], 'run')} did"
    told = f"{count(of['failed_jobs'], 'job')} failed, {duration(of['avg_until_failed_s'])} after submission"
    lost, tried = (significant(of[name] / HOUR_S) for name in ("failed_gpu_s", "preflight_gpu_s"))
    took = f"{count(of['failed_runs'], 'failed run')} took {lost} GPU-hours"
    if not of["preflight_gpu_s"]:
        return f"{told}; {took}"
    return f"{told}; {took}; preflights took {tried} and found {of['failed_in_preflight']:,} of the jobs"


def _fairness(of: dict[str, Any]) -> str:
    """Finish-time fairness in words."""
    if of["max_rho"] is None:
        return NOTHING
    worst, middle = significant(of["max_rho"]), significant(of["p50_rho"])
    return f"rho {worst} at worst, {middle} in the median (1: an equal part of the cluster)"


def comparison(summaries: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Policies side by side, each with its ratio to the best and to the oracle."""
    size, unit = common_unit(each[name] for each in summaries for name in DURATIONS)
    averages = {(each["policy"], each["placer"]): each["avg_jct_s"] for each in summaries}
    oracles = [averages.get((ORACLE, each["placer"])) for each in summaries]
    best = min((value for value in averages.values() if value is not None), default=None)
    several = len({each["placer"] for each in summaries}) > 1
    networks = any(each["network"] != "none" for each in summaries)

    slowdowns = [_times(each["avg_slowdown"]) for each in summaries]

    failed = []
    if all("failed_gpu_s" in each for each in summaries):
        failed = [
            Column("failed\njobs", [f"{each['failed_jobs']:,}" for each in summaries], 8),
            Column("failed\nGPU-h", [significant(each["failed_gpu_s"] / HOUR_S) for each in summaries], 8),
        ]

    def time(name: str) -> list[str]:
        return [significant(None if each[name] is None else each[name] / size) for each in summaries]

    columns = [
        Column("policy", [each["policy"] for each in summaries], 10),
        *([Column("placer", [each["placer"] for each in summaries], 9)] if several else []),
        Column("avg\nJCT", time("avg_jct_s"), 9),
        *([Column("slow-\ndown", slowdowns, 6)] if networks else []),
        Column("median\nJCT", time("p50_jct_s"), 5),
        Column("p95\nJCT", time("p95_jct_s"), 6),
        Column("avg\nwait", time("avg_wait_s"), 3),
        Column("preemp-\ntions", [f"{each['preemptions']:,}" for each in summaries], 4),
        Column("lost\nGPU-h", [significant(each["lost_gpu_s"] / HOUR_S) for each in summaries], 1),
        Column("utili-\nsation", [percent(each["gpu_utilization"]) for each in summaries], 2),
        *failed,
        Column(RHO, [significant(each.get("max_rho")) for each in summaries], 0),
        Column("vs\nbest", [ratio(each["avg_jct_s"], best) for each in summaries], 8),
    ]
    if any(oracles) or not several:
        cells = [ratio(each["avg_jct_s"], oracle) for each, oracle in zip(summaries, oracles, strict=True)]
        columns.append(Column(f"vs\n{ORACLE}", cells, 7))
    shown = fitting(columns, width)
    words = sum(column.header in ("policy", "placer") for column in shown)
    table = plain_table(*(column.header for column in shown), left=words)
    for number, each in enumerate(summaries):
        is_best = best is not None and each["avg_jct_s"] == best
        table.add_row(*(column.cells[number] for column in shown), style="bold" if is_best else "")
    remarks = [f"Times are in {unit}; waiting includes the time between runs."]
    if networks:
        remarks.append("Slowdown is that of jobs of several GPUs, from where they ran.")
    if any(column.header == RHO for column in shown):
        remarks.append("Max rho is the worst JCT relative to that on an equal part of the cluster.")
    if not any(oracles) and not several:
        remarks.append(f"{ORACLE}, the oracle, is not among the policies: add it to see the distance to it.")
    remarks += preemption_remarks(summaries)
    if len(shown) < len(columns):
        left_out = count(len(columns) - len(shown), "column")
        remarks.append(f"{left_out} left out, because the terminal is narrow.")
    return Group(table, Text(), *map(Text, remarks))


def _times(slowdown: float | None) -> str:
    return NOTHING if slowdown is None else f"{slowdown:.2f}x"


@dataclass(slots=True)
class Column:
    """A column, and how important it is if there is no room for all."""

    header: str
    cells: list[str]
    weight: int

    @property
    def width(self) -> int:
        return max(len(line) for line in [*self.header.split("\n"), *self.cells])


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that fit; the least important are left out first."""
    shown = list(columns)
    while len(shown) > 2 and sum(column.width + GAP for column in shown) - GAP > width:
        shown.remove(min(shown, key=lambda column: column.weight))
    return shown


def sweep_frontier(points: Sequence[Point]) -> RenderableType:
    """The best policy and setting of each cluster, and whether it is Pareto-optimal."""
    best = [point for point in points if point.is_best]
    size, unit = common_unit(point.avg_jct_s for point in best)
    table = plain_table(
        "cluster",
        "best policy",
        "setting",
        "GPUs",
        "avg\nJCT",
        "p95\nJCT",
        "avg\nwait",
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
    over = f"; each figure is the mean over {best[0].seeds} seeds" if best and best[0].seeds > 1 else ""
    return Group(table, Text(), Text(f"Times are in {unit}{over}."))
