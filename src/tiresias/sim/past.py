"""A manager's own past, replayed: what each policy would have made of the same jobs on the same GPUs.

Rules: only jobs that have ended and held GPUs are replayed, failed and cancelled ones too. Each comes when it
could first have run, and runs for as long as it held its GPUs, less what interruptions cost it. What a
preemption costs in the replay was measured: a job's own mean if it was ever interrupted, else everybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiresias.core.model import Cluster
from tiresias.core.plugins import Placer
from tiresias.sim.frames import from_frame
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace

SHORTEST_S = 1e-3  # of a job all of whose work was in vain
MEASURED, STARTS, GIVEN = "measured", "starts", "given"

Progress = Callable[[int, int, int, float], None]
"""Called with (number of the policy, jobs done, jobs in all, virtual instant) a few times a second."""


@dataclass(slots=True, frozen=True)
class Cost:
    """What one preemption costs in seconds; `basis` says from how many of what it is known.

    `measured`: interruptions. `starts`: no job was interrupted, so it is what first runs took to begin.
    `given`: the user said so.
    """

    seconds: float
    basis: str
    count: int = 0


@dataclass(slots=True)
class Past:
    """Jobs that have ended, as a trace, and what really became of them."""

    trace: Trace
    measured: pl.DataFrame  # id, submitted_at, finished_at, jct_s, preemptions
    cost: Cost
    never_ran: int  # jobs left out, for they never held a GPU
    earlier: int  # jobs left out, for they were submitted too long ago


@dataclass(slots=True, frozen=True)
class Choice:
    """A policy and its options."""

    policy: str
    options: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Figures:
    """Of all jobs; a job's JCT is counted from when it could first have run."""

    avg_jct_s: float
    p50_jct_s: float
    p95_jct_s: float
    makespan_s: float
    preemptions: int


@dataclass(slots=True, frozen=True)
class Replayed:
    """What one policy would have given."""

    policy: str
    options: dict[str, Any]
    is_in_use: bool
    figures: Figures


@dataclass(slots=True, frozen=True)
class Fidelity:
    """How far a replay under the policy in use is from what was measured."""

    avg_jct_ratio: float  # replayed over measured
    error_p50: float  # of a job's JCT, as a share of what was measured
    error_p95: float
    error_max: float


@dataclass(slots=True, frozen=True)
class Told:
    """The whole of it."""

    measured: Figures
    replayed: list[Replayed]
    fidelity: Fidelity
    rejected: int  # jobs left out, for they are larger than the cluster


def past_of(
    rows: Iterable[Mapping[str, Any]], *, since_at: float = 0.0, preemption_cost_s: float | None = None
) -> Past | None:
    """From rows as a manager's history has them; None if no job can be replayed."""
    used: list[Mapping[str, Any]] = []
    never_ran = earlier = 0
    for row in rows:
        if row["submitted_at"] < since_at:
            earlier += 1
        elif row["executed_s"] <= 0:
            never_ran += 1
        else:
            used.append(row)
    if not used:
        return None
    used.sort(key=lambda row: (row["ready_at"], row["id"]))
    given = preemption_cost_s is not None
    jobs = {
        "id": [str(row["id"]) for row in used],
        "submitted_at": [row["ready_at"] for row in used],
        "gpus": [row["gpus"] for row in used],
        "duration_s": [max(row["duration_s"], SHORTEST_S) for row in used],
        "preemption_cost_s": [None if given else row["preemption_cost_s"] for row in used],
        **{
            name: [row[name] for row in used]
            for name in ("user", "tenant", "name", "group", "priority", "model", "preemptible")
        },
    }
    trace = from_frame(pl.DataFrame(jobs, strict=False), "history")
    ends = pl.DataFrame({name: [row[name] for row in used] for name in ("finished_at", "preemptions")})
    measured = trace.jobs.select("id", "submitted_at").hstack(ends)
    measured = measured.with_columns(jct_s=pl.col("finished_at") - pl.col("submitted_at"))
    cost = _cost(used) if preemption_cost_s is None else Cost(preemption_cost_s, GIVEN)
    return Past(trace, measured, cost, never_ran, earlier)


def _cost(rows: Sequence[Mapping[str, Any]]) -> Cost:
    stopped = [row for row in rows if row["interruptions"]]
    if stopped:
        count = sum(row["interruptions"] for row in stopped)
        lost_s = sum(row["preemption_cost_s"] * row["interruptions"] for row in stopped)
        return Cost(lost_s / count, MEASURED, count)
    starts = [row["startup_s"] for row in rows if row["startup_s"] is not None]
    return Cost(sum(starts) / len(starts) if starts else 0.0, STARTS, len(starts))


def replay(
    past: Past,
    cluster: Cluster,
    in_use: Choice,
    others: Sequence[Choice],
    *,
    placer: Placer,
    progress: Progress | None = None,
) -> Told:
    """Under the policy in use first, then under the others; KeyboardInterrupt if that is interrupted."""
    results = []
    for number, choice in enumerate((in_use, *others)):
        result = simulate(
            past.trace,
            cluster,
            choice.policy,
            options=choice.options,
            placer=placer,
            preemption_cost_s=past.cost.seconds,
            progress=None if progress is None else _numbered(progress, number),
        )
        if result.interrupted:
            raise KeyboardInterrupt
        results.append(result)
    replayed = [
        Replayed(result.policy, dict(choice.options), number == 0, figures(result.jobs))
        for number, (choice, result) in enumerate(zip((in_use, *others), results, strict=True))
    ]
    told = results[0].jobs.select("id", replayed_s="jct_s")
    both = past.measured.join(told, on="id", maintain_order="left")
    return Told(figures(both), replayed, _fidelity(both), results[0].rejected_jobs)


def _numbered(progress: Progress, number: int) -> Callable[[int, int, float], None]:
    return lambda done, total, at: progress(number, done, total, at)


def figures(jobs: pl.DataFrame) -> Figures:
    """Of measured or replayed jobs."""
    jct = jobs["jct_s"]
    median, p95 = (float(jct.quantile(share, "linear") or 0.0) for share in (0.5, 0.95))
    makespan_s = float(jobs["finished_at"].max() - jobs["submitted_at"].min())  # type: ignore[operator,arg-type]
    mean = float(jct.mean())  # type: ignore[arg-type]
    return Figures(mean, median, p95, makespan_s, int(jobs["preemptions"].sum()))


def _fidelity(both: pl.DataFrame) -> Fidelity:
    measured, replayed = both["jct_s"], both["replayed_s"]
    errors = (replayed - measured).abs() / measured
    p50, p95, most = (float(errors.quantile(share, "linear") or 0.0) for share in (0.5, 0.95, 1.0))
    return Fidelity(float(replayed.sum()) / float(measured.sum()), p50, p95, most)

