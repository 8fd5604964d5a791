"""Finds the jobs of a trace that the cluster can never run; they are left out, counted and named."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tiresias.core.demands import GIB, unmet
from tiresias.core.model import Cluster, Demand
from tiresias.sim.trace import Trace

SHOWN = 3
DEMAND_COLUMNS = ("gpu_type", "cpus", "memory_gib", "cpu_speed", "nodes", "min_gpus", "max_gpus")
"""The columns of a trace, besides gpus, that make up the demand of a job."""
NEVER_UNMET = ("cpu_speed", "min_gpus", "max_gpus")  # by no node, if a cluster has the reference size


@dataclass(slots=True)
class Rejections:
    """The rows of jobs that can never run, and sentences that say why."""

    rows: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)


def used_demand_columns(trace: Trace) -> list[str]:
    """Those of DEMAND_COLUMNS in which any job has a value."""
    columns = pl.col(DEMAND_COLUMNS)
    blank = trace.jobs.select(columns.is_null() | (columns.cast(pl.String) == ""))
    return [name for name in DEMAND_COLUMNS if not blank[name].all()]


def demand_of(
    gpus: int,
    gpu_type: str = "",
    cpus: int | None = None,
    memory_gib: float | None = None,
    cpu_speed: float | None = None,
    nodes: int | None = None,
    min_gpus: int | None = None,
    max_gpus: int | None = None,
) -> Demand:
    """The demand in a row of a trace. A job without GPUs has no slots to be particular about."""
    if not gpus:
        return Demand(0)
    memory = None if memory_gib is None else round(memory_gib * GIB)
    least, most = min_gpus or gpus, max_gpus or gpus
    return Demand(
        gpus,
        max_gpus=most if least < most else None,
        gpu_type=gpu_type or None,
        cpus=cpus,
        memory_bytes=memory,
        cpu_speed=cpu_speed or None,
        nodes=nodes,
        min_gpus=least if least < gpus else None,
    )


def rejections(trace: Trace, cluster: Cluster) -> Rejections:
    """The jobs that are larger than the cluster, and those that ask for what no node has."""
    large = trace.jobs["gpus"] > cluster.gpus
    found = set(large.arg_true().to_list())
    notes = []
    if found:
        notes.append(f"{_jobs(len(found))} rejected: larger than the cluster's {cluster.gpus:,} GPUs")
    reasons: dict[str, list[str]] = {}  # by reason: the ids of its jobs
    if columns := [name for name in used_demand_columns(trace) if name not in NEVER_UNMET]:
        known: dict[tuple[object, ...], str] = {}
        for row, (id, *asked) in enumerate(trace.jobs.select("id", "gpus", *columns).iter_rows()):
            key = tuple(asked)
            if key not in known:
                demand = demand_of(asked[0], **dict(zip(columns, asked[1:], strict=True)))
                known[key] = unmet(demand, cluster.nodes)
            if known[key] and row not in found:
                found.add(row)
                reasons.setdefault(known[key], []).append(id)
    shown = list(reasons.items())[:SHOWN]
    notes += [f"{_jobs(len(ids))} rejected ({_names(ids)}): {_who(ids)} {why}" for why, ids in shown]
    rest = sum(len(ids) for ids in list(reasons.values())[SHOWN:])
    if rest:
        notes.append(f"{_jobs(rest)} more rejected: they ask for what no node has either")
    return Rejections(frozenset(found), notes)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _who(ids: list[str]) -> str:
    return "it" if len(ids) == 1 else "each"


def _names(ids: list[str]) -> str:
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")
