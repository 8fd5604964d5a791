"""Tiresias' own policies (NSDI'19): discretised 2D-LAS and discretised 2D-Gittins.

A job's queue follows from its attained service (GPUs x seconds of holding them) and a ladder of
thresholds; it changes at the exact instant a threshold is crossed. Jobs that do not fit are skipped.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, JobId, Pool, Rank
from tiresias.core.plugins import OptionError, Policy, option, policies
from tiresias.core.state import JobState
from tiresias.policies.gittins import IndexTable, queue_table, sample, sup_table
from tiresias.policies.ladder import ENOUGH, Histogram, auto_ladder, parse_queues
from tiresias.policies.options import PreemptiveOptions, count, factor, one_of, seconds
from tiresias.policies.orders import NEW, ORDERS, STOPPING
from tiresias.policies.samples import parse_distribution, parse_table

FINISHED, CPUS = ExitCause.FINISHED, Pool.CPUS
TOLERANCE_GPU_S = 1e-3  # epoch seconds resolve to 2.4e-7 s: no crossing is missed for that
REFIT_GROWTH = 1.25  # what is learned is fitted anew when so many times as many jobs have ended

Promotion = tuple[float, float, float]
"""What a job had at its last promotion: (instant, executed seconds, service)."""


class Memory:
    """What a Tiresias policy has learned: a serialisable value."""

    __slots__ = ("ladder", "promoted", "refit_at", "seen", "table")

    def __init__(self, ladder: tuple[float, ...], table: IndexTable | None = None):
        self.ladder = ladder
        self.table = table  # None: no index, as in LAS
        self.seen = Histogram()  # service of the jobs that have ended
        self.refit_at = 1  # how many must have ended for the next fit
        self.promoted: dict[JobId, Promotion] = {}


@dataclass(slots=True)
class QueueOptions(PreemptiveOptions):
    queues: Any = option(
        "auto",
        "thresholds between queues in GPU-seconds, rising (3250,7200), or auto, or auto:SHARE:RATIO",
        parse_queues,
    )
    order: str = option(
        "last-preempted-first",
        "inside a queue: first-start (the paper), running-first, last-preempted-first (its authors' code)",
        one_of(*ORDERS),
    )
    promote_knob: float = option(
        0.0, "back to the first queue after waiting this many times what it has executed; 0: never", seconds
    )


@policies.register
class TiresiasL(Policy):
    """Discretised 2D-LAS: a few queues by attained service (GPUs x time); needs no knowledge of durations."""

    name = "tiresias-l"
    learns = frozenset({f.RunExited, f.JobCancelled, f.JobFailed, f.JobPromoted})
    Options = QueueOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._order = ORDERS[self.options.order]
        self._auto = auto_ladder(self.options.queues)
        self._knob: float = self.options.promote_knob

    def new_memory(self) -> Memory:
        return Memory(self._auto.fit(Histogram()) if self._auto is not None else self.options.queues)

    def save(self, memory: Memory) -> dict[str, Any]:
        table = memory.table
        return {
            "ladder": list(memory.ladder),
            "table": None if table is None else [list(table.steps), list(table.indices)],
            "seen": sorted(memory.seen.buckets.items()),
            "refit_at": memory.refit_at,
            "promoted": [[id, *what] for id, what in sorted(memory.promoted.items())],
        }

    def restore(self, saved: dict[str, Any]) -> Memory:
        table = saved["table"]
        memory = Memory(tuple(saved["ladder"]), None if table is None else IndexTable(*table))
        memory.seen = Histogram(dict(saved["seen"]))
        memory.refit_at = saved["refit_at"]
        memory.promoted = {JobId(id): (at, ran_s, service) for id, at, ran_s, service in saved["promoted"]}
        return memory

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        return self.standing(job, memory, at, False)[0]

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        run = job.run
        waits = run is None or run.pool is CPUS
        if self._knob:
            service = self._service(job, memory, at)
        else:
            service = job.service_gpu_s if waits else job.service_at(at)
        ladder = memory.ladder
        queue = bisect_right(ladder, service + TOLERANCE_GPU_S)
        if run is None or waits:
            rank = self._order(job, queue, *self._came(job, memory, queue, service, at))
            return rank, self._starves_at(job, memory) if self._knob and queue else INFINITY
        if job.phase is STOPPING:
            rank = self._order(job, queue, *self._came(job, memory, queue, service, at))
        else:
            since = run.granted_at
            if queue:
                above_s = (ladder[queue - 1] - service) / job.gpus + at - since  # in a higher queue, this run
                if above_s * job.gpus > TOLERANCE_GPU_S:
                    since += above_s
            is_entering = queue > 0 and is_due and (at - since) * job.gpus <= TOLERANCE_GPU_S
            rank = self._order(job, queue, since, is_entering)
            if rank[1] == NEW:
                return rank, at
        if queue == len(ladder):
            return rank, INFINITY
        return rank, at + (ladder[queue] - service) / job.gpus

    def queue(self, job: JobState, memory: Memory, at: float) -> int:
        return bisect_right(memory.ladder, self._service(job, memory, at) + TOLERANCE_GPU_S)

    def learned(self, memory: Memory) -> list[str]:
        if self._auto is None:
            return []
        ended = f"{memory.seen.count:,} ended {'job' if memory.seen.count == 1 else 'jobs'}"
        if memory.seen.count < ENOUGH:
            return [f"The thresholds will be fitted when {ENOUGH} jobs have ended; so far there are {ended}."]
        return [f"The thresholds are fitted to the service that {ended} took."]

    def _service(self, job: JobState, memory: Memory, at: float) -> float:
        """Attained service, since the last promotion if there was one."""
        if self._knob and job.id in memory.promoted:
            return job.service_at(at) - memory.promoted[job.id][2]
        return job.service_at(at)

    def _came(
        self, job: JobState, memory: Memory, queue: int, service: float, at: float
    ) -> tuple[float, bool]:
        """When a waiting job came to its queue, and whether it has not run there since."""
        if not job.preemptions:
            return job.submitted_at, True
        if not queue:
            since = memory.promoted.get(job.id, (-INFINITY,))[0]
            return since, since >= job.last_preempted_at
        stopped_s = (job.waiting_since if job.gpu_run is None else at) - job.last_preempted_at
        fell_s = (memory.ladder[queue - 1] - service) / job.gpus + stopped_s  # after it was stopped
        return job.last_preempted_at + fell_s, fell_s * job.gpus >= -TOLERANCE_GPU_S

    def _starves_at(self, job: JobState, memory: Memory) -> float:
        """When it will have waited knob times as long as it has executed, both since its last promotion."""
        since, executed_s, _ = memory.promoted.get(job.id, (job.submitted_at, 0.0, 0.0))
        return since + (1 + self._knob) * (job.executed_s - executed_s)

    def due(self, job: JobState, memory: Memory, at: float) -> f.Fact | None:
        if self._knob and job.gpu_run is None and self._starves_at(job, memory) <= at:
            return f.JobPromoted(at, job.id)
        return None

    def learn(self, memory: Memory, fact: Any, job: JobState | None) -> bool:
        assert job is not None
        if type(fact) is f.JobPromoted:
            memory.promoted[job.id] = (fact.at, job.executed_s, job.service_gpu_s)
            return False
        if job.ended_at != INFINITY:
            memory.promoted.pop(job.id, None)
        if type(fact) is not f.RunExited or fact.cause is not FINISHED:
            return False
        if job.first_started_at == INFINITY:
            return False  # it has run on CPUs only, which is no service
        memory.seen.add(job.service_gpu_s)
        if memory.seen.count < memory.refit_at:
            return False
        memory.refit_at = max(memory.seen.count + 1, int(memory.seen.count * REFIT_GROWTH))
        return self._refit(memory)

    def _refit(self, memory: Memory) -> bool:
        """Fit to what was seen; True if ranks may have changed."""
        if self._auto is None:
            return False
        before, memory.ladder = memory.ladder, self._auto.fit(memory.seen, memory.ladder)
        return memory.ladder != before


@dataclass(slots=True)
class GittinsOptions(QueueOptions):
    index: str = option(
        "queue",
        "queue (quantum = the queue's upper limit), sup (the printed formula), or table (see table)",
        one_of("sup", "queue", "table"),
    )
    table: Any = option(
        None, "the index by attained service, as service:index pairs (0:.25,1:.28) or @FILE", parse_table
    )
    distribution: Any = option(
        "online", "GPU-seconds of past jobs (numbers or @FILE), or online: as jobs end", parse_distribution
    )
    same_within: float = option(
        3.0, "indices are rounded to powers of this: near ones do not preempt each other; 1: exact", factor
    )
    learn_after: int = option(100, "jobs that must end before an online index is used; LAS until then", count)


@policies.register
class TiresiasG(TiresiasL):
    """Discretised 2D-Gittins: queues as in 2D-LAS, each but the last sorted by the Gittins index."""

    name = "tiresias-g"
    Options = GittinsOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        if (self.options.index == "table") != (self.options.table is not None):
            raise OptionError("tiresias-g: index=table and table=… go together")

    def new_memory(self) -> Memory:
        memory = super().new_memory()
        if self.options.index == "table":
            memory.table = self.options.table
        elif self.options.distribution != "online":
            memory.table = self._tabulate(*self._given(), memory.ladder)
        return memory

    def _given(self) -> tuple[Any, Any]:
        return sample(self.options.distribution)

    def _tabulate(self, values: Any, weights: Any, ladder: tuple[float, ...]) -> IndexTable:
        is_queue = self.options.index == "queue"
        table = queue_table(values, weights, ladder) if is_queue else sup_table(values, weights)
        return table.coarse(self.options.same_within) if self.options.same_within > 1 else table

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        rank, until = super().standing(job, memory, at, is_due)
        if memory.table is None or rank[0] == len(memory.ladder):
            return rank, until
        service = self._service(job, memory, at)
        index, next_step = memory.table.at(service + TOLERANCE_GPU_S)
        rank = (rank[0], -index, *rank[1:])
        if until > at and job.gpu_run is not None:
            until = min(until, at + (next_step - service) / job.gpus)
        return rank, until

    def _refit(self, memory: Memory) -> bool:
        changed = super()._refit(memory)
        if self.options.index == "table" or memory.seen.count < self.options.learn_after:
            return changed
        if self.options.distribution == "online":
            memory.table = self._tabulate(*sample(*memory.seen.sample()), memory.ladder)
            return True
        if changed and self.options.index == "queue":
            memory.table = self._tabulate(*self._given(), memory.ladder)
        return changed
