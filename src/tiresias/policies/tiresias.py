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
falling id, go over from the tables before to the tables now. At an instant at which MOST_AT_ONCE active jobs
have gone over, no further ones do: where many runs exit together, each exit would bring a slice. How far that
is, is part of the memory, so that a manager which restarts in between decides the same.

A cluster without a history may begin with what was learned elsewhere: the option `prior` (priors.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Job, JobId, Phase, Pool, Rank
from tiresias.core.plugins import Policy, compact_json, option, policies
from tiresias.core.state import JobState, State
from tiresias.policies import priors, words
from tiresias.policies.classes import Classes, Key, best_known, chain, size_of
from tiresias.policies.hazards import PRIOR, Rates, grid_of, step_of
from tiresias.policies.load import Load
from tiresias.policies.options import PreemptiveOptions, factor, seconds, share
from tiresias.policies.preemption_costs import EVERYTHING, Cost, PreemptionCosts
from tiresias.policies.switching import log_index_at, stretches

STOPPING, CPUS = Phase.STOPPING, Pool.CPUS
PREEMPTED = ExitCause.PREEMPTED
PROMOTED, ORDINARY = 0, 1
NONE = range(0)
BLINK_S = 1e-6
SLICE = 512  # ids that go over to new tables with one fact
MOST_AT_ONCE = 512  # active jobs; when so many went over at one instant, the next ones follow at the next one
FIRST_REFIT = 5  # jobs that must have ended before hazards are published
LEAST_SLACK_S = 0.05  # seconds by which they may differ in any case, with very cheap ones
COST_CHANGE = 1.5  # factor by which preemptions must cost more or less for a new publication
FLOOR_S = 600.0  # jobs that have executed for less count as this for max_slowdown
NEAR = 0.9  # share of max_slowdown at which a job is promoted: it has yet to run
EASE = 2.0  # a promoted job stays promoted until it is so many times below max_slowdown
AGAIN_S = 300.0  # after which a promotion that the budget refused is tried again
NOBODY = JobId(-1)
SAME = 0.1  # steps whose logarithms of the index differ by less are one to a run: it need not be ranked anew


class Table:
    """By step of work, the part of the rank that is common to a class; worked out where it is needed."""

    __slots__ = ("_edges", "_log_stay", "_resumes", "_runs", "_starts", "_stretches", "_switching_s")

    def __init__(self, rates: Rates, switching_s: Cost, log_stay: float, edges: Sequence[float]):
        self._stretches = stretches(rates)
        self._switching_s, self._log_stay, self._edges = switching_s, log_stay, edges
        self._runs: tuple[Sequence[float], Sequence[float]] | None = None
        self._resumes: dict[int, float] = {}
        self._starts: dict[int, float] = {}

    def waits(self, step: int, *, has_run: bool) -> float:
        """Of jobs that wait, and have run before or have not."""
        known = self._resumes if has_run else self._starts
        index = known.get(step)
        if index is None:
            load_s, victim_s = self._switching_s
            lost_s = load_s + victim_s if has_run else victim_s
            index = known[step] = -log_index_at(self._stretches, step, lost_s)
        return index

    def runs(self, step: int) -> tuple[float, float]:
        """Of jobs that run, and the work up to which it holds."""
        if self._runs is None:
            steps = range(len(self._stretches))
            exact = [-log_index_at(self._stretches, each, 0.0) - self._log_stay for each in steps]
            self._runs = _merged(exact, self._edges)
        indices, until_s = self._runs
        return indices[step], until_s[step]


class Published:
    """Hazards and costs that ranks follow from; the tables are worked out when they are needed."""

    __slots__ = ("_by_job", "_tables", "_text", "costs", "edges", "rates", "unknown")

    def __init__(self, rates: dict[Key, Rates], costs: dict[str, Cost]):
        self.rates = rates
        self.unknown = PRIOR if not rates else grid_of(next(iter(rates.values()))).prior
        self.edges = grid_of(self.unknown).edges
        self.costs = costs
        self._tables: dict[tuple[Key, Cost], Table] = {}
        self._by_job: dict[JobId, tuple[Job, int, Table]] = {}
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
        found = self._by_job.get(job.id)
        if found is not None and found[0] is of and found[1] == job.gpus:
            return found[2]
        known = best_known(chain(of.tenant, of.user, of.name, size_of(job.gpus)), self.rates)
        table = self._table(known, self.switching_s(job), log_stay)
        self._by_job[job.id] = (of, job.gpus, table)
        return table

    def forget(self, id: JobId) -> None:
        self._by_job.pop(id, None)

    def switching_s(self, job: JobState) -> Cost:
        """Seconds for which nobody works if the job takes another one's place: its own, and its victim's."""
        save_s, load_s = self.costs[EVERYTHING]
        stated_s = job.job.preemption_cost_s
        own_s = self.costs.get(job.job.model, (save_s, load_s))[1]
        if stated_s is not None and save_s + load_s > 0:
            own_s = stated_s
        return own_s, save_s + load_s

    def _table(self, key: Key, switching_s: Cost, log_stay: float) -> Table:
        known = (key, switching_s)
        table = self._tables.get(known)
        if table is None:
            rates = self.rates.get(key, self.unknown)
            table = self._tables[known] = Table(rates, switching_s, log_stay, self.edges)
        return table


def _merged(indices: Sequence[float], edges: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The indices with those of neighbouring steps made equal if they are nearly so, and where each ends."""
    found: list[float] = []
    until_s: list[float] = []
    steps = len(edges)
    for step, index in enumerate(indices):
        if found and abs(index - found[-1]) < SAME:
            index = found[-1]
        found.append(index)
        until_s.append(edges[step + 1] if step + 1 < steps else INFINITY)
    for step in range(steps - 2, -1, -1):
        if found[step] == found[step + 1]:
            until_s[step] = until_s[step + 1]
    return tuple(found), tuple(until_s)


class Memory:
    """What the policy has learned: a serialisable value."""

    def __init__(self, classes: Classes | None = None) -> None:
        self.classes = classes or Classes()
        self.costs = PreemptionCosts()
        self.load = Load()
        rates = {} if classes is None else classes.rates(0.0)
        self.now = self.before = Published(rates, {EVERYTHING: (0.0, 0.0)})
        self.last_id = NOBODY  # the highest id of any job
        self.cursor = NOBODY  # jobs up to this id are still ranked by `before`
        self.gone_over_at, self.gone_over = 0.0, 0  # how many active jobs went over at the last such instant
        self.refit_at = FIRST_REFIT  # how many jobs must have ended for the next publication
        self.stopping: dict[JobId, float] = {}  # since when runs save that were revoked
        # Jobs that starved: their GPUs, and when they have caught up, which is known while they run.
        self.promoted: dict[JobId, tuple[int, float]] = {}


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
        prior: str = option("", "what was learned elsewhere, as @FILE made by `tiresias trace prior`")

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._log_stay = log(self.options.stay)
        self._max_slowdown: float = self.options.max_slowdown
        _, self.problem = priors.read(self.options.prior)

    # --- memory

    def new_memory(self) -> Memory:
        return Memory(priors.read(self.options.prior)[0])

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
            "gone_over": [memory.gone_over_at, memory.gone_over],
            "refit_at": memory.refit_at,
            "promoted": [[id, *promoted] for id, promoted in sorted(memory.promoted.items())],
            "stopping": sorted(memory.stopping.items()),
        }

    def learned(self, memory: Memory) -> list[str]:
        ended, classes = memory.classes.ended, len(memory.now.rates)
        if not classes:
            return [f"It learns from jobs that end, from the first {FIRST_REFIT} on; so far: {ended:,}."]
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
        return [*found, *words.of_classes(memory)]

    def restore(self, saved: dict[str, Any]) -> Memory:
        memory = Memory()
        memory.classes = Classes.restore(saved["classes"])
        memory.costs = PreemptionCosts.restore(saved["costs"])
        if "load" in saved:  # memories that were stored before it was measured have none
            memory.load = Load(saved["load"])
        memory.now = Published.restore(saved["now"])
        memory.before = memory.now if saved["before"] is None else Published.restore(saved["before"])
        memory.last_id, memory.cursor = saved["last_id"], saved["cursor"]
        memory.gone_over_at, memory.gone_over = saved.get("gone_over", (0.0, 0))
        memory.refit_at = saved["refit_at"]
        memory.promoted = {
            JobId(id): (gpus, rest[0] if rest else INFINITY) for id, gpus, *rest in saved["promoted"]
        }
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
        if kind is f.RunGranted:
            if job.gpu_run is not None:
                memory.load.waiting.discard(job.id)
                if job.id in memory.promoted:
                    memory.promoted[job.id] = (job.gpus, self._caught_up_at(job, fact.at))
            return NONE
        memory.load.see(job)
        if job.ended_at != INFINITY:
            memory.load.end(fact.at)
            memory.promoted.pop(job.id, None)
            memory.now.forget(job.id)
            memory.before.forget(job.id)
        if kind is f.RunExited:
            return self._ranked_anew(memory, self._learn_exit(memory, fact, job), fact.at)
        if kind is f.JobSubmitted:
            memory.last_id = max(memory.last_id, job.id)
            return self._ranked_anew(memory, self._go_over(memory, fact.at), fact.at)
        if kind is f.RunRevoked:
            if job.gpu_run is not None:
                memory.stopping[job.id] = fact.at
        elif kind is f.JobPromoted:
            memory.promoted[job.id] = (job.gpus, INFINITY)
        return NONE

    def _ranked_anew(self, memory: Memory, ids: range, at: float) -> Sequence[int]:
        """These jobs, and those whose ranks follow from the load if that has changed."""
        waiting = memory.load.changed(memory.costs, at) if memory.load.waiting else None
        return [*ids, *waiting] if waiting else ids

    def _learn_exit(self, memory: Memory, fact: f.RunExited, job: JobState) -> range:
        revoked_at = memory.stopping.pop(job.id, None)
        if revoked_at is not None and fact.cause is PREEMPTED:
            memory.costs.saved(job.model, fact.at - revoked_at)
        has_ended = job.ended_at != INFINITY
        if job.first_started_at != INFINITY:  # a job that ran on CPUs alone shows nothing about GPUs
            memory.classes.stops(job, fact.progress_s, has_ended=has_ended)
        if not has_ended and job.id in memory.promoted:
            if fact.at >= memory.promoted[job.id][1] - BLINK_S:
                del memory.promoted[job.id]
            else:
                memory.promoted[job.id] = (job.gpus, INFINITY)
        if memory.cursor == NOBODY and self._is_news(memory):
            self._publish(memory, fact.at)
        return self._go_over(memory, fact.at)

    def _is_news(self, memory: Memory) -> bool:
        """Whether new hazards or costs are worth that jobs are ranked anew."""
        if memory.classes.ended >= memory.refit_at:
            return True
        now_s, was_s = sum(memory.costs.cost()), sum(memory.now.costs[EVERYTHING])
        slack_s = min(max(LEAST_SLACK_S, max(now_s, was_s) / 60), 1.0)
        return not was_s / COST_CHANGE - slack_s <= now_s <= was_s * COST_CHANGE + slack_s

    def _publish(self, memory: Memory, at: float) -> None:
        memory.refit_at = max(memory.classes.ended + 1, int(memory.classes.ended * self.options.growth))
        memory.before = memory.now
        if (cost_s := memory.costs.full_s()) is not None:
            memory.classes.fit_steps(cost_s)
        memory.now = Published(memory.classes.rates(at), memory.costs.costs())
        memory.cursor = memory.last_id

    def _go_over(self, memory: Memory, at: float) -> range:
        """The next jobs that go over to what was published last."""
        last = memory.cursor
        if last == NOBODY:
            return NONE
        if at != memory.gone_over_at:
            memory.gone_over_at, memory.gone_over = at, 0
        elif memory.gone_over >= MOST_AT_ONCE:
            return NONE
        memory.cursor = JobId(max(last - SLICE, NOBODY))
        if memory.cursor == NOBODY:
            memory.before = memory.now
        ids = range(memory.cursor + 1, last + 1)
        waiting, runs = memory.load.waiting, memory.classes.open
        memory.gone_over += sum([id in waiting or id in runs for id in ids])
        return ids

    # --- ranks

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        return self.standing(job, memory, at, False)[0]

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        run = job.run
        waits = run is None or run.pool is CPUS or job.phase is STOPPING
        until = INFINITY
        if self._max_slowdown:
            if job.id in memory.promoted and (caught_up_at := memory.promoted[job.id][1]) > at + BLINK_S:
                return (PROMOTED, job.submitted_at), caught_up_at
            if waits:
                until = self._starves_at(job, at)
                if until <= at:  # the budget was spent; ranking the job anew does not put the next try off
                    until += AGAIN_S * ((at - until) // AGAIN_S + 1)
        published = memory.now if job.id > memory.cursor else memory.before
        table = published.table(job, self._log_stay)
        if waits or run is None:
            step = step_of(job.progress_s if run is None else job.progress_at(at), published.edges)
            index = table.waits(step, has_run=job.runs > 0)
            return (ORDINARY, index + memory.load.reluctance + log(job.gpus)), until
        work_s = run.progress_s + run.speed * (at - run.progress_at)
        index, until_s = table.runs(step_of(work_s, published.edges))
        if until_s != INFINITY:  # while it loads, until it would be there if it had begun to work
            until = at + (until_s - work_s) / (run.speed or 1.0)
        return (ORDINARY, index + log(job.gpus)), until

    # --- words

    def explain(self, job: JobState, memory: Memory, at: float) -> str:
        if self._max_slowdown and job.id in memory.promoted:
            return f"it was promoted: its JCT neared {self._max_slowdown:g} times what it has executed"
        of, published = job.job, memory.now if job.id > memory.cursor else memory.before
        known = best_known(chain(of.tenant, of.user, of.name, size_of(job.gpus)), published.rates)
        ended = memory.classes.counts[known].ended if known in memory.classes.counts else 0
        return words.of_job(known, ended, published.rates, job.progress_at(at), job.gpus)

    # --- promotions

    def _starves_at(self, job: JobState, at: float) -> float:
        """The instant at which a job that goes on waiting has the largest slowdown that is allowed."""
        return job.submitted_at + NEAR * self._max_slowdown * max(job.executed_at(at), FLOOR_S)

    def _caught_up_at(self, job: JobState, at: float) -> float:
        """The instant at which a promoted job that runs from now on is far enough below what is allowed."""
        eased = self._max_slowdown / EASE
        if eased <= 1:
            return INFINITY
        return at + max(0.0, (at - job.submitted_at - eased * job.executed_at(at)) / (eased - 1))

    def due(self, job: JobState, memory: Memory, at: float) -> f.Fact | None:
        if not self._max_slowdown:
            return None
        waits = job.gpu_run is None or job.phase is STOPPING
        if not waits or job.id in memory.promoted or at < self._starves_at(job, at) - BLINK_S:
            return None
        wanted = job.gpus + sum(gpus for gpus, caught_up_at in memory.promoted.values() if caught_up_at > at)
        if wanted > max(self.options.budget * self.gpus, 1):
            return None
        return f.JobPromoted(at, job.id)
