"""`queues=auto` beside a set of fixed ladders: the average JCT relative to the oracle `srsf`.

The fixed ladders are single thresholds (GPU-seconds), and ladders that rise by a factor of 6 up to 10^8. On
each trace `auto` should be within 10 % of the best of them, and its median JCT at most 3 times the best
policy's. All policies run with their other defaults; packed, 60 s per preemption unless said.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from random import Random
from statistics import fmean

from benchmarks.common import data
from benchmarks.learning import moved, testbed, without_tenants
from tiresias.sim import Trace, simulate, traces
from tiresias.testing import a_trace

POLICIES = ("tiresias-l", "tiresias-g")
OTHERS = ("srsf", "tiresias", "fifo-skip")
WITHIN, MEDIAN = 1.1, 3.0
REACH = 1e8


def rising(first: float) -> str:
    thresholds = [first]
    while thresholds[-1] < REACH:
        thresholds.append(thresholds[-1] * 6)
    return ",".join([f"{threshold:g}" for threshold in thresholds])


FIXED = {
    **{str(threshold): str(threshold) for threshold in (600, 3200, 21_600, 129_600, 777_600)},
    **{f"{first},x6": rising(first) for first in (100, 600, 3_600, 21_600, 129_600)},
}

Row = tuple[str, list[Trace], str, float]


def rows() -> Iterator[Row]:
    """The name of a row, the traces of which it is the mean, the cluster, and the cost of a preemption."""
    seeds = [testbed(seed) for seed in range(1, 6)]
    yield "testbed-480, 15x4, seeds 1 to 5", seeds, "15x4", 60.0
    yield "the same, 300 s", seeds, "15x4", 300.0
    yield "testbed-480, 12x4, seeds 1 to 5", seeds, "12x4", 60.0
    for load in (0.8, 0.95):
        like = traces.generate("builtin:philly-like", jobs=20_000, load=load, cluster_gpus=256, seed=3)
        yield f"philly-like, load {load}, 32x8", [like], "32x8", 60.0
    yield "wide, 8x8", [wide(1)], "8x8", 60.0
    jobs_60, path = data("tiresias-60-jobs.csv"), data("philly.csv.gz")
    if jobs_60 is None or path is None:
        print("the rest is left out: TIRESIAS_DATA names no folder with the real traces")
        return
    yield "60 jobs, 2x4", [traces.load(jobs_60)], "2x4", 60.0
    philly = without_tenants(traces.load(path))  # these policies do not look at tenants
    yield "Philly, 64x8", [philly], "64x8", 60.0
    yield "Philly, 56x8", [philly], "56x8", 60.0
    yield "Philly, 64x8, submissions moved, seed 1", [moved(philly, 1)], "64x8", 60.0


def wide(seed: int, jobs: int = 2500, gpus: int = 64, load: float = 8.0) -> Trace:
    """Durations from 20 s to 400,000 s, as many in each step of a factor; far more than the GPUs can do."""
    random = Random(seed)
    shapes = [
        (random.choices([1, 2, 4, 8], [50, 15, 15, 20])[0], exp(random.uniform(log(20.0), log(400_000.0))))
        for _ in range(jobs)
    ]
    span_s = sum([count * duration_s for count, duration_s in shapes]) / (gpus * load)
    instants = sorted([random.uniform(0, span_s) for _ in range(jobs)])
    return a_trace(
        [(at, count, duration_s) for at, (count, duration_s) in zip(instants, shapes, strict=True)]
    )


def ladder() -> None:
    for name, row, cluster, cost_s in rows():
        others = {policy: figures(row, cluster, cost_s, policy) for policy in OTHERS}
        oracle_s = others["srsf"][0]
        best_median_s = min(median_s for _, median_s in others.values())
        for policy in POLICIES:
            fixed = {key: figures(row, cluster, cost_s, policy, queues) for key, queues in FIXED.items()}
            best = min(fixed, key=lambda key: fixed[key][0])
            auto_s, median_s = figures(row, cluster, cost_s, policy, "auto")
            is_met = auto_s <= WITHIN * fixed[best][0] and median_s <= MEDIAN * best_median_s
            print(
                f"{name:40} {policy} auto {auto_s / oracle_s:.3f}, "
                f"best fixed {fixed[best][0] / oracle_s:.3f} "
                f"({best}), median {median_s / best_median_s:.2f} times the best policy's"
                f"{'' if is_met else ', NOT MET'}; "
                + " ".join([f"{key}: {jct_s / oracle_s:.2f}" for key, (jct_s, _) in fixed.items()]),
                flush=True,
            )


def figures(
    row: list[Trace], cluster: str, cost_s: float, policy: str, queues: str | None = None
) -> tuple[float, float]:
    """The means of the average and of the median JCT over the traces of a row."""
    options = {} if queues is None else {"queues": queues}
    summaries = [
        simulate(trace, cluster, policy, options=options, placer="packed", preemption_cost_s=cost_s).summary()
        for trace in row
    ]
    return fmean([each["avg_jct_s"] for each in summaries]), fmean([each["p50_jct_s"] for each in summaries])
