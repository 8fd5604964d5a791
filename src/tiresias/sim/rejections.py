"""Jobs of a trace that the cluster can never run: left out before the simulation, counted and named."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tiresias.core.demands import GIB, unmet
from tiresias.core.model import Cluster, Demand
from tiresias.sim.trace import Trace

SHOWN = 3
WISHES = ("gpu_type", "cpus", "memory_gib")


@dataclass(slots=True)
class Rejections:
    """Positions in the trace of jobs that can never run, and what to tell of them."""

    rows: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)


def demand_of(gpus: int, gpu_type: str, cpus: int | None, memory_gib: float | None) -> Demand:
    """What a row of a trace asks for."""
    memory = None if memory_gib is None else round(memory_gib * GIB)
    return Demand(gpus, gpu_type=gpu_type or None, cpus=cpus, memory_bytes=memory)


def rejections(trace: Trace, cluster: Cluster) -> Rejections:
    """Those larger than the cluster, and those that ask for what no node has."""
    jobs = trace.jobs.select("id", "gpus", *WISHES).with_row_index("row")
    large = jobs["gpus"] > cluster.gpus
    found = set(jobs.filter(large)["row"].to_list())
    notes = []
    if found:
        notes.append(f"{_jobs(len(found))} rejected: larger than the cluster's {cluster.gpus:,} GPUs")
    is_choosy = (pl.col("gpu_type") != "") | pl.col("cpus").is_not_null() | pl.col("memory_gib").is_not_null()
    choosy = jobs.filter(is_choosy & ~large)
    reasons: dict[str, list[str]] = {}  # and who has them
    known: dict[tuple[object, ...], str] = {}
    for row, id, gpus, *wishes in choosy.iter_rows():
        key = (gpus, *wishes)
        if key not in known:
            known[key] = unmet(demand_of(gpus, *wishes), cluster.nodes)
        if known[key]:
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
