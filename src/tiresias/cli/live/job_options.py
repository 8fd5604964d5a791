"""The options that describe a job: those of `submit` and `run`, of `#TIR` lines and of job.yaml.

Rules: they are told once, here. None means "not given", so that what stands on the command line goes over
what stands in a file, and what neither gives is the manager's default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, get_type_hints

import typer

from tiresias.cli.inputs import from_one_up


@dataclass(slots=True, frozen=True)
class JobOptions:
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", "-g", metavar="N", callback=from_one_up, help="GPUs, at once (default 1)."),
    ] = None
    name: Annotated[str | None, typer.Option("--name", "-n", metavar="NAME", help="What to call it.")] = None
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", metavar="N", callback=from_one_up, help="Over exactly so many nodes."),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", callback=from_one_up, help="Processes, each with its part of the GPUs."
        ),
    ] = None
    launcher: Annotated[
        str | None,
        typer.Option("--launcher", metavar="NAME", help="plain, or per-gpu: a process a GPU with its RANK."),
    ] = None
    ckpt_dir: Annotated[
        str | None,
        typer.Option("--ckpt-dir", metavar="DIR", help="TIRESIAS_CHECKPOINT_DIR (default: one of its own)."),
    ] = None
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="60s", help="Time to save between SIGTERM and SIGKILL."),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option("--retries", metavar="N", min=0, help="Runs after failures that may pass (default 3)."),
    ] = None
    time: Annotated[
        str | None, typer.Option("--time", metavar="8h", help="How long it may hold GPUs, all runs together.")
    ] = None
    priority: Annotated[
        str | None,
        typer.Option("--priority", metavar="CLASS", help="high (admins only), normal or low."),
    ] = None
    no_preempt: Annotated[bool, typer.Option("--no-preempt", help="Never stop it for another job.")] = False
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="JOB,…", help="Start only when these have succeeded."),
    ] = None
    begin: Annotated[
        str | None, typer.Option("--begin", metavar="WHEN", help="Not before: +2h, 22:00, 2026-01-31T22:00.")
    ] = None
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TEAM", help="Whose share it counts for.")
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model that it trains, e.g. resnet50.")
    ] = None
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="FILE", help="A profile of its model (tiresias profile --save)."),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="K[=V]", help="A variable of its environment; may be repeated."),
    ] = None
    clean_env: Annotated[
        bool, typer.Option("--clean-env", help="Only what --env gives, not this shell's environment.")
    ] = False
    workdir: Annotated[
        str | None, typer.Option("--workdir", metavar="DIR", help="Where it runs (default: here).")
    ] = None
    array: Annotated[
        str | None,
        typer.Option("--array", metavar="0-15%4", help="A job an index, {i} in the command; %4: 4 at once."),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="K=V,V", help="A job a value, {K} in the command; may be repeated."),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key or parameter of job.yaml."),
    ] = None
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Run a copy of the working tree, made now.")
    ] = False
    snapshot_limit: Annotated[
        str | None, typer.Option("--snapshot-limit", metavar="1G", help="The largest copy (default 1G).")
    ] = None
    preflight: Annotated[
        bool, typer.Option("--preflight", help="Try it on one GPU first, until its first report.")
    ] = False
    preflight_limit: Annotated[
        str | None, typer.Option("--preflight-limit", metavar="60s", help="How long to try it at most.")
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Even if the command is not there or failed before.")
    ] = False

    def over(self, below: JobOptions) -> JobOptions:
        """These, and what they leave open from `below`. Variables and sweeps of both count."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        told = {name: value for name, value in given.items() if value is not None and value is not False}
        merged = replace(below, **told)
        return replace(merged, env=_both(below.env, self.env), sweep=_both(below.sweep, self.sweep))


def _both(below: list[str] | None, above: list[str] | None) -> list[str] | None:
    """Of two with the same name the later counts."""
    named = {text.partition("=")[0]: text for text in [*(below or []), *(above or [])]}
    return list(named.values()) or None


HINTS = get_type_hints(JobOptions, include_extras=True)


def takes_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command line with every option of a job besides the command's own; it gets them as `job`."""
    own = inspect.signature(command, eval_str=True).parameters
    mine = [each for name, each in own.items() if name != "job"]
    kind = inspect.Parameter.KEYWORD_ONLY
    theirs = [
        inspect.Parameter(each.name, kind, default=each.default, annotation=HINTS[each.name])
        for each in fields(JobOptions)
    ]
    first = [each for each in mine if each.default is inspect.Parameter.empty]
    rest = [each for each in mine if each.default is not inspect.Parameter.empty]
    parameters = [each.replace(kind=kind) for each in [*first, *theirs, *rest]]

    def called(**given: Any) -> None:
        job = {each.name: given.pop(each.name) for each in fields(JobOptions)}
        command(job=JobOptions(**job), **given)

    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called
