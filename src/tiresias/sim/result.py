"""Records what happens in a simulation, and holds the result."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tiresias.core.model import INFINITY, Cluster, JobId, Phase
from tiresias.core.state import JobState, State
from tiresias.sim import fairness
from tiresias.sim.fabric import OFF
from tiresias.sim.failures import Tally
from tiresias.sim.fairness import Contention
from tiresias.sim.tenants import Shares
from tiresias.sim.world import OnCPUs, Spent

TIMELINE_ROWS = 1 << 20  # beyond this every second row is dropped


class Recorder:
    """Collects one row per ended job and one row per change of the cluster's use; `spent` is the World's."""

    def __init__(self, spent: dict[JobId, Spent]) -> None:
        self._spent = spent
        self.rows = array("q")  # index of the job in the trace
        self.counts = array("q")  # COUNTS of each job, one after the other
        self.times = array("d")  # TIMES of each job, one after the other
        self.at = array("d")
        self.use = array("q")  # busy GPUs, running jobs, waiting jobs, one after the other
        self._latest: tuple[float, tuple[int, ...]] = (-INFINITY, (0, 0, 0))  # the last that was skipped
        self._stride = 1
        self.failed = 0  # jobs that ended as failed
        self.resizes = 0  # runs of finished jobs that had another number of GPUs than the run before

    def end(self, job: JobState) -> None:
        if job.phase is Phase.FAILED:
            self.failed += 1
            self._spent.pop(job.id, None)  # a job that failed in its preflight has no runs
            return
        self.rows.append(job.id)
        spent = self._spent.pop(job.id)
        self.resizes += spent.resizes
        self.counts.extend((job.runs, job.preemptions, spent.moved_resumes))
        self.times.extend(
            (
                spent.first_started_at,
                job.ended_at,
                job.executed_s,
                job.service_gpu_s,
                spent.lost_s,
                spent.node_s,
                job.fragmented_s,
            )
        )

    def watch(self, state: State) -> Callable[[float], None]:
        """A function that stores the cluster's use at an instant; of calls at one instant the last counts."""
        ledger, runs, jobs = state.ledger, state.runs, state.jobs
        gpus = ledger.gpus
        free = active = running = 0
        stored_at, skipped = -INFINITY, 0
        ats, add_at, add_use = self.at, self.at.append, self.use.extend

        def store(at: float) -> None:
            nonlocal free, active, running, stored_at, skipped
            if ledger.free == free and len(jobs) == active and len(runs) == running:
                return
            free, active, running = ledger.free, len(jobs), len(runs)
            if at == stored_at:
                del self.use[-3:]
            elif skipped:
                skipped -= 1
                self._latest = (at, (gpus - free, running, active - running))
                return
            else:
                stored_at, skipped = at, self._stride - 1
                add_at(at)
            add_use((gpus - free, running, active - running))
            if len(ats) >= TIMELINE_ROWS:
                self._thin()
                stored_at, skipped = ats[-1], self._stride - 1

        return store

    def _thin(self) -> None:
        """Keep every second row, and store every second one from now on."""
        self._latest = (self.at[-1], tuple(self.use[-3:]))
        del self.at[1::2]
        kept = array("q")
        for row in range(0, len(self.use), 6):
            kept.extend(self.use[row : row + 3])
        self.use[:] = kept
        self._stride *= 2

    def jobs(self, trace: pl.DataFrame) -> pl.DataFrame:
        """One row per finished job, in the order of the trace."""
        rows = np.frombuffer(self.rows, dtype=np.int64)
        order = np.argsort(rows)
        submitted = trace.select("id", "gpus", "submitted_at", "duration_s", "user", "tenant", "model")
        joined = submitted if len(rows) == len(trace) else submitted[rows[order]]
        joined = joined.with_columns(
            *_interleaved(self.counts, COUNTS, np.int64, order),
            *_interleaved(self.times, TIMES, np.float64, order),
        )
        jct_s = pl.col("finished_at") - pl.col("submitted_at")
        joined = joined.with_columns(jct_s=jct_s)
        worked_s = pl.col("executed_s") - pl.col("lost_s")
        joined = joined.with_columns(
            wait_s=(pl.col("jct_s") - pl.col("executed_s")).clip(lower_bound=0.0),
            nodes=pl.col("node_s") / pl.col("executed_s"),
            # Rounded because sums of seconds in different orders differ in their last digits.
            slowdown=(worked_s / pl.col("duration_s")).round(6).clip(lower_bound=1.0),
        )
        return joined.select(JOB_COLUMNS)

    def timeline(self) -> pl.DataFrame:
        """The use of the cluster at each instant that changed it; thinned if long, but with its last row."""
        at, use = self._latest
        if self.at and self.at[-1] < at:
            self.at.append(at)
            self.use.extend(use)
        return pl.DataFrame(
            {
                "at": pl.Series(self.at, dtype=pl.Float64),
                "busy_gpus": pl.Series(self.use[0::3], dtype=pl.Int64),
                "running": pl.Series(self.use[1::3], dtype=pl.Int64),
                "waiting": pl.Series(self.use[2::3], dtype=pl.Int64),
            }
        )


COUNTS = ("runs", "preemptions", "moved_resumes")
TIMES = (
    "first_started_at",
    "finished_at",
    "executed_s",
    "service_gpu_s",
    "lost_s",
    "node_s",  # nodes x seconds
    "fragmented_s",
)


def _interleaved(values: array[Any], names: tuple[str, ...], kind: Any, order: Any) -> Iterator[pl.Series]:
    """The columns of an array that holds the values of one row after the other, in another order of rows."""
    table = np.frombuffer(values, dtype=kind).reshape(-1, len(names))
    for number, name in enumerate(names):
        yield pl.Series(name, table[order, number])


JOB_COLUMNS = [
    "id",
    "gpus",
    "submitted_at",
    "first_started_at",
    "finished_at",
    "jct_s",
    "wait_s",
    "runs",
    "preemptions",
    "service_gpu_s",
    "nodes",
    "slowdown",
    "fragmented_s",
    "moved_resumes",
    "duration_s",
    "user",
    "tenant",
    "model",
]


@dataclass(slots=True, repr=False)
class Result:
    """What was measured of one policy on one trace on one cluster; the reference is results.md."""

    policy: str
    placer: str
    options: dict[str, Any]
    cluster: Cluster
    preemption_cost_s: float
    trace_name: str
    jobs: pl.DataFrame
    timeline: pl.DataFrame
    rejected_jobs: int
    events: int
    wall_s: float
    lost_gpu_s: float
    progress_gpu_s: float  # GPU-seconds of progress on GPUs, unfinished jobs included
    migrations: int = 0  # runs that were stopped to make a hole for another gang
    resizes: int | None = None  # None: no job of the trace is elastic
    interrupted: bool = False
    unfinished_jobs: int = 0  # neither ended nor rejected: interrupted, or refused by the placer
    simulated_s: float = 0.0  # from the first submission to the last instant simulated
    notes: list[str] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)  # sentences that say why jobs were rejected
    network: str = OFF  # its name, or `none`: the allocation of a run does not affect its speed
    models: str = ""  # where the models of the jobs are from; empty: models were not needed
    on_cpus: OnCPUs | None = None  # None: no node offers CPUs
    contention: Contention | None = None  # what the jobs competed with; None: fairness is not measured
    shares: Shares | None = None  # of the tenants
    failures: Tally | None = None  # None: nothing was made to fail

    def __repr__(self) -> str:
        """One line: what was simulated, and the average JCT."""
        jct_s: Any = self.jobs["jct_s"].mean()
        jct = "nothing finished" if jct_s is None else f"average JCT {jct_s:,.0f} s"
        return (
            f"<Result: {self.policy} on {self.cluster.gpus} GPUs, {self.placer}, {self.trace_name}: "
            f"{self.jobs.height:,} jobs, {jct}>"
        )

    def plot(self) -> Any:
        """The distribution of JCT as a Matplotlib figure, which a notebook shows."""
        from tiresias.sim.plots import jct_cdf

        return jct_cdf([self])[0]

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        from tiresias.sim.notebook import table

        return table([self])

    def summary(self) -> dict[str, Any]:
        """The figures of `--json`, in its order; None where nothing finished."""
        jobs = self.jobs
        jct, wait = jobs["jct_s"], jobs["wait_s"]
        makespan_s = None
        if jobs.height:
            makespan_s = float(jobs["finished_at"].max() - jobs["submitted_at"].min())  # type: ignore[operator,arg-type]
        gpus = self.cluster.gpus
        span_s = self.simulated_s if self.unfinished_jobs else makespan_s
        speed = sum(node.gpus * node.speed for node in self.cluster.nodes)  # of all GPUs
        used = self.progress_gpu_s / (speed * span_s) if span_s else None
        return {
            "policy": self.policy,
            "placer": self.placer,
            "network": self.network,
            "models": self.models,
            "jobs": jobs.height,
            "rejected_jobs": self.rejected_jobs,
            "gpus": gpus,
            "avg_jct_s": jct.mean(),
            "p50_jct_s": jct.quantile(0.5, "linear"),
            "p95_jct_s": jct.quantile(0.95, "linear"),
            "p99_jct_s": jct.quantile(0.99, "linear"),
            "max_jct_s": jct.max(),
            "avg_wait_s": wait.mean(),
            "p95_wait_s": wait.quantile(0.95, "linear"),
            "makespan_s": makespan_s,
            "preemptions": int(jobs["preemptions"].sum()),
            "lost_gpu_s": self.lost_gpu_s,
            "gpu_utilization": used,
            **self._placement(),
            **({} if self.resizes is None else {"resizes": self.resizes}),
            **({} if self.failures is None else self.failures.figures()),
            **self._cpu_figures(),
            **self._fairness(),
            "events": self.events,
            "wall_s": self.wall_s,
        }

    def rho(self) -> pl.DataFrame:
        """The finished jobs with `apps`, `rho` and `paper_rho`, their finish-time fairness."""
        assert self.contention is not None, "this result was made without the jobs of its trace"
        return fairness.with_rho(self.jobs, self.contention)

    def _fairness(self) -> dict[str, Any]:
        """Figures of fairness, which are the same for every policy as far as they are about the trace."""
        if self.contention is None or self.shares is None:
            return {}
        return fairness.figures(self.jobs, self.contention, self.shares)

    def _cpu_figures(self) -> dict[str, Any]:
        """Figures of runs on CPUs, if there are nodes that offer them."""
        if self.on_cpus is None:
            return {}
        work = self.progress_gpu_s + self.on_cpus.work_gpu_s
        return {
            "cpu_slots": sum(node.cpu_slots for node in self.cluster.nodes),
            "cpu_runs": self.on_cpus.runs,
            "cpu_jobs": self.on_cpus.jobs,
            "cpu_work": self.on_cpus.work_gpu_s / work if work else None,
        }

    def _placement(self) -> dict[str, Any]:
        """Figures of placement; slowdowns are means over jobs of several GPUs, which can be spread."""
        jobs = self.jobs
        gangs = jobs.filter(pl.col("gpus") > 1)
        work = (gangs["duration_s"] * gangs["gpus"]).to_numpy()
        slowdowns = gangs["slowdown"].to_numpy()
        return {
            "avg_slowdown": gangs["slowdown"].mean(),
            "work_slowdown": float(slowdowns @ work / work.sum()) if gangs.height else None,
            "avg_nodes_per_job": jobs.filter(pl.col("gpus") > 0)["nodes"].mean(),
            "fragmentation_wait_s": float(jobs["fragmented_s"].sum()),
            "migrations": self.migrations,
            "moved_resumes": int(jobs["moved_resumes"].sum()),
        }
