"""The simulated driver: virtual time jumps from instant to instant, and the Controller decides at each.

Rules: all facts of one instant are handed to the Controller together: exits first, then submissions, then the
timer. The World carries out the commands. The start of a run changes no plan, so the facts with which the
World answers a command are handed over together with the next facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop

from tiresias.core import facts as f
from tiresias.core.commands import SetTimer, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.model import INFINITY, Job, RunId
from tiresias.core.plugins import SpeedModel
from tiresias.core.state import JobState
from tiresias.sim.picture import Moment
from tiresias.sim.world import World

WATCH_EVERY = 4096  # instants between two calls of `watch`

Journal = Callable[[f.Fact], None]
Watch = Callable[[float], None]


class Engine:
    """Drives a Controller over a World. `jobs` must be in order of submission.

    `on_end` is called with each job that has ended, `on_instant` after each instant, `journal` with each
    fact. `moment` is filled in when virtual time reaches it.
    """

    def __init__(
        self,
        controller: Controller,
        world: World,
        jobs: Iterator[Job],
        on_end: Callable[[JobState], None],
        *,
        speed_model: SpeedModel | None = None,
        journal: Journal | None = None,
        on_instant: Callable[[float], None] | None = None,
        moment: Moment | None = None,
        first: Sequence[f.Fact] = (),
    ):
        self.controller = controller
        self.world = world
        self.events = 0  # distinct instants at which the Controller planned
        self.at = -INFINITY
        self._planned_at = -INFINITY
        self._jobs = jobs
        self._next_job = next(jobs, None)
        self._arrives_at = INFINITY if self._next_job is None else self._next_job.submitted_at
        self._timer_at = INFINITY
        self._on_end = on_end
        self._on_instant = on_instant
        self._moment = moment
        self._capture_at = INFINITY if moment is None else moment.at
        self._speed_model = speed_model
        self._journal = journal
        self._step = Step()
        # Facts that the Controller has not got yet: those before the first job, then those of the World.
        self._answers: list[f.Fact] = list(first)

    def run(self, watch: Watch | None = None) -> None:
        """Simulate until nothing is left to happen; `watch` gets the instant now and then."""
        world, heap = self.world, self.world.heap
        countdown = WATCH_EVERY
        while True:
            due_at = at = heap[0][0] if heap else INFINITY
            if self._arrives_at < at:
                at = self._arrives_at
            if self._timer_at < at:
                at = self._timer_at
            if at == INFINITY:
                break
            if at > self._capture_at:
                self._capture()
            facts = self._answers
            self._answers = []
            quiet = len(facts)
            while due_at == at:
                fact = world.happen(heappop(heap))
                if fact is not None:
                    facts.append(fact)
                due_at = heap[0][0] if heap else INFINITY
            if self._arrives_at == at:
                self._arrivals(at, facts)
            if self._timer_at == at:
                self._timer_at = INFINITY
                facts.append(f.TimerFired(at))
            if len(facts) == quiet:
                self._answers = facts
                continue
            self._handle(facts, at)
            countdown -= 1
            if not countdown:
                countdown = WATCH_EVERY
                if watch is not None:
                    watch(at)
        if self._answers and self.at > -INFINITY:  # otherwise no job came at all
            self._handle(self._answers, self.at)
        if self._capture_at != INFINITY:
            self._capture()

    def _capture(self) -> None:
        """Fill in the moment: the next fact is later than its instant."""
        assert self._moment is not None
        self._capture_at = INFINITY
        self._moment.capture(self.controller.state)

    def _arrivals(self, at: float, facts: list[f.Fact]) -> None:
        job = self._next_job
        while job is not None and job.submitted_at <= at:
            self.world.jobs[job.id] = job
            facts.append(f.JobSubmitted(at, job))
            if self.world.failures is not None:
                deferral = self.world.preflight(job)
                if deferral is not None:
                    facts.append(deferral)
            job = next(self._jobs, None)
        self._next_job = job
        self._arrives_at = INFINITY if job is None else job.submitted_at

    def _handle(self, facts: list[f.Fact], at: float) -> None:
        """Give facts to the Controller and carry out its commands; the answers go with the next facts."""
        step = self._step
        if self.controller.handle(facts, step) and at > self._planned_at:
            self.events += 1
            self._planned_at = at
        self.at = at
        if self._journal is not None:
            self._write_journal(facts)
        if step.ended:
            for job in step.ended:
                self._on_end(job)
            step.ended.clear()
        if step.commands:
            world = self.world
            for command in step.commands:
                kind = type(command)
                if kind is StartRun:
                    fact = world.start(command, at)  # type: ignore[arg-type]
                    if fact is not None:
                        self._answers.append(fact)
                elif kind is SetTimer:
                    self._timer_at = command.at  # type: ignore[union-attr]
                elif kind is StopRun:
                    world.stop(command, at)  # type: ignore[arg-type]
                # What a PaceRun changes is the speed of the run, see _changed.
            step.commands.clear()
        if self._speed_model is not None:
            changed = self._changed(facts)
            if changed:
                self._answers.extend(self._retime(changed, at))
        step.facts.clear()
        if self._on_instant is not None:
            self._on_instant(at)

    def _write_journal(self, facts: list[f.Fact]) -> None:
        assert self._journal is not None
        for fact in facts:
            self._journal(fact)
        for fact in self._step.facts:
            self._journal(fact)

    def _changed(self, facts: list[f.Fact]) -> list[RunId]:
        """Runs that were granted, were given other turns or have exited, each once."""
        changed = {fact.run_id: None for fact in facts if type(fact) is f.RunExited}
        for fact in self._step.facts:
            if type(fact) is f.RunGranted or type(fact) is f.RunPaced:
                changed[fact.run_id] = None
        return list(changed)

    def _retime(self, changed: list[RunId], at: float) -> Iterator[f.Fact]:
        assert self._speed_model is not None
        speeds = self._speed_model.speeds(changed, self.controller.state.ledger)
        for run_id, speed in speeds.items():
            fact = self.world.set_speed(run_id, speed, at)
            if fact is not None:
                yield fact
