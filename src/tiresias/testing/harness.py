"""Harness: short scenarios for policies and placers, with a real Controller and a real State.

First the scene at instant 0: `running`, `pending`, `suspended` and `held` jobs. It is replayed into the State
without the policy, as after a restart. Then `plan()` and events: `submit`, `finish`, `exit`, `wait` … each
gives facts to the Controller and returns the Plan to which they lead. Rules: only timers fire by themselves,
and only during `wait`. A preempted run holds its slots until `exit`. A started run is up at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import tiresias.placers
import tiresias.policies  # noqa: F401  (both are imported because they register plug-ins)
from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.commands import SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Cluster, JobId, RunId
from tiresias.core.plugins import Placer, placers, policies
from tiresias.core.reasons import Reason
from tiresias.core.state import JobState, State, evolve
from tiresias.testing.builders import a_job

EXITS, SUBMITS, GRANTS, STARTS = 0, 1, 2, 3  # the order at one instant


@dataclass(slots=True)
class Plan:
    """What the Controller decided: names of jobs, in the order of its decisions."""

    started: list[str] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)  # stopped because the policy wants others to run
    promoted: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)  # runs with a StopRun, for whatever reason
    ended: list[str] = field(default_factory=list)
    reasons: list[f.Revocation] = field(default_factory=list)  # why each of the preempted was


class Scene:
    """The past of the jobs of a Harness: facts that are given to the State in the order of their instants.

    `ids` has the ids of all jobs by name; a job of the scene gets the next one.
    """

    def __init__(self, state: State, placer: Placer, ids: dict[str, JobId]):
        self._state, self._placer, self._ids = state, placer, ids
        self._facts: list[tuple[float, int, int, Callable[[float], f.Fact]]] = []
        self._pasts: list[tuple[str, float]] = []  # jobs that ran at some earlier time, and for how long

    def submitted(self, name: str, gpus: int, at: float, job: dict[str, Any]) -> None:
        assert name not in self._ids, ("two jobs of one name", name)
        self._ids[name] = id = JobId(len(self._ids) + 1)
        self._add(at, SUBMITS, lambda at: f.JobSubmitted(at, a_job(id, gpus, at, **job)))

    def starts(self, name: str, at: float, on: Mapping[str, int] | None = None) -> None:
        """A run of the job begins, on these nodes or where the placer puts it."""
        self._add(at, GRANTS, lambda at: self._grant(name, at, on))
        self._add(at, STARTS, lambda at: f.RunStarted(at, self._run_of(name)))

    def ran(self, name: str, since: float, until: float) -> None:
        """A run of the job began and was preempted."""
        self.starts(name, since)
        self._add(until, EXITS, lambda at: f.RunRevoked(at, self._run_of(name)))
        self._add(until, EXITS, lambda at: f.RunExited(at, self._run_of(name), ExitCause.PREEMPTED, 0.0))

    def ran_long_ago(self, name: str, service_s: float) -> None:
        """The same before everything that has an instant."""
        self._pasts.append((name, service_s))

    def held(self, name: str) -> None:
        self._add(0.0, STARTS, lambda at: f.JobHeld(at, self._ids[name]))

    def replay(self) -> None:
        """Give it all to the State; runs without an instant go first, one after the other."""
        begin = min((at for at, *_ in self._facts if at != -INFINITY), default=0.0)
        begin -= sum(service_s for _, service_s in self._pasts)
        self._facts = [(max(at, begin), order, nth, fact) for at, order, nth, fact in self._facts]
        for name, service_s in self._pasts:
            self.ran(name, begin, begin + service_s)
            begin += service_s
        for at, _, _, fact in sorted(self._facts, key=lambda entry: entry[:3]):
            evolve(self._state, fact(at))

    def _add(self, at: float, order: int, fact: Callable[[float], f.Fact]) -> None:
        self._facts.append((at, order, len(self._facts), fact))

    def _run_of(self, name: str) -> RunId:
        return run_of(self._state.jobs[self._ids[name]])

    def _grant(self, name: str, at: float, on: Mapping[str, int] | None) -> f.Fact:
        job, ledger = self._state.jobs[self._ids[name]], self._state.ledger
        if on is None:
            allocation = self._placer.place(job, ledger, at, at)
        else:
            counts = [(ledger.position(node), count) for node, count in on.items()]
            allocation = tuple((node, ledger.pick(node, count)) for node, count in counts)
        assert allocation is not None, ("the scene does not fit the cluster", name, at)
        return f.RunGranted(at, RunId(self._state.next_run_id), job.id, allocation)


def run_of(job: JobState) -> RunId:
    """The run that the job has now."""
    assert job.run is not None, ("it does not run", job.job.name or job.id)
    return job.run.id


class Harness:
    """A cluster of `nodes` nodes with `gpus` GPUs each (or `cluster`), under one policy and one placer.

    Jobs have names. Further arguments of a job are fields of Job, such as `priority`, `duration_s`, `demand`.
    """

    def __init__(
        self,
        policy: str,
        *,
        gpus: int = 4,
        nodes: int = 1,
        options: Mapping[str, Any] | None = None,
        placer: str = "count",
        placer_options: Mapping[str, Any] | None = None,
        cluster: Cluster | None = None,
    ):
        self.at = 0.0
        self.timer_at = INFINITY
        self.state = State(Cluster.of(nodes, gpus) if cluster is None else cluster)
        self._policy = policies.make(policy, options)
        self._placer = placers.make(placer, placer_options)
        self._ids: dict[str, JobId] = {}
        self._scene = Scene(self.state, self._placer, self._ids)
        self._controller: Controller | None = None

    # --- the scene -------------------------------------------------------------------------------------

    def running(
        self,
        name: str,
        gpus: int = 1,
        service_s: float = 0.0,
        on: Mapping[str, int] | None = None,
        **job: Any,
    ) -> Self:
        """The job has held its GPUs for `service_s` seconds: `on` maps nodes to numbers of GPUs; without it
        the placer chooses."""
        self._scene.submitted(name, gpus, job.pop("submitted_at", -service_s), job)
        self._scene.starts(name, -service_s, on)
        return self

    def pending(self, name: str, gpus: int = 1, waited_s: float = 0.0, **job: Any) -> Self:
        """The job has never run; it was submitted `waited_s` seconds ago."""
        self._scene.submitted(name, gpus, job.pop("submitted_at", -waited_s), job)
        return self

    def suspended(
        self, name: str, gpus: int = 1, service_s: float = 1.0, waited_s: float | None = None, **job: Any
    ) -> Self:
        """The job ran for `service_s` seconds, was preempted, and has waited since for `waited_s` seconds.

        By default it has waited longer than any other job.
        """
        if waited_s is None:
            self._scene.submitted(name, gpus, -INFINITY, job)
            self._scene.ran_long_ago(name, service_s)
            return self
        self._scene.submitted(name, gpus, job.pop("submitted_at", -waited_s - service_s), job)
        self._scene.ran(name, -waited_s - service_s, -waited_s)
        return self

    def held(self, name: str, gpus: int = 1, **job: Any) -> Self:
        """The job is on hold and has never run."""
        self.pending(name, gpus, **job)
        self._scene.held(name)
        return self

    def plan(self) -> Plan:
        """What the Controller decides at this instant without a new event."""
        return self._happen(f.TimerFired(self.at))

    # --- events ----------------------------------------------------------------------------------------

    def submit(self, name: str, gpus: int = 1, **job: Any) -> Plan:
        """Submit a job now; a `demand` replaces `gpus`."""
        self._ids[name] = id = JobId(len(self._ids) + 1)
        made = a_job(id, gpus, job.pop("submitted_at", self.at), **job)
        return self._happen(f.JobSubmitted(self.at, made))

    def finish(self, *names: str) -> Plan:
        return self._exit(names, ExitCause.FINISHED)

    def exit(self, *names: str) -> Plan:
        """The runs of these jobs, which were preempted, have saved and exited."""
        return self._exit(names, ExitCause.PREEMPTED)

    def lose(self, name: str) -> Plan:
        """The run of this job, which was preempted, has exited, and nothing of its work was saved."""
        job = self.job(name)
        lost_s = job.executed_at(self.at) - job.executed_s
        exited = f.RunExited(self.at, self._run_of(name), ExitCause.PREEMPTED, 0.0)
        return self._happen(exited, f.WorkLost(self.at, job.id, lost_s, job.gpus))

    def report_loss(
        self,
        name: str,
        step: float,
        loss: float,
        epoch: float | None = None,
        total_steps: float | None = None,
    ) -> Plan:
        """The training of the job has this loss after so many steps."""
        run_id = self._run_of(name)
        return self._happen(f.LossReported(self.at, run_id, step, loss, epoch, total_steps))

    def save(self, name: str) -> Plan:
        """The job has shown that its work outlives a stop."""
        return self._happen(f.WorkSaved(self.at, self._ids[name]))

    def fail(self, *names: str) -> Plan:
        return self._exit(names, ExitCause.FAILED)

    def retry(self, name: str, back_off_s: float = 0.0) -> Plan:
        """Its run has failed, and the job is run again, after a pause of `back_off_s` seconds."""
        run = self.job(name).run
        assert run is not None, (name, "does not run")
        id, at = self._ids[name], self.at
        facts: list[f.Fact] = [f.RunExited(at, run.id, ExitCause.RETRIED, self.job(name).progress_at(at))]
        if back_off_s:
            facts.append(f.JobDeferred(at, id, "BackoffAfterFailure", at + back_off_s))
        return self._happen(*facts)

    def defer(self, name: str, reason: str = "Dependency", until: float | None = None) -> Plan:
        return self._happen(f.JobDeferred(self.at, self._ids[name], reason, until))

    def clear(self, name: str) -> Plan:
        return self._happen(f.JobCleared(self.at, self._ids[name]))

    def requeue(self, name: str) -> Plan:
        return self._happen(f.JobRequeued(self.at, self._ids[name]))

    def change(self, name: str, **changes: Any) -> Plan:
        return self._happen(f.JobChanged(self.at, replace(self.job(name).job, **changes)))

    def drain_slot(self, node: str, index: int) -> Plan:
        return self._happen(f.SlotDrained(self.at, node, index))

    def restore_slot(self, node: str, index: int) -> Plan:
        return self._happen(f.SlotRestored(self.at, node, index))

    def hold(self, name: str) -> Plan:
        return self._happen(f.JobHeld(self.at, self._ids[name]))

    def release(self, name: str) -> Plan:
        return self._happen(f.JobReleased(self.at, self._ids[name]))

    def cancel(self, name: str) -> Plan:
        return self._happen(f.JobCancelled(self.at, self._ids[name]))

    def drain(self, node: str) -> Plan:
        return self._happen(f.NodeDrained(self.at, node))

    def restore(self, node: str) -> Plan:
        return self._happen(f.NodeRestored(self.at, node))

    def fall_silent(self, node: str) -> Plan:
        return self._happen(f.NodeFellSilent(self.at, node))

    def come_back(self, node: str) -> Plan:
        return self._happen(f.NodeReturned(self.at, node))

    def wait(self, seconds: float) -> Plan:
        """Let time pass; the plan has everything that was decided when timers fired."""
        self.controller  # noqa: B018  (replays the scene first)
        end, plan = self.at + seconds, Plan()
        while self.timer_at <= end:
            self.at, self.timer_at = self.timer_at, INFINITY
            self._happen(f.TimerFired(self.at), into=plan)
        self.at = end
        return plan

    # --- queries ---------------------------------------------------------------------------------------

    @property
    def controller(self) -> Controller:
        """The Controller; the first use of it replays the scene."""
        if self._controller is None:
            self._scene.replay()
            self._controller = Controller(self.state, self._policy, self._placer)
        return self._controller

    def job(self, name: str) -> JobState:
        """The active job of this name."""
        return self.state.jobs[self._ids[name]]

    def name(self, id: int) -> str:
        """The name of the job with this id."""
        return next(name for name, known in self._ids.items() if known == id)

    def nodes_of(self, name: str) -> dict[str, int]:
        """How many slots its run holds on each node."""
        run = self.state.runs[self._run_of(name)]
        return {self.state.ledger.nodes[node].name: slots.bit_count() for node, slots in run.allocation}

    def why(self, name: str) -> Reason | None:
        """Why the job is where it is."""
        return self.controller.why(self._ids[name])

    def ranked(self) -> list[str]:
        """The names of the ranked jobs, the first in the ranks first."""
        return [self.name(job.id) for job in self.controller.view.ranked()]

    def queue_of(self, name: str) -> int:
        """The number of its queue under a policy with queues, from 1."""
        return int(self._policy.rank(self.job(name), self.state.memory, self.at)[0]) + 1

    # --- details ---------------------------------------------------------------------------------------

    def _run_of(self, name: str) -> RunId:
        return run_of(self.job(name))

    def _exit(self, names: tuple[str, ...], cause: ExitCause) -> Plan:
        self.controller  # noqa: B018  (replays the scene first)
        progress_s = {name: self.state.runs[self._run_of(name)].work_at(self.at) for name in names}
        return self._happen(*(f.RunExited(self.at, self._run_of(n), cause, progress_s[n]) for n in names))

    def _happen(self, *facts: f.Fact, into: Plan | None = None) -> Plan:
        controller, step = self.controller, Step()
        controller.handle(facts, step)
        plan = self._read(step, Plan() if into is None else into)
        started = [f.RunStarted(self.at, c.run_id) for c in step.commands if isinstance(c, StartRun)]
        controller.handle(started, Step())
        invariants.check_plan(controller)
        return plan

    def _read(self, step: Step, plan: Plan) -> Plan:
        runs = {run.id: self.name(run.job_id) for run in self.state.runs.values()}
        for fact in step.facts:
            if isinstance(fact, f.RunGranted):
                plan.started.append(self.name(fact.job_id))
            elif isinstance(fact, f.RunRevoked):
                plan.preempted.append(runs[fact.run_id])
                assert fact.why is not None, ("revoked for no reason", fact)
                plan.reasons.append(fact.why)
            elif isinstance(fact, f.JobPromoted):
                plan.promoted.append(self.name(fact.job_id))
        for command in step.commands:
            if isinstance(command, SetTimer):
                self.timer_at = command.at
            elif isinstance(command, StopRun):
                plan.stopped.append(runs[command.run_id])
        plan.ended += [self.name(job.id) for job in step.ended]
        return plan
