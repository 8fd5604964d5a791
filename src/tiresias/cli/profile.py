"""`tiresias profile`: what a model sends, whether it deserves locality, where its layers could run.

The model is named, read from a file, or, after `--`, observed as a command trains it (observe.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiresias.cli import inputs, observe
from tiresias.cli.console import notify, show
from tiresias.cli.live.commands import META

if TYPE_CHECKING:
    from tiresias.cli.profile_report import Report
    from tiresias.observe import Observed
    from tiresias.profiles.model import ModelProfile

USUAL_NETWORK = {"P100": "tiresias-testbed", "A100": "a100-nvlink", "": "a100-nvlink"}
"""The cluster that a model is looked at on, by the GPU its compute time is of."""


def from_two_up(number: int) -> int:
    if number < 2:
        raise typer.BadParameter(f"{number}: give a whole number from 2 up")
    return number


Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL | -- COMMAND",
        help="A name (see --list), a model file or folder, module:function; or a training to observe.",
    ),
]
Layers = Annotated[
    bool, typer.Option("--layers", help="Show its layers, and what placing them apart would change.")
]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE.json", help="Store the profile in a file.")
]
Gpus = Annotated[
    int, typer.Option("--gpus", metavar="N", callback=from_two_up, help="The gang that is looked at.")
]
Network = Annotated[
    str | None, typer.Option("--network", metavar="NAME", help="The links that it runs on (see --list).")
]
Compute = Annotated[
    float | None,
    typer.Option(
        "--compute", metavar="SECONDS", callback=inputs.above_zero, help="An iteration's compute time."
    ),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", callback=inputs.from_one_up, help="Samples a worker computes."),
]
How = Annotated[
    str | None, typer.Option("--parallelism", metavar="HOW", help="ps, allreduce or sharded.")
]
Known = Annotated[bool, typer.Option("--list", help="List the models and networks with a name.")]


def profile(
    ctx: typer.Context,
    model: Model = None,
    layers: Layers = False,
    as_json: inputs.Json = False,
    save: Save = None,
    gpus: Gpus = 8,
    network: Network = None,
    compute: Compute = None,
    batch: Batch = None,
    parallelism: How = None,
    known: Known = False,
    workers: observe.Workers = 1,
    iterations: observe.Iterations = 20,
    seconds: observe.Seconds = 120.0,
) -> None:
    """Show a model's tensors, its skew, and whether its gang should be consolidated.

    Reads safetensors, PyTorch checkpoints, ONNX, stored profiles; weights are not loaded. Or observes what
    a training sends: tiresias profile -- python train.py
    """
    if known:
        _list(as_json)
        return
    if save is not None:
        inputs.require_directory_of(save, "--save")
    seen: Observed | None = None
    if ctx.meta.get(META) is None:
        loaded = _read(model)
    else:
        seen, found = observe.observe_command(model, ctx.meta[META], workers, iterations, seconds)
        if found is None:
            observe.show_alone(seen, as_json, save)
            return
        loaded = found
    given = _given(loaded, compute, batch, parallelism)
    from tiresias.cli.profile_report import report

    result = report(given, network or USUAL_NETWORK.get(given.gpu, "a100-nvlink"), gpus, layers)
    _print(result, seen, as_json)
    if save is not None:
        from tiresias.profiles.stored import to_json

        save.write_text(to_json(given), encoding="utf-8")
        notify([f"stored the profile of {given.name} in {save}"])


def _read(model: str | None) -> ModelProfile:
    from tiresias.profiles import readers

    if model is None:
        hint = "name one, or a command after --; tiresias profile --list shows those known"
        raise typer.BadParameter(hint, param_hint="MODEL")
    return readers.load(model)


def _given(profile: ModelProfile, compute: float | None, batch: int | None, how: str | None) -> ModelProfile:
    """What the command line says of the model goes before what the file says."""
    from dataclasses import replace

    from tiresias.profiles.errors import ProfileError
    from tiresias.profiles.model import Parallelism

    if how is not None:
        if how not in list(Parallelism):
            raise ProfileError(f"--parallelism {how!r} is not known; it is one of {', '.join(Parallelism)}")
        profile = replace(profile, parallelism=Parallelism(how))
    if compute is not None:
        profile = profile.timed(compute)
    if batch is not None:
        if compute is None and profile.compute_s is not None:
            raise ProfileError(f"--batch {batch} changes the compute time too; give it with --compute")
        profile = replace(profile, batch=batch)
    return profile


def _print(result: Report, seen: Observed | None, as_json: bool) -> None:
    if as_json:
        from tiresias.sim.report import to_json

        observed = {"observed": seen.as_dict()} if seen is not None else {}
        typer.echo(to_json(result.as_dict() | observed))
        return
    from tiresias.cli.profile_tables import page

    if seen is not None:
        show(observe.observed_page(seen))
        typer.echo()
    show(page(result))


def _list(as_json: bool) -> None:
    from tiresias.profiles import zoo
    from tiresias.profiles.links import PRESETS

    if as_json:
        from tiresias.sim.report import to_json

        models: list[dict[str, Any]] = [
            {"name": name, "title": entry.title} for name, entry in zoo.MODELS.items()
        ]
        typer.echo(to_json({"models": models, "networks": list(PRESETS)}))
        return
    from tiresias.cli.profile_tables import known

    show(known())
