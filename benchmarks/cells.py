"""Simulations whose figures stand in tables of README and docs, and the file that has what was measured.

A Cell is everything that determines one simulation. `measured.json` has the figures of all cells; simulations
are deterministic, so a figure that differs from it shows that the program has changed. The file is written by
`python -m benchmarks tables`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import tiresias.placers  # noqa: F401  (for what it registers)
from benchmarks.common import data
from tiresias.core.model import Job
from tiresias.core.plugins import placers
from tiresias.profiles import zoo
from tiresias.profiles.links import GBIT, PRESETS, Links
from tiresias.profiles.model import ModelProfile, Parallelism
from tiresias.sim import Trace, simulate, traces
from tiresias.sim.clusters import parse
from tiresias.sim.fabric import FABRICS, Fabric
from tiresias.sim.models import Mix, with_models

FILE = Path(__file__).with_name("measured.json")
PHILLY = "philly"
KEPT = (
    "jobs",
    "avg_jct_s",
    "p50_jct_s",
    "avg_wait_s",
    "makespan_s",
    "preemptions",
    "avg_slowdown",
    "work_slowdown",
    "avg_nodes_per_job",
    "fragmentation_wait_s",
    "migrations",
    "cpu_runs",
    "cpu_jobs",
    "cpu_work",
)
Figures = dict[str, Any]


class NoData(Exception):
    """A cell needs a trace that this machine does not have."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation.

    `trace` is `philly` or `NAME:SEED` of a builtin trace. `network` is the name of a network, or `RACK/CROSS`
    in Gb/s on Philly's links; `believed` is the network that the placer is told, if it is another one.
    """

    trace: str
    cluster: str
    policy: str
    options: tuple[tuple[str, str], ...] = ()
    placer: str | None = None
    placer_options: tuple[tuple[str, str], ...] = ()
    network: str | None = None
    believed: str | None = None
    names_models: bool = True  # whether the placer is told which models the jobs train
    parallelism: str | None = None  # how the jobs exchange gradients, if not as their profiles say
    cpu_speed: float | None = None
    use_cpus: bool | None = None

    @property
    def key(self) -> str:
        """A readable name, the same for ever."""
        parts = [self.trace, self.cluster, " ".join([self.policy, *map("=".join, self.options)])]
        if self.placer is not None:
            parts.append(" ".join([self.placer, *map("=".join, self.placer_options)]))
        if self.network is not None:
            parts.append(f"network {self.network}")
        if self.believed is not None:
            parts.append(f"believed {self.believed}")
        if not self.names_models:
            parts.append("models not named")
        if self.parallelism is not None:
            parts.append(f"runs use {self.parallelism}")
        if self.cpu_speed is not None:
            parts.append(f"CPUs {self.cpu_speed:g}")
        if self.use_cpus is False:
            parts.append("CPUs not used")
        return ", ".join(parts)

    @property
    def is_quick(self) -> bool:
        """Whether it takes less than a second or so."""
        return self.trace != PHILLY

    def measure(self) -> Figures:
        """Simulate; NoData if the trace is not on this machine."""
        fabric = _fabric(self.network)
        placer = None
        if self.placer is not None:
            given: dict[str, Any] = dict(self.placer_options)
            told = _fabric(self.believed) or fabric
            if self.placer == "profile" and told is not None:
                given["network"] = told.links
            placer = placers.make(self.placer, given)
        trace, models = _trace(self.trace, names_models=self.names_models or fabric is None)
        parallelism = self.parallelism
        result = simulate(
            trace,
            _cluster(self.cluster),
            self.policy,
            options=dict(self.options),
            placer=placer,
            network=fabric,
            profile_of=None if fabric is None else lambda job: _profile(models, job, parallelism),
            cpu_speed=self.cpu_speed,
            use_cpus=self.use_cpus,
        )
        summary = result.summary()
        return {name: _rounded(summary[name]) for name in KEPT if summary.get(name) is not None}


def variant(cell: Cell, **changes: Any) -> Cell:
    return replace(cell, **changes)


def _rounded(value: float) -> float:
    """So that the last bits of a sum do not matter."""
    return value if isinstance(value, int) else float(f"{value:.9g}")


def _profile(models: list[str], job: Job, parallelism: str | None) -> ModelProfile:
    return _judged(models[job.id], parallelism)


@cache
def _judged(model: str, parallelism: str | None) -> ModelProfile:
    profile = zoo.find(model)
    return profile if parallelism is None else replace(profile, parallelism=Parallelism(parallelism))


@cache
def _trace(name: str, *, names_models: bool) -> tuple[Trace, list[str]]:
    """The trace, and the model of each of its jobs."""
    if name == PHILLY:
        path = data("philly.csv.gz")
        if path is None:
            raise NoData("TIRESIAS_DATA names no folder with philly.csv.gz")
        trace = traces.load(path)
    else:
        builtin, _, seed = name.partition(":")
        trace = traces.load(f"builtin:{builtin}", seed=int(seed))
    named, _ = with_models(trace, Mix())
    models: list[str] = named.jobs["model"].to_list()
    if names_models:
        return named, models
    return Trace(trace.name, trace.jobs.with_columns(pl.lit("").alias("model")), trace.format), models


def _cluster(name: str) -> Any:
    """With `+CPUS` ten nodes with 64 CPUs and no GPUs are added."""
    if not name.endswith("+CPUS"):
        return name
    from tiresias.core.model import Cluster, Node

    gpus = parse(name.removesuffix("+CPUS"))
    return Cluster([*gpus.nodes, *(Node(f"c{number}", 0, cpus=64) for number in range(10))])


def _fabric(name: str | None) -> Fabric | None:
    if name is None:
        return None
    if name in FABRICS:
        return FABRICS[name]
    rack, cross = map(float, name.split("/"))
    return Fabric(f"{rack:g} Gb/s in racks, {cross:g} across", _links(rack, cross))


def _links(rack_gbps: float, cross_gbps: float) -> Links:
    links = PRESETS[PHILLY]
    return links._replace(
        rack=links.rack._replace(bandwidth_Bps=rack_gbps * GBIT),
        cross=links.cross._replace(bandwidth_Bps=cross_gbps * GBIT),
    )


def load() -> dict[str, Figures]:
    """All figures of the file, by the keys of their cells."""
    found: dict[str, Figures] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def store(measured: dict[str, Figures]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(figures)}" for key, figures in sorted(measured.items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def differences(before: Figures, now: Figures) -> list[str]:
    """What differs, in words."""
    names = [name for name in KEPT if before.get(name) != now.get(name)]
    return [f"{name} is {now.get(name)}, was {before.get(name)}" for name in names]
