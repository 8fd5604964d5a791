"""`tiresias profile`: what a model sends, whether it deserves locality, where its layers could run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiresias.cli import inputs
from tiresias.cli.console import notify, show

if TYPE_CHECKING:
    from tiresias.cli.profile_report import Report
    from tiresias.profiles.model import ModelProfile

USUAL_NETWORK = {"P100": "tiresias-testbed", "A100": "a100-nvlink", "": "a100-nvlink"}
"""The cluster that a model is looked at on, by the GPU its compute time is of."""


def from_two_up(number: int) -> int:
    if number < 2:
        raise typer.BadParameter(f"{number}: give a whole number from 2 up")
    return number


def above_zero(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{seconds}: give a number of seconds above 0")
    return seconds


def profile(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="A name (see --list), a model file or folder, or module:function."
        ),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Show its layers, and what placing them apart would change.")
    ] = False,
    as_json: inputs.Json = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE.json", help="Store the profile in a file.")
    ] = None,
    gpus: Annotated[
        int, typer.Option("--gpus", metavar="N", callback=from_two_up, help="The gang that is looked at.")
    ] = 8,
    network: Annotated[
        str | None, typer.Option("--network", metavar="NAME", help="The links that it runs on (see --list).")
    ] = None,
    compute: Annotated[
        float | None,
        typer.Option(
            "--compute", metavar="SECONDS", callback=above_zero, help="An iteration's compute time."
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", callback=inputs.from_one_up, help="Samples a worker computes."),
    ] = None,
    parallelism: Annotated[
        str | None, typer.Option("--parallelism", metavar="HOW", help="ps, allreduce or sharded.")
    ] = None,
    known: Annotated[bool, typer.Option("--list", help="List the models and networks with a name.")] = False,
) -> None:
    """Show a model's tensors, its skew, and whether its gang should be consolidated.

    Reads safetensors, PyTorch checkpoints, ONNX, stored profiles; weights are not loaded.
    """
    if known:
        _list(as_json)
        return
    if model is None:
        raise typer.BadParameter("name one; tiresias profile --list shows those known", param_hint="MODEL")
    from tiresias.cli.profile_report import report
    from tiresias.profiles import readers

    if save is not None:
        inputs.require_directory_of(save, "--save")
    given = _given(readers.load(model), compute, batch, parallelism)
    told = report(given, network or USUAL_NETWORK.get(given.gpu, "a100-nvlink"), gpus, layers)
    _print(told, as_json)
    if save is not None:
        from tiresias.profiles.stored import to_json

        save.write_text(to_json(given), encoding="utf-8")
        notify([f"stored the profile of {given.name} in {save}"])


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


def _print(told: Report, as_json: bool) -> None:
    if as_json:
        from tiresias.sim.report import to_json

        typer.echo(to_json(told.as_dict()))
        return
    from tiresias.cli.profile_tables import page

    show(page(told))


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
