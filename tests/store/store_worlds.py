"""Random events of a cluster, which a real Controller handles, and the comparison of two States."""

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
from tiresias.testing import own_allocators  # noqa: F401  (for what it registers)

# Not stored: the time for which the placer has refused a job starts from zero.
NOT_STORED = {"fragmented_s"}

Handled = tuple[list[Fact], Step]
"""Facts that were handled in one step, and the step."""

POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("tiresias", {}),
    ("tiresias", {"max_slowdown": "2"}),
    ("fifo", {}),
    ("las", {"quantum_s": "16"}),
    ("tiresias-l", {"queues": "64,512", "promote_knob": "2"}),
    ("tiresias-l", {"queues": "auto", "order": "first-start"}),
    ("tiresias-g", {"queues": "64,512", "learn_after": "1", "min_run_s": "8"}),
    ("srsf", {}),
    ("in-turn", {}),
    ("two-level", {"within": "tiresias-l", "within_set": "queues=64,512"}),
    ("stacked", {}),
    ("philly", {}),
    ("themis", {"lease_s": "64"}),
]


@dataclass(slots=True)
class Happening:
    """One random event: its kind, a number that picks its job or node, and seconds since the last event."""

    kind: int
    pick: int
    after_s: float


class Life:
    """Turns happenings into facts that are legal in the present State, and lets a Controller handle them."""

    def __init__(self, controller: Controller, sizes: tuple[int, ...] = (1, 2, 4, 1, 8, 2, 0)):
        self.controller = controller
        self.sizes = sizes  # of gangs; with powers of two all instants are exact
        self.at = 0.0
        self.timer_at = INFINITY
        self.jobs = 0
        self._steps: list[Handled] = []
        self._kinds: list[Callable[[int], list[Fact]]] = [
            self._submit,
            self._submit,
            self._submit,
            self._start,
            self._start,
            self._exit,
            self._exit,
            self._progress,
            self._learn,
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
            self._silence,
            self._return,
            self._change_node,
        ]

    @property
    def state(self) -> State:
        return self.controller.state

    def live(self, happening: Happening) -> list[Handled]:
        """The steps of one happening: the timers that fire before it, then the happening itself."""
        self._steps = []
        until = self.at + happening.after_s
        while self.timer_at <= until:
            self.at = max(self.at, self.timer_at)
            self._handle([f.TimerFired(self.at)])
        self.at = until
        facts = self._kinds[happening.kind % len(self._kinds)](happening.pick)
        self._handle(facts or [f.TimerFired(self.at)])
        return self._steps

    def restart(self, controller: Controller) -> list[Handled]:
        """Continue with a new Controller, as a manager does: a timer fires first, to set the next."""
        self.controller = controller
        self._steps = []
        self._handle([f.TimerFired(self.at)])
        return self._steps

    def _handle(self, facts: list[Fact]) -> None:
        step = Step()
        self.controller.handle(facts, step)
        self._steps.append((facts, step))
        for command in step.commands:
            if isinstance(command, SetTimer):
                self.timer_at = command.at

    def _pick(self, pick: int, *phases: Phase) -> list[JobState]:
        found = [job for job in self.state.jobs.values() if job.phase in phases]
        return [found[pick % len(found)]] if found else []

    def _submit(self, pick: int) -> list[Fact]:
        facts: list[Fact] = []
        for _ in range(1 + pick % 3):
            self.jobs += 1
            gpus = self.sizes[(pick + self.jobs) % len(self.sizes)]
            priority = (Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW)[pick % 4]
            demand = Demand(gpus, cpu_speed=None if pick % 3 else 0.5)
            job = Job(JobId(self.jobs), demand, self.at, user=f"u{pick % 2}", priority=priority)
            job.preemptible = pick % 7 != 0
            job.duration_s = float(8 * (1 + (pick * 5 + self.jobs) % 40))
            facts.append(f.JobSubmitted(self.at, job))
        return facts

    def _start(self, pick: int) -> list[Fact]:
        return [
            f.RunStarted(self.at, job.run.id, 1.0 if pick % 2 else 0.5)
            for job in self._pick(pick, Phase.STARTING)
            if job.run is not None
        ]

    def _exit(self, pick: int) -> list[Fact]:
        cause = list(ExitCause)[pick % len(ExitCause)]
        return [
            f.RunExited(self.at, job.run.id, cause, job.progress_at(self.at))
            for job in self._pick(pick, Phase.RUNNING, Phase.STOPPING)
            if job.run is not None
        ]

    def _progress(self, pick: int) -> list[Fact]:
        return [
            f.RunProgressed(self.at, job.run.id, job.progress_at(self.at) + pick % 3, 0.25 * (1 + pick % 5))
            for job in self._pick(pick, Phase.RUNNING)
            if job.run is not None
        ]

    def _learn(self, pick: int) -> list[Fact]:
        jobs = self._pick(pick, Phase.SUSPENDED, Phase.RUNNING, Phase.STOPPING)
        if pick % 3:
            return [f.WorkLost(self.at, job.id, job.executed_at(self.at), job.gpus) for job in jobs]
        return [f.WorkSaved(self.at, job.id) for job in jobs]

    def _hold(self, pick: int) -> list[Fact]:
        return [f.JobHeld(self.at, job.id) for job in self._pick(pick, Phase.PENDING, Phase.SUSPENDED)]

    def _release(self, pick: int) -> list[Fact]:
        return [f.JobReleased(self.at, job.id) for job in self._pick(pick, HELD)]

    def _stop(self, pick: int) -> list[Fact]:
        kind = f.JobHeld if pick % 2 else f.JobRequeued
        return [kind(self.at, job.id) for job in self._pick(pick, Phase.RUNNING, Phase.STARTING)]

    def _defer(self, pick: int) -> list[Fact]:
        until = (None, self.at + pick % 50, None)[pick % 3]
        jobs = self._pick(pick, Phase.PENDING, Phase.SUSPENDED, HELD)
        return [f.JobDeferred(self.at, job.id, "Quota", until) for job in jobs]

    def _clear(self, pick: int) -> list[Fact]:
        return [f.JobCleared(self.at, job.id) for job in self.state.jobs.values() if job.deferred][:2]

    def _fail(self, pick: int) -> list[Fact]:
        return [f.JobFailed(self.at, job.id) for job in self._pick(pick, HELD)]

    def _change(self, pick: int) -> list[Fact]:
        priority = list(Priority)[pick % 3]
        jobs = self._pick(pick, Phase.PENDING, Phase.RUNNING)
        return [f.JobChanged(self.at, replace(job.job, priority=priority, name="new")) for job in jobs]

    def _slot(self, pick: int) -> list[Fact]:
        kind = f.SlotRestored if pick % 2 else f.SlotDrained
        node = self.state.ledger.nodes[pick % len(self.state.ledger.nodes)]
        return [kind(self.at, node.name, pick % (node.gpus or node.cpu_slots))]

    def _cancel(self, pick: int) -> list[Fact]:
        jobs = list(self.state.jobs.values())
        return [f.JobCancelled(self.at, jobs[pick % len(jobs)].id)] if jobs else []

    def _drain(self, pick: int) -> list[Fact]:
        return [f.NodeDrained(self.at, self.state.ledger.nodes[pick % len(self.state.ledger.nodes)].name)]

    def _restore(self, pick: int) -> list[Fact]:
        return [f.NodeRestored(self.at, self.state.ledger.nodes[pick % len(self.state.ledger.nodes)].name)]

    def _silence(self, pick: int) -> list[Fact]:
        return [f.NodeFellSilent(self.at, self.state.ledger.nodes[pick % len(self.state.ledger.nodes)].name)]

    def _return(self, pick: int) -> list[Fact]:
        return [f.NodeReturned(self.at, self.state.ledger.nodes[pick % len(self.state.ledger.nodes)].name)]

    def _change_node(self, pick: int) -> list[Fact]:
        node = self.state.ledger.nodes[pick % len(self.state.ledger.nodes)]
        return [f.NodeChanged(self.at, replace(node, rack=f"r{pick % 3}", gpu_type="A100"))]

    def _add_node(self, pick: int) -> list[Fact]:
        count = len(self.state.ledger.nodes)
        gpus, cpus = (1 + pick % 4, 0) if pick % 3 else (0, 32)
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


def commit(store: Store, controller: Controller, steps: list[Handled]) -> int:
    """Commit these steps together, with data that a manager would add; the number of the last fact."""
    batch = Batch()
    for facts, step in steps:
        batch.add(facts, step)
        for fact in facts:
            if isinstance(fact, f.JobSubmitted):
                batch.submissions[fact.job.id] = {"command": ["train", str(fact.job.id)], "env": {"A": "ä"}}
                batch.managed[fact.job.id] = {"retries": 0}
            elif isinstance(fact, f.RunExited):
                batch.exits[fact.run_id] = {"code": 0, "signal": None}
        for job in step.ended:
            batch.endings[job.id] = {"reason": "over"}
    return store.commit(controller, batch)


def hand(controller: Controller, *facts: Fact) -> Handled:
    """Let the Controller handle the facts in one step."""
    step = Step()
    controller.handle(facts, step)
    return list(facts), step


def assert_same(live: State, rebuilt: State, save: Callable[[Any], Any]) -> None:
    """Compare every field of two States but those that the planner computes."""
    assert vars(live).keys() == vars(rebuilt).keys()
    known = {"at", "next_run_id", "memory", "placing", "jobs", "runs", "ledger", "cpus", "refused_since"}
    known |= {"wish", "shares", "paced"}
    assert vars(live).keys() == known, "a new field of State: store it, and compare it here"
    assert live.placing == rebuilt.placing
    assert (live.wish, live.shares) == (rebuilt.wish, rebuilt.shares)
    assert live.paced.keys() == rebuilt.paced.keys()
    assert (live.at, live.next_run_id) == (rebuilt.at, rebuilt.next_run_id)
    assert save(live.memory) == save(rebuilt.memory)
    assert list(live.jobs) == list(rebuilt.jobs)
    for id, job in live.jobs.items():
        assert picture(job) == picture(rebuilt.jobs[id])
    assert list(live.runs) == list(rebuilt.runs)
    for run_id, run in live.runs.items():
        assert picture(run) == picture(rebuilt.runs[run_id])
        assert rebuilt.jobs[run.job_id].run is rebuilt.runs[run_id]
    assert list(live.ledger.allocations.items()) == list(rebuilt.ledger.allocations.items())
    assert _lasting(live.ledger) == _lasting(rebuilt.ledger)
    assert (live.cpus is None) == (rebuilt.cpus is None)
    if live.cpus is not None and rebuilt.cpus is not None:
        assert list(live.cpus.allocations.items()) == list(rebuilt.cpus.allocations.items())
        assert _lasting(live.cpus) == _lasting(rebuilt.cpus)


def _lasting(ledger: Ledger) -> dict[str, Any]:
    """All fields but caches, and `layers`, which a Controller sets."""
    caches = {"memo", "changes", "_suited", "_holders", "_shared", "layers"}
    return {name: value for name, value in vars(ledger).items() if name not in caches}


def picture(item: JobState | Run) -> dict[str, Any]:
    """The fields that must be stored, by name."""
    fields = {name: getattr(item, name) for name in item.__slots__ if name not in NOT_STORED}
    if isinstance(item, JobState):
        fields["run"] = None if item.run is None else picture(item.run)
    return fields
