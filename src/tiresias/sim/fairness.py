"""How fairly a policy shared the cluster: finish-time fairness per job, and figures per tenant.

The finish-time fairness of a job, rho, is its JCT divided by the JCT that it would have had with an equal
part of the cluster to itself: rho above 1 means that sharing cost it time. What an equal part is depends on
how many apps there were (an app is all jobs of one `group`, or a job without a group). That number is taken
from an ideal cluster on which the same trace is shared equally at every instant, so that it is the same for
every policy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiresias.core.model import INFINITY
from tiresias.sim.tenants import Shares

SHORTEST_S = 600.0
"""Shorter durations count as this: a few seconds of waiting say nothing about a job of a few seconds."""

CONTENTION_COLUMNS = ("submitted_at", "gpus", "duration_s", "group")


@dataclass(slots=True)
class Contention:
    """The jobs of a trace that compete for a cluster; `jobs` has CONTENTION_COLUMNS and `id`."""

    jobs: pl.DataFrame
    gpus: int  # of the cluster

    def apps(self) -> pl.Series:
        """The average number of active apps over the life of each job under ideal equal sharing."""
        columns = [self.jobs[name].to_numpy() for name in CONTENTION_COLUMNS[:3]]
        columns.append(self.jobs["group"].hash().to_numpy())
        whole = blake2b()
        for column in columns:
            whole.update(np.ascontiguousarray(column).data)
        return pl.Series("apps", _cached_apps(_Arrivals(self.jobs, whole.digest()), self.gpus))


@dataclass(slots=True, eq=False)
class _Arrivals:
    """A table that is compared by its content, so that all results of one trace share one computation."""

    jobs: pl.DataFrame
    digest: bytes

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arrivals) and other.digest == self.digest


@lru_cache(maxsize=4)
def _cached_apps(arrivals: _Arrivals, gpus: int) -> array[float]:
    return average_apps(arrivals.jobs.select(CONTENTION_COLUMNS).iter_rows(), gpus)


class _Active(NamedTuple):
    """A job that has come and has not ended; `crowd` is what this was at its submission."""

    submitted_at: float
    gpus: int
    group: str
    crowd: float


class _Share:
    """The jobs of all apps that want the same number of GPUs: at each instant they run at the same speed."""

    __slots__ = ("done_s", "ends", "speed")

    def __init__(self) -> None:
        self.done_s = 0.0  # seconds of work that a job here from the beginning would have done
        self.ends: list[tuple[float, int]] = []  # (done_s at which it has ended, job), a heap
        self.speed = 1.0


def average_apps(jobs: Iterable[tuple[float, int, float, str]], gpus: int) -> array[float]:
    """For each (submitted_at, gpus, duration_s, group), in order of submission: how many apps were active on
    average over its life, if at every instant each of N active apps has 1/N of the GPUs and no job runs
    faster than on all the GPUs that it wants.
    """
    averages = array("d")
    active: dict[int, _Active] = {}
    shares: dict[int, _Share] = {}  # by the GPUs that an app wants
    members: dict[str, dict[int, float]] = {}  # by group: its active jobs, and the done_s at which each ends
    apps = 0
    crowd = 0.0  # integral of the number of apps over time
    at = 0.0
    coming = iter(jobs)
    arrival = next(coming, None)

    def wants(group: str) -> int:
        return sum(active[job].gpus for job in members[group])

    def regroup(group: str, before: int, after: int) -> None:
        """The jobs of a group, which together want another number of GPUs than before, change their share."""
        old = shares[before]
        mine = members[group]
        remaining = {job: end - old.done_s for job, end in mine.items()}
        old.ends = [each for each in old.ends if each[1] not in mine]
        heapify(old.ends)
        if not old.ends:
            del shares[before]
        new = shares.setdefault(after, _Share())
        for job, seconds in remaining.items():
            mine[job] = new.done_s + seconds
            heappush(new.ends, (mine[job], job))

    while active or arrival is not None:
        ends_at, ending = INFINITY, 0
        for size, share in shares.items():
            speed = share.speed = min(1.0, gpus / (apps * size))
            until = at + (share.ends[0][0] - share.done_s) / speed
            if until < ends_at:
                ends_at, ending = until, size
        arrives_at = INFINITY if arrival is None else arrival[0]
        now = min(ends_at, arrives_at)
        if apps:
            passed = max(now - at, 0.0)
            crowd += apps * passed
            for share in shares.values():
                share.done_s += share.speed * passed
        at = now
        if ends_at <= arrives_at:
            share = shares[ending]
            end, job = heappop(share.ends)
            share.done_s = max(share.done_s, end)
            ended = active[job]
            life_s = at - ended.submitted_at
            averages[job] = (crowd - ended.crowd) / life_s if life_s > 0 else float(apps)
            group = ended.group
            if group:
                before = wants(group)
                del members[group][job], active[job]
                if members[group]:
                    regroup(group, before, wants(group))
                    continue
                del members[group]
            else:
                del active[job]
            apps -= 1
            if not share.ends:
                del shares[ending]
            continue
        assert arrival is not None
        submitted_at, wanted, duration_s, group = arrival
        arrived = len(averages)
        averages.append(1.0)
        if group and group in members:
            before = wants(group)
            regroup(group, before, before + wanted)
            share = shares[before + wanted]
            members[group][arrived] = share.done_s + duration_s
        else:
            apps += 1
            share = shares.setdefault(wanted, _Share())
            if group:
                members[group] = {arrived: share.done_s + duration_s}
        active[arrived] = _Active(submitted_at, wanted, group, crowd)
        heappush(share.ends, (share.done_s + duration_s, arrived))
        arrival = next(coming, None)
    return averages


def with_rho(finished: pl.DataFrame, contention: Contention) -> pl.DataFrame:
    """The finished jobs with `apps`, `rho`, and `paper_rho`, which has no cap: see the page on fairness."""
    finished = finished.filter(pl.col("gpus") > 0)  # the others share nothing
    if (
        finished.height == contention.jobs.height
    ):  # all of them, in the order of the trace: spare a large join
        joined = finished.with_columns(contention.apps())
    else:
        known = contention.jobs.select("id").with_columns(contention.apps())
        joined = finished.join(known, on="id", how="left", maintain_order="left")
    lasts = pl.max_horizontal(pl.col("duration_s"), pl.lit(SHORTEST_S))
    jct = pl.col("jct_s") - pl.col("duration_s") + lasts
    part = pl.col("gpus") * pl.col("apps") / contention.gpus
    return joined.with_columns(
        rho=jct / (lasts * pl.max_horizontal(pl.lit(1.0), part)), paper_rho=jct / (lasts * part)
    )


def figures(finished: pl.DataFrame, contention: Contention, shares: Shares) -> dict[str, Any]:
    """The figures of fairness: over all finished jobs, and by tenant."""
    used = "id", "gpus", "duration_s", "jct_s", "wait_s", "tenant"
    jobs = with_rho(finished.select(used), contention)
    rho = jobs["rho"]
    squares = float((rho * rho).sum())
    by_tenant = jobs.group_by("tenant").agg(
        avg_jct_s=pl.col("jct_s").mean(),
        p50_jct_s=pl.col("jct_s").median(),
        avg_wait_s=pl.col("wait_s").mean(),
        max_rho=pl.col("rho").max(),
    )
    nothing = dict.fromkeys(by_tenant.columns[1:])
    measured = {row.pop("tenant"): row for row in by_tenant.iter_rows(named=True)}
    return {
        "max_rho": rho.max(),
        "p99_rho": rho.quantile(0.99, "linear"),
        "p50_rho": rho.quantile(0.5, "linear"),
        "jain": float(rho.sum()) ** 2 / (len(rho) * squares) if squares else None,
        "shares": shares.source,
        "tenants": {
            name: {"share_gpus": gpus, **measured.get(name, nothing)} for name, gpus in shares.gpus.items()
        },
    }
