"""Gives each job of a trace a model of the zoo: the one that the trace names, or one drawn from a mix.

What is drawn for a job depends only on the mix, the seed and the index of the job in the trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from tiresias.profiles import zoo
from tiresias.profiles.errors import ProfileError
from tiresias.sim.errors import InputError
from tiresias.sim.trace import Trace

KEYS = ("seed", "models")


def _equal() -> dict[str, float]:
    return dict.fromkeys(zoo.CNNS, 1.0)


@dataclass(frozen=True)
class Mix:
    """Models and their weights, from which jobs without a model get one; the paper's ten by default."""

    seed: int = 0
    weights: Mapping[str, float] = field(default_factory=_equal)
    name: str = ""  # the file from which it was read

    def __str__(self) -> str:
        source = self.name or "the paper's ten"
        return f"{source}, seed {self.seed}"


def mix_of(text: str) -> Mix:
    """The mix that `--models` names: a seed for the default mix, or a YAML file."""
    import yaml  # not before: it delays each worker of a comparison

    try:
        return Mix(int(text))
    except ValueError:
        pass
    path = Path(text)
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"--models {text}: no such file; give a seed or a YAML file with a mix") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{text}: cannot be read: {' '.join(str(error).split())}") from None
    return _checked(tree, text)


def _checked(tree: Any, place: str) -> Mix:
    if not isinstance(tree, dict) or not isinstance(tree.get("models"), dict) or not tree["models"]:
        raise InputError(f"{place}: needs the key models, with a weight for each model, as in vgg16: 2")
    for key in tree:
        if key not in KEYS:
            raise InputError(f"{place}: unknown key {key!r}; known keys: {', '.join(KEYS)}")
    seed = tree.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"{place}: seed: {seed!r} is not a whole number")
    weights: dict[str, float] = {}
    for name, weight in tree["models"].items():
        try:
            known = zoo.find(str(name)).name
        except ProfileError as error:
            raise InputError(f"{place}: models: {error}") from None
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < 1e12:
            raise InputError(f"{place}: models.{name}: {weight!r} is not a weight, 0 or more")
        weights[known] = weights.get(known, 0.0) + float(weight)
    if not any(weights.values()):
        raise InputError(f"{place}: models: all weights are 0; give at least one model a weight")
    return Mix(seed, weights, place)


def with_models(trace: Trace, mix: Mix) -> tuple[Trace, str]:
    """The trace with a model of the zoo for every job, and a phrase that says where the models are from."""
    named = trace.jobs["model"]
    known = {name: zoo.find(name).name for name in named.unique().to_list() if zoo.knows(name)}
    if len(known) == named.n_unique():
        jobs = trace.jobs.with_columns(model=named.replace_strict(known, return_dtype=pl.String))
        return _with(trace, jobs), "trace"
    draw = Random(mix.seed).choices(list(mix.weights), list(mix.weights.values()), k=len(trace))
    models = [known.get(name) or drawn for name, drawn in zip(named, draw, strict=True)]
    drawn_jobs = sum(name not in known for name in named)
    where = "drawn" if drawn_jobs == len(trace) else f"drawn for {drawn_jobs:,} of {len(trace):,} jobs"
    jobs = trace.jobs.with_columns(model=pl.Series(models, dtype=pl.String))
    return _with(trace, jobs), f"{where} ({mix})"


def _with(trace: Trace, jobs: pl.DataFrame) -> Trace:
    return Trace(trace.name, jobs, trace.format, trace.skipped_rows, trace.notes)
