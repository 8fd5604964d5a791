"""`tiresias`: Tiresias that learns which jobs tend to end soon, and what a preemption costs.

What is known of a job before it ends is whose it is, how many GPUs it wants, perhaps its name, and how long
it has worked. From the jobs that came before, and from how far the running ones have got, follow hazards: how
likely a job of its class is to end in each step of work (classes.py, hazards.py). A job's rank is the Gittins
index of these hazards (switching.py), divided by its GPUs: the ends per GPU-second that it offers.

Preemption is not free. The index of a waiting job counts the seconds in which nobody works if it takes the
place of another one: its own loading, if it has run before, and what its victim will need to save and to load
again. A running job's index counts `stay` times. All seconds are measured (preemption_costs.py). Where jobs
would not wait for long anyway, a preemption saves little: waiting jobs are ranked further behind (load.py).

When ranks change. A rank follows from the step of work, whether the job runs, and the hazards and costs that
were published last. Publishing happens when `growth` times as many jobs have ended, or when preemptions cost
something else. It would change every rank at once, so it is spread: with each fact, the next SLICE jobs, by
falling id, go over from the tables before to the tables now. How far that is, is part of the memory, so that
a manager which restarts in between decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, JobId, Phase, Pool, Rank
from tiresias.core.plugins import Policy, compact_json, option, policies
from tiresias.core.state import JobState, State
from tiresias.policies.classes import Classes, Key, best_known, chain, size_of
from tiresias.policies.hazards import EDGES, PRIOR, STEPS, Rates, step_of
from tiresias.policies.load import Load
from tiresias.policies.options import PreemptiveOptions, factor, seconds, share
from tiresias.policies.preemption_costs import EVERYTHING, Cost, PreemptionCosts
from tiresias.policies.switching import log_index

STOPPING, CPUS = Phase.STOPPING, Pool.CPUS
PREEMPTED = ExitCause.PREEMPTED
PROMOTED, ORDINARY = 0, 1
NONE = range(0)
BLINK_S = 1e-6
SLICE = 512  # ids that go over to new tables with one fact
FIRST_REFIT = 5  # jobs that must have ended before hazards are published
COST_CHANGE = 1.5  # factor by which preemptions must cost more or less for a new publication
FLOOR_S = 600.0  # jobs that have executed for less count as this for max_slowdown
EASE = 2.0  # a promoted job stays promoted until it is so many times below max_slowdown
AGAIN_S = 300.0  # after which a promotion that the budget refused is tried again
NOBODY = JobId(-1)
Table = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""By step of work, the part of the rank that is common to a class: of jobs that run, of jobs that wait and
have run before, and of jobs that have not."""


class Published:
    """Hazards and costs that ranks follow from; the tables are worked out when they are needed."""

    __slots__ = ("_by_job", "_tables", "_text", "costs", "rates")

    def __init__(self, rates: dict[Key, Rates], costs: dict[str, Cost]):
        self.rates = rates
        self.costs = costs
        self._tables: dict[tuple[Key, float, float], Table] = {}
        self._by_job: dict[tuple[Any, ...], Table] = {}
        self._text = ""

    def save(self) -> list[Any]:
        return [[[list(key), list(rates)] for key, rates in self.rates.items()], self.costs]

    def saved_text(self) -> str:
        """What `save` gives, as JSON; what was published does not change."""
        self._text = self._text or compact_json(self.save())
        return self._text

    @classmethod
    def restore(cls, saved: Sequence[Any]) -> Published:
        rates, costs = saved
        return cls(
            {tuple(key): tuple(values) for key, values in rates},
            {model: (save_s, load_s) for model, (save_s, load_s) in costs.items()},
        )

    def table(self, job: JobState, log_stay: float) -> Table:
        of = job.job
        key = (of.tenant, of.user, of.name, job.gpus, of.model, of.preemption_cost_s)
        table = self._by_job.get(key)
        if table is None:
            known = best_known(chain(of.tenant, of.user, of.name, size_of(job.gpus)), self.rates)
            load_s, victim_s = self.switching_s(job)
            table = self._by_job[key] = self._table(known, load_s, victim_s, log_stay)
        return table

    def switching_s(self, job: JobState) -> Cost:
        """Seconds for which nobody works if the job takes another one's place: its own, and its victim's."""
        save_s, load_s = self.costs[EVERYTHING]
        stated_s = job.job.preemption_cost_s
        own_s = self.costs.get(job.job.model, (save_s, load_s))[1]
        if stated_s is not None and save_s + load_s > 0:
            own_s = stated_s
        return own_s, save_s + load_s

    def _table(self, key: Key, load_s: float, victim_s: float, log_stay: float) -> Table:
        known = (key, load_s, victim_s)
        table = self._tables.get(known)
        if table is None:
            rates = self.rates.get(key, PRIOR)
            runs = tuple([-index - log_stay for index in log_index(rates, 0.0)])
            resumes = tuple([-index for index in log_index(rates, load_s + victim_s)])
            starts = tuple([-index for index in log_index(rates, victim_s)])
            table = self._tables[known] = (runs, resumes, starts)
        return table


class Memory:
    """What the policy has learned: a serialisable value."""

    def __init__(self) -> None:
        self.classes = Classes()
        self.costs = PreemptionCosts()
        self.load = Load()
        self.now = self.before = Published({}, {EVERYTHING: (0.0, 0.0)})
        self.last_id = NOBODY  # the highest id of any job
        self.cursor = NOBODY  # jobs up to this id are still ranked by `before`
        self.refit_at = FIRST_REFIT  # how many jobs must have ended for the next publication
        self.stopping: dict[JobId, float] = {}  # since when runs save that were revoked
        self.promoted: dict[JobId, int] = {}  # jobs that starved, and their GPUs


@policies.register
class Tiresias(Policy):
    """Learns which jobs tend to end soon, and what preemptions cost; runs first what may end soonest."""

    name = "tiresias"
    by_work = True
    learns = frozenset(
        {
            f.JobSubmitted,
            f.JobPromoted,
            f.JobCancelled,
            f.JobFailed,
            f.JobHeld,
            f.JobReleased,
            f.JobRequeued,
            f.JobDeferred,
            f.JobCleared,
            f.RunGranted,
            f.RunStarted,
            f.RunProgressed,
            f.RunRevoked,
            f.RunExited,
        }
    )

    @dataclass(slots=True)
    class Options(PreemptiveOptions):
        stay: float = option(2.0, "how many times the index of a running job counts", factor)
        growth: float = option(1.05, "learns anew when so many times as many jobs have ended", factor)
        max_slowdown: float = option(
            0.0, "promote jobs whose JCT nears so many times what they have executed; 0: never", seconds
        )
        budget: float = option(0.3, "share of the GPUs that promoted jobs may have together", share)

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._log_stay = log(self.options.stay)
        self._max_slowdown: float = self.options.max_slowdown

    # --- memory

    def new_memory(self) -> Memory:
        return Memory()

    def expect(self, memory: Memory, preemption_cost_s: float) -> None:
        memory.costs.expected_s = preemption_cost_s
        memory.now = memory.before = Published(memory.now.rates, memory.costs.costs())

    def begin(self, memory: Memory, state: State) -> None:
        """Take over jobs that another policy has ranked so far, and find out which ones wait."""
        jobs = [job for job in state.jobs.values() if job.gpus]  # `learn` sees no others either
        memory.last_id = max(memory.last_id, max((job.id for job in jobs), default=NOBODY))
        for job in jobs:
            run = job.gpu_run
            if run is not None and run.speed and job.id not in memory.classes.open:
                memory.classes.works(job)
        memory.load.begin(jobs)

    def save(self, memory: Memory) -> dict[str, Any]:
        return {
            "classes": memory.classes.save(),
            "now": memory.now.save(),
            "before": None if memory.before is memory.now else memory.before.save(),
            **self._saved_rest(memory),
        }

    def saved_text(self, memory: Memory) -> str:
        before = "null" if memory.before is memory.now else memory.before.saved_text()
        return (
            f'{{"classes":{memory.classes.saved_text()},"now":{memory.now.saved_text()},"before":{before},'
            f"{compact_json(self._saved_rest(memory))[1:]}"
        )

    def _saved_rest(self, memory: Memory) -> dict[str, Any]:
        """The small parts, which change often."""
        return {
            "costs": memory.costs.save(),
            "load": memory.load.save(),
            "last_id": memory.last_id,
            "cursor": memory.cursor,
            "refit_at": memory.refit_at,
            "promoted": sorted(memory.promoted.items()),
            "stopping": sorted(memory.stopping.items()),
        }

    def learned(self, memory: Memory) -> list[str]:
        ended, classes = memory.classes.ended, len(memory.now.rates)
        if not classes:
            return [f"It learns from jobs that end, from the first {FIRST_REFIT} on; {ended:,} have ended."]
        save_s, load_s = memory.now.costs[EVERYTHING]
        found = [
            f"It has seen {ended:,} jobs end, in {classes:,} classes by tenant, user, GPUs and name, and runs"
            " first what may end soonest.",
            f"A preemption costs about {save_s:.0f} s to save and {load_s:.0f} s to load.",
        ]
        if memory.load.reluctance > 0:
            times = exp(memory.load.reluctance)
            found.append(
                "GPUs become free often enough that it preempts only for a job that is"
                f" {times:.3g} times as promising as the one that runs."
            )
        return found

    def restore(self, saved: dict[str, Any]) -> Memory:
        memory = Memory()
        memory.classes = Classes.restore(saved["classes"])
        memory.costs = PreemptionCosts.restore(saved["costs"])
        if "load" in saved:  # memories that were stored before it was measured have none
            memory.load = Load(saved["load"])
        memory.now = Published.restore(saved["now"])
        memory.before = memory.now if saved["before"] is None else Published.restore(saved["before"])
        memory.last_id, memory.cursor = saved["last_id"], saved["cursor"]
        memory.refit_at = saved["refit_at"]
        memory.promoted = {JobId(id): gpus for id, gpus in saved["promoted"]}
        memory.stopping = {JobId(id): at for id, at in saved["stopping"]}
        return memory

    # --- learning

    def learn(self, memory: Memory, fact: Any, job: JobState | None) -> bool | Sequence[int]:
        assert job is not None
        kind = type(fact)
        if kind is f.RunStarted or kind is f.RunProgressed:
            run = job.gpu_run
            if run is not None:
                memory.classes.works(job)
                if kind is f.RunStarted:
                    memory.costs.loaded(job.model, fact.at - run.granted_at, is_first=job.runs == 1)
            return NONE
        memory.load.see(job)
        if job.ended_at != INFINITY:
            memory.load.end(fact.at)
            memory.promoted.pop(job.id, None)
        if kind is f.RunExited:
            return self._ranked_anew(memory, self._learn_exit(memory, fact, job), fact.at)
        if kind is f.JobSubmitted:
            memory.last_id = max(memory.last_id, job.id)
            return self._ranked_anew(memory, self._go_over(memory), fact.at)
        if kind is f.RunRevoked:
            if job.gpu_run is not None:
                memory.stopping[job.id] = fact.at
        elif kind is f.JobPromoted:
            memory.promoted[job.id] = job.gpus
        return NONE

    def _ranked_anew(self, memory: Memory, ids: range, at: float) -> Sequence[int]:
        """These jobs, and those whose ranks follow from the load if that has changed."""
        waiting = memory.load.changed(memory.costs, at)
        return [*ids, *waiting] if waiting else ids

    def _learn_exit(self, memory: Memory, fact: f.RunExited, job: JobState) -> range:
        revoked_at = memory.stopping.pop(job.id, None)
        if revoked_at is not None and fact.cause is PREEMPTED:
            memory.costs.saved(job.model, fact.at - revoked_at)
        has_ended = job.ended_at != INFINITY
        if job.first_started_at != INFINITY:  # on CPUs alone it has told nothing about GPUs
            memory.classes.stops(job, fact.progress_s, has_ended=has_ended)
        if not has_ended and not self._is_starving(job, fact.at, EASE):
            memory.promoted.pop(job.id, None)
        if memory.cursor == NOBODY and self._is_news(memory):
            self._publish(memory, fact.at)
        return self._go_over(memory)

    def _is_news(self, memory: Memory) -> bool:
        """Whether new hazards or costs are worth that jobs are ranked anew."""
        if memory.classes.ended >= memory.refit_at:
            return True
        now_s, was_s = sum(memory.costs.cost()), sum(memory.now.costs[EVERYTHING])
        return not was_s / COST_CHANGE - 1 <= now_s <= was_s * COST_CHANGE + 1

    def _publish(self, memory: Memory, at: float) -> None:
        memory.refit_at = max(memory.classes.ended + 1, int(memory.classes.ended * self.options.growth))
        memory.before = memory.now
        memory.now = Published(memory.classes.rates(at), memory.costs.costs())
        memory.cursor = memory.last_id

    def _go_over(self, memory: Memory) -> range:
        """The next jobs that go over to what was published last."""
        last = memory.cursor
        if last == NOBODY:
            return NONE
        memory.cursor = JobId(max(last - SLICE, NOBODY))
        if memory.cursor == NOBODY:
            memory.before = memory.now
        return range(memory.cursor + 1, last + 1)

    # --- ranks

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        return self.standing(job, memory, at, False)[0]

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        run = job.run
        waits = run is None or run.pool is CPUS or job.phase is STOPPING
        until = INFINITY
        if self._max_slowdown:
            if job.id in memory.promoted:
                return (PROMOTED, job.submitted_at), INFINITY
            if waits:
                until = self._starves_at(job, at)
                if until <= at:  # the budget was spent; ranking the job anew does not put the next try off
                    until += AGAIN_S * ((at - until) // AGAIN_S + 1)
        published = memory.now if job.id > memory.cursor else memory.before
        runs, resumes, starts = published.table(job, self._log_stay)
        if waits or run is None:
            step = step_of(job.progress_s if run is None else job.progress_at(at))
            index = (resumes if job.runs else starts)[step]
            return (ORDINARY, index + memory.load.reluctance + log(job.gpus)), until
        work_s = run.progress_s + run.speed * (at - run.progress_at)
        step = step_of(work_s)
        if step + 1 < STEPS:  # while it loads, until it would be there if it had begun to work
            until = at + (EDGES[step + 1] - work_s) / (run.speed or 1.0)
        return (ORDINARY, runs[step] + log(job.gpus)), until

    # --- promotions

    def _starves_at(self, job: JobState, at: float) -> float:
        """The instant at which a job that goes on waiting has the largest slowdown that is allowed."""
        return job.submitted_at + self._max_slowdown * max(job.executed_at(at), FLOOR_S)

    def _is_starving(self, job: JobState, at: float, ease: float) -> bool:
        bound = self._max_slowdown / ease * max(job.executed_at(at), FLOOR_S)
        return bool(self._max_slowdown) and at - job.submitted_at >= bound - BLINK_S

    def due(self, job: JobState, memory: Memory, at: float) -> f.Fact | None:
        if not self._max_slowdown:
            return None
        waits = job.gpu_run is None or job.phase is STOPPING
        if not waits or job.id in memory.promoted or not self._is_starving(job, at, 1.0):
            return None
        if sum(memory.promoted.values()) + job.gpus > max(self.options.budget * self.gpus, 1):
            return None
        return f.JobPromoted(at, job.id)
