"""Facts in, decisions and commands out. The one thing that the simulator and the live manager both run.

`handle` applies the facts of one instant, then plans once: whoever fell out of the target is told to
stop, members of the target that do not run yet start in rank order as slots are physically free. A run
that is saving counts as waiting, and its slots are used only after its exit. Being in the target is the
reservation, so a victim cannot steal back what it was preempted for. A member that the placer refuses
keeps free slots of its future place from those behind it, so that its place is built (`Placer.claim`).
Who is not in the target may run on CPUs meanwhile (`overflow`).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from operator import attrgetter

from tiresias.core import facts as f
from tiresias.core import overflow
from tiresias.core.commands import Command, SetTimer, StartRun, StopRun
from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.model import INFINITY, JobId, Phase, RunId
from tiresias.core.moves import moves_for
from tiresias.core.plan import Reason, explain
from tiresias.core.plugins import OptionError, Placer, Policy
from tiresias.core.resort import SortedTarget
from tiresias.core.state import EVOLVE, JobState, Run, State
from tiresias.core.target import Target
from tiresias.core.view import View

STOPPING = Phase.STOPPING
BLINK_S = 1e-6  # a rank lasts at least so long: a threshold missed by rounding is met a blink later
PASSED = 1e300  # wakes_at of a job whose passing rank has served: later than any instant
BY_KEY = attrgetter("key")
STOPPERS = frozenset({f.JobCancelled, f.JobHeld, f.JobRequeued})  # whatever runs of the job must stop
SILENT = frozenset({f.RunStarted, f.RunProgressed})  # facts that change nobody's standing


class Step:
    """What handling brought about; the driver owns the lists and empties them."""

    __slots__ = ("commands", "ended", "facts")

    def __init__(self) -> None:
        self.facts: list[f.Fact] = []  # decisions, in order
        self.commands: list[Command] = []
        self.ended: list[JobState] = []  # jobs that left the State


class Controller:
    def __init__(self, state: State, policy: Policy, placer: Placer):
        self.state = state
        self.policy = policy
        self.placer = placer
        if state.memory is None:
            state.memory = policy.new_memory()
        self._how = {kind: (evolve, kind in policy.learns, kind in SILENT) for kind, evolve in EVOLVE.items()}
        self.target: Target | SortedTarget = self._new_target()
        self._ready: dict[JobId, JobState] = {}  # in the target, not running yet
        self._wakes: list[tuple[float, JobId]] = []
        self._passing: list[JobState] = []  # whose rank is good for this plan only
        self._timer_at = INFINITY
        # by the placer in this plan: who, what they claim, and when they may be treated differently
        self._refused: list[tuple[JobState, Allocation, float]] = []
        self._scattered: list[JobState] = []  # those that the placer refused though enough slots are free
        self._scattered_since: dict[JobId, float] = {}  # since when this has been so at every plan
        self._retry_at = INFINITY  # when the placer may treat somebody it refused differently
        self.migrations = 0  # runs that were told to stop so that they move
        self._may_move = False  # a run exited, or somebody was refused for the first time, in this handling
        self._stale = False  # all ranks must be worked out anew
        self._rebuild(state.at)

    @property
    def view(self) -> View:
        return View(self.state, self.target)

    def why(self, job_id: JobId) -> Reason | None:
        """Why this job is not running; None if it is not active."""
        job = self.state.jobs.get(job_id)
        if job is None:
            return None
        pinned = [other for other in self.state.jobs.values() if other.pinned]
        return explain(job, pinned, self.target, self.state, self.placer, strict=self.policy.strict)

    # --- facts -----------------------------------------------------------------------------------------

    def handle(self, facts: Iterable[f.Fact], step: Step) -> bool:
        """Apply what happened, then decide as of the last of it; whether there was anything to decide on.

        Facts that change nobody's standing may come along later than they happened; the others are those
        of one instant.
        """
        loud = self._may_move = False
        for fact in facts:
            if self._apply(fact, step):
                loud = True
        if not loud:
            return False
        at = self.state.at
        wakes = self._wakes
        if wakes and wakes[0][0] <= at + BLINK_S:
            self._wake(at, step)
        if self._stale:
            self._rebuild(at)
        if self._passing:
            self._decide_passing(at, step)
        scattered, self._scattered = self._scattered, []
        self._plan(at, step)
        if self._scattered != scattered:
            self._count_fragmented(scattered, at)
        self._set_timer(at, step)
        return True

    def _apply(self, fact: f.Fact, step: Step) -> bool:
        """Take one fact in; whether it may change the plan."""
        state = self.state
        at = fact.at
        assert at >= state.at, ("time went back", state.at, fact)
        state.at = at
        evolve, is_learned, is_silent = self._how[type(fact)]
        job = evolve(state, fact)
        if is_learned and self.policy.learn(state.memory, fact, job):
            self._stale = True
        if job is None:
            if type(fact) is not f.TimerFired:
                self._stale = True  # a node came or went
        elif not is_silent:
            self._sync(job, at)
            if type(fact) is f.RunExited:
                self._may_move = True
                if self._drained:
                    self._stale = True  # its slots may have left with it
            if job.ended_at == at:
                step.ended.append(job)
            elif type(fact) is f.RunExited:
                if job.admitted:  # it left of itself and is still wanted
                    self._ready[job.id] = job
            elif type(fact) in STOPPERS and (run := job.open_run) is not None:
                step.commands.append(StopRun(run.id))
        elif self.policy.moves:
            self._sync(job, at)
        return not is_silent

    def _wake(self, at: float, step: Step) -> None:
        """Rank anew whose time has come, or comes in a blink: rounding makes no instants of its own."""
        wakes, jobs = self._wakes, self.state.jobs
        while wakes and wakes[0][0] <= at + BLINK_S:
            due_at, id = heappop(wakes)
            job = jobs.get(id)
            if job is None or job.wakes_at != due_at:
                continue
            job.wakes_at = min(due_at, at)
            if job.deferred:
                decision: f.Fact | None = f.JobCleared(at, id)
            else:
                decision = self.policy.due(job, self.state.memory, at)
            if decision is None:
                self._sync(job, at)
            else:
                step.facts.append(decision)
                self._apply(decision, step)

    def _decide_passing(self, at: float, step: Step) -> None:
        """Decide at once what is due for those whose rank ran out as they got it."""
        for job in list(self._passing):
            decision = self.policy.due(job, self.state.memory, at)
            if decision is not None:
                step.facts.append(decision)
                self._apply(decision, step)

    # --- standing --------------------------------------------------------------------------------------

    def _sync(self, job: JobState, at: float) -> None:
        """Bring the target in line with what the job has become."""
        phase, run = job.phase, job.run
        if job.ended_at != INFINITY or job.held or job.cancelled or job.deferred:
            self._unrank(job)
            if job.deferred and job.ended_at == INFINITY:
                self._wake_at(job, job.deferred_until)
            return
        if run is not None and phase is not STOPPING and (self._may_pin or not job.preemptible):
            until = self._pinned_until(job, run)
            if until > at + BLINK_S:  # one that ends in a blink has ended: we would wake for it for ever
                self._pin(job)
                self._wake_at(job, until)
                return
        if job.pinned:
            self._unpin(job)
        rank, until = self.policy.standing(job, self.state.memory, at)
        try:
            key = (job.priority, *rank, job.submitted_at, job.id)
        except TypeError:
            raise OptionError(
                f"{self.policy.name} ranks job {job.id} {rank!r}; a rank is a tuple of numbers"
            ) from None
        if job.key is None:
            self.target.add(job, key)
        else:
            self.target.move(job, key)
        if until <= at and job.wakes_at != PASSED:
            job.wakes_at = PASSED
            self._passing.append(job)
        elif until != job.wakes_at:
            self._wake_at(job, max(until, at + 2 * BLINK_S))

    def _pinned_until(self, job: JobState, run: Run) -> float:
        """Until when nobody may stop this run."""
        if not self.policy.preempts or not job.preemptible:
            return INFINITY
        ledger = self.state.ledger
        if any(slots & ~ledger.offered[node] for node, slots in run.allocation):
            return INFINITY  # its slots would not all serve others
        return run.granted_at + self.policy.min_run_s

    def _pin(self, job: JobState) -> None:
        if job.pinned:
            return
        if job.admitted:
            self.target.pin(job)
        else:
            if job.key is not None:
                self.target.drop(job)
            self.target.resize(self.target.capacity - job.gpus)
        job.pinned = True

    def _unpin(self, job: JobState) -> None:
        job.pinned = False
        self.target.resize(self.target.capacity + job.gpus)

    def _unrank(self, job: JobState) -> None:
        if job.pinned:
            self._unpin(job)
        if job.key is not None:
            self.target.drop(job)
        self._ready.pop(job.id, None)
        job.wakes_at = job.refused_since = INFINITY

    def _wake_at(self, job: JobState, at: float) -> None:
        job.wakes_at = at
        if at != INFINITY:
            heappush(self._wakes, (at, job.id))

    def _new_target(self) -> Target | SortedTarget:
        if self.policy.moves or self.policy.strict:
            drift = self.policy.drift if self.policy.moves else None
            return SortedTarget(self.state, drift, strict=self.policy.strict)
        return Target(self.state.ledger.capacity)

    def _rebuild(self, at: float) -> None:
        """Work out every standing from the State alone: at the start, and when all ranks change."""
        self._stale = False
        ledger, policy = self.state.ledger, self.policy
        self._drained = ledger.gpus < sum(node.gpus for node in ledger.nodes)
        self._may_pin = not policy.preempts or policy.min_run_s > 0 or self._drained
        self._ready.clear()
        self.target = self._new_target()
        jobs = list(self.state.jobs.values())
        for job in jobs:
            job.key, job.admitted, job.pinned, job.wakes_at = None, False, False, INFINITY
        self._wakes.clear()
        for job in jobs:
            self._sync(job, at)

    # --- the plan --------------------------------------------------------------------------------------

    def _plan(self, at: float, step: Step) -> None:
        self.target.settle(at)
        self._retry_at = INFINITY
        if self._refused:
            self._refused.clear()
        while True:
            if self._passing and not self.target.flips:
                passing, self._passing = self._passing, []
                for job in passing:
                    if job.id in self.state.jobs:
                        self._sync(job, at)
            if self.target.flips:
                self._revoke(at, step)
            self._scattered.clear()
            if self._ready and self.state.ledger.free:
                self._start(at, step)
                if self._refused:
                    self._move(at, step)
            if self.target.flips or self._passing:
                continue
            if self.state.cpus is None or not self._overflow(at, step):
                return

    def _revoke(self, at: float, step: Step) -> None:
        """Tell those who fell out of the target to stop; note who came in."""
        flips, ready = self.target.flips, self._ready
        victims = []
        for job in flips.values():
            if job.admitted:
                if job.run is None or job.phase is STOPPING:
                    ready[job.id] = job
            else:
                ready.pop(job.id, None)
                job.refused_since = INFINITY
                if job.run is not None and job.phase is not STOPPING:
                    victims.append(job)
        flips.clear()
        if len(victims) > 1:
            victims.sort(key=BY_KEY)
        for job in reversed(victims):
            self._stop(job, at, step)

    def _stop(self, job: JobState, at: float, step: Step) -> None:
        run = job.open_run
        assert run is not None
        run_id = run.id
        decision = f.RunRevoked(at, run_id)
        step.facts.append(decision)
        self._apply(decision, step)
        step.commands.append(StopRun(run_id))

    def _move(self, at: float, step: Step) -> None:
        """Make runs move for the first refused job for which that pays; they start again elsewhere."""
        for job, claim, again_at in self._refused:
            movers = moves_for(job, claim, again_at - at, self.state, self.placer, at)
            if movers:
                self.migrations += len(movers)
                for other in movers:
                    self._ready[other.id] = other
                    self._stop(other, at, step)
                return

    def _start(self, at: float, step: Step) -> None:
        """Start whoever is in the target, in rank order, as far as slots are free and the placer agrees."""
        again = True
        while again:  # what the others left may change a placer's mind
            kept: list[Allocation] = []  # what refused jobs keep from those behind them
            again = self._start_some(at, step, kept)
            for claim in kept:
                self.state.ledger.show(claim)

    def _start_some(self, at: float, step: Step, kept: list[Allocation]) -> bool:
        """One pass over those who are ready; whether another one might start more."""
        state, ready = self.state, self._ready
        ledger, place, waits, moves = state.ledger, self.placer.place, self.placer.waits, self.placer.moves
        self._retry_at = INFINITY
        self._scattered.clear()
        if self._refused:
            self._refused.clear()
        refused = waiting = behind = False  # behind: somebody started behind one that waits
        jobs = [job for job in ready.values() if job.run is None]  # the others are still saving
        if len(jobs) > 1:
            jobs.sort(key=BY_KEY)
        if len(jobs) < len(ready):
            moves = 0  # nobody moves while somebody saves who is to start again: his leaving may be enough
        last = jobs[-1] if jobs else None  # has nobody behind it to keep slots from
        for job in jobs:
            if job.gpus > ledger.free:  # its victims are still saving
                if job is not last and (waits or job.job.demand.is_choosy):
                    waiting = True
                    self._keep(job, ledger.open_to(job.job.demand), at, kept)
                continue
            holes = ledger.open_to(job.job.demand)
            allocation = place(job, holes, at)
            if allocation is None:
                refused = waiting = True
                again_at = self._refuse(job, holes, at)
                may_move = moves and self._may_move
                if job is not last or may_move:
                    claim = self._keep(job, holes, at, None if job is last else kept)
                    if claim and may_move:
                        self._refused.append((job, claim, again_at))
                if self.policy.strict:
                    break
                continue
            if job.cpu_run is not None:  # its GPUs are free: they are kept until it has saved
                self._hide(allocation, kept)
                if job.phase is not STOPPING:
                    self._stop(job, at, step)
                continue
            del ready[job.id]
            job.refused_since = INFINITY
            behind = waiting
            self._grant(job, allocation, at, step)
            if not ledger.free:
                break
        return refused and behind

    def _grant(self, job: JobState, allocation: Allocation, at: float, step: Step) -> None:
        run_id = RunId(self.state.next_run_id)
        resumes = job.runs > 0
        decision = f.RunGranted(at, run_id, job.id, allocation)
        step.facts.append(decision)
        self._apply(decision, step)
        step.commands.append(StartRun(run_id, job.id, allocation, resumes))

    def _overflow(self, at: float, step: Step) -> bool:
        """Start on CPUs whom the GPUs have no room for; whether anybody was."""
        cpus = self.state.cpus
        assert cpus is not None
        if not cpus.free or not self.target.refused or not self.policy.uses_cpus:
            return False
        chosen = overflow.overflow(self.target, cpus.free)
        for job in chosen:
            self._grant(job, overflow.place(job.gpus, cpus), at, step)
        return bool(chosen)

    def _refuse(self, job: JobState, holes: Holes, at: float) -> float:
        """The placer has refused the job: note since when, and tell when it may be treated differently."""
        if job.gpus > holes.free:
            return INFINITY
        self._scattered.append(job)
        if job.refused_since == INFINITY:
            job.refused_since = at
            self._may_move = True
        again_at = self.placer.retry_at(job, holes, at)
        if again_at < self._retry_at:
            self._retry_at = max(again_at, at + 2 * BLINK_S)
        return again_at

    def _keep(self, job: JobState, holes: Holes, at: float, kept: list[Allocation] | None) -> Allocation:
        """The slots that the job claims; `kept` from those behind it until this pass is over."""
        claim = self.placer.claim(job, holes, at)
        if claim and kept is not None:
            self._hide(claim, kept)
        return claim

    def _hide(self, slots: Allocation, kept: list[Allocation]) -> None:
        self.state.ledger.hide(slots)
        kept.append(slots)

    def _set_timer(self, at: float, step: Step) -> None:
        """Wish to be woken at the next instant at which a rank changes by itself."""
        wakes, jobs = self._wakes, self.state.jobs
        while wakes:
            due_at, id = wakes[0]
            job = jobs.get(id)
            if job is not None and job.wakes_at == due_at:
                break
            heappop(wakes)
        next_at = wakes[0][0] if wakes and wakes[0][0] < self._retry_at else self._retry_at
        if next_at != self._timer_at:
            self._timer_at = next_at
            step.commands.append(SetTimer(next_at))

    def _count_fragmented(self, before: list[JobState], at: float) -> None:
        """Between two plans nothing becomes free: who was refused with enough slots free has waited so."""
        since = {job.id: self._scattered_since.pop(job.id, at) for job in self._scattered}
        for job in before:
            job.fragmented_s += at - self._scattered_since.pop(job.id, at)
        self._scattered_since = since
