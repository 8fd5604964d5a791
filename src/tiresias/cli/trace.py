"""`tiresias trace …`: describe, convert and generate traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiresias.cli import inputs
from tiresias.cli.console import notify, show
from tiresias.cli.declare import Group
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count

app = Group("Describe, convert and generate traces.")

PriorFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write (JSON).")]
OutFile = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="File to write (.csv or .csv.gz).")
]


@app.command("describe")
def describe(
    trace: inputs.TraceName,
    format: inputs.FormatName = None,
    columns: inputs.Columns = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    seed: inputs.Seed = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Show the statistics of a trace: jobs, span, load, sizes, durations."""
    from tiresias.sim import traces
    from tiresias.sim.report import to_json

    description = traces.describe(inputs.read_trace(trace, format, skip_bad_rows, seed, columns))
    if output is Output.JSON:
        typer.echo(to_json(description))
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for what, value in traces.table(description):
        table.add_row(what, value)
    show(table)


@app.command("convert")
def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="A trace in any known format.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in Tiresias' own format.")],
    format: inputs.FormatName = None,
    columns: inputs.Columns = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    seed: inputs.Seed = None,
) -> None:
    """Write a trace in Tiresias' own format."""
    from tiresias.sim import traces
    from tiresias.sim.errors import InputError

    inputs.require_directory_of(out, "OUT")
    if out.exists() and Path(source).exists() and out.samefile(source):
        raise InputError(f"{out} is the trace itself; name another file to write to")
    trace = inputs.read_trace(source, format, skip_bad_rows, seed, columns)
    traces.write(trace, out)
    notify([*trace.notes, f"wrote {count(len(trace), 'job')} to {out}"])


@app.command("generate")
def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A builtin trace (see: trace formats).")],
    out: OutFile,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", callback=inputs.from_one_up, help="Number of jobs (philly-like)."
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option("--load", metavar="SHARE", help="Load as a share of the cluster (philly-like)."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NxG", help="Cluster that --load refers to (philly-like)."),
    ] = None,
    recurring: Annotated[
        float | None,
        typer.Option(
            "--recurring",
            metavar="SHARE",
            help="Add users and names; this share of the jobs is of ones that come again (philly-like).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed; the same seed generates the same jobs.")
    ] = 0,
) -> None:
    """Generate a trace and write it in Tiresias' own format."""
    from tiresias.sim import clusters, traces

    inputs.require_directory_of(out, "--out")
    gpus = clusters.parse(cluster).gpus if cluster is not None else None
    trace = traces.generate(name, jobs=jobs, load=load, cluster_gpus=gpus, recurring=recurring, seed=seed)
    traces.write(trace, out)
    notify([*trace.notes, f"wrote {count(len(trace), 'job')} to {out}"])


@app.command("prior")
def prior(
    trace: inputs.TraceName,
    out: PriorFile,
    format: inputs.FormatName = None,
    skip_bad_rows: inputs.SkipBadRows = False,
    seed: inputs.Seed = None,
) -> None:
    """Write what the policy tiresias would learn from a trace, for --set prior=@FILE.

    A new cluster begins with it instead of with nothing, for example with the history of an earlier one
    (tir history export).
    """
    from tiresias.policies import priors
    from tiresias.sim.errors import InputError

    inputs.require_directory_of(out, "--out")
    if out.exists() and Path(trace).exists() and out.samefile(trace):
        raise InputError(f"{out} is the trace itself; name another file to write to")
    jobs = inputs.read_trace(trace, format, skip_bad_rows, seed)
    rows = jobs.jobs.filter(jobs.jobs["gpus"] > 0)
    rows = rows.sort(rows["submitted_at"] + rows["duration_s"])
    columns = ("tenant", "user", "name", "gpus", "duration_s")
    out.write_text(priors.made(rows.select(columns).iter_rows()), encoding="utf-8")
    notify([*jobs.notes, f"wrote what {count(rows.height, 'job')} have shown to {out}"])


@app.command("formats")
def formats() -> None:
    """List the formats that can be read, and the builtin traces."""
    from rich.table import Table

    from tiresias.sim import traces

    table = Table.grid(padding=(0, 2))
    for name, form in traces.FORMATS.items():
        table.add_row(name, form.title)
    for name, title in traces.BUILTINS.items():
        table.add_row(f"builtin:{name}", title)
    show(table)
