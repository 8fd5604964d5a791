"""The policy `tiresias` beside `tiresias-l` and `fifo-skip`: average JCT relative to the oracle `srsf`.

Packed; a preemption costs 60 s unless said. `other half` has the jobs of Philly that are not in the
half (drawn with seed 7) on which most settings were compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Any

import polars as pl

from benchmarks.common import data
from tiresias.core.facts import Fact
from tiresias.core.model import JobId, Phase
from tiresias.core.state import JobState
from tiresias.policies import priors
from tiresias.policies.tiresias import FLOOR_S, Memory, Tiresias
from tiresias.sim import simulate, traces
from tiresias.sim.trace import Trace

POLICIES = ("tiresias", "tiresias-l", "fifo-skip")
MOVED_S = 600.0  # by which submissions are moved at most


def learning() -> None:
    for cost_s in (60.0, 300.0):
        rows = [ratios(testbed(seed), "15x4", cost_s) for seed in range(1, 6)]
        show_mean(f"testbed-480, 15x4, {cost_s:.0f} s, seeds 1 to 5", rows)
    show_mean("testbed-480, 12x4, seeds 1 to 5", [ratios(testbed(seed), "12x4") for seed in range(1, 6)])
    for load in (0.8, 0.95):
        show(f"philly-like, load {load}, 32x8", ratios(philly_like(20_000, load, 256, 3), "32x8"))
    names()
    jobs_60, path = data("tiresias-60-jobs.csv"), data("philly.csv.gz")
    if jobs_60 is None or path is None:
        print("the rest is left out: TIRESIAS_DATA names no folder with the real traces")
        return
    show("60 jobs, 2x4", ratios(traces.load(jobs_60), "2x4"))
    philly = traces.load(path)
    show("Philly, 64x8", ratios(philly, "64x8"))
    show("Philly, 56x8", ratios(philly, "56x8"))
    show("Philly, 64x8, no tenants", ratios(without_tenants(philly), "64x8"))
    starvation(philly)
    gain("the first half for the other one", prior_of(first_half(philly)), other_half(philly), "32x8")
    show("other half of Philly, 32x8", ratios(other_half(philly), "32x8"))
    show("other half of Philly, 32x8, no tenants", ratios(without_tenants(other_half(philly)), "32x8"))
    rows = [ratios(moved(philly, seed), "64x8", policies=POLICIES[:2]) for seed in range(1, 6)]
    show_mean("Philly, 64x8, submissions moved, seeds 1 to 5", rows)


class Watched(Tiresias):
    """Counts the jobs whose promotion the budget refused, and the tries; it decides as the policy does."""

    def __init__(self, options: Any = None):
        super().__init__(options)
        self.refused: Counter[JobId] = Counter()

    def due(self, job: JobState, memory: Memory, at: float) -> Fact | None:
        fact = super().due(job, memory, at)
        waits = job.gpu_run is None or job.phase is Phase.STOPPING
        if fact is None and waits and job.id not in memory.promoted and at >= self._starves_at(job, at):
            self.refused[job.id] += 1
        return fact


def starvation(philly: Trace, most: float = 10.0) -> None:
    """What `max_slowdown` bounds, and what that costs."""
    oracle_s = simulate(philly, "64x8", "srsf", placer="packed").summary()["avg_jct_s"]
    policy = Watched(Tiresias.Options(max_slowdown=most))
    result = simulate(philly, "64x8", policy, placer="packed")
    slowdowns = result.jobs["jct_s"] / result.jobs["duration_s"].clip(FLOOR_S)
    within = (slowdowns <= most).mean()
    print(
        f"Philly, 64x8, max_slowdown={most:g}: average {result.summary()['avg_jct_s'] / oracle_s:.3f}, "
        f"JCT / max(duration, {FLOOR_S:g} s) at most {most:g} for {within:.4%} of the jobs, largest "
        f"{slowdowns.max():.2f}; the budget refused {len(policy.refused):,} jobs "
        f"in {policy.refused.total():,} tries",
        flush=True,
    )


def names() -> None:
    """What users and names that come again are worth, by their share; and what a prior from elsewhere is."""
    for share in (0.0, 0.3, 0.6, 0.9):
        like = [philly_like(10_000, 1.1, 128, seed, share) for seed in range(1, 4)]
        for what, some in (("with", like), ("without", [without_names(trace) for trace in like])):
            rows = [ratios(trace, "16x8", policies=POLICIES[:1]) for trace in some]
            show_mean(f"recurring={share}, {what} users and names", rows)
    elsewhere = prior_of(testbed(11))
    for seed in range(1, 4):
        gain(f"testbed seed 11 for seed {seed}", elsewhere, testbed(seed), "15x4")
    gain("testbed seed 11 for philly-like", elsewhere, philly_like(10_000, 1.1, 128, 1), "16x8")


def philly_like(jobs: int, load: float, gpus: int, seed: int, recurring: float | None = None) -> Trace:
    more = {} if recurring is None else {"recurring": recurring}
    return traces.generate("builtin:philly-like", jobs=jobs, load=load, cluster_gpus=gpus, seed=seed, **more)


def prior_of(trace: Trace) -> str:
    """What was learned of these jobs, in the order in which they would have ended without waiting."""
    ended = trace.jobs.sort(pl.col("submitted_at") + pl.col("duration_s"))
    return priors.made(ended.select("tenant", "user", "name", "gpus", "duration_s").iter_rows())


def gain(name: str, prior: str, trace: Trace, cluster: str) -> None:
    """The average JCT with a prior, divided by that without."""
    with_s, without_s = (
        simulate(trace, cluster, "tiresias", options=options, placer="packed").summary()["avg_jct_s"]
        for options in ({"prior": prior}, {})
    )
    print(f"a prior from {name:35} {with_s / without_s:.3f} times the average JCT without", flush=True)


def testbed(seed: int) -> Trace:
    return traces.generate("builtin:testbed-480", seed=seed)


def without_tenants(trace: Trace) -> Trace:
    return replace(trace, jobs=trace.jobs.with_columns(tenant=pl.lit("")))


def first_half(trace: Trace) -> Trace:
    return replace(trace, jobs=trace.jobs.filter(~_in_other_half(trace)))


def without_names(trace: Trace) -> Trace:
    return replace(trace, jobs=trace.jobs.with_columns(user=pl.lit(""), name=pl.lit("")))


def other_half(trace: Trace) -> Trace:
    return replace(trace, jobs=trace.jobs.filter(_in_other_half(trace)))


def _in_other_half(trace: Trace) -> pl.Series:
    random = Random(7)
    return pl.Series([random.random() >= 0.5 for _ in range(len(trace))])


def moved(trace: Trace, seed: int) -> Trace:
    """The same jobs, each submitted up to MOVED_S earlier or later."""
    random = Random(seed)
    by_s = pl.Series([random.uniform(-MOVED_S, MOVED_S) for _ in range(len(trace))])
    return replace(
        trace, jobs=trace.jobs.with_columns(submitted_at=pl.col("submitted_at") + by_s).sort("submitted_at")
    )


Ratios = dict[str, float]


def ratios(trace: Trace, cluster: str, cost_s: float = 60.0, policies: tuple[str, ...] = POLICIES) -> Ratios:
    """The average JCT under each policy, divided by that under the oracle."""
    jct_s = {
        policy: simulate(trace, cluster, policy, placer="packed", preemption_cost_s=cost_s).summary()[
            "avg_jct_s"
        ]
        for policy in ("srsf", *policies)
    }
    return {policy: jct_s[policy] / jct_s["srsf"] for policy in policies}


def show(name: str, row: Ratios) -> None:
    print(f"{name:48} " + "  ".join(f"{policy} {ratio:.3f}" for policy, ratio in row.items()), flush=True)


def show_mean(name: str, rows: list[Ratios]) -> None:
    show(name, {policy: fmean(row[policy] for row in rows) for policy in rows[0]})
    print(" " * 48, "each: " + ", ".join(f"{row['tiresias']:.3f}" for row in rows), flush=True)
