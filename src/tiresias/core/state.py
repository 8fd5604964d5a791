"""Everything the Controller knows, and how a fact changes it.

`evolve` applies one fact in place and returns the job that it concerns. It decides nothing. `state.jobs` has
active jobs only: a job leaves the State with the fact that ends it, so that no cost grows with the number of
finished jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import Allocation, ExitCause
from tiresias.core.ledger import Ledger, cpu_ledger, cpu_node
from tiresias.core.lifecycle import ENDED, HELD, TRANSITIONS
from tiresias.core.model import INFINITY, PRIORITY_ORDER, Cluster, Demand, Job, JobId, Phase, Pool, RunId
from tiresias.core.wish import Wish

PENDING, STOPPING = Phase.PENDING, Phase.STOPPING
SUSPENDED, CANCELLED = Phase.SUSPENDED, Phase.CANCELLED
FINISHED = ExitCause.FINISHED
GPUS, CPUS = Pool.GPUS, Pool.CPUS


def count(allocation: Allocation) -> int:
    """How many slots it has."""
    return sum([slots.bit_count() for _, slots in allocation])


class Run:
    """One attempt of a job, from grant to exit."""

    __slots__ = (
        "allocation",
        "ended_at",
        "gpus",
        "granted_at",
        "id",
        "job_id",
        "layer",
        "pool",
        "progress_at",
        "progress_s",
        "speed",
        "started_at",
        "turn",
        "turns",
    )

    def __init__(
        self,
        id: RunId,
        job_id: JobId,
        allocation: Allocation,
        pool: Pool,
        granted_at: float,
        progress_s: float,
    ):
        self.id = id
        self.job_id = job_id
        self.allocation = allocation
        # Slots that it holds, in its pool.
        self.gpus = allocation[0][1].bit_count() if len(allocation) == 1 else count(allocation)
        self.pool = pool
        self.granted_at = granted_at
        self.started_at = INFINITY  # when it began to work
        self.progress_s = progress_s  # work known to be done at progress_at
        self.progress_at = granted_at
        self.speed = 0.0  # 0 until RunStarted: loading makes no progress
        self.ended_at = INFINITY  # if that was before its exit was seen; see RunEnded
        self.layer = 0  # of its slots; other runs may hold them on other layers
        self.turn, self.turns = 0, 1  # it works in this one of so many slices of time; see RunPaced

    def work_at(self, at: float) -> float:
        """Seconds of work done, as far as the facts show."""
        return self.progress_s + self.speed * (at - self.progress_at)


class JobState:
    """An active job and what has become of it so far."""

    __slots__ = (
        "cancelled",
        "deferred",
        "deferred_until",
        "ended_at",
        "executed_s",
        "first_started_at",
        "fragmented_s",
        "gpus",
        "id",
        "job",
        "last_preempted_at",
        "on_hold",
        "phase",
        "preemptible",
        "preemptions",
        "priority",
        "progress_s",
        "resumable",
        "run",
        "runs",
        "service_gpu_s",
        "submitted_at",
        "waiting_since",
    )

    def __init__(self, job: Job):
        self.job = job
        self.id = job.id
        self.gpus = job.demand.gpus  # its size: what it needs to run; of elastic jobs see State.fit
        self.submitted_at = job.submitted_at
        self.priority = PRIORITY_ORDER[job.priority]
        self.preemptible = job.preemptible
        self.resumable = job.resumable  # None: not known
        self.phase = PENDING
        self.run: Run | None = None  # the run that holds slots, of GPUs or of CPUs
        self.runs = 0  # in either pool
        self.preemptions = 0
        self.first_started_at = INFINITY  # first grant of GPUs
        self.last_preempted_at = -INFINITY  # last revocation of GPUs by policy
        self.waiting_since = job.submitted_at
        self.executed_s = 0.0  # seconds of the closed runs, on GPUs or CPUs
        self.service_gpu_s = 0.0  # GPU-seconds of the closed runs; on CPUs there are none
        self.progress_s = 0.0  # work saved by the closed runs
        self.ended_at = INFINITY
        self.cancelled = False
        self.on_hold = False  # its user wants it HELD, though a run of it may still be stopping
        self.deferred = ""  # why it waits for something other than its rank; empty: it does not
        self.deferred_until = INFINITY
        self.fragmented_s = 0.0  # seconds it waited though enough slots were free

    @property
    def user(self) -> str:
        return self.job.user

    @property
    def tenant(self) -> str:
        return self.job.tenant

    @property
    def group(self) -> str:
        return self.job.group

    @property
    def model(self) -> str:
        return self.job.model

    @property
    def gpu_run(self) -> Run | None:
        """The run that holds GPUs: None while the job waits, and while it runs on CPUs.

        The target and the policies see no more than this: for them, a job that runs on CPUs waits.
        """
        run = self.run
        return run if run is not None and run.pool is GPUS else None

    def service_at(self, at: float) -> float:
        """Attained service in GPU-seconds: every second for which its runs held GPUs."""
        run = self.run
        if run is None or run.pool is CPUS:
            return self.service_gpu_s
        return self.service_gpu_s + run.gpus * (at - run.granted_at)

    def executed_at(self, at: float) -> float:
        """Seconds its runs have held slots."""
        run = self.run
        return self.executed_s if run is None else self.executed_s + at - run.granted_at

    def progress_at(self, at: float) -> float:
        """Seconds of work done, as far as the facts show; work on CPUs counts once it is saved."""
        run = self.run
        if run is None or run.pool is CPUS:
            return self.progress_s
        return run.progress_s + run.speed * (at - run.progress_at)


class State:
    """What is known at `at`."""

    def __init__(self, cluster: Cluster, memory: Any = None):
        self.at = -INFINITY
        self.ledger = Ledger(cluster)
        self.cpus = cpu_ledger(cluster.nodes)
        self.jobs: dict[JobId, JobState] = {}
        self.runs: dict[RunId, Run] = {}
        self.next_run_id = 1
        self.memory = memory  # the policy's: a serialisable value
        self.placing: dict[str, Any] | None = None  # the memory of a placer that learns; JSON can hold it
        self.refused_since: dict[JobId, float] = {}  # by the placer, though enough slots were free
        self.wish: Wish | None = None  # of the allocator, if one decides
        self.shares: dict[str, float] = {}  # weights by tenant
        self.paced: dict[RunId, None] = {}  # the runs that do not work all the time

    def pool_of(self, allocation: Allocation) -> Pool:
        """The pool of these slots: nodes with GPUs offer GPUs, and the others CPUs.

        The runs of jobs without GPUs hold no slots, and count as runs of the pool of GPUs.
        """
        if self.cpus is None or not allocation or self.ledger.nodes[allocation[0][0]].gpus:
            return GPUS
        return CPUS

    def hold(self, job: JobState, run: Run) -> None:
        """Give the run its slots."""
        ledger = self.ledger if run.pool is GPUS else self.cpus
        assert ledger is not None, ("a cluster without slots of CPUs", run.id)
        ledger.take(run.id, run.allocation, run.layer, job.job.demand.gpu_memory_bytes)
        job.run = run
        self.runs[run.id] = run

    def fit(self, job: JobState) -> None:
        """Give an elastic job the size that follows from everything else.

        That is what the wish gives it; otherwise that of its run, as long as this goes on; otherwise its
        reference size.
        """
        demand = job.job.demand
        allotment = None if self.wish is None else self.wish.jobs.get(job.id)
        if not demand.is_elastic:
            job.gpus = demand.gpus
        elif allotment is not None and demand.least <= allotment.gpus <= demand.most:
            job.gpus = allotment.gpus
        elif job.gpu_run is not None and job.phase is not STOPPING:
            job.gpus = job.gpu_run.gpus
        else:
            job.gpus = demand.gpus

    def set_wish(self, wish: Wish | None) -> None:
        """Another wish stands, or none: elastic jobs have the sizes that follow."""
        self.wish = wish
        for job in self.jobs.values():
            if job.job.demand.is_elastic:
                self.fit(job)

    def ledger_of(self, node: str) -> Ledger:
        """The Ledger that has the slots of this node."""
        has_gpus = self.ledger.nodes[self.ledger.position(node)].gpus
        return self.ledger if has_gpus or self.cpus is None else self.cpus

    def slot_names(self, allocation: Allocation) -> Iterator[str]:
        """`node:index` of every slot, in order; of GPUs or of CPUs."""
        ledger = self.ledger
        if self.cpus is not None and self.pool_of(allocation) is CPUS:
            ledger = self.cpus
        return ledger.slot_names(allocation)

    @property
    def waiting(self) -> int:
        return len(self.jobs) - len(self.runs)


def _submitted(state: State, fact: f.JobSubmitted) -> JobState:
    job = fact.job
    assert job.id not in state.jobs, ("submitted twice", job.id)
    state.jobs[job.id] = touched = JobState(job)
    return touched


def _held(state: State, fact: f.JobHeld) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobHeld"][job.phase]
    job.on_hold = True
    _stop_working(job, fact.at)
    _leave(state, job)
    return job


def _released(state: State, fact: f.JobReleased) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobReleased, has run" if job.runs else "JobReleased"][job.phase]
    job.on_hold = False
    return job


def _requeued(state: State, fact: f.JobRequeued) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobRequeued"][job.phase]
    _stop_working(job, fact.at)
    _leave(state, job)
    return job


def _deferred(state: State, fact: f.JobDeferred) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobDeferred"][job.phase]
    job.deferred = fact.reason
    job.deferred_until = INFINITY if fact.until is None else fact.until
    return job


def _cleared(state: State, fact: f.JobCleared) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobCleared"][job.phase]
    job.deferred = ""
    job.deferred_until = INFINITY
    return job


def _changed(state: State, fact: f.JobChanged) -> JobState:
    job, new = state.jobs[fact.job.id], fact.job
    assert new.submitted_at == job.submitted_at, ("submitted at another time", job.id)
    is_same = _sizes(new.demand) == _sizes(job.job.demand)
    assert is_same or not job.runs, ("another demand after a run", job.id, new.demand)
    job.job = new
    state.fit(job)
    job.priority = PRIORITY_ORDER[new.priority]
    job.preemptible = new.preemptible
    job.resumable = new.resumable
    return job


def _sizes(demand: Demand) -> tuple[int, int, int]:
    return demand.gpus, demand.least, demand.most


def _failed(state: State, fact: f.JobFailed) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobFailed"][job.phase]
    _end(state, job, fact.at)
    return job


def _cancelled(state: State, fact: f.JobCancelled) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["JobCancelled"][job.phase]
    job.cancelled = True
    _leave(state, job)
    if job.phase in ENDED:
        _end(state, job, fact.at)
    return job


def _stop_working(job: JobState, at: float) -> None:
    """A run that must stop can save what it has done so far, and no more."""
    run = job.run
    if run is not None:
        run.progress_s = run.work_at(at)
        run.progress_at = at
        run.speed = 0.0


def _leave(state: State, job: JobState) -> None:
    """A run that must stop saves without waiting for its turn, and its size is not that of its job."""
    if job.job.demand.max_gpus is not None:
        state.fit(job)
    if state.paced and job.run is not None and state.paced.pop(job.run.id, 0) is None:
        job.run.turn, job.run.turns = 0, 1


def _promoted(state: State, fact: f.JobPromoted) -> JobState:
    return state.jobs[fact.job_id]


def _granted(state: State, fact: f.RunGranted) -> JobState:
    job = state.jobs[fact.job_id]
    job.phase = TRANSITIONS["RunGranted"][job.phase]
    at, run_id = fact.at, fact.run_id
    pool = GPUS if state.cpus is None else state.pool_of(fact.allocation)
    run = Run(run_id, job.id, fact.allocation, pool, at, job.progress_s)
    run.layer = fact.layer
    state.hold(job, run)
    job.runs += 1
    if job.first_started_at == INFINITY and pool is GPUS:
        job.first_started_at = at
    if run_id >= state.next_run_id:
        state.next_run_id = run_id + 1
    return job


def _started(state: State, fact: f.RunStarted) -> JobState:
    run = state.runs[fact.run_id]
    job = state.jobs[run.job_id]
    run.started_at = run.progress_at = fact.at
    if run.turns:
        job.phase = TRANSITIONS["RunStarted"][job.phase]
        run.speed = fact.speed
    else:
        job.phase = TRANSITIONS["RunStarted, is paused"][job.phase]
    return job


def _paced(state: State, fact: f.RunPaced) -> JobState:
    run = state.runs[fact.run_id]
    job = state.jobs[run.job_id]
    job.phase = TRANSITIONS["RunPaced" if fact.turns else "RunPaced, no turns"][job.phase]
    run.turn, run.turns = fact.turn, fact.turns
    if fact.turns == 1:
        state.paced.pop(run.id, None)
    else:
        state.paced[run.id] = None
    if not fact.turns:
        _stop_working(job, fact.at)
    return job


def _progressed(state: State, fact: f.RunProgressed) -> JobState:
    run = state.runs[fact.run_id]
    run.progress_s = fact.progress_s
    run.progress_at = fact.at
    run.speed = fact.speed
    return state.jobs[run.job_id]


def _loss_reported(state: State, fact: f.LossReported) -> JobState:
    return state.jobs[state.runs[fact.run_id].job_id]  # only policies learn from it


def _revoked(state: State, fact: f.RunRevoked) -> JobState:
    run = state.runs[fact.run_id]
    job = state.jobs[run.job_id]
    job.phase = TRANSITIONS["RunRevoked"][job.phase]
    if run.pool is GPUS:
        job.preemptions += 1
        job.last_preempted_at = fact.at
    _stop_working(job, fact.at)
    _leave(state, job)
    return job


def _ended(state: State, fact: f.RunEnded) -> JobState:
    run = state.runs[fact.run_id]
    assert run.granted_at <= fact.ended_at <= fact.at, ("ended before its grant, or later than now", fact)
    run.ended_at = fact.ended_at
    return state.jobs[run.job_id]


def _exited(state: State, fact: f.RunExited) -> JobState:
    run = state.runs.pop(fact.run_id)
    if state.paced:
        state.paced.pop(run.id, None)
    job = state.jobs[run.job_id]
    at, cause = fact.at, fact.cause
    executed_s = (at if at < run.ended_at else run.ended_at) - run.granted_at
    job.executed_s += executed_s
    job.progress_s = fact.progress_s
    job.run = None
    if run.pool is GPUS:
        state.ledger.release(run.id)
        job.service_gpu_s += executed_s * run.gpus
        job.waiting_since = at
    else:
        assert state.cpus is not None
        state.cpus.release(run.id)
    job.phase = TRANSITIONS[cause][job.phase]
    if job.job.demand.max_gpus is not None:
        state.fit(job)
    if job.cancelled and cause is not FINISHED:
        job.phase = CANCELLED
    elif job.on_hold and job.phase is SUSPENDED:
        job.phase = HELD
    if job.phase in ENDED:
        _end(state, job, at)
    return job


def _saved(state: State, fact: f.WorkSaved) -> JobState:
    return _known_as(state.jobs[fact.job_id], resumable=True)


def _lost(state: State, fact: f.WorkLost) -> JobState:
    job = state.jobs[fact.job_id]
    if job.run is not None:  # it began anew, and has shown that only now
        job.run.progress_s = max(0.0, job.run.progress_s - job.progress_s)
    job.progress_s = 0.0
    return _known_as(job, resumable=False)


def _known_as(job: JobState, *, resumable: bool) -> JobState:
    """What the job has shown becomes part of the job, and is stored with it."""
    job.job = replace(job.job, resumable=resumable)
    job.resumable = resumable
    return job


def _end(state: State, job: JobState, at: float) -> None:
    job.ended_at = at
    del state.jobs[job.id]
    if state.wish is not None:
        state.wish.jobs.pop(job.id, None)


def _node_added(state: State, fact: f.NodeAdded) -> None:
    state.ledger.add_node(fact.node)
    if state.cpus is not None:
        state.cpus.add_node(cpu_node(fact.node))
    else:
        state.cpus = cpu_ledger(state.ledger.nodes)


def _node_drained(state: State, fact: f.NodeDrained) -> None:
    state.ledger_of(fact.node).withdraw(fact.node)


def _node_restored(state: State, fact: f.NodeRestored) -> None:
    state.ledger_of(fact.node).restore(fact.node)


def _node_fell_silent(state: State, fact: f.NodeFellSilent) -> None:
    state.ledger_of(fact.node).silence(fact.node)


def _node_returned(state: State, fact: f.NodeReturned) -> None:
    state.ledger_of(fact.node).hear(fact.node)


def _node_changed(state: State, fact: f.NodeChanged) -> None:
    state.ledger.change_node(fact.node)
    if state.cpus is not None:
        state.cpus.change_node(cpu_node(fact.node))


def _slot_drained(state: State, fact: f.SlotDrained) -> None:
    state.ledger_of(fact.node).withdraw_slot(fact.node, fact.index)


def _slot_restored(state: State, fact: f.SlotRestored) -> None:
    state.ledger_of(fact.node).restore_slot(fact.node, fact.index)


def _node_regrouped(state: State, fact: f.NodeRegrouped) -> None:
    state.ledger.regroup(fact.node, fact.sockets)


def _shares_set(state: State, fact: f.SharesSet) -> None:
    state.shares = dict(fact.shares)


def _wish_changed(state: State, fact: f.WishChanged) -> None:
    wish = state.wish
    if wish is None or wish.by != fact.by:
        wish = state.wish = Wish(by=fact.by)
    for id in fact.withdrawn:
        del wish.jobs[id]
        state.fit(state.jobs[id])
    for allotment in fact.given:
        wish.jobs[allotment.job_id] = allotment
        state.jobs[allotment.job_id].gpus = allotment.gpus
    wish.again_at = INFINITY if fact.again_at is None else fact.again_at


def _cores_counted(state: State, fact: f.NodeCoresCounted) -> None:
    state.ledger.recount_cores(fact.node, fact.cpus)


def _nothing(state: State, fact: f.TimerFired | f.WishRefused) -> None:
    return None


EVOLVE: dict[type, Callable[[State, Any], JobState | None]] = {
    f.JobSubmitted: _submitted,
    f.JobHeld: _held,
    f.JobReleased: _released,
    f.JobCancelled: _cancelled,
    f.JobRequeued: _requeued,
    f.JobDeferred: _deferred,
    f.JobCleared: _cleared,
    f.JobFailed: _failed,
    f.JobChanged: _changed,
    f.JobPromoted: _promoted,
    f.RunGranted: _granted,
    f.RunPaced: _paced,
    f.RunStarted: _started,
    f.RunProgressed: _progressed,
    f.LossReported: _loss_reported,
    f.RunRevoked: _revoked,
    f.RunEnded: _ended,
    f.RunExited: _exited,
    f.WorkSaved: _saved,
    f.WorkLost: _lost,
    f.NodeAdded: _node_added,
    f.NodeDrained: _node_drained,
    f.NodeRestored: _node_restored,
    f.NodeFellSilent: _node_fell_silent,
    f.NodeReturned: _node_returned,
    f.NodeChanged: _node_changed,
    f.SlotDrained: _slot_drained,
    f.SlotRestored: _slot_restored,
    f.NodeRegrouped: _node_regrouped,
    f.SharesSet: _shares_set,
    f.WishChanged: _wish_changed,
    f.WishRefused: _nothing,
    f.NodeCoresCounted: _cores_counted,
    f.TimerFired: _nothing,
}


def evolve(state: State, fact: f.Fact) -> JobState | None:
    """Apply one fact in place; the job that it concerns, if any."""
    at = fact.at
    assert at >= state.at, ("time went back", state.at, at)
    state.at = at
    return EVOLVE[type(fact)](state, fact)


def is_schedulable(job: JobState) -> bool:
    """Whether it is ranked, or pinned."""
    return not (job.on_hold or job.cancelled or (job.deferred and job.run is None))
