"""`tiresias size`: how many GPUs a trace needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiresias.cli import inputs
from tiresias.cli.console import notify, show
from tiresias.cli.settings import assign, parse_settings
from tiresias.cli.units import count, duration, percent
from tiresias.core.defaults import DEFAULT_POLICY

if TYPE_CHECKING:
    from rich.table import Table

    from tiresias.sim.sizing import Sizing

WaitP95 = Annotated[
    str,
    typer.Option(
        "--wait-p95", metavar="TIME", help="Wait that 95 % of the jobs shall not exceed, such as 10m."
    ),
]
PerNode = Annotated[
    int,
    typer.Option(
        "--gpus-per-node", metavar="N", callback=inputs.from_one_up, help="GPUs of a node. Default: 8."
    ),
]
Policy = Annotated[str, typer.Option("--policy", metavar="NAME", help="Policy (see: tiresias policies).")]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE.png", help="Write a plot of waits over sizes.")
]


def size(
    trace: inputs.TraceName,
    wait_p95: WaitP95,
    gpus_per_node: PerNode = 8,
    policy: Policy = DEFAULT_POLICY,
    settings: inputs.Settings = None,
    placer: inputs.PlacerName = None,
    preemption_cost: inputs.PreemptionCost = 60.0,
    plot: Plot = None,
    as_json: inputs.Json = False,
    format: inputs.FormatName = None,
    columns: inputs.Columns = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    seed: inputs.Seed = None,
) -> None:
    """Find how many GPUs a trace needs.

    Simulates the trace on clusters of different sizes, and finds by bisection the fewest nodes on which 95 %
    of the jobs wait for no longer than --wait-p95.
    """
    from tiresias.sim import sizing
    from tiresias.sim.report import to_json

    inputs.require_finite(preemption_cost)
    inputs.require_placer(placer)
    if plot is not None:
        inputs.require_directory_of(plot, "--plot")
    wanted_s = inputs.seconds_in(wait_p95, "--wait-p95")
    assigned = assign(parse_settings(settings or []), [policy])
    jobs = inputs.read_trace(trace, format, skip_bad_rows, seed, columns)
    if not as_json:
        notify([*assigned.notes, *jobs.notes])
    found = sizing.size(
        jobs,
        wanted_s,
        gpus_per_node=gpus_per_node,
        policy=policy,
        options=assigned.single()[policy],
        placer=placer,
        preemption_cost_s=preemption_cost,
    )
    if plot is not None:
        sizing.draw(found, plot)
    if as_json:
        typer.echo(to_json(asdict(found)))
        return
    show(_table(found))
    answer = found.answer
    typer.echo(
        f"{answer.gpus:,} GPUs ({count(answer.nodes, 'node')} x {gpus_per_node}): under {policy}, 95 % of the"
        f" jobs wait no longer than {duration(answer.p95_wait_s)} ({duration(wanted_s)} wanted)"
    )


def _table(found: Sizing) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("GPUs", "nodes", "p95 wait", "avg wait", "avg JCT", "utilisation", "enough"):
        table.add_column(name, justify="right")
    for each in found.tried:
        is_enough = each.p95_wait_s <= found.wait_p95_s
        table.add_row(
            f"{each.gpus:,}",
            f"{each.nodes:,}",
            duration(each.p95_wait_s),
            duration(each.avg_wait_s),
            duration(each.avg_jct_s),
            percent(each.gpu_utilization),
            "yes" if is_enough else "no",
        )
    return table
