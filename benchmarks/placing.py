"""How long a placer takes to choose slots on 2,000 nodes of 8 GPUs in 50 racks, nearly all in use."""

from __future__ import annotations

import time
from random import Random
from statistics import median, quantiles

import tiresias.placers  # noqa: F401  (for what it registers)
from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Demand, Job, JobId, RunId
from tiresias.core.plugins import placers
from tiresias.core.state import JobState

RACKS, NODES, GPUS = 50, 40, 8
USED = 0.98
SIZES = (1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64)
MODELS = ("vgg16", "resnet50", "alexnet", "inception3", "bert-large")
CALLS = 2000
WANTED_US = 200


def placing() -> None:
    """The median and the 99th percentile of one call of `place`, placed or refused, for every placer."""
    for name in placers.names():
        took_us, refused = measure(name)
        mid, late = median(took_us), quantiles(took_us, n=100)[98]
        print(
            f"placing {name:12} {mid:6.1f} us in the median, {late:7.1f} us at the 99th percentile, "
            f"{refused / CALLS:4.0%} refused (under {WANTED_US} us in the median wanted)"
        )


def measure(name: str) -> tuple[list[float], int]:
    """Random gangs start and end while the cluster stays nearly full; returns (microseconds, refusals)."""
    rng, placer = Random(1), placers.make(name)
    ledger = Ledger(Cluster.of(NODES, GPUS, racks=RACKS))
    running: list[RunId] = []
    took_us: list[float] = []
    refused = number = 0
    while len(took_us) < CALLS:
        number += 1
        job = JobState(Job(JobId(number), Demand(rng.choice(SIZES)), 0.0, model=rng.choice(MODELS)))
        job.executed_s = 3600.0
        is_full = ledger.free < (1 - USED) * ledger.gpus
        while ledger.free < (1 - USED) * ledger.gpus or ledger.free < job.gpus:
            index = rng.randrange(len(running))
            running[index], running[-1] = running[-1], running[index]
            ledger.release(running.pop())
        start = time.perf_counter_ns()
        allocation = placer.place(job, ledger, 0.0, 0.0)
        us = (time.perf_counter_ns() - start) / 1e3
        if is_full or took_us:  # from the first time that the cluster is full
            took_us.append(us)
            refused += allocation is None
        if allocation is not None:
            ledger.take(RunId(number), allocation)
            running.append(RunId(number))
    return took_us, refused
