"""Facts in, decisions and commands out: the part that the simulator and the live manager both run.

What is planned. The jobs in the target should hold GPUs (target.py). A plan stops the runs that fell out of
the target, and starts jobs of the target in rank order, as slots are physically free and the placer agrees.
A run that is saving counts as waiting, and its slots are used only after its exit. Being in the target is the
reservation: a preempted job cannot take back the slots that it was preempted for. A job of the target that
the placer refuses keeps free slots from those behind it, so that its hole grows (`Placer.claim`), and runs
may migrate to make a hole for it (migrations.py). Other jobs may run on CPUs meanwhile (overflow.py). Jobs
that ask for no GPUs are not in the target and have no rank (without_gpus.py).

The order of `handle`, which gets the facts of one instant and makes one plan:
1. `_apply` evolves the State by each fact, lets the policy learn from it, and ranks its job anew (`_sync`).
2. `_wake` ranks anew, or decides about, the jobs whose rank, pin or deferral ends at this instant.
3. `_rebuild` ranks all jobs anew if a fact has made all ranks out of date (`_stale`).
4. `_decide_passing` lets the policy decide about jobs whose rank holds for this plan only.
5. `_plan` stops and starts runs. Each decision is a fact as well, and goes through `_apply` at once.
6. `_set_timer` asks the driver to be woken at the next instant at which something changes by itself.

What holds between two calls of `handle`:
- `entries` has one entry per active job. An entry is ranked unless its job is pinned, on hold, deferred or
  cancelled, asks for no GPUs, or waits for more nodes than are in service.
- `target` is exact for the ranks of the last plan, and its `flips` are empty.
- `_ready` has the jobs of the target that hold no GPUs, or whose runs are saving.
- `_wakes` is a heap of (instant, job). An item counts only while it equals the entry's `wakes_at`.
- `_passing` is empty: a job whose rank held for one plan only has been ranked anew after that plan.
- `state.refused_since` has the jobs that the placer has refused since they came into the target, although
  enough slots were free, each with the instant of its first refusal. `_fragmented` lists those that the last
  plan refused so.
- `protection` knows the runs that no plan may stop, because their jobs are known not to save.
- `_timer_at` is the instant that the driver was last asked for.

What holds when a plug-in raises. Every fact from outside is applied all the same, and each decision in the
step has been applied; the exception is raised to the driver, and `failure` names the plug-in. From then on
the Controller applies facts and decides nothing (`set_aside`); the driver makes another one.

Why the loop in `_plan` ends. Another round follows only if the target flipped, if ranks that held for one
plan are to be replaced, or if a job started on CPUs. Within a plan these follow from decisions. A job is
started at most once and stopped at most once per plan: a saving run is not stopped again, and until its exit,
which is a fact, its job is not started again. A rank for one plan is replaced by one that lasts (`PASSED`).
So there are at most two decisions per job, and each of them causes a bounded number of rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any

from tiresias.core import facts as f
from tiresias.core import overflow
from tiresias.core.allotting import BLINK_S, Allotting, misfit
from tiresias.core.commands import Command, PaceRun, SetTimer, StartRun, StopRun
from tiresias.core.entries import JobEntry, Key
from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.kinetic_target import KineticTarget
from tiresias.core.migrations import migrations_for
from tiresias.core.model import INFINITY, JobId, Phase, Pool, Rank, RunId
from tiresias.core.plugin_failures import PluginFailure, blame
from tiresias.core.plugins import OptionError, Placer, Policy
from tiresias.core.protection import Protection
from tiresias.core.reasons import Reason, ReasonCode, blocked_head, code_of, explain
from tiresias.core.revocations import migration, revocations, to_gpus
from tiresias.core.sorted_target import SortedTarget
from tiresias.core.state import EVOLVE, JobState, Run, State
from tiresias.core.target import Target
from tiresias.core.view import View
from tiresias.core.wish_target import WishTarget
from tiresias.core.without_gpus import WithoutGpus

STARTING, RUNNING, PAUSED, STOPPING = Phase.STARTING, Phase.RUNNING, Phase.PAUSED, Phase.STOPPING
GPUS, CPUS = Pool.GPUS, Pool.CPUS
DRIFTING = 4  # elements of a key whose rank is one number
PASSED = 1e300  # wakes_at of a job whose rank held for one plan only: later than any instant
MOST_STALE = 3  # items of `_wakes` per job, and a few, before those that do not count are removed
FEW = 64
BY_KEY = attrgetter("key")
RunExited, TimerFired = f.RunExited, f.TimerFired
# After these facts the job's run must stop, or the job has ended if it has none.
STOPPERS = frozenset({f.JobCancelled, f.JobFailed, f.JobHeld, f.JobRequeued})
ENDERS = STOPPERS | {RunExited}  # after these facts the job may have ended
# Facts that change no plan; where ranks depend on the work done (Policy.by_work), a new speed may.
SILENT = frozenset({f.RunStarted, f.RunProgressed, f.RunPaced, f.LossReported})
SILENT_BY_WORK = frozenset({f.RunStarted, f.RunPaced, f.LossReported})
SHOW_SPEED = frozenset({f.RunStarted, f.RunProgressed})  # what a placer learns from


Learn = Callable[[Any, f.Fact, JobState | None], bool | Sequence[int]]
Way = tuple[Callable[[State, Any], JobState | None], Learn | None, bool, bool]
"""How to apply a kind of fact: `evolve`, `learn` if the policy learns from it, and whether it is silent and
may end a job."""


class Step:
    """What `handle` has decided. The driver owns the lists and empties them."""

    __slots__ = ("commands", "ended", "facts")

    def __init__(self) -> None:
        self.facts: list[f.Fact] = []  # decisions, in order
        self.commands: list[Command] = []
        self.ended: list[JobState] = []  # jobs that left the State


class AsSubmitted(Policy):
    """Ranks jobs in the place of a policy that has raised, so that reasons can still be given."""

    name = "as-submitted"

    def rank(self, job: JobState, memory: object, at: float) -> Rank:
        return ()


class Controller:
    """See the module for what its fields mean."""

    def __init__(self, state: State, policy: Policy, placer: Placer):
        self.state = state
        self.policy = policy
        self.placer = placer
        self.failure: PluginFailure | None = None  # what the policy or the placer raised
        if state.memory is None:
            state.memory = policy.new_memory()
        policy.begin(state.memory, state)
        if placer.learns:
            if state.placing is None or state.placing.get("placer") != placer.name:
                state.placing = placer.new_memory()
            placer.remember(state.placing)
        else:
            state.placing = None
        self.allotting = Allotting(state, policy)
        self._drifts = policy.drifts
        self._allots = policy.allots
        self._teaches = placer.learns
        self._how = self._ways()
        self.entries: dict[JobId, JobEntry] = {}
        self.target: Target[JobEntry] | KineticTarget | SortedTarget | WishTarget = self._new_target()
        self._ready: dict[JobId, JobEntry] = {}
        self._wakes: list[tuple[float, JobId]] = []
        self._passing: list[JobState] = []
        self.without_gpus = WithoutGpus(state)
        self._timer_at = INFINITY
        # Refused in this plan: the job, what it claims, and when the placer may decide otherwise.
        self._refused: list[tuple[JobEntry, Allocation, float]] = []
        self._fragmented: list[JobState] = []
        self._fragmented_since: dict[JobId, float] = {}  # since when each has been listed at every plan
        self._retry_at = INFINITY  # when the placer may decide otherwise about a job that it refused
        self.migrations = 0  # runs that were stopped so that they migrate
        self._may_migrate = False  # in this call a run exited, or a job was refused for the first time
        self._stale = False
        self._rebuild(state.at)

    @property
    def view(self) -> View:
        return View(self.state, self.target)

    def why(self, job_id: JobId) -> Reason | None:
        """Why this job is where it is; None if it is not active."""
        entry = self.entries.get(job_id)
        if entry is None:
            return None
        reason = explain(
            entry, self.pinned(), self.target, self.state, self.placer, strict=self.policy.strict
        )
        if reason.code == ReasonCode.NOT_ALLOTTED and isinstance(self.target, WishTarget):
            more = self.allotting.reason(entry.job, self.target, self.entries)
            reason.text += f"; {more}" if more else ""
        if entry.job.job.demand.is_elastic:
            reason.text += (
                f"; {self.allotting.size_of(entry.job, self.target, self.entries, self.policy.name)}"
            )
        return reason

    def reason_codes(self, job_ids: Iterable[JobId]) -> list[str]:
        """Why these active jobs are where they are: the codes alone, of many jobs at once."""
        head = blocked_head(self.target) if self.policy.strict else None
        return [code_of(self.entries[id], self.state, self.placer, head) for id in job_ids]

    def pinned(self) -> list[JobEntry]:
        """The jobs whose runs may not be preempted at present."""
        return [entry for entry in self.entries.values() if entry.pinned]

    def key_of(self, job: JobState, rank: Rank) -> Key:
        """The rank key of a job to which the policy gave this rank; OptionError if it is no rank."""
        name = self.policy.name
        if not isinstance(rank, Iterable):
            raise OptionError(f"{name} ranks job {job.id} {rank!r}; a rank is a tuple of numbers")
        key = (job.priority, *rank, job.submitted_at, job.id)
        if self._drifts and len(key) != DRIFTING:
            raise OptionError(
                f"{name} ranks job {job.id} {rank!r}, but a rank that drifts is one number; return (number,),"
                f" or set drifts = False in {type(self.policy).__name__} and say in `standing` until when a"
                " rank holds"
            )
        return key

    # --- facts -----------------------------------------------------------------------------------------

    def handle(self, facts: Iterable[f.Fact], step: Step) -> bool:
        """Apply facts, then plan as of the last one; False if none of them can change the plan.

        The facts are those of one instant. Only RunStarted, RunProgressed and LossReported may have happened
        earlier.
        """
        may_change = self._may_migrate = False
        facts = iter(facts)
        try:
            for fact in facts:
                if self._apply(fact, step):
                    may_change = True
            if not may_change or self.failure is not None:
                return False
            at = self.state.at
            wakes = self._wakes
            if wakes and wakes[0][0] <= at + BLINK_S:
                self._wake(at, step)
            if self._stale:
                self._rebuild(at)
            if self._passing:
                self._decide_passing(at, step)
            if self._allots:
                self._allot(at, step)
            if self.allotting.may_pace:
                for pace in self.allotting.left_paces(at):
                    self._pace(pace, step)
            before: Sequence[JobState] = ()
            if self._fragmented:
                before, self._fragmented = self._fragmented, []
            self._plan(at, step)
            if before or self._fragmented:
                self._count_fragmented(before, at)
            self._set_timer(at, step)
        except Exception as error:
            failure = blame(error, self.policy, self.placer)
            if failure is not None:
                self.set_aside(failure)
                for fact in facts:
                    self._apply(fact, step)
            raise
        return True

    def set_aside(self, failure: PluginFailure) -> None:
        """Decide nothing from now on, because a plug-in has raised an exception."""
        self.failure = failure
        if failure.kind == "policy":
            self.policy = AsSubmitted()
            self._drifts = self._allots = False
            self.allotting.set_aside()
            self._how = self._ways()
        self._passing.clear()
        self._fragmented.clear()
        self._rebuild(self.state.at)

    def _ways(self) -> dict[type, Way]:
        policy = self.policy
        silent = SILENT_BY_WORK if policy.by_work else SILENT
        return {
            kind: (evolve, policy.learn if kind in policy.learns else None, kind in silent, kind in ENDERS)
            for kind, evolve in EVOLVE.items()
        }

    def _apply(self, fact: f.Fact, step: Step) -> bool:
        """Apply one fact; whether it may change the plan."""
        state = self.state
        at = fact.at
        assert at >= state.at, ("time went back", state.at, fact)
        state.at = at
        kind = type(fact)
        evolve, learn, is_silent, may_end = self._how[kind]
        job = evolve(state, fact)
        has_ended = False
        if may_end:  # first, because a plug-in may raise below
            assert job is not None
            if job.ended_at == at:
                has_ended = True
                step.ended.append(job)
            elif kind is not RunExited and (run := job.run) is not None:
                step.commands.append(StopRun(run.id))
        changed: bool | Sequence[int] = False
        if learn is not None and (job is None or job.gpus):
            changed = learn(state.memory, fact, job)
            if changed is True:
                self._stale = True
        if job is None:
            if kind is not TimerFired:
                self._stale = True  # a node or a slot came or went
        elif is_silent:
            if self._drifts:
                self._sync(job, at)
        else:
            if job.resumable is not None or self._unsaving:
                for other in self.protection.follow(job):
                    self._sync(other, at)
            if has_ended:
                self._forget(job)
            else:
                self._sync(job, at)
            if kind is RunExited:
                self._may_migrate = True
                if self._drained:
                    self._stale = True  # its slots may have left with it
                if not has_ended:
                    entry = self.entries[job.id]
                    if entry.admitted:  # it was not stopped by a plan, or was to migrate
                        self._ready[job.id] = entry
        if self._teaches and kind in SHOW_SPEED:
            assert job is not None
            if job.gpus:
                self.placer.learn(fact, job, state)
        if changed and changed is not True:
            self._rerank(changed, at)
        return not is_silent

    def _wake(self, at: float, step: Step) -> None:
        """Rank anew the jobs that are due, or due in a blink: rounding makes no instants of its own."""
        wakes, entries = self._wakes, self.entries
        while wakes and wakes[0][0] <= at + BLINK_S:
            due_at, id = heappop(wakes)
            entry = entries.get(id)
            if entry is None or entry.wakes_at != due_at:
                continue
            entry.wakes_at = min(due_at, at)
            job = entry.job
            decision = f.JobCleared(at, id) if job.deferred else self._due(job, at)
            if decision is None:
                self._sync(job, at)
            else:
                step.facts.append(decision)
                self._apply(decision, step)

    def _decide_passing(self, at: float, step: Step) -> None:
        """Let the policy decide about jobs whose rank holds for this plan only."""
        for job in list(self._passing):
            if job.id not in self.entries:
                continue  # it has ended at this very instant
            decision = self._due(job, at)
            if decision is not None:
                step.facts.append(decision)
                self._apply(decision, step)

    def _due(self, job: JobState, at: float) -> f.Fact | None:
        """What the policy decides about a job whose rank has run out; OptionError if that is no fact."""
        decision = self.policy.due(job, self.state.memory, at)
        if decision is not None and type(decision) not in EVOLVE:
            raise OptionError(f"{self.policy.name} decides {decision!r} about job {job.id}, which is no fact")
        return decision

    # --- ranks -----------------------------------------------------------------------------------------

    def _sync(self, job: JobState, at: float) -> None:
        """Bring the target in line with what the job has become."""
        try:
            entry = self.entries[job.id]
        except KeyError:
            entry = self.entries[job.id] = JobEntry(job)
        gpus = job.gpus
        if (gpus != entry.gpus or not gpus) and not self._resize(job, entry):
            return
        phase = job.phase
        if phase is RUNNING or phase is STARTING or phase is PAUSED:
            if self._may_pin or not job.preemptible or job.resumable is False:
                assert job.run is not None
                until = self._pinned_until(job, job.run)
                if until > at + BLINK_S:  # a pin that ends in a blink has ended: it would be woken for ever
                    self._pin(entry)
                    self._wake_at(entry, until)
                    return
        elif job.deferred or job.on_hold or job.cancelled:
            self._unrank(entry)
            if job.deferred:
                self._wake_at(entry, job.deferred_until)
            return
        elif (
            job.job.demand.nodes is not None
            and job.run is None
            and not self.state.ledger.can_serve(job.job.demand)
        ):
            self._unrank(entry)  # until nodes come, return or are restored, which ranks all jobs anew
            return
        if entry.pinned:
            self._unpin(entry)
        rank, until = self.policy.standing(job, self.state.memory, at, entry.wakes_at <= at)
        if self._drifts:
            key = self.key_of(job, rank)
        else:
            try:
                key = (job.priority, *rank, job.submitted_at, job.id)  # as in key_of, without the call
            except TypeError:
                key = self.key_of(job, rank)  # which says that it is no rank
        if entry.key is None:
            entry.gpus = gpus
            self.target.add(entry, key)
        else:
            self.target.rerank(entry, key)
        if until > at:
            if until != entry.wakes_at:
                soonest = at + 2 * BLINK_S
                self._wake_at(entry, until if until > soonest else soonest)
        elif entry.wakes_at != PASSED:
            entry.wakes_at = PASSED
            self._passing.append(job)
        else:
            self._wake_at(entry, at + 2 * BLINK_S)

    def _resize(self, job: JobState, entry: JobEntry) -> bool:
        """The job has another size than its entry, or needs no GPUs; whether it has a place in the target."""
        if not job.gpus or not entry.gpus:  # without GPUs, now or until now
            self.without_gpus.update(job)
        if not job.gpus:
            if entry.gpus:
                self._unrank(entry)
                entry.gpus = 0
            self._wake_at(entry, job.deferred_until if job.deferred else INFINITY)
            return False
        if not entry.gpus:
            entry.gpus = job.gpus
        elif entry.key is not None:
            self.target.drop(entry)
        return True

    def _forget(self, job: JobState) -> None:
        """The job has ended."""
        entry = self.entries.pop(job.id)
        if not job.gpus or not entry.gpus:
            self.without_gpus.update(job)
        self._unrank(entry)

    def _rerank(self, ids: Sequence[int], at: float) -> None:
        """Rank anew those of these jobs that are ranked."""
        entries = self.entries
        for id in ids:
            entry = entries.get(JobId(id))
            if entry is not None and entry.key is not None:
                self._sync(entry.job, at)

    def _pinned_until(self, job: JobState, run: Run) -> float:
        """Until when no plan may stop this run."""
        if run.pool is CPUS:
            return -INFINITY  # it has nothing that a plan could take
        if not self.policy.preempts or not job.preemptible or run.id in self.protection.runs:
            return INFINITY
        ledger = self.state.ledger
        if any(slots & ~ledger.offered[node] for node, slots in run.allocation):
            return INFINITY  # its slots would not all serve others
        until = run.granted_at + self.policy.min_run_s
        return until if self.state.wish is None else max(until, self.allotting.lease_ends_at(job))

    def _pin(self, entry: JobEntry) -> None:
        if entry.pinned:
            if isinstance(self.target, WishTarget):
                self.target.note(entry)  # something about the taken job may have changed, as its priority
            return
        if entry.admitted:
            self.target.pin(entry)
        else:
            if entry.key is not None:
                self.target.drop(entry)
            self.target.resize(self.target.capacity - entry.gpus)
            if isinstance(self.target, WishTarget):
                self.target.note(entry)
        entry.pinned = True

    def _unpin(self, entry: JobEntry) -> None:
        entry.pinned = False
        self.target.resize(self.target.capacity + entry.gpus)
        if isinstance(self.target, WishTarget):
            self.target.note(entry)

    def _unrank(self, entry: JobEntry) -> None:
        if entry.pinned:
            self._unpin(entry)
        if entry.key is not None:
            self.target.drop(entry)
        self._ready.pop(entry.id, None)
        if self.state.refused_since:
            self.state.refused_since.pop(entry.id, None)
        entry.wakes_at = INFINITY

    def _wake_at(self, entry: JobEntry, at: float) -> None:
        entry.wakes_at = at
        if at != INFINITY:
            heappush(self._wakes, (at, entry.id))

    def _new_target(self) -> Target[JobEntry] | KineticTarget | SortedTarget | WishTarget:
        if self.policy.allots:
            return WishTarget(self.state)
        if self.policy.strict:
            return SortedTarget(self.state, self.policy.drift if self._drifts else None, strict=True)
        if self._drifts:
            return KineticTarget(self.state, self.policy.drift)
        return Target(self.state.ledger.capacity)

    def _rebuild(self, at: float) -> None:
        """Rank every job from the State alone: at the start, and when all ranks may have changed."""
        self._stale = False
        ledger, policy = self.state.ledger, self.policy
        policy.gpus = ledger.gpus
        self._settles = policy.drifts or policy.strict  # the other targets are always exact
        self._drained = ledger.gpus < sum(node.gpus for node in ledger.nodes)
        self._may_pin = not policy.preempts or policy.min_run_s > 0 or self._drained or policy.allots
        self._ready.clear()
        self.target = self._new_target()
        self.entries.clear()
        self._wakes.clear()
        self.protection = Protection(self.state, policy.protect)
        self._unsaving = self.protection.unsaving
        self.without_gpus = WithoutGpus(self.state)
        self.target.gather()
        for job in self.state.jobs.values():
            self._sync(job, at)
        self.target.fill()

    # --- the wish --------------------------------------------------------------------------------------

    def _allot(self, at: float, step: Step) -> None:
        """Ask the allocator for its wish, if it must be asked now, and let target and runs follow it."""
        assert isinstance(self.target, WishTarget)
        decision = self.allotting.ask(self.target, self.entries, at)
        if decision is None:
            return
        EVOLVE[type(decision)](self.state, decision)
        step.facts.append(decision)
        if isinstance(decision, f.WishRefused):
            return
        self.target.follow(decision.given, decision.withdrawn)
        for allotment in decision.given:
            entry = self.entries[allotment.job_id]
            job = entry.job
            why = misfit(entry, allotment)
            if why is not None:
                self._ready[entry.id] = entry
                self._stop(job, at, step, why)
            elif allotment.until is not None and job.run is not None:
                self._sync(job, at)
            self._pace(self.allotting.pace(job, allotment, at), step)

    def _pace(self, decision: f.RunPaced | None, step: Step) -> None:
        if decision is not None:
            step.facts.append(decision)
            step.commands.append(PaceRun(decision.run_id, decision.turn, decision.turns))
            self._apply(decision, step)

    def _start_named(self, at: float, step: Step) -> None:
        """Start jobs on the slots that the wish names for them, as these are free."""
        for entry, allotment in self.allotting.startable(self._ready.values()):
            assert allotment.slots is not None
            job = entry.job
            del self._ready[entry.id]
            self._grant(job, allotment.slots, at, step, allotment.layer)
            self._pace(self.allotting.pace(job, allotment, at), step)

    # --- the plan --------------------------------------------------------------------------------------

    def _plan(self, at: float, step: Step) -> None:
        if self._settles:
            self.target.settle(at)
        self._retry_at = INFINITY
        if self._refused:
            self._refused.clear()
        state, flips, ready = self.state, self.target.flips, self._ready
        while True:
            if self._passing and not flips:
                passing, self._passing = self._passing, []
                for job in passing:
                    if job.id in self.entries:
                        self._sync(job, at)
            if flips:
                self._revoke(at, step)
            if self._fragmented:
                self._fragmented.clear()
            if ready:
                if self.allotting.names_slots:
                    self._start_named(at, step)
                elif state.ledger.free:
                    self._start(at, step)
                    if self._refused:
                        self._migrate(at, step)
            if flips or self._passing:
                continue
            if state.cpus is None or not self._overflow(at, step):
                break
        if self.without_gpus.waiting:
            for job in self.without_gpus.startable():
                self._grant(job, (), at, step)

    def _revoke(self, at: float, step: Step) -> None:
        """Stop the runs that fell out of the target, and add what came in to `_ready`."""
        flips, ready, refused_since = self.target.flips, self._ready, self.state.refused_since
        victims = []
        for entry in flips.values():
            job = entry.job
            run = job.run
            goes_on = run is not None and run.pool is GPUS and job.phase is not STOPPING
            if entry.admitted:
                if not goes_on:
                    ready[entry.id] = entry
            else:
                ready.pop(entry.id, None)
                if refused_since:
                    refused_since.pop(entry.id, None)
                if goes_on:
                    victims.append(entry)
        flips.clear()
        if not victims:
            return
        victims.sort(key=BY_KEY, reverse=True)
        if self.policy.allots:
            for entry in victims:
                self._stop(entry.job, at, step, f.Revocation(f.Rule.WISH))
            return
        waiting, going = sum(entry.gpus for entry in ready.values()), sum(entry.gpus for entry in victims)
        # What the jobs of the target that hold GPUs leave, without the victims: free, or held by saving runs.
        left = self.target.capacity - (self.target.used - waiting) - going
        key = self._key_now if self._drifts else BY_KEY
        reasons = revocations(victims, ready.values(), left, key, self.policy, self.state.memory, at)
        for entry, why in zip(victims, reasons, strict=True):
            self._stop(entry.job, at, step, why)

    def _key_now(self, entry: JobEntry) -> Key:
        """The key of an entry whose rank has drifted since it was ranked."""
        job = entry.job
        return self.key_of(job, self.policy.rank(job, self.state.memory, self.state.at))

    def _stop(self, job: JobState, at: float, step: Step, why: f.Revocation) -> None:
        run = job.run
        assert run is not None
        run_id = run.id
        decision = f.RunRevoked(at, run_id, why)
        step.facts.append(decision)
        step.commands.append(StopRun(run_id))  # first, because the policy may raise when it ranks the job
        self._apply(decision, step)

    def _migrate(self, at: float, step: Step) -> None:
        """Let runs migrate for the first refused job for which that pays."""
        for entry, claim, again_at in self._refused:
            movers = migrations_for(
                entry.job, claim, again_at - at, self.entries, self.state, self.placer, at
            )
            if movers:
                self.migrations += len(movers)
                for other in movers:
                    self._ready[other.id] = other
                    why = migration(other.job, entry.job, self.policy, self.state.memory, at)
                    self._stop(other.job, at, step, why)
                return

    def _start(self, at: float, step: Step) -> None:
        """Start jobs of the target in rank order, as far as slots are free and the placer agrees."""
        kept: list[Allocation] = []  # slots that refused jobs keep from those behind them
        again = True
        while again:  # jobs that started behind a refused one may have changed what the placer wants
            try:
                again = self._start_some(at, step, kept)
            finally:
                if kept:
                    for claim in kept:
                        self.state.ledger.show(claim)
                    kept.clear()

    def _start_some(self, at: float, step: Step, kept: list[Allocation]) -> bool:
        """One pass over the ready jobs; whether another pass might start more."""
        state, ready, placer = self.state, self._ready, self.placer
        ledger, place, waits, migrations = state.ledger, placer.place, placer.waits, placer.migrations
        self._retry_at = INFINITY
        if self._fragmented:
            self._fragmented.clear()
        if self._refused:
            self._refused.clear()
        refused = waiting = behind = False  # behind: a job started behind one that waits
        entries = [  # the others are still saving
            entry for entry in ready.values() if (run := entry.job.run) is None or run.pool is CPUS
        ]
        if len(entries) < len(ready):
            migrations = 0  # what the saving runs leave behind may be enough
            if not entries:
                return False
        if len(entries) > 1:
            entries.sort(key=BY_KEY)
        last = entries[-1]  # there is no job behind it to keep slots from
        since = state.refused_since
        for entry in entries:
            job = entry.job
            if job.gpus > ledger.free:  # the runs that were preempted for it are still saving
                if entry is not last and (waits or job.job.demand.is_choosy):
                    waiting = True
                    self._keep(job, ledger.open_to(job.job.demand), at, kept)
                continue
            holes = ledger.open_to(job.job.demand)
            allocation = place(job, holes, at, since.get(job.id, at) if since else at)
            if allocation is None:
                refused = waiting = True
                again_at = self._refuse(job, holes, at)
                may_migrate = migrations and self._may_migrate
                if entry is not last or may_migrate:
                    claim = self._keep(job, holes, at, None if entry is last else kept)
                    if claim and may_migrate:
                        self._refused.append((entry, claim, again_at))
                if self.policy.strict:
                    break
                continue
            if holes.pieces:
                holes.check_pieces(allocation)
            if job.run is not None:  # on CPUs. Its GPUs are free: they are kept until it has saved
                ledger.hide(allocation)
                kept.append(allocation)
                if job.phase is not STOPPING:
                    self._stop(job, at, step, to_gpus(job, self.policy, state.memory, at))
                continue
            del ready[job.id]
            if since:
                since.pop(job.id, None)
            behind = waiting
            self._grant(job, allocation, at, step)
            if not ledger.free:
                break
        return refused and behind

    def _grant(self, job: JobState, allocation: Allocation, at: float, step: Step, layer: int = 0) -> None:
        run_id = RunId(self.state.next_run_id)
        resumes = job.runs > 0
        decision = f.RunGranted(at, run_id, job.id, allocation, layer)
        step.facts.append(decision)
        step.commands.append(StartRun(run_id, job.id, allocation, resumes))
        self._apply(decision, step)

    def _overflow(self, at: float, step: Step) -> bool:
        """Start jobs on CPUs for which the GPUs have no room; whether any was started."""
        cpus = self.state.cpus
        assert cpus is not None
        if not cpus.free or not self.target.refused or not self.policy.uses_cpus:
            return False
        chosen = overflow.overflow(self.target, cpus.free)
        for entry in chosen:
            self._grant(entry.job, overflow.place(entry.gpus, cpus), at, step)
        return bool(chosen)

    def _refuse(self, job: JobState, holes: Holes, at: float) -> float:
        """The placer has refused the job. Returns when the placer may decide otherwise."""
        if job.gpus > holes.free:
            return INFINITY
        self._fragmented.append(job)
        since = self.state.refused_since
        if job.id not in since:
            since[job.id] = at
            self._may_migrate = True
        again_at = self.placer.retry_at(job, holes, at, since[job.id])
        if again_at < self._retry_at:
            self._retry_at = max(again_at, at + 2 * BLINK_S)
        return again_at

    def _keep(self, job: JobState, holes: Holes, at: float, kept: list[Allocation] | None) -> Allocation:
        """The slots that the job claims, which are `kept` from those behind it until this pass is over."""
        since = self.state.refused_since.get(job.id, at)
        claim = self.placer.claim(job, holes, at, since)
        if claim and kept is not None:
            self.state.ledger.hide(claim)
            kept.append(claim)
        return claim

    def _set_timer(self, at: float, step: Step) -> None:
        """Ask to be woken at the next instant at which a rank or a refusal may change by itself."""
        wakes, entries, next_at = self._wakes, self.entries, self._retry_at
        if step.ended and len(wakes) > MOST_STALE * len(entries) + FEW:
            wakes[:] = [(each.wakes_at, id) for id, each in entries.items() if at < each.wakes_at < PASSED]
            heapify(wakes)
        while wakes:
            due_at, id = wakes[0]
            entry = entries.get(id)
            if entry is not None and entry.wakes_at == due_at:
                if due_at < next_at:
                    next_at = due_at
                break
            heappop(wakes)
        if self._allots:
            wish = self.state.wish
            if wish is not None and at < wish.again_at < next_at:
                next_at = wish.again_at
        if next_at != self._timer_at:
            self._timer_at = next_at
            step.commands.append(SetTimer(next_at))

    def _count_fragmented(self, before: Sequence[JobState], at: float) -> None:
        """Add to the `fragmented_s` of jobs that are refused no longer.

        Between two plans nothing becomes free, so a job that one plan refused has waited until the next.
        """
        if self._fragmented == before:
            return
        since = {job.id: self._fragmented_since.pop(job.id, at) for job in self._fragmented}
        for job in before:
            job.fragmented_s += at - self._fragmented_since.pop(job.id, at)
        self._fragmented_since = since
