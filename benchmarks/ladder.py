"""How the default ladder and order of tiresias-l were chosen: every candidate on several traces and loads.

Prints the average JCT relative to the oracle's (srsf) on each, and the geometric mean over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from statistics import fmean

from benchmarks.common import data
from tiresias.sim import Trace, simulate, traces

SHARES = (0.5, 0.75, 0.8, 0.85, 0.9)
CANDIDATES = [
    *((share, ratio, "last-preempted-first") for share in SHARES for ratio in (4, 6, 10)),
    (0.75, 6, "running-first"),
    (0.75, 6, "first-start"),
]


def workloads() -> Iterator[tuple[str, Trace, str]]:
    path = data("philly.csv.gz")
    if path is not None:
        real = traces.load(path)
        yield "philly 64x8", real, "64x8"
        yield "philly 56x8", real, "56x8"
    for load in (0.8, 0.95):
        like = traces.generate("builtin:philly-like", jobs=20_000, load=load, cluster_gpus=256, seed=3)
        yield f"like {load}", like, "32x8"
    for seed in (1, 2, 3):
        yield f"testbed {seed}", traces.generate("builtin:testbed-480", seed=seed), "15x4"


def ladder() -> None:
    """The grid, with the placer packed and a preemption cost of 60 s."""
    ratios: dict[tuple[float, int, str], list[float]] = {candidate: [] for candidate in CANDIDATES}
    for name, trace, cluster in workloads():
        oracle = simulate(trace, cluster, "srsf").summary()["avg_jct_s"]
        for candidate in CANDIDATES:
            share, ratio, order = candidate
            options = {"queues": f"auto:{share}:{ratio}", "order": order}
            figures = simulate(trace, cluster, "tiresias-l", options=options).summary()
            ratios[candidate].append(figures["avg_jct_s"] / oracle)
            print(
                f"{name:12} auto:{share}:{ratio:<2} {order:21} {figures['avg_jct_s'] / oracle:.3f}x srsf, "
                f"{figures['preemptions']:,} preemptions",
                flush=True,
            )
    for (share, ratio, order), measured in sorted(ratios.items(), key=lambda item: fmean(map(log, item[1]))):
        each = " ".join(f"{value:.3f}" for value in measured)
        print(f"auto:{share}:{ratio:<2} {order:21} {exp(fmean(map(log, measured))):.3f}  ({each})")
