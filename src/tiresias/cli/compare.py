"""`tiresias compare`: one trace, one cluster, several policies or placers at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiresias.cli import elsewhere, inputs
from tiresias.cli.console import bars, console, notify, show
from tiresias.cli.settings import assign, names_in, parse_settings
from tiresias.cli.units import count
from tiresias.core.defaults import DEFAULT_POLICY, compared_by_default

if TYPE_CHECKING:
    from tiresias.sim.experiment import Comparison


Policies = Annotated[
    str | None,
    typer.Option(
        "--policies",
        metavar="A,B,…",
        help="Policies (see: tiresias policies). Default: fifo, fifo-skip, the default policy and srsf; "
        "with --placers the default policy only.",
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Every policy and allocator that is known, plug-ins included.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[POLICY.]KEY=VALUE",
        help="Option of one policy, or of all policies that have it; may be repeated.",
    ),
]
Placers = Annotated[
    str | None,
    typer.Option("--placers", metavar="A,B,…", help="Placers to compare, each with every policy."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write one directory per policy, and one plot of all."),
]


def compare(
    trace: inputs.TraceName,
    cluster: inputs.ClusterName,
    policies: Policies = None,
    every: All = False,
    settings: Settings = None,
    placer: inputs.PlacerName = None,
    placers: Placers = None,
    network: inputs.NetworkName = None,
    models: inputs.ModelsFrom = None,
    preemption_cost: inputs.PreemptionCost = 60.0,
    cpu_speed: inputs.CpuSpeed = None,
    use_cpus: inputs.UseCpus = None,
    shares: inputs.Shares = None,
    losses: inputs.LossKind = None,
    failures: inputs.Failures = None,
    as_json: inputs.Json = False,
    out: Out = None,
    format: inputs.FormatName = None,
    columns: inputs.Columns = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    seed: inputs.Seed = None,
    workers: inputs.Workers = None,
    on: inputs.On = None,
    address: inputs.Address = None,
    is_opened: inputs.Open = False,
    port: inputs.Port = 0,
) -> None:
    """Replay a trace under several policies or placers.

    The simulations run in parallel. The table shows how far each policy is from the best and from the oracle.
    """
    from tiresias.sim import clusters, experiment, report

    inputs.require_finite(preemption_cost)
    where = _placers(placer, placers)
    inputs.require_network(network)
    mix = inputs.read_models(models)
    weights = inputs.read_shares(shares)
    names = _policies(policies, placers, every)
    assigned = assign(parse_settings(settings or []), names)
    options = assigned.single()
    machines = clusters.read(cluster)
    jobs = inputs.read_trace(trace, format, skip_bad_rows, seed, columns)
    if out is not None:
        report.make_directory(out)
    notify([*assigned.notes, *jobs.notes])
    labels = [experiment.label(name, each, len(where) > 1) for name in names for each in where]
    with elsewhere.chosen(on, address) as nodes, bars(labels, inputs.began_at(jobs)) as watch:
        compared = experiment.compare(
            jobs,
            machines,
            names,
            options=options,
            placers=where,
            network=network,
            models=mix,
            preemption_cost_s=preemption_cost,
            cpu_speed=cpu_speed,
            use_cpus=use_cpus,
            shares=weights,
            losses=losses,
            failures=failures,
            workers=workers,
            progress=watch,
            elsewhere=nodes,
        )
    _print(compared, cluster, jobs.name, machines.cluster.gpus, as_json)
    if out is not None and compared.results:
        report.write_comparison(compared.results, out)
        notify([f"wrote {count(len(compared.results), 'directory', 'directories')} and plots to {out}"])
    if is_opened and compared.results:
        _open(compared, cluster, jobs.name, len(where) > 1, port)
    if compared.unfinished:
        raise typer.Exit(130)
    if compared.failed:
        raise typer.Exit(1)


def _open(compared: Comparison, cluster: str, trace: str, has_placers: bool, port: int) -> None:
    """The results as a page, until Ctrl-C."""
    from tiresias.api.simulation import SimulationPages
    from tiresias.cli.live.dashboard import show_in_browser
    from tiresias.sim import experiment, page

    results = compared.results
    labels = [experiment.label(each.policy, each.placer, has_placers) for each in results]
    notes = [*results[0].rejections, *sorted({note for result in results for note in result.notes})]
    notes += [f"{name}: {message}" for name, message in compared.failed.items()]
    shown = page.comparison(results, labels, trace=trace, cluster=cluster, notes=notes)
    show_in_browser(SimulationPages(shown, "tiresias compare --open"), port=port, what="comparison")


def _policies(names: str | None, placers: str | None, every: bool) -> list[str]:
    if every:
        return _every(names)
    if names is not None:
        return names_in(names, "--policies")
    return compared_by_default() if placers is None else [DEFAULT_POLICY]


def _every(names: str | None) -> list[str]:
    """All policies that are registered, the default ones first."""
    from tiresias.core.plugins import policies
    from tiresias.sim.errors import InputError

    if names is not None:
        raise InputError(f"--all and --policies {names} cannot be combined; give one of them")
    first = compared_by_default()
    return [*first, *(name for name in policies.names() if name not in first)]


def _placers(one: str | None, several: str | None) -> list[str | None]:
    from tiresias.sim.errors import InputError

    if one is not None and several is not None:
        raise InputError("--placer and --placers cannot be combined; give one of them")
    names: list[str | None] = [one] if several is None else [*names_in(several, "--placers")]
    for name in names:
        inputs.require_placer(name)
    return names


def _print(compared: Comparison, cluster: str, trace: str, gpus: int, as_json: bool) -> None:
    from tiresias.cli.tables import comparison
    from tiresias.sim import report

    results = compared.results
    if results:
        notify(results[0].rejections)
        notify(sorted({note for result in results for note in result.notes}))
    if compared.unfinished:
        notify([f"interrupted; not finished: {', '.join(compared.unfinished)}"])
    notify([f"{name}: {message}" for name, message in compared.failed.items()])
    summaries = [result.summary() for result in results]
    if as_json:
        typer.echo(report.to_json(summaries))
    elif summaries:
        show(f"{count(summaries[0]['jobs'], 'job')} of {trace} on {cluster} ({gpus:,} GPUs)\n")
        show(comparison(summaries, console().width))
