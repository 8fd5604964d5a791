"""Replays the history of a manager under other policies, with the same jobs on the same GPUs.

Rules: only jobs that have ended and have held GPUs are replayed, failed and cancelled ones included. Each is
submitted when it could first have run, and runs for as long as it held GPUs, less what interruptions cost.
The cost of a preemption in the replay is measured: the mean of the job itself if it was ever interrupted,
otherwise the mean of all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tiresias.core.model import Cluster
from tiresias.core.plugin_failures import blame
from tiresias.core.plugins import Placer, policies
from tiresias.sim.frames import from_frame
from tiresias.sim.result import Result
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace

SHORTEST_S = 1e-3  # the duration of a job whose work was all lost
MEASURED, STARTS, GIVEN = "measured", "starts", "given"

Progress = Callable[[int, int, int, float], None]
"""Called with (number of the policy, jobs done, jobs in all, virtual instant) a few times per second."""


@dataclass(slots=True, frozen=True)
class Cost:
    """What one preemption costs in seconds; `basis` and `count` say what the figure rests on.

    `measured`: the mean of `count` interruptions. `starts`: no job was interrupted, so it is the mean time
    that `count` first runs took to start up. `given`: the user stated it.
    """

    seconds: float
    basis: str
    count: int = 0


@dataclass(slots=True)
class Past:
    """Jobs that have ended, as a trace, and what was measured of them."""

    trace: Trace
    measured: pl.DataFrame  # id, user, submitted_at, finished_at, jct_s, wait_s, preemptions
    cost: Cost
    never_ran: int  # jobs left out because they never held a GPU
    earlier: int  # jobs left out because they were submitted before `since_at`


@dataclass(slots=True, frozen=True)
class Choice:
    """A policy and its options."""

    policy: str
    options: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Figures:
    """Figures over all jobs; the JCT of a job is counted from when it could first have run."""

    avg_jct_s: float
    p50_jct_s: float
    p95_jct_s: float
    makespan_s: float
    preemptions: int


@dataclass(slots=True, frozen=True)
class Replayed:
    """The figures of a replay under one policy."""

    policy: str
    options: dict[str, Any]
    is_in_use: bool
    figures: Figures


@dataclass(slots=True, frozen=True)
class Fidelity:
    """How much a replay under the policy in use differs from what was measured."""

    avg_jct_ratio: float  # replayed average JCT / measured average JCT
    error_p50: float  # of the error of a job's JCT, as a share of the measured JCT
    error_p95: float
    error_max: float


@dataclass(slots=True, frozen=True)
class Replay:
    """What was measured, what each policy would have given, and how faithful the replay is."""

    measured: Figures
    replayed: list[Replayed]
    fidelity: Fidelity
    rejected: int  # jobs left out because they are larger than the cluster
    failed: dict[str, str] = field(default_factory=dict)  # other policies that raised, and what


def past_of(
    rows: Iterable[Mapping[str, Any]], *, since_at: float = 0.0, preemption_cost_s: float | None = None
) -> Past | None:
    """The past from rows of a manager's history; None if no job can be replayed."""
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
        "resumable": [False if row.get("resumable") is False else None for row in used],
    }
    trace = from_frame(pl.DataFrame(jobs, strict=False), "history")
    ends = pl.DataFrame(
        {name: [row[name] for row in used] for name in ("user", "finished_at", "preemptions")}
        | {"executed_s": [float(row["executed_s"]) for row in used]}
    )
    measured = trace.jobs.select("id", "submitted_at").hstack(ends)
    measured = measured.with_columns(jct_s=pl.col("finished_at") - pl.col("submitted_at"))
    wait_s = (pl.col("jct_s") - pl.col("executed_s")).clip(lower_bound=0.0)
    measured = measured.with_columns(wait_s=wait_s).drop("executed_s")
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
) -> Replay:
    """Replay under the policy in use first, then under the others; KeyboardInterrupt if it is interrupted.

    If one of the others raises, the results of the rest are not lost.
    """
    results, found, failed = [], [], {}
    for number, choice in enumerate((in_use, *others)):
        try:
            result = replayed(
                past,
                cluster,
                choice,
                placer=placer,
                progress=None if progress is None else _numbered(progress, number),
            )
        except Exception as error:  # code of a plug-in may raise anything
            failure = blame(error, policies.make(choice.policy, choice.options))
            if number == 0 or failure is None:
                raise
            failed[choice.policy] = str(failure)
            continue
        results.append(result)
        found.append(Replayed(result.policy, dict(choice.options), number == 0, figures(result.jobs)))
    in_use_jcts = results[0].jobs.select("id", replayed_s="jct_s")
    both = past.measured.join(in_use_jcts, on="id", maintain_order="left")
    return Replay(figures(both), found, fidelity(both), results[0].rejected_jobs, failed)


def replayed(
    past: Past,
    cluster: Cluster,
    choice: Choice,
    *,
    placer: Placer,
    progress: Callable[[int, int, float], None] | None = None,
) -> Result:
    """The past under one policy; KeyboardInterrupt if it is interrupted."""
    result = simulate(
        past.trace,
        cluster,
        choice.policy,
        options=choice.options,
        placer=placer,
        preemption_cost_s=past.cost.seconds,
        progress=progress,
        may_lack_tenants=True,  # a tenant that the home's options name may not have submitted anything yet
    )
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _numbered(progress: Progress, number: int) -> Callable[[int, int, float], None]:
    return lambda done, total, at: progress(number, done, total, at)


def figures(jobs: pl.DataFrame) -> Figures:
    """The figures of a table of measured or replayed jobs."""
    jct = jobs["jct_s"]
    median, p95 = (float(jct.quantile(share, "linear") or 0.0) for share in (0.5, 0.95))
    makespan_s = float(jobs["finished_at"].max() - jobs["submitted_at"].min())  # type: ignore[operator,arg-type]
    mean = float(jct.mean())  # type: ignore[arg-type]
    return Figures(mean, median, p95, makespan_s, int(jobs["preemptions"].sum()))


def fidelity(both: pl.DataFrame) -> Fidelity:
    """From a table of jobs with `jct_s`, as measured, and `replayed_s`."""
    measured, again = both["jct_s"], both["replayed_s"]
    errors = (again - measured).abs() / measured
    p50, p95, most = (float(errors.quantile(share, "linear") or 0.0) for share in (0.5, 0.95, 1.0))
    return Fidelity(float(again.sum()) / float(measured.sum()), p50, p95, most)
