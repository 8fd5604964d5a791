"""`tiresias simulate`: one trace, one cluster, one policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiresias.cli import inputs
from tiresias.cli.console import notify, one_bar, show
from tiresias.cli.settings import assign, parse_settings
from tiresias.core.defaults import DEFAULT_POLICY

if TYPE_CHECKING:
    from tiresias.sim import Result
    from tiresias.sim.picture import Moment
    from tiresias.sim.trace import Trace


PolicyName = Annotated[str, typer.Option("--policy", metavar="NAME", help="Policy (see: tiresias policies).")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Directory for jobs.csv, timeline.csv, summary.json and plots."
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="With --out: draw the cluster at this time after the first submission (90s, 15m, 2h, 3d).",
    ),
]
Journal = Annotated[
    Path | None,
    typer.Option("--journal", metavar="FILE", help="Write every fact of the simulation to a file."),
]


def simulate(
    trace: inputs.TraceName,
    cluster: inputs.ClusterName,
    policy: PolicyName = DEFAULT_POLICY,
    settings: inputs.Settings = None,
    placer: inputs.PlacerName = None,
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
    at: At = None,
    format: inputs.FormatName = None,
    columns: inputs.Columns = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    seed: inputs.Seed = None,
    journal: Journal = None,
) -> None:
    """Replay a trace under one policy.

    Measures completion times (JCT), waiting, preemptions and GPU utilisation.
    """
    from tiresias.sim import clusters, report
    from tiresias.sim import simulate as run

    inputs.require_finite(preemption_cost)
    inputs.require_placer(placer)
    inputs.require_network(network)
    mix = inputs.read_models(models)
    weights = inputs.read_shares(shares)
    options = assign(parse_settings(settings or []), [policy]).single()[policy]
    machines = clusters.read(cluster)
    if journal is not None:
        inputs.require_directory_of(journal, "--journal")
    jobs = inputs.read_trace(trace, format, skip_bad_rows, seed, columns)
    if out is not None:
        report.make_directory(out)
    moment = _moment(at, out, inputs.began_at(jobs))
    notify(jobs.notes)
    with one_bar(policy, inputs.began_at(jobs)) as watch:
        result = run(
            jobs,
            machines,
            policy,
            options=options,
            placer=placer,
            network=network,
            models=mix,
            preemption_cost_s=preemption_cost,
            cpu_speed=cpu_speed,
            use_cpus=use_cpus,
            shares=weights,
            losses=losses,
            failures=failures,
            progress=watch,
            journal=journal,
            moment=moment,
        )
    _print(result, jobs, cluster, as_json)
    _keep(result, out)
    if moment is not None and out is not None:
        _draw(moment, result, f"{result.trace_name} after {at}", out)


def _print(result: Result, jobs: Trace, cluster: str, as_json: bool) -> None:
    from tiresias.cli.tables import one_result
    from tiresias.sim import report

    notify([*result.notes, *_warnings(result, jobs)])
    if as_json:
        typer.echo(report.to_json(result.summary()))
    else:
        show(one_result(result, cluster, jobs.skipped_rows))


def _moment(at: str | None, out: Path | None, began_at: float) -> Moment | None:
    from tiresias.sim.errors import InputError
    from tiresias.sim.picture import Moment

    if at is None:
        return None
    if out is None:
        raise InputError("--at draws a picture, which needs a directory; add --out DIR")
    return Moment(began_at + inputs.seconds_in(at, "--at"))


def _draw(moment: Moment, result: Result, when: str, out: Path) -> None:
    from tiresias.sim import report

    title = f"{when}, {result.policy}, {result.placer}; {moment.waiting:,} jobs wait"
    notify([f"wrote {report.write_picture(moment, result.cluster, title, out)}"])


def _keep(result: Result, out: Path | None) -> None:
    """Write the files, unless the simulation was interrupted: they would look complete."""
    from tiresias.sim import report

    if result.interrupted:
        if out is not None:
            notify([f"nothing is written to {out}: the figures are not complete"])
        raise typer.Exit(130)
    if out is not None:
        report.write_result(result, out)
        notify([f"wrote jobs.csv, timeline.csv, summary.json and two plots to {out}"])


def _warnings(result: Result, trace: Trace) -> list[str]:
    """Warnings that the reader of the figures must know."""
    warnings = []
    if result.interrupted:
        done = result.jobs.height
        warnings.append(f"interrupted: {done:,} of {len(trace) - result.rejected_jobs:,} jobs had finished")
    return warnings + result.rejections
