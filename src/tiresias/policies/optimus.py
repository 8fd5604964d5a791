"""`optimus`: predicts when trainings will have converged, and sizes them by marginal gain (EuroSys'18).

There is a round every 10 minutes. Every training that reports losses has a prediction: its loss curve says
after how many steps it will have converged (convergence.py), and its speed by number of GPUs how long that
takes (size_speeds.py). Every job first gets the least that it runs on, those with the least predicted service
first. What is left goes, one GPU at a time, to the elastic training that it brings forward the most.
Trainings that have reported little so far are trusted a little less.

The paper has workers and parameter servers; here both come in pairs, one of each per GPU. It says nothing
about more jobs than GPUs: that those with the least predicted service go first is our reconstruction. A job
that reports no losses runs at its reference size, and is expected to need as long again as it has worked. See
the page on Optimus for everything that differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import floor
from typing import Any

from tiresias.core import facts as f
from tiresias.core.entries import Key
from tiresias.core.facts import Allotment
from tiresias.core.model import INFINITY, JobId, Rank
from tiresias.core.plugins import Allocator, OptionError, option, policies
from tiresias.core.state import JobState
from tiresias.core.view import AllotView
from tiresias.core.wish import WishChange
from tiresias.policies.convergence import LEAST_POINTS, convergence
from tiresias.policies.options import PreemptiveOptions, factor_below_one, positive_seconds
from tiresias.policies.preemption_costs import PreemptionCosts
from tiresias.policies.roster import Roster, refresh
from tiresias.policies.size_speeds import Speed, fitted
from tiresias.policies.trainings import Training, Trainings

Line = list[tuple[Key, JobId]]
"""Waiting jobs of one size, in order."""

BLINK_S = 1e-6
SHORTEST_S = 600.0  # a job of which nothing is known is expected to need at least so long
YOUNG_POINTS = 10  # with fewer losses, the gain of a training counts less


@dataclass(slots=True)
class OptimusOptions(PreemptiveOptions):
    round_s: float = option(
        600.0, "seconds between two rounds, in which all jobs are sized", positive_seconds
    )
    converged: float = option(
        0.01,
        "a training has converged when an epoch lowers its loss by less than this part",
        factor_below_one,
    )
    young: float = option(0.95, "how much the gain of a training counts that is young", factor_below_one)


class Memory:
    """What was reported, what preemptions cost, and since when which jobs save."""

    __slots__ = ("costs", "stopping", "trainings")

    def __init__(self, trainings: Trainings, costs: PreemptionCosts, stopping: dict[JobId, float]):
        self.trainings, self.costs, self.stopping = trainings, costs, stopping


@policies.register
class Optimus(Allocator):
    """Predicts the end of trainings from their losses, and sizes them by marginal gain (EuroSys'18)."""

    name = "optimus"
    placer = "even"
    Options = OptimusOptions
    learns = frozenset({f.LossReported, f.RunStarted, f.RunRevoked, f.RunExited, f.JobCancelled, f.JobFailed})

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._roster: Roster | None = None
        self._ends: dict[JobId, tuple[Training, int, float, float | None]] = {}  # see _refresh_ends
        self._curves: dict[JobId, tuple[float, Speed]] = {}  # and the seconds that were measured
        self._any_elastic = False  # whether any active job may be elastic

    def expect(self, memory: Memory, preemption_cost_s: float) -> None:
        if self.options.round_s <= preemption_cost_s:
            raise OptionError(
                f"{self.name}: round_s={self.options.round_s:g} is not longer than a preemption,"
                f" {preemption_cost_s:g} s; give more"
            )
        memory.costs.expected_s = preemption_cost_s

    # --- memory ----------------------------------------------------------------------------------------

    def new_memory(self) -> Memory:
        return Memory(Trainings(), PreemptionCosts(), {})

    def save(self, memory: Memory) -> Any:
        return {
            "trainings": memory.trainings.save(),
            "costs": memory.costs.save(),
            "stopping": [[id, at] for id, at in memory.stopping.items()],
        }

    def restore(self, saved: Any) -> Memory:
        return Memory(
            Trainings.restore(saved["trainings"]),
            PreemptionCosts.restore(saved["costs"]),
            {JobId(id): at for id, at in saved["stopping"]},
        )

    def learn(self, memory: Memory, fact: Any, job: JobState | None) -> bool:
        assert job is not None
        kind = type(fact)
        if kind is f.LossReported:
            memory.trainings.report(fact, job)
        elif kind is f.RunStarted:
            if (run := job.gpu_run) is not None:
                memory.costs.loaded(job.model, fact.at - run.granted_at, is_first=job.runs == 1)
        elif kind is f.RunRevoked:
            if job.gpu_run is not None:
                memory.stopping[job.id] = fact.at
        else:
            revoked_at = memory.stopping.pop(job.id, None)
            if revoked_at is not None and kind is f.RunExited and fact.cause is f.ExitCause.PREEMPTED:
                memory.costs.saved(job.model, fact.at - revoked_at)
            if job.ended_at != INFINITY:
                memory.trainings.forget(job.id)
                self._ends.pop(job.id, None)
                self._curves.pop(job.id, None)
        return False

    # --- predictions -----------------------------------------------------------------------------------

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        if job.gpu_run is not None:
            return (0.0,)  # it orders jobs that wait
        self._refresh_ends([job], memory)
        return (self._service_gpu_s(job, memory, at, job.job.demand.gpus),)

    def _refresh_ends(self, jobs: list[JobState], memory: Memory) -> None:
        """Predict anew where something was reported since, all jobs together."""
        of, ends = memory.trainings.of, self._ends
        stale = []
        for job in jobs:
            training = of.get(job.id)
            if training is None or training.total_steps is not None or not training.points:
                continue
            last = training.points[-1]
            if (known := ends.get(job.id)) is None or known[1:3] != (len(training.points), last[0]):
                stale.append((job.id, training))
        if not stale:
            return
        found = convergence([training.points for _, training in stale], self.options.converged)
        for (id, training), end in zip(stale, found, strict=True):
            ends[id] = training, len(training.points), training.points[-1][0], end

    def steps_left(self, job: JobState, memory: Memory, at: float) -> float | None:
        """The steps that a training will still make; None: it has not reported what is needed to say so."""
        training = memory.trainings.of.get(job.id)
        if training is None:
            return None
        if training.total_steps is not None:
            total, least = training.total_steps, 1.0
        else:
            known = self._ends.get(job.id)
            if known is None or known[3] is None or training.steps_per_epoch is None:
                return None
            total, least = known[3] * training.steps_per_epoch, training.steps_per_epoch
        step = training.step
        run = job.gpu_run
        if run is not None and run.id == training.run_id and run.gpus in training.speeds:
            steps, seconds = training.speeds[run.gpus]
            step += steps / seconds * (at - training.at)
        return max(total - step, least)

    def _speed(self, job: JobState, memory: Memory) -> Speed | None:
        """The speed of a training by its number of GPUs; None: it was not measured."""
        training = memory.trainings.of.get(job.id)
        if training is None or not training.speeds:
            return None
        seen_s = sum(seconds for _, seconds in training.speeds.values())
        known = self._curves.get(job.id)
        if known is None or known[0] != seen_s:
            demand = job.job.demand
            curve = fitted(training.measured(), (demand.least, demand.gpus, demand.most))
            known = self._curves[job.id] = seen_s, curve
        return known[1]

    def left_s(self, job: JobState, memory: Memory, at: float, gpus: int) -> float | None:
        """The seconds that a training still needs on so many GPUs; None: that cannot be said."""
        steps = self.steps_left(job, memory, at)
        if steps is None:
            return None
        training = memory.trainings.of[job.id]
        if gpus in training.speeds and len(training.speeds) == 1:
            done, seconds = training.speeds[gpus]
            return steps * seconds / done
        speed = self._speed(job, memory)
        return None if speed is None else steps / speed.on(gpus)

    def _service_gpu_s(self, job: JobState, memory: Memory, at: float, gpus: int) -> float:
        left_s = self.left_s(job, memory, at, gpus)
        return gpus * (max(job.progress_at(at), SHORTEST_S) if left_s is None else left_s)

    # --- the wish --------------------------------------------------------------------------------------

    def allot(self, view: AllotView, memory: Memory, at: float) -> WishChange:
        given: dict[JobId, Allotment] = {}
        withdrawn: list[JobId] = []
        if view.changed is None or self._roster is None:
            self._any_elastic = any(job.job.demand.is_elastic for job in view.jobs())
        else:
            self._any_elastic |= any(job.job.demand.is_elastic for job in view.changed)
        roster = self._roster = refresh(self._roster, view, given, withdrawn)
        round_s = self.options.round_s
        if view.again_at <= at + BLINK_S:
            self._round(roster, view, memory, at, given, withdrawn)
        for id, gpus in roster.fill(view.room):  # until the next round
            given[id] = Allotment(id, gpus)
        if not roster.waiting and not self._may_resize(roster, view):
            return WishChange(list(given.values()), withdrawn, INFINITY)
        next_at = (floor((at + 2 * BLINK_S) / round_s) + 1) * round_s
        return WishChange(list(given.values()), withdrawn, next_at)

    def _may_resize(self, roster: Roster, view: AllotView) -> bool:
        """Whether a run could have another size after the next round."""
        if not self._any_elastic:
            return False
        sized = (view.job(id) for id in roster.given if id not in roster.taken)
        return any(job is not None and job.job.demand.is_elastic for job in sized)

    def _round(
        self,
        roster: Roster,
        view: AllotView,
        memory: Memory,
        at: float,
        given: dict[JobId, Allotment],
        withdrawn: list[JobId],
    ) -> None:
        """Size all jobs anew but those that are taken."""
        running = {
            id: job for id in roster.given if id not in roster.taken and (job := view.job(id)) is not None
        }
        self._refresh_ends(list(running.values()), memory)
        chosen, room = self._least(roster, view, memory, at, running)
        room = self._grow(chosen, room, view, memory, at)
        self._keep(chosen, room, running, view, memory, at)
        for id, job in running.items():
            if id not in chosen:
                if given.pop(id, None) is None:
                    withdrawn.append(id)
                roster.update(job, view, is_given=False)
        for id, gpus in chosen.items():
            wanted = running.get(id)
            if wanted is None:
                roster.start(id, gpus)
            elif wanted.gpus != gpus:
                roster.resize(id, gpus)
            else:
                continue
            given[id] = Allotment(id, gpus)

    def _least(
        self, roster: Roster, view: AllotView, memory: Memory, at: float, running: dict[JobId, JobState]
    ) -> tuple[dict[JobId, int], int]:
        """The least for as many jobs as there is room for, those with the least service left first; the
        GPUs that remain."""
        heap: list[tuple[Any, JobId, int, Line, int]] = []  # key, id, need, line, place in it
        for job in running.values():
            need = self._need(job, memory, at)
            key = (job.priority, self._service_gpu_s(job, memory, at, need), job.submitted_at, job.id)
            heap.append((key, job.id, need, [], 0))
        for jobs in roster.tenants.values():
            heap += [(*waiting[0], 0, waiting, 0) for waiting in jobs.by_size.values()]
        heapify(heap)
        room, chosen = view.room, dict[JobId, int]()
        while heap and room > 0:
            _, id, need, line, place = heappop(heap)
            if not need:
                waiting = view.job(id)
                assert waiting is not None, ("a job that waits is active", id)
                need = self._need(waiting, memory, at)
            fits = need <= room
            if fits:
                chosen[id] = need
                room -= need
            if place + 1 < len(line) and (fits or self._any_elastic):  # else those behind need as much
                heappush(heap, (*line[place + 1], 0, line, place + 1))
        return chosen, room

    def _need(self, job: JobState, memory: Memory, at: float) -> int:
        """The GPUs that a job gets at first: its reference size as long as nothing can be predicted."""
        demand = job.job.demand
        if not demand.is_elastic or self.left_s(job, memory, at, demand.gpus) is None:
            return demand.gpus
        return demand.least

    def _grow(self, chosen: dict[JobId, int], room: int, view: AllotView, memory: Memory, at: float) -> int:
        """One GPU after the other to the training that it brings forward the most; what remains."""
        if room <= 0:
            return room
        gains: list[tuple[float, JobId]] = []
        for id, gpus in chosen.items():
            gain = self._gain(id, gpus, view, memory, at)
            if gain > 0:
                gains.append((-gain, id))
        heapify(gains)
        while gains and room > 0:
            _, id = heappop(gains)
            chosen[id] += 1
            room -= 1
            gain = self._gain(id, chosen[id], view, memory, at)
            if gain > 0:
                heappush(gains, (-gain, id))
        return room

    def _gain(self, id: JobId, gpus: int, view: AllotView, memory: Memory, at: float) -> float:
        """The seconds by which one more GPU brings the end of a training forward."""
        job = view.job(id)
        assert job is not None, ("a job that is chosen is active", id)
        if gpus >= job.job.demand.most:
            return 0.0
        now_s, then_s = (self.left_s(job, memory, at, size) for size in (gpus, gpus + 1))
        if now_s is None or then_s is None:
            return 0.0
        training = memory.trainings.of[id]
        is_young = training.total_steps is None and len(training.points) < YOUNG_POINTS
        return (now_s - then_s) * (self.options.young if is_young else 1.0)

    def _keep(
        self,
        chosen: dict[JobId, int],
        room: int,
        running: dict[JobId, JobState],
        view: AllotView,
        memory: Memory,
        at: float,
    ) -> None:
        """Leave a run its size where another one brings less than the preemption costs."""
        for id, gpus in chosen.items():
            job = running.get(id)
            if job is None or job.gpus == gpus or job.gpus - gpus > room:
                continue
            now_s, then_s = (self.left_s(job, memory, at, size) for size in (job.gpus, gpus))
            cost_s = sum(memory.costs.cost(job.model))
            if now_s is None or then_s is None or now_s - then_s <= cost_s:
                room -= job.gpus - gpus
                chosen[id] = job.gpus

    def reason(self, job: JobState, view: AllotView, memory: Memory) -> str:
        self._refresh_ends([job], memory)
        left_s = self.left_s(job, memory, view.at, job.gpus)
        if left_s is not None:
            return f"it is predicted to need {left_s:,.0f} s more on {job.gpus} GPUs"
        training = memory.trainings.of.get(job.id)
        if training is None:
            return "it has reported no losses, so nothing is predicted, and it runs at its reference size"
        if not training.points:
            return "it reports losses without epochs or a total number of steps, so nothing is predicted"
        return f"it has reported {len(training.points)} losses; a prediction needs {LEAST_POINTS}"
