"""What jobs would have got under another policy, or with more GPUs, beside what they got.

The history of a manager is replayed as in past.py, once per scenario, on the GPUs of now or on more of them.
Each figure is given for all jobs and for those of one user. The first scenario is the policy in use on the
GPUs of now, which shows how faithful the replay is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiresias.core.model import Cluster, Node
from tiresias.core.plugins import Placer
from tiresias.sim.past import Choice, Cost, Fidelity, Past, fidelity, replayed

Progress = Callable[[int, int, int], None]
"""Called with (number of the scenario, jobs done, jobs in all) a few times per second."""


@dataclass(slots=True, frozen=True)
class Scenario:
    """A policy on a cluster with so many more GPUs than there are."""

    choice: Choice
    more_gpus: int = 0


@dataclass(slots=True, frozen=True)
class Experience:
    """What some jobs got. A job waits whenever it has no run, from when it could first have run on."""

    jobs: int
    avg_wait_s: float
    p50_wait_s: float
    p95_wait_s: float
    avg_jct_s: float
    preemptions: int


@dataclass(slots=True, frozen=True)
class Outcome:
    """What a scenario gives: to all jobs, and to those of the user who asks (None if there are none)."""

    policy: str
    more_gpus: int
    gpus: int
    all: Experience
    mine: Experience | None


@dataclass(slots=True, frozen=True)
class WhatIf:
    """`outcomes` begins with the policy in use on the GPUs of now."""

    begins_at: float  # of the first job
    ends_at: float  # of the last job
    jobs: int
    rejected: int  # jobs left out because they are larger than the cluster is now
    cost: Cost
    measured: Experience
    measured_mine: Experience | None
    outcomes: list[Outcome]
    fidelity: Fidelity
    wait_ratio: float | None  # mean wait in the replay / measured; None if nothing waited


def what_if(
    past: Past,
    cluster: Cluster,
    scenarios: Sequence[Scenario],
    make_placer: Callable[[], Placer],
    user: str,
    progress: Progress | None = None,
) -> WhatIf:
    """Play all scenarios; the first must be the policy in use on the GPUs of now."""
    outcomes, first = [], None
    for number, scenario in enumerate(scenarios):
        larger = enlarged(cluster, scenario.more_gpus)
        result = replayed(
            past,
            larger,
            scenario.choice,
            placer=make_placer(),
            progress=None if progress is None else _numbered(progress, number),
        )
        first = first or result
        mine = result.jobs.filter(pl.col("user") == user)
        outcomes.append(
            Outcome(
                scenario.choice.policy,
                scenario.more_gpus,
                larger.gpus,
                _experience(result.jobs) or _NOTHING,
                _experience(mine),
            )
        )
    assert first is not None, "no scenario"
    both = past.measured.join(
        first.jobs.select("id", replayed_s="jct_s"), on="id", how="inner", maintain_order="left"
    )
    measured = _experience(both) or _NOTHING
    return WhatIf(
        begins_at=_value(past.measured["submitted_at"].min()),
        ends_at=_value(past.measured["finished_at"].max()),
        jobs=both.height,
        rejected=first.rejected_jobs,
        cost=past.cost,
        measured=measured,
        measured_mine=_experience(both.filter(pl.col("user") == user)),
        outcomes=outcomes,
        fidelity=fidelity(both),
        wait_ratio=outcomes[0].all.avg_wait_s / measured.avg_wait_s if measured.avg_wait_s > 0 else None,
    )


_NOTHING = Experience(0, 0.0, 0.0, 0.0, 0.0, 0)


def enlarged(cluster: Cluster, more_gpus: int) -> Cluster:
    """The cluster with more nodes, of the size that most of its nodes have; the last may be smaller."""
    if not more_gpus:
        return cluster
    sizes = Counter(node.gpus for node in cluster.nodes if node.gpus)
    size = max(sizes, key=lambda gpus: (sizes[gpus], gpus)) if sizes else more_gpus
    names = {node.name for node in cluster.nodes}
    nodes, left, number = list(cluster.nodes), more_gpus, 0
    while left > 0:
        number += 1
        name = f"more-{number}"
        if name not in names:
            nodes.append(Node(name, min(size, left)))
            left -= size
    return Cluster(nodes)


def _numbered(progress: Progress, number: int) -> Callable[[int, int, float], None]:
    return lambda done, total, at: progress(number, done, total)


def _experience(jobs: pl.DataFrame) -> Experience | None:
    if not jobs.height:
        return None
    wait = jobs["wait_s"]
    return Experience(
        jobs.height,
        _value(wait.mean()),
        _value(wait.quantile(0.5, "linear")),
        _value(wait.quantile(0.95, "linear")),
        _value(jobs["jct_s"].mean()),
        int(jobs["preemptions"].sum()),
    )


def _value(found: Any) -> float:
    return 0.0 if found is None else float(found)
