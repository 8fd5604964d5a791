"""A random life of a cluster, told to a real Controller; and what it means that two States are equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core import facts as f
from tiresias.core.commands import SetTimer
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import ExitCause, Fact
from tiresias.core.ledger import Ledger
from tiresias.core.lifecycle import HELD
from tiresias.core.model import (
    INFINITY,
    Cluster,
    Demand,
    Job,
    JobId,
    Node,
    Phase,
    Priority,
)
from tiresias.core.plugins import placers, policies
from tiresias.core.state import JobState, Run, State
from tiresias.store import Batch, Chosen, Store

# Not stored: how long a job has waited though enough slots were free is counted anew.
NOT_STORED = {"fragmented_s"}

POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("fifo", {}),
    ("las", {"quantum_s": "16"}),
    ("tiresias-l", {"queues": "64,512", "promote_knob": "2"}),
    ("tiresias-l", {"queues": "auto", "order": "first-start"}),
    ("tiresias-g", {"queues": "64,512", "learn_after": "1", "min_run_s": "8"}),
    ("srsf", {}),
]


@dataclass(slots=True)
class Happening:
    """One thing that happens: what, to whom (a number that picks among those it can happen to), when."""

    what: int
    whom: int
    after_s: float


class Life:
    """Tells happenings to a Controller; the facts are always ones that can follow what is known."""

    def __init__(self, controller: Controller, sizes: tuple[int, ...] = (1, 2, 4, 1, 8, 2)):
        self.controller = controller
        self.sizes = sizes  # powers of two make all instants exact
        self.at = 0.0
        self.timer_at = INFINITY
        self.jobs = 0
        self.told: list[tuple[list[Fact], Step]] = []
        self._ways: list[Callable[[int], list[Fact]]] = [
            self._submit,
            self._submit,
            self._submit,
            self._start,
            self._start,
            self._exit,
            self._exit,
            self._progress,
            self._hold,
            self._stop,
            self._defer,
            self._clear,
            self._fail,
            self._change,
            self._slot,
            self._release,
            self._cancel,
            self._drain,
            self._restore,
            self._add_node,
        ]

    @property
    def state(self) -> State:
        return self.controller.state

    def live(self, happening: Happening) -> list[tuple[list[Fact], Step]]:
        """The steps of one happening: the timers that fire before it, then it."""
        self.told = []
        until = self.at + happening.after_s
        while self.timer_at <= until:
            self.at = max(self.at, self.timer_at)
            self._tell([f.TimerFired(self.at)])
        self.at = until
        facts = self._ways[happening.what % len(self._ways)](happening.whom)
        self._tell(facts or [f.TimerFired(self.at)])
        return self.told

    def restart(self, controller: Controller) -> list[tuple[list[Fact], Step]]:
        """Go on with a Controller made anew, as a manager does: a timer fires first, to set the next."""
        self.controller = controller
        self.told = []
        self._tell([f.TimerFired(self.at)])
        return self.told

    def _tell(self, facts: list[Fact]) -> None:
        step = Step()
        self.controller.handle(facts, step)
        self.told.append((facts, step))
        for command in step.commands:
            if isinstance(command, SetTimer):
                self.timer_at = command.at

    def _pick(self, whom: int, *phases: Phase) -> list[JobState]:
        found = [job for job in self.state.jobs.values() if job.phase in phases]
        return [found[whom % len(found)]] if found else []

    def _submit(self, whom: int) -> list[Fact]:
        facts: list[Fact] = []
        for _ in range(1 + whom % 3):
            self.jobs += 1
            gpus = self.sizes[(whom + self.jobs) % len(self.sizes)]
            priority = (Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW)[whom % 4]
            demand = Demand(gpus, cpu_speed=None if whom % 3 else 0.5)
            job = Job(JobId(self.jobs), demand, self.at, user=f"u{whom % 2}", priority=priority)
            job.preemptible = whom % 7 != 0
            job.duration_s = float(8 * (1 + (whom * 5 + self.jobs) % 40))
            facts.append(f.JobSubmitted(self.at, job))
        return facts

    def _start(self, whom: int) -> list[Fact]:
        return [
            f.RunStarted(self.at, job.run.id, 1.0 if whom % 2 else 0.5)
            for job in self._pick(whom, Phase.STARTING)
            if job.run is not None
        ]

    def _exit(self, whom: int) -> list[Fact]:
        cause = list(ExitCause)[whom % len(ExitCause)]
        return [
            f.RunExited(self.at, job.run.id, cause, job.progress_at(self.at))
            for job in self._pick(whom, Phase.RUNNING, Phase.STOPPING)
            if job.run is not None
        ]

    def _progress(self, whom: int) -> list[Fact]:
        return [
            f.RunProgressed(
                self.at, job.run.id, job.progress_at(self.at) + whom % 3, 0.25 * (1 + whom % 5)
            )
            for job in self._pick(whom, Phase.RUNNING)
            if job.run is not None
        ]

    def _hold(self, whom: int) -> list[Fact]:
        return [f.JobHeld(self.at, job.id) for job in self._pick(whom, Phase.PENDING, Phase.SUSPENDED)]

    def _release(self, whom: int) -> list[Fact]:
        return [f.JobReleased(self.at, job.id) for job in self._pick(whom, HELD)]

    def _stop(self, whom: int) -> list[Fact]:
        kind = f.JobHeld if whom % 2 else f.JobRequeued
        return [kind(self.at, job.id) for job in self._pick(whom, Phase.RUNNING, Phase.STARTING)]

    def _defer(self, whom: int) -> list[Fact]:
        until = (None, self.at + whom % 50, None)[whom % 3]
        jobs = self._pick(whom, Phase.PENDING, Phase.SUSPENDED, HELD)
        return [f.JobDeferred(self.at, job.id, "Quota", until) for job in jobs]

    def _clear(self, whom: int) -> list[Fact]:
        return [f.JobCleared(self.at, job.id) for job in self.state.jobs.values() if job.deferred][:2]

    def _fail(self, whom: int) -> list[Fact]:
        return [f.JobFailed(self.at, job.id) for job in self._pick(whom, HELD)]

    def _change(self, whom: int) -> list[Fact]:
        priority = list(Priority)[whom % 3]
        jobs = self._pick(whom, Phase.PENDING, Phase.RUNNING)
        return [f.JobChanged(self.at, replace(job.job, priority=priority, name="new")) for job in jobs]

    def _slot(self, whom: int) -> list[Fact]:
        kind = f.SlotRestored if whom % 2 else f.SlotDrained
        node = self.state.ledger.nodes[whom % len(self.state.ledger.nodes)]
        return [kind(self.at, node.name, whom % (node.gpus or node.cpu_slots))]

    def _cancel(self, whom: int) -> list[Fact]:
        jobs = list(self.state.jobs.values())
        return [f.JobCancelled(self.at, jobs[whom % len(jobs)].id)] if jobs else []

    def _drain(self, whom: int) -> list[Fact]:
        return [f.NodeDrained(self.at, self.state.ledger.nodes[whom % len(self.state.ledger.nodes)].name)]

    def _restore(self, whom: int) -> list[Fact]:
        return [f.NodeRestored(self.at, self.state.ledger.nodes[whom % len(self.state.ledger.nodes)].name)]

    def _add_node(self, whom: int) -> list[Fact]:
        count = len(self.state.ledger.nodes)
        gpus, cpus = (1 + whom % 4, 0) if whom % 3 else (0, 32)
        return [f.NodeAdded(self.at, Node(f"n{count}", gpus, rack="r", cpus=cpus))] if count < 5 else []


def a_controller(
    policy: str = "tiresias-l", options: Mapping[str, Any] | None = None, *, nodes: int = 2, gpus: int = 4
) -> Controller:
    return Controller(
        State(Cluster.of(nodes, gpus)), policies.make(policy, options or {}), placers.make("packed")
    )


def a_store(path: Path, controller: Controller, options: Mapping[str, Any] | None = None) -> Store:
    """A new journal that has begun."""
    store = Store.open(path)
    store.begin(controller, Chosen(controller.policy.name, options or {}))
    return store


def commit(store: Store, controller: Controller, told: list[tuple[list[Fact], Step]]) -> int:
    """All these steps in one transaction, with something of the manager's own; the last number."""
    batch = Batch()
    for facts, step in told:
        batch.add(facts, step)
        for fact in facts:
            if isinstance(fact, f.JobSubmitted):
                batch.submissions[fact.job.id] = {"command": ["train", str(fact.job.id)], "env": {"A": "ä"}}
                batch.notes[fact.job.id] = {"retries": 0}
            elif isinstance(fact, f.RunExited):
                batch.exits[fact.run_id] = {"code": 0, "signal": None}
        for job in step.ended:
            batch.records[job.id] = {"reason": "over"}
    return store.commit(controller, batch)


def hand(controller: Controller, *facts: Fact) -> tuple[list[Fact], Step]:
    step = Step()
    controller.handle(facts, step)
    return list(facts), step


def assert_same(live: State, rebuilt: State, save: Callable[[Any], Any]) -> None:
    """Every field of a State, its ledger, jobs and runs.

    Only a State that is kept whole has `refused_since`: a manager that is started again does not know it.
    """
    assert vars(live).keys() == vars(rebuilt).keys()
    known = {"at", "next_run_id", "memory", "jobs", "runs", "ledger", "cpus", "refused_since"}
    assert vars(live).keys() == known, "a new field of State: store it, and compare it here"
    assert (live.at, live.next_run_id) == (rebuilt.at, rebuilt.next_run_id)
    assert save(live.memory) == save(rebuilt.memory)
    assert list(live.jobs) == list(rebuilt.jobs)
    for id, job in live.jobs.items():
        assert picture(job) == picture(rebuilt.jobs[id])
    assert list(live.runs) == list(rebuilt.runs)
    for run_id, run in live.runs.items():
        assert picture(run) == picture(rebuilt.runs[run_id])
        assert rebuilt.jobs[run.job_id].run is rebuilt.runs[run_id]
    assert list(live.ledger.held.items()) == list(rebuilt.ledger.held.items())
    assert _lasting(live.ledger) == _lasting(rebuilt.ledger)
    assert (live.cpus is None) == (rebuilt.cpus is None)
    if live.cpus is not None and rebuilt.cpus is not None:
        assert list(live.cpus.held.items()) == list(rebuilt.cpus.held.items())
        assert _lasting(live.cpus) == _lasting(rebuilt.cpus)


def _lasting(ledger: Ledger) -> dict[str, Any]:
    """All but what it only remembers so as not to work it out again."""
    own = {"memo", "changes", "_suited", "_holders"}
    return {name: value for name, value in vars(ledger).items() if name not in own}


def picture(what: JobState | Run) -> dict[str, Any]:
    """The fields that must survive, by name."""
    fields = {name: getattr(what, name) for name in what.__slots__ if name not in NOT_STORED}
    if isinstance(what, JobState):
        fields["run"] = None if what.run is None else picture(what.run)
    return fields
