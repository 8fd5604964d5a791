"""`tiresias profile`: what a model sends, whether its gang should be consolidated, how its layers differ.

The model is given by name, by a file, or, after `--`, by a command that trains it (observe.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiresias.cli import inputs, observe
from tiresias.cli.console import notify, show
from tiresias.cli.declare import CommandLine

if TYPE_CHECKING:
    from tiresias.cli.profile_report import Report
    from tiresias.observe import Observed
    from tiresias.profiles.model import ModelProfile

USUAL_NETWORK = {"P100": "tiresias-testbed", "A100": "a100-nvlink", "": "a100-nvlink"}
"""The default network, by the GPU on which the compute time was measured."""


def from_two_up(number: int) -> int:
    if number < 2:
        raise typer.BadParameter(f"{number}: give a whole number from 2 up")
    return number


Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL | -- COMMAND",
        help="Name (see --list), file or directory of a model, or module:function; or a training to observe.",
    ),
]
Layers = Annotated[
    bool, typer.Option("--layers", help="Show the layers, and the effect of placing them apart.")
]
Save = Annotated[Path | None, typer.Option("--save", metavar="FILE.json", help="Save the profile to a file.")]
Gpus = Annotated[
    int, typer.Option("--gpus", metavar="N", callback=from_two_up, help="Number of GPUs of the gang.")
]
Network = Annotated[
    str | None, typer.Option("--network", metavar="NAME", help="Network on which it runs (see --list).")
]
Compute = Annotated[
    float | None,
    typer.Option(
        "--compute", metavar="SECONDS", callback=inputs.above_zero, help="Compute time per iteration."
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch", metavar="N", callback=inputs.from_one_up, help="Samples per worker and iteration."
    ),
]
How = Annotated[
    str | None, typer.Option("--parallelism", metavar="HOW", help="Parallelism: ps, allreduce or sharded.")
]
Known = Annotated[bool, typer.Option("--list", help="List the known models and networks.")]


def profile(
    line: CommandLine,
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
    """Show the tensors and the skew of a model.

    Also says whether a gang that trains it should be consolidated. MODEL may be a file in safetensors,
    PyTorch or ONNX format or a saved profile; weights are not loaded.
    To observe what a training sends: tiresias profile -- python train.py
    """
    if known:
        _list(as_json)
        return
    if save is not None:
        inputs.require_directory_of(save, "--save")
    seen: Observed | None = None
    if line.after_dashes is None:
        loaded = _read(model)
    else:
        seen, found = observe.observe_command(model, line.after_dashes, workers, iterations, seconds)
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
        notify([f"saved the profile of {given.name} to {save}"])


def _read(model: str | None) -> ModelProfile:
    from tiresias.profiles import readers

    if model is None:
        hint = "name a model, or give a command after --; tiresias profile --list lists the known models"
        raise typer.BadParameter(hint, param_hint="MODEL")
    return readers.load(model)


def _given(profile: ModelProfile, compute: float | None, batch: int | None, how: str | None) -> ModelProfile:
    """The profile, with the values of the command line in place of its own."""
    from dataclasses import replace

    from tiresias.profiles.errors import ProfileError
    from tiresias.profiles.model import Parallelism

    if how is not None:
        if how not in list(Parallelism):
            raise ProfileError(f"--parallelism {how!r} is not known; choose one of {', '.join(Parallelism)}")
        profile = replace(profile, parallelism=Parallelism(how))
    if compute is not None:
        profile = profile.timed(compute)
    if batch is not None:
        if compute is None and profile.compute_s is not None:
            raise ProfileError(f"--batch {batch} changes the compute time as well; give that with --compute")
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
