"""`tiresias sweep`: a grid of simulations over clusters, policies and settings, which can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiresias.cli import elsewhere, inputs
from tiresias.cli.console import cell_bar, notify, show
from tiresias.cli.settings import assign, names_in, parse_settings
from tiresias.cli.units import count

if TYPE_CHECKING:
    from tiresias.sim.experiment import Sweep
    from tiresias.sim.report import Point
    from tiresias.sim.trace import Trace

Clusters = Annotated[
    str, typer.Option("--clusters", metavar="NxG,…", help="Cluster sizes, for example 48x8,64x8.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[POLICY.]KEY=VALUE",
        help="Value of an option; repeat the key for each value of the grid.",
    ),
]
Seeds = Annotated[
    str | None, typer.Option("--seeds", metavar="N,…", help="Seeds of a builtin trace (default 0).")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE.csv",
        help="File for the results; cells that it has already are not simulated again.",
    ),
]


def sweep(
    trace: inputs.TraceName,
    clusters: Clusters,
    policies: inputs.PolicyNames,
    settings: Settings = None,
    seeds: Seeds = None,
    placer: inputs.PlacerName = None,
    network: inputs.NetworkName = None,
    models: inputs.ModelsFrom = None,
    preemption_cost: inputs.PreemptionCost = 60.0,
    cpu_speed: inputs.CpuSpeed = None,
    use_cpus: inputs.UseCpus = None,
    shares: inputs.Shares = None,
    losses: inputs.LossKind = None,
    failures: inputs.Failures = None,
    out: Out = Path("sweep.csv"),
    format: inputs.FormatName = None,
    columns: inputs.Columns = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    workers: inputs.Workers = None,
    on: inputs.On = None,
    address: inputs.Address = None,
    is_opened: inputs.Open = False,
    port: inputs.Port = 0,
) -> None:
    """Find the best cluster size, policy and settings.

    Simulates every combination of cluster, policy, setting and seed and shows the best of each cluster size.
    The command can be stopped at any time: repeated, it continues with the cells that are left.
    """
    from tiresias.sim import experiment

    inputs.require_finite(preemption_cost)
    inputs.require_placer(placer)
    inputs.require_network(network)
    inputs.require_directory_of(out, "--out")
    names = names_in(policies, "--policies")
    assigned = assign(parse_settings(settings or []), names)
    sizes = names_in(clusters, "--clusters")
    given = _numbers(seeds)
    cells = experiment.grid(
        sizes,
        names,
        options=assigned.spans,
        seeds=given or [None],
        placer=placer,
        network=network,
        models=inputs.read_models(models),
        preemption_cost_s=preemption_cost,
        cpu_speed=cpu_speed,
        use_cpus=use_cpus,
        shares=inputs.read_shares(shares),
        losses=losses,
        failures=failures,
    )
    for cell in cells:
        experiment.check(cell)
    replayed = _traces(trace, given, format, skip_bad_rows, columns)
    notify([*assigned.notes, *(note for each in replayed.values() for note in each.notes)])
    with elsewhere.chosen(on, address) as nodes, cell_bar(len(cells)) as advance:
        swept = experiment.sweep(
            cells, replayed, out, workers=workers, on_row=lambda _: advance(), elsewhere=nodes
        )
    _print(swept, out)
    if is_opened and swept.rows:
        _open(swept, port)
    if swept.failed and not swept.unfinished:
        raise typer.Exit(1)
    if swept.unfinished:
        raise typer.Exit(130)


def _open(swept: Sweep, port: int) -> None:
    """The grid as a page, until Ctrl-C."""
    from tiresias.api.simulation import SimulationPages
    from tiresias.cli.live.dashboard import show_in_browser
    from tiresias.sim import page, report

    points = report.frontier(swept.rows)
    notes = [*_caveats(points), *(f"{name}: {message}" for name, message in swept.failed.items())]
    shown = page.sweep(points, notes=notes)
    show_in_browser(SimulationPages(shown, "tiresias sweep --open"), port=port, what="sweep")


def _print(swept: Sweep, out: Path) -> None:
    from tiresias.cli.tables import sweep_frontier
    from tiresias.sim import report

    points = report.frontier(swept.rows)
    if points:
        show(sweep_frontier(points))
    ran = len(swept.rows) - swept.reused
    notify([f"{count(ran, 'cell')} simulated, {swept.reused:,} taken from {out}", *_caveats(points)])
    notify([f"{name}: {message}" for name, message in swept.failed.items()])
    if swept.unfinished:
        notify([f"interrupted: {count(swept.unfinished, 'cell')} left; repeat the command to continue"])


def _caveats(points: list[Point]) -> list[str]:
    """Notes on what the frontier does not show."""
    rejected = [int(point.means["rejected_jobs"]) for point in points]
    if not rejected or min(rejected) == max(rejected):
        return []
    sizes = sorted({point.cluster for point in points if point.means["rejected_jobs"] > min(rejected)})
    return [
        f"{', '.join(sizes)} rejected more jobs than the other clusters (larger than all their GPUs, "
        "or of a kind they lack): "
        "their figures are in the table on disk, but not compared here"
    ]


def _traces(
    source: str,
    seeds: list[int],
    format: str | None,
    skip_bad_rows: bool,
    columns: list[str] | None,
) -> dict[int | None, Trace]:
    if not seeds:
        return {None: inputs.read_trace(source, format, skip_bad_rows, None, columns)}
    inputs.require_builtin(source, "--seeds")
    return {seed: inputs.read_trace(source, format, skip_bad_rows, seed, columns) for seed in seeds}


def _numbers(seeds: str | None) -> list[int]:
    from tiresias.sim.errors import InputError

    if seeds is None:
        return []
    try:
        return [int(seed) for seed in names_in(seeds, "--seeds")]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--seeds {seeds!r}: give whole numbers separated by commas, as in 1,2,3") from None
