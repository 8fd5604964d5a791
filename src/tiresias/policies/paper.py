"""Tiresias' own policies (NSDI'19): discretised 2D-LAS and discretised 2D-Gittins.

A job's queue follows from its attained service (GPUs x seconds of holding them) and a ladder of
thresholds; it changes at the exact instant a threshold is crossed. Jobs that do not fit are skipped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause, JobPromoted, JobSubmitted, RunExited, RunRevoked, RunStarted
from tiresias.core.model import INFINITY, JobId, Pool, Rank
from tiresias.core.plugins import OptionError, Policy, option, policies
from tiresias.core.state import JobState, State
from tiresias.policies.gittins import IndexTable, queue_table, sample, sup_table
from tiresias.policies.gradual import NOBODY, NONE, Transition
from tiresias.policies.ladder import ENOUGH, MOST_SEEN, Histogram, Ladder, auto_ladder, parse_queues
from tiresias.policies.options import PreemptiveOptions, count, factor, one_of, seconds, seconds_or_auto
from tiresias.policies.orders import NEW, ORDERS, STOPPING
from tiresias.policies.preemption_costs import EVERYTHING, Cost, Mean, PreemptionCosts
from tiresias.policies.samples import parse_distribution, parse_table

PREEMPTED, CPUS = ExitCause.PREEMPTED, Pool.CPUS
TOLERANCE_GPU_S = 1e-3  # epoch seconds resolve to 2.4e-7 s: no crossing is missed for that
REFIT_GROWTH = 1.25  # what is learned is fitted anew when so many times as many jobs have ended
WEIGHT = 6.0  # how many times the GPU-seconds count that a preemption wastes
MOST_GANGS = 1000  # submissions after which an older one counts 1/e for the mean size of gangs
COST_CHANGE = 1.5  # factor by which preemptions must cost more or less for ranks to follow

Promotion = tuple[float, float, float]
"""What a job had at its last promotion: (instant, executed seconds, service)."""


class Learned:
    """What ranks follow from. It does not change; what is learned next is another one."""

    __slots__ = ("costs", "ladder", "table", "thresholds")

    def __init__(self, ladder: Ladder, table: IndexTable | None, costs: Mapping[str, Cost]):
        self.ladder = ladder
        self.thresholds = ladder.thresholds
        self.table = table  # None: no index, as in LAS
        self.costs = costs  # of preemptions; empty: they do not count

    def wasted_gpu_s(self, job: JobState) -> float:
        """GPU-seconds in which nobody works if the waiting job takes the place of others, weighted."""
        save_s, load_s = self.costs[EVERYTHING]
        wasted_s = save_s + load_s
        if job.runs:
            stated_s = job.job.preemption_cost_s
            own_s = self.costs.get(job.model, (save_s, load_s))[1]
            wasted_s += own_s if stated_s is None else stated_s
        return WEIGHT * wasted_s * job.gpus

    def save(self) -> dict[str, Any]:
        table = self.table
        return {
            "ladder": list(self.thresholds),
            "learned": self.ladder.learned,
            "table": None if table is None else [list(table.steps), list(table.indices)],
            "costs": dict(self.costs),
        }

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> Learned:
        table = saved["table"]
        return cls(
            Ladder(tuple(saved["ladder"]), saved.get("learned")),
            None if table is None else IndexTable(*table),
            {model: (save_s, load_s) for model, (save_s, load_s) in saved.get("costs", {}).items()},
        )


class Memory:
    """What a Tiresias policy has learned: a serialisable value."""

    __slots__ = ("before", "costs", "gangs", "now", "promoted", "refit_at", "seen", "stopping", "transition")

    def __init__(self, learned: Learned):
        self.now = self.before = learned
        self.transition = Transition()
        self.seen = Histogram()  # service of the jobs that have ended
        self.gangs = Mean()  # GPUs of the jobs that have come
        self.refit_at = 0.0  # how many must have ended for the next fit
        self.costs = PreemptionCosts()
        self.stopping: dict[JobId, float] = {}  # since when runs save that were revoked
        self.promoted: dict[JobId, Promotion] = {}

    def of(self, job: JobState) -> Learned:
        """What the rank of the job follows from at present."""
        return self.now if job.id > self.transition.cursor else self.before


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
    cost: Any = option(
        "auto",
        "seconds that a preemption costs, so that jobs of near ranks do not preempt each other; auto: as "
        "measured; 0: ranks are the paper's",
        seconds_or_auto,
    )
    promote_knob: float = option(
        0.0, "back to the first queue after waiting this many times what it has executed; 0: never", seconds
    )


@policies.register
class TiresiasL(Policy):
    """Discretised 2D-LAS: a few queues by attained service (GPUs x time); needs no knowledge of durations."""

    name = "tiresias-l"
    learns = frozenset({RunExited, f.JobCancelled, f.JobFailed, JobPromoted})
    Options = QueueOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._order = ORDERS[self.options.order]
        self._auto = auto_ladder(self.options.queues)
        self._knob: float = self.options.promote_knob
        self._measures: bool = self.options.cost == "auto"
        self._counts_cost: bool = self.options.cost != 0
        if self._measures:
            self.learns = self.learns | {RunStarted, RunRevoked}
        self._adapts: bool = self._measures or self._auto is not None or self._learns_index()
        if self._adapts:
            self.learns = self.learns | {JobSubmitted}

    def _learns_index(self) -> bool:
        """Whether jobs are ranked by an index that follows from the jobs which have ended."""
        return False

    # --- memory

    def new_memory(self) -> Memory:
        ladder = Ladder(self.options.queues) if self._auto is None else self._auto.fit(Histogram())
        costs = {EVERYTHING: (0.0, 0.0 if self._measures else self.options.cost)}
        return Memory(Learned(ladder, None, costs))

    def expect(self, memory: Memory, preemption_cost_s: float) -> None:
        if self._measures:
            memory.costs.expected_s = preemption_cost_s
            now = memory.now
            memory.now = memory.before = Learned(now.ladder, now.table, memory.costs.costs())

    def begin(self, memory: Memory, state: State) -> None:
        memory.transition.see(max(state.jobs, default=JobId(0)))

    def save(self, memory: Memory) -> dict[str, Any]:
        return {
            "now": memory.now.save(),
            "before": None if memory.before is memory.now else memory.before.save(),
            "transition": memory.transition.save(),
            "seen": sorted(memory.seen.buckets.items()),
            "gangs": [memory.gangs.count, memory.gangs.value],
            "refit_at": memory.refit_at,
            "costs": memory.costs.save(),
            "stopping": sorted(memory.stopping.items()),
            "promoted": [[id, *what] for id, what in sorted(memory.promoted.items())],
        }

    def restore(self, saved: dict[str, Any]) -> Memory:
        if "now" not in saved:  # stored by a version that knew no costs and ranked all jobs at once
            fresh = self.new_memory()
            memory = Memory(Learned.restore({**saved, "costs": fresh.now.costs}))
        else:
            memory = Memory(Learned.restore(saved["now"]))
            if saved["before"] is not None:
                memory.before = Learned.restore(saved["before"])
            memory.transition = Transition(saved["transition"])
            memory.costs = PreemptionCosts.restore(saved["costs"])
            memory.gangs = Mean(*saved["gangs"])
            memory.stopping = {JobId(id): at for id, at in saved["stopping"]}
        memory.seen = Histogram(dict(saved["seen"]))
        memory.refit_at = saved["refit_at"]
        memory.promoted = {JobId(id): (at, ran_s, service) for id, at, ran_s, service in saved["promoted"]}
        return memory

    # --- ranks

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        return self.standing(job, memory, at, False)[0]

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        learned, run = memory.now, job.run
        if memory.before is not learned:
            learned = memory.of(job)
        ladder = learned.thresholds
        if run is None or job.phase is STOPPING or run.pool is CPUS:
            return self._waiting(job, memory, learned, at)
        if self._knob:
            service = self._service(job, memory, at)
        else:
            service = job.service_gpu_s + run.gpus * (at - run.granted_at)
        queue = bisect_right(ladder, service + TOLERANCE_GPU_S)
        since = run.granted_at
        if queue:
            gpus = job.gpus
            above_s = (ladder[queue - 1] - service) / gpus + at - since  # in a higher queue, this run
            if above_s * gpus > TOLERANCE_GPU_S:
                since += above_s
            rank = self._order(job, queue, since, is_due and (at - since) * gpus <= TOLERANCE_GPU_S)
            if rank[1] == NEW:
                return rank, at
        else:
            rank = self._order(job, queue, since, False)
        return rank, at + (ladder[queue] - service) / job.gpus if queue < len(ladder) else INFINITY

    def _waiting(self, job: JobState, memory: Memory, learned: Learned, at: float) -> tuple[Rank, float]:
        """The standing of a job that waits, or runs on CPUs, or whose run saves."""
        ladder = learned.thresholds
        run = job.run
        had = job.service_gpu_s if run is None and not self._knob else self._service(job, memory, at)
        service = had + self._wasted_gpu_s(job, memory, learned)
        queue = bisect_right(ladder, service + TOLERANCE_GPU_S)
        if job.preemptions:
            since, is_new = self._came(job, memory, ladder, queue, had, at)
        else:
            since, is_new = job.submitted_at, True
        rank = self._order(job, queue, since, is_new)
        if run is not None and run.pool is not CPUS:
            return rank, at + (ladder[queue] - service) / job.gpus if queue < len(ladder) else INFINITY
        is_timed = self._knob and queue and had + TOLERANCE_GPU_S >= ladder[0]
        return rank, self._starves_at(job, memory) if is_timed else INFINITY

    def _wasted_gpu_s(self, job: JobState, memory: Memory, learned: Learned) -> float:
        """GPU-seconds by which a job that waits ranks lower, because a preemption for it would waste them."""
        if not self._counts_cost or job.id in memory.promoted:
            return 0.0
        return learned.wasted_gpu_s(job)

    def queue(self, job: JobState, memory: Memory, at: float) -> int:
        service = self._service(job, memory, at) if self._knob else job.service_at(at)
        return bisect_right(memory.of(job).thresholds, service + TOLERANCE_GPU_S)

    def thresholds(self, memory: Memory) -> tuple[float, ...]:
        return memory.now.thresholds

    def learned(self, memory: Memory) -> list[str]:
        if self._auto is None:
            return []
        if memory.seen.count < ENOUGH:
            return [f"The thresholds will be fitted when {ENOUGH} jobs have ended."]
        return ["The thresholds are fitted to the service that the jobs took which have ended."]

    def _service(self, job: JobState, memory: Memory, at: float) -> float:
        """Attained service, since the last promotion if there was one."""
        if self._knob and job.id in memory.promoted:
            return job.service_at(at) - memory.promoted[job.id][2]
        return job.service_at(at)

    def _came(
        self, job: JobState, memory: Memory, ladder: tuple[float, ...], queue: int, had: float, at: float
    ) -> tuple[float, bool]:
        """When a job that waits because it was preempted came to its queue, and whether it has not run there
        since."""
        if not queue:
            since = memory.promoted.get(job.id, (-INFINITY,))[0]
            return since, since >= job.last_preempted_at
        stopped_s = (job.waiting_since if job.gpu_run is None else at) - job.last_preempted_at
        fell_s = (ladder[queue - 1] - had) / job.gpus + stopped_s  # after it was stopped
        if self._counts_cost and fell_s * job.gpus > TOLERANCE_GPU_S:
            fell_s = 0.0  # it is here because it waits
        return job.last_preempted_at + fell_s, fell_s * job.gpus >= -TOLERANCE_GPU_S

    def _starves_at(self, job: JobState, memory: Memory) -> float:
        """When it will have waited knob times as long as it has executed, both since its last promotion."""
        since, executed_s, _ = memory.promoted.get(job.id, (job.submitted_at, 0.0, 0.0))
        return since + (1 + self._knob) * (job.executed_s - executed_s)

    def due(self, job: JobState, memory: Memory, at: float) -> f.Fact | None:
        if self._knob and job.gpu_run is None and self._starves_at(job, memory) <= at:
            return JobPromoted(at, job.id)
        return None

    # --- learning

    def learn(self, memory: Memory, fact: Any, job: JobState | None) -> bool | Sequence[int]:
        assert job is not None
        kind = type(fact)
        if kind is RunStarted:
            run = job.run
            if run is not None and run.pool is not CPUS:
                memory.costs.loaded(job.model, fact.at - run.granted_at, is_first=job.runs == 1)
            return NONE
        if kind is RunExited:
            revoked_at = memory.stopping.pop(job.id, None)
            if revoked_at is not None and fact.cause is PREEMPTED:
                memory.costs.saved(job.model, fact.at - revoked_at)
            if job.ended_at == INFINITY:
                return NONE  # the plan that preempted it must stand: its ranks do not change for that
        elif kind is JobSubmitted:
            memory.transition.see(job.id)
            memory.gangs.add(job.gpus, MOST_GANGS)
        elif kind is RunRevoked:
            if job.gpu_run is not None:
                memory.stopping[job.id] = fact.at
            return NONE
        elif kind is JobPromoted:
            memory.promoted[job.id] = (fact.at, job.executed_s, job.service_gpu_s)
            return NONE
        if job.ended_at != INFINITY:
            memory.promoted.pop(job.id, None)
            if job.first_started_at != INFINITY:  # else it had no service: it has run on CPUs only, or not
                memory.seen.add(job.service_gpu_s)
        return self._go_over(memory) if self._adapts else NONE

    def _go_over(self, memory: Memory) -> range:
        """Fit to what was seen, if it is time; the jobs that are ranked anew for that."""
        if memory.transition.cursor == NOBODY:  # the last one is over
            has_costs = self._measures and memory.costs.is_news
            if not has_costs and memory.seen.count < memory.refit_at:
                return NONE
            learned = self._news(memory)
            if learned is None:
                return NONE
            memory.now = learned
            memory.transition.begin()
        ids = memory.transition.advance()
        if memory.transition.is_over:
            memory.before = memory.now
        return ids

    def _news(self, memory: Memory) -> Learned | None:
        """What ranks should follow from now on; None if that has not changed."""
        now = memory.now
        costs = now.costs
        if self._measures and memory.costs.is_news:
            memory.costs.is_news = False
            is_s, was_s = sum(memory.costs.cost()), sum(costs[EVERYTHING])
            if not was_s / COST_CHANGE - 1 <= is_s <= was_s * COST_CHANGE + 1:
                costs = memory.costs.costs()
        ladder, table = now.ladder, now.table
        if memory.seen.count >= memory.refit_at:
            memory.seen.forget(MOST_SEEN)
            memory.refit_at = max(memory.seen.count + 1, memory.seen.count * REFIT_GROWTH)
            ladder, table = self._refit(memory, costs)
        if ladder == now.ladder and table is now.table and costs is now.costs:
            return None
        return Learned(ladder, table, costs)

    def _refit(self, memory: Memory, costs: Mapping[str, Cost]) -> tuple[Ladder, IndexTable | None]:
        """The ladder and the index for what was seen, and for what preemptions cost."""
        ladder, table = memory.now.ladder, memory.now.table
        if self._auto is not None:
            wasted_gpu_s = sum(costs[EVERYTHING]) * memory.gangs.value
            ladder = self._auto.fit(memory.seen, ladder, wasted_gpu_s)
        return ladder, table


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
        now = memory.now
        if self.options.index == "table":
            memory.now = memory.before = Learned(now.ladder, self.options.table, now.costs)
        elif self.options.distribution != "online":
            table = self._tabulate(*self._given(), now.thresholds)
            memory.now = memory.before = Learned(now.ladder, table, now.costs)
        return memory

    def _learns_index(self) -> bool:
        return bool(self.options.index != "table" and self.options.distribution == "online")

    def _given(self) -> tuple[Any, Any]:
        return sample(self.options.distribution)

    def _tabulate(self, values: Any, weights: Any, ladder: tuple[float, ...]) -> IndexTable:
        is_queue = self.options.index == "queue"
        table = queue_table(values, weights, ladder) if is_queue else sup_table(values, weights)
        return table.coarse(self.options.same_within) if self.options.same_within > 1 else table

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        rank, until = super().standing(job, memory, at, is_due)
        learned = memory.of(job)
        if learned.table is None or rank[0] == len(learned.thresholds):
            return rank, until
        had = self._service(job, memory, at)
        is_running = job.gpu_run is not None and job.phase is not STOPPING
        service = had if is_running else had + self._wasted_gpu_s(job, memory, learned)
        index, next_step = learned.table.at(service + TOLERANCE_GPU_S)
        if service != had:  # an index may rise with service; the cost of a preemption may not raise it
            own, own_step = learned.table.at(had + TOLERANCE_GPU_S)
            index, next_step = min(index, own), min(next_step, service + own_step - had)
        rank = (rank[0], -index, *rank[1:])
        if until > at and job.gpu_run is not None:
            until = min(until, at + (next_step - service) / job.gpus)
        return rank, until

    def _refit(self, memory: Memory, costs: Mapping[str, Cost]) -> tuple[Ladder, IndexTable | None]:
        ladder, table = super()._refit(memory, costs)
        if self.options.index == "table" or memory.seen.count < self.options.learn_after:
            return ladder, table
        if self.options.distribution == "online":
            table = self._tabulate(*sample(*memory.seen.sample()), ladder.thresholds)
        elif ladder != memory.now.ladder and self.options.index == "queue":
            table = self._tabulate(*self._given(), ladder.thresholds)
        return ladder, table
