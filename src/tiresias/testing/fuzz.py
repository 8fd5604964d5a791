"""Gives random facts to a Controller: everything that can happen to a cluster, in any legal order.

There is no World: jobs finish, fail, exit, are put on hold, released and cancelled whenever the lifecycle
allows it, nodes are drained and restored, and timers fire when they are due. After every `handle` the State
must be consistent, and the plan must be that of a plain recomputation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import ClassVar

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.commands import PaceRun, SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Demand, Job, JobId, Node, Phase, Priority, RunId
from tiresias.core.state import JobState
from tiresias.testing.builders import a_job

QUIET = frozenset({"submit", "finish", "exit", "start"})
PEOPLE = frozenset({"hold", "release", "cancel", "requeue", "defer", "clear", "fail waiting", "change"})
TROUBLE = frozenset({"fail", "retry", "exit unasked", "end unseen", "progress", "save", "lose"})
SIZES = frozenset({"resize"})  # some jobs are elastic; an allocator decides what becomes of that
NODES = frozenset(
    {
        "add node",
        "change node",
        "count cores",
        "drain",
        "drain slot",
        "fall silent",
        "regroup",
        "restore",
        "restore slot",
        "return",
        "share",
    }
)
EVERYTHING = QUIET | PEOPLE | TROUBLE | NODES

SILENT = (f.RunStarted, f.RunProgressed)
HOLDING = (Phase.STARTING, Phase.RUNNING, Phase.PAUSED, Phase.STOPPING)
MOST_NODES = 6
Event = f.Fact | tuple[f.Fact, ...] | None  # facts of one event are handled together


class RandomDriver:
    """Gives facts to a Controller and keeps its commands; `kinds` are the events that may happen.

    `sizes` are the demands of jobs, `most` is the largest number of active jobs, `over_nodes` the share of
    gangs that state on how many nodes they must be.
    """

    def __init__(
        self,
        controller: Controller,
        rng: Random,
        *,
        kinds: Collection[str] = EVERYTHING,
        sizes: tuple[int, ...] = (1, 1, 2, 4),
        most: int = 30,
        over_nodes: float = 0.0,
    ):
        self.controller = controller
        self.state = controller.state
        self.rng = rng
        self.most = most
        self.over_nodes = over_nodes
        self.sizes = sizes
        self.at = 0.0
        self.timer_at = INFINITY
        self.submitted = self.ended = 0
        self.stopped: set[RunId] = set()  # runs for which there was a StopRun
        self.given: list[f.Fact] = []  # the facts of the last instant
        self._facts: list[f.Fact] = []  # those of the present instant so far
        self._kinds = sorted(kinds)
        self._step = Step()

    def happen(self) -> None:
        """Simulate one instant, no later than the timer: one to three events that concern different jobs."""
        if self.rng.random() < 0.4:
            self.at = min(self.timer_at, self.at + self.rng.choice((1.0, 7.5, 40.0, 1000 / 3)))
        facts = self._facts = []
        touched: set[JobId] = set()
        if self.timer_at <= self.at:
            self.timer_at = INFINITY
            facts.append(f.TimerFired(self.at))
        for _ in range(self.rng.randrange(1, 4)):
            event = self._events[self.rng.choice(self._kinds)](self, touched)
            if isinstance(event, tuple):
                facts.extend(event)
            elif event is not None:
                facts.append(event)
        if all(isinstance(fact, SILENT) for fact in facts):
            facts.append(f.TimerFired(self.at))  # so that a plan is made
        self.handle(facts)

    def happen_often(self, instants: int = 60) -> None:
        for _ in range(instants):
            self.happen()

    def handle(self, facts: list[f.Fact]) -> None:
        step = self._step
        self.given = facts
        self.controller.handle(facts, step)
        for command in step.commands:
            if isinstance(command, SetTimer):
                assert command.at > self.at, ("a timer in the past", command, self.at)
                self.timer_at = command.at
            elif isinstance(command, StopRun):
                self.stopped.add(command.run_id)
            else:
                assert isinstance(command, StartRun | PaceRun)
        self.ended += len(step.ended)
        for list_ in (step.facts, step.commands, step.ended):
            list_.clear()

    # --- what may happen -------------------------------------------------------------------------------

    def _pick(self, touched: set[JobId], good: Callable[[JobState], bool]) -> JobState | None:
        found = [job for job in self.state.jobs.values() if job.id not in touched and good(job)]
        if not found:
            return None
        job = self.rng.choice(found)
        touched.add(job.id)
        return job

    def _submit(self, touched: set[JobId]) -> f.Fact | None:
        if len(self.state.jobs) + len(touched) >= self.most:
            return None
        self.submitted += 1
        job = self._job(self.submitted)
        touched.add(job.id)
        return f.JobSubmitted(self.at, job)

    def _job(self, number: int) -> Job:
        rng = self.rng
        gpus = rng.choice(self.sizes)
        return a_job(
            number,
            gpus,
            self.at,
            demand=self._demand(gpus),
            duration_s=float(rng.randrange(1, 2000)),
            priority=rng.choice(
                (Priority.NORMAL, Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW)
            ),
            preemptible=rng.random() < 0.9,
            resumable=rng.choice((None, None, None, True, False)) if "lose" in self._kinds else None,
            tenant=("a", "b", "b", "")[number % 4],
            group=("", "", "search", "", "sweep")[number % 5],
        )

    def _demand(self, gpus: int) -> Demand:
        if gpus and "resize" in self._kinds and self.rng.random() < 0.5:
            least, most = self.rng.randrange(1, gpus + 1), gpus + self.rng.randrange(4)
            return Demand(gpus, max_gpus=most, min_gpus=least)
        if not gpus or not self.over_nodes or self.rng.random() >= self.over_nodes:
            return Demand(gpus)
        return Demand(gpus, nodes=self.rng.randrange(1, min(gpus, 4) + 1))

    def _exited(self, job: JobState | None, cause: ExitCause) -> f.Fact | None:
        run = None if job is None else job.run
        if run is None:
            return None
        return f.RunExited(self.at, run.id, cause, run.work_at(self.at))

    def _finish(self, touched: set[JobId]) -> f.Fact | None:
        return self._exited(self._pick(touched, lambda job: job.phase in HOLDING), ExitCause.FINISHED)

    def _exit(self, touched: set[JobId]) -> f.Fact | None:
        return self._exited(self._pick(touched, lambda job: job.phase is Phase.STOPPING), ExitCause.PREEMPTED)

    def _retry(self, touched: set[JobId]) -> f.Fact | None:
        if self.rng.random() < 0.7:
            return None
        return self._exited(self._pick(touched, lambda job: job.phase in HOLDING), ExitCause.RETRIED)

    def _exit_unasked(self, touched: set[JobId]) -> f.Fact | None:
        if self.rng.random() < 0.7:
            return None
        return self._exited(self._pick(touched, lambda job: job.phase in HOLDING), ExitCause.PREEMPTED)

    def _end_unseen(self, touched: set[JobId]) -> Event:
        """A run ended some time ago, while nobody looked."""
        job = self._pick(touched, lambda job: job.phase in HOLDING)
        run = None if job is None else job.run
        if run is None or self.rng.random() < 0.7:
            return None
        ended_at = run.granted_at + self.rng.random() * (self.at - run.granted_at)
        exited = f.RunExited(self.at, run.id, ExitCause.FINISHED, run.work_at(self.at))
        return f.RunEnded(self.at, run.id, ended_at), exited

    def _fail(self, touched: set[JobId]) -> f.Fact | None:
        if self.rng.random() < 0.7:
            return None
        return self._exited(self._pick(touched, lambda job: job.phase in HOLDING), ExitCause.FAILED)

    def _start(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.phase is Phase.STARTING)
        run = None if job is None else job.run
        return None if run is None else f.RunStarted(self.at, run.id)

    def _progress(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.phase is Phase.RUNNING)
        run = None if job is None else job.run
        if run is None:
            return None
        speed = self.rng.choice((0.5, 1.0, 2.0))
        return f.RunProgressed(self.at, run.id, run.work_at(self.at), speed)

    def _save(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.runs > 0)
        return None if job is None or self.rng.random() < 0.5 else f.WorkSaved(self.at, job.id)

    def _lose(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.runs > 0)
        if job is None or self.rng.random() < 0.7:
            return None
        return f.WorkLost(self.at, job.id, job.executed_s, job.gpus)

    def _hold(self, touched: set[JobId]) -> f.Fact | None:
        waiting = (Phase.PENDING, Phase.SUSPENDED)
        any_phase = self.rng.random() < 0.2
        job = self._pick(touched, lambda job: any_phase or job.phase in waiting)
        return None if job is None or self.rng.random() < 0.5 else f.JobHeld(self.at, job.id)

    def _release(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.on_hold)
        return None if job is None else f.JobReleased(self.at, job.id)

    def _requeue(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.run is not None)
        return None if job is None or self.rng.random() < 0.7 else f.JobRequeued(self.at, job.id)

    def _defer(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.run is None)
        if job is None or self.rng.random() < 0.5:
            return None
        until = self.rng.choice((None, self.at, self.at + self.rng.randrange(1, 500)))
        return f.JobDeferred(self.at, job.id, "Dependency", until)

    def _clear(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: bool(job.deferred))
        return None if job is None else f.JobCleared(self.at, job.id)

    def _fail_waiting(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: job.run is None)
        return None if job is None or self.rng.random() < 0.9 else f.JobFailed(self.at, job.id)

    def _change(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: True)
        if job is None or self.rng.random() < 0.5:
            return None
        priority = self.rng.choice(tuple(Priority))
        return f.JobChanged(self.at, replace(job.job, priority=priority, preemptible=self.rng.random() < 0.9))

    def _cancel(self, touched: set[JobId]) -> f.Fact | None:
        job = self._pick(touched, lambda job: not job.cancelled)
        return None if job is None or self.rng.random() < 0.7 else f.JobCancelled(self.at, job.id)

    def _drain(self, touched: set[JobId]) -> f.Fact | None:
        if self.rng.random() < 0.5:
            return None
        return f.NodeDrained(self.at, self.rng.choice(self.state.ledger.nodes).name)

    def _restore(self, touched: set[JobId]) -> f.Fact | None:
        return f.NodeRestored(self.at, self.rng.choice(self.state.ledger.nodes).name)

    def _fall_silent(self, touched: set[JobId]) -> f.Fact | None:
        if self.rng.random() < 0.5:
            return None
        return f.NodeFellSilent(self.at, self.rng.choice(self.state.ledger.nodes).name)

    def _return(self, touched: set[JobId]) -> f.Fact | None:
        return f.NodeReturned(self.at, self.rng.choice(self.state.ledger.nodes).name)

    def _change_node(self, touched: set[JobId]) -> f.Fact | None:
        node = self.rng.choice(self.state.ledger.nodes)
        if self.rng.random() < 0.8:
            return None
        return f.NodeChanged(self.at, replace(node, rack=self.rng.choice(("r0", "r1")), memory_bytes=1 << 40))

    def _add_node(self, touched: set[JobId]) -> f.Fact | None:
        count = len(self.state.ledger.nodes)
        if count >= MOST_NODES or self.rng.random() < 0.8:
            return None
        node = Node(f"later{count}", self.rng.choice((1, 2, 4)), cpus=self.rng.choice((0, 16)))
        if any(isinstance(fact, f.NodeAdded) for fact in self._facts):  # it would have the same name
            return None
        return f.NodeAdded(self.at, node)

    def _regroup(self, touched: set[JobId]) -> f.Fact | None:
        node = self.rng.choice(self.state.ledger.nodes)
        half = node.gpus // 2
        halves = (tuple(range(half)), tuple(range(half, node.gpus)))
        return f.NodeRegrouped(self.at, node.name, self.rng.choice(((), halves)) if half > 1 else ())

    def _count_cores(self, touched: set[JobId]) -> f.Fact | None:
        nodes = [node for node in self.state.ledger.nodes if node.gpus]
        if not nodes:
            return None
        return f.NodeCoresCounted(self.at, self.rng.choice(nodes).name, self.rng.choice((0, 2, 64)))

    def _share(self, touched: set[JobId]) -> f.Fact | None:
        return f.SharesSet(self.at, {"": self.rng.choice((0.5, 1.0, 3.0)), "other": 1.0})

    def _drain_slot(self, touched: set[JobId]) -> f.Fact | None:
        node = self.rng.choice(self.state.ledger.nodes)
        return f.SlotDrained(self.at, node.name, self.rng.randrange(node.gpus or node.cpu_slots))

    def _restore_slot(self, touched: set[JobId]) -> f.Fact | None:
        node = self.rng.choice(self.state.ledger.nodes)
        ledger = self.state.ledger_of(node.name)
        mask = ledger.out_slots[ledger.position(node.name)]
        out = [i for i in range(mask.bit_length()) if mask >> i & 1]
        return f.SlotRestored(self.at, node.name, self.rng.choice(out)) if out else None

    def _resize(self, touched: set[JobId]) -> f.Fact | None:
        """Another range of sizes for a job that has not run."""
        is_fixed = [job.id for job in self.state.jobs.values() if job.runs or job.job.demand.nodes]
        job = self._pick(touched, lambda job: job.gpus > 0 and job.id not in is_fixed)
        if job is None or self.rng.random() < 0.5:
            return None
        demand = replace(job.job.demand, max_gpus=job.job.demand.gpus + self.rng.randrange(4))
        return f.JobChanged(self.at, replace(job.job, demand=demand))

    _events: ClassVar[dict[str, Callable[[RandomDriver, set[JobId]], Event]]] = {
        "submit": _submit,
        "finish": _finish,
        "exit": _exit,
        "exit unasked": _exit_unasked,
        "end unseen": _end_unseen,
        "fail": _fail,
        "retry": _retry,
        "start": _start,
        "progress": _progress,
        "save": _save,
        "lose": _lose,
        "hold": _hold,
        "release": _release,
        "requeue": _requeue,
        "defer": _defer,
        "clear": _clear,
        "fail waiting": _fail_waiting,
        "change": _change,
        "cancel": _cancel,
        "drain": _drain,
        "restore": _restore,
        "fall silent": _fall_silent,
        "return": _return,
        "change node": _change_node,
        "add node": _add_node,
        "regroup": _regroup,
        "resize": _resize,
        "count cores": _count_cores,
        "share": _share,
        "drain slot": _drain_slot,
        "restore slot": _restore_slot,
    }


def check_consistent(driver: RandomDriver) -> None:
    """The invariants hold, every run that must stop got a StopRun, and no job is lost."""
    state = driver.state
    invariants.check_plan(driver.controller)
    open_runs = [(job.run, job.phase) for job in state.jobs.values()]
    stopping = {run.id for run, phase in open_runs if run and phase is Phase.STOPPING}
    assert stopping <= driver.stopped, ("runs without a StopRun", stopping - driver.stopped)
    assert driver.submitted == len(state.jobs) + driver.ended, "a job lost"


def check_rebuilt(driver: RandomDriver) -> None:
    """A Controller that is made from the State alone has the same plan and decides nothing more."""
    old = driver.controller
    state = copy.deepcopy(old.state)
    new, step = Controller(state, old.policy, old.placer), Step()
    new.handle([f.TimerFired(state.at)], step)
    assert not step.facts, ("decided only when all is worked out anew", step.facts)
    for id, entry in old.entries.items():
        twin = new.entries[id]
        assert (entry.admitted, entry.pinned) == (twin.admitted, twin.pinned), ("another plan", id)
    before, after = [[job.id for job in view.ranked()] for view in (old.view, new.view)]
    if not old.policy.drifts:  # near ties of drifting ranks may be ordered by rounding
        assert before == after, ("another order", before, after)
    assert sorted(before) == sorted(after)
