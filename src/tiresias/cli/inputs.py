"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tiresias.sim.models import Mix
    from tiresias.sim.trace import Trace


def from_one_up(number: int | None) -> int | None:
    """Refuse counts below 1."""
    if number is not None and number < 1:
        raise typer.BadParameter(f"{number}: give a whole number from 1 up")
    return number


def above_zero(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{seconds}: give a number of seconds above 0")
    return seconds


TraceName = Annotated[
    str, typer.Argument(metavar="TRACE", help="File, may be gzipped, or builtin:NAME (see: trace formats).")
]
ClusterName = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="NxG",
        help="Nodes x GPUs per node (64x8), racks x nodes x GPUs, a preset (philly), or a file.",
    ),
]
PolicyNames = Annotated[
    str, typer.Option("--policies", metavar="A,B,…", help="Policies (see: tiresias policies).")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Option of the policy; may be repeated."),
]
PlacerName = Annotated[
    str | None,
    typer.Option("--placer", help="Placer (see: tiresias placers). Default: that of the cluster, or packed."),
]
NetworkName = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="NAME",
        help="Network of a preset, on which spread gangs are slower; none: they are not.",
    ),
]
Shares = Annotated[
    str | None,
    typer.Option(
        "--shares",
        metavar="TENANT=WEIGHT,…",
        help="Shares of tenants, for the figures of fairness; by default as the trace uses the GPUs.",
    ),
]
Open = Annotated[
    bool, typer.Option("--open", help="Then show the result in a browser on this machine, until Ctrl-C.")
]
Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="With --open: the port; 0 is a free one."),
]
ModelsFrom = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="SEED|FILE",
        help="Draw the models of jobs that the trace does not give: a seed, or a file with a mix.",
    ),
]
PreemptionCost = Annotated[
    float,
    typer.Option(
        "--preemption-cost",
        metavar="SECONDS",
        help="Cost of a preemption, saving plus loading, for jobs whose trace does not give it.",
    ),
]
CpuSpeed = Annotated[
    float | None,
    typer.Option(
        "--cpu-speed",
        metavar="SHARE",
        help="Speed on CPUs as a share of that on GPUs, for jobs whose trace does not give it.",
    ),
]
UseCpus = Annotated[
    bool | None,
    typer.Option(
        "--use-cpus/--no-use-cpus",
        help="Run jobs on CPU nodes while the GPUs are full. Default: if the policy preempts.",
    ),
]
LossKind = Annotated[
    str | None,
    typer.Option(
        "--losses",
        metavar="KIND",
        help="How losses fall, for policies that predict from them: smooth, realistic (the default), none.",
    ),
]
Failures = Annotated[
    str | None,
    typer.Option(
        "--failures",
        metavar="KIND[,RULE,…]",
        help="Make trials of jobs fail: philly, and rules that spare GPUs from it: no-retry, preflight=120.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
FormatName = Annotated[
    str | None, typer.Option("--format", help="Format of the trace, if it is not recognised.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME=COLUMN",
        help="Which column of a foreign CSV is meant, such as gpus=num_gpu; may be repeated.",
    ),
]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be used. A note counts them.")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of a builtin trace. Default: 0.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        metavar="N",
        callback=from_one_up,
        help="Number of processes. Default: one per processor.",
    ),
]

On = Annotated[
    str | None,
    typer.Option("--on", metavar="ENGINE", help="Simulate on the nodes of an engine: ray. Default: here."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="With --on ray: address of the head of the cluster."),
]


def read_trace(
    source: str,
    format: str | None,
    skip_bad_rows: bool,
    seed: int | None,
    columns: list[str] | None = None,
) -> Trace:
    """The trace in a file, or a builtin one; `columns` are the texts of --map."""
    from tiresias.sim import traces

    if seed is not None:
        require_builtin(source, "--seed")
    return traces.load(
        source, format=format, skip_bad_rows=skip_bad_rows, seed=seed or 0, columns=_mapped(columns or [])
    )


def _mapped(texts: list[str]) -> dict[str, str]:
    """Our name of a column: its name in the file."""
    from tiresias.sim.errors import InputError

    found: dict[str, str] = {}
    for text in (each for given in texts for each in given.split(",")):
        name, equals, column = (part.strip() for part in text.partition("="))
        if not equals or not name or not column:
            raise InputError(f"--map {text!r} is not understood; write NAME=COLUMN, such as gpus=num_gpu")
        if name in found:
            raise InputError(f"--map {text!r}: {name} is mapped already, to {found[name]!r}")
        found[name] = column
    return found


def began_at(trace: Trace) -> float:
    """The first submission; virtual time is shown from there."""
    first = trace.jobs["submitted_at"].min()
    return float(first) if isinstance(first, int | float) else 0.0


def require_builtin(source: str, option: str) -> None:
    """Refuse a seed for a file: it changes generated traces only."""
    from tiresias.sim.errors import InputError

    if not source.startswith("builtin:"):
        raise InputError(
            f"{option} varies generated traces only, and {source} is a file: its jobs are the same for "
            f"every seed. Leave {option} out, or use a builtin: trace."
        )


def require_finite(seconds: float) -> None:
    """Refuse `nan` and `inf`, which are numbers to Python but not costs."""
    from tiresias.sim.errors import InputError

    if not 0 <= seconds < float("inf"):
        raise InputError(f"--preemption-cost {seconds}: give a number of seconds, 0 or more")


def seconds_in(text: str, option: str) -> float:
    """A span of time: 90, 90s, 15m, 2h or 3d."""
    from tiresias.sim.errors import InputError

    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    number, unit_s = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit_s
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{option} {text}: give a span of time from 0 up, such as 90s, 15m, 2h or 3d")
    return seconds


def read_shares(shares: str | None) -> dict[str, float] | None:
    """The weights of --shares."""
    from tiresias.sim import tenants

    return None if shares is None else tenants.parse(shares)


def read_models(text: str | None) -> Mix | None:
    """The mix that models are drawn from, if there is one."""
    from tiresias.sim.models import mix_of

    return None if text is None else mix_of(text)


def require_network(name: str | None) -> None:
    """Refuse an unknown name before time is spent."""
    from tiresias.sim.fabric import fabric_of

    if name is not None:
        fabric_of(name)


def require_placer(name: str | None) -> None:
    """Refuse an unknown name before time is spent."""
    if name is None:
        return
    import tiresias.placers  # noqa: F401  (for what it registers)
    from tiresias.core.plugins import placers

    placers.get(name)


def require_directory_of(path: Path, option: str) -> None:
    """Refuse a file that cannot be written because its directory is missing."""
    from tiresias.sim.errors import InputError

    if path.is_dir():
        raise InputError(f"{option} {path} is a directory; name a file")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no directory {path.parent}; make it first")
