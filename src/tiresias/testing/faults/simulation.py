"""The simulation of one seed: a random machine, random trainings, a random user and random faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tiresias.core import invariants
from tiresias.core.model import Node, Phase
from tiresias.executors.gpus import Gpu
from tiresias.live.clock import Clock
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.settings import Settings
from tiresias.store import Chosen, StoreError, redecide, replay
from tiresias.testing.faults.disasters import Disasters, Odds
from tiresias.testing.faults.effects import Effects, Killed, MortalExecutor, MortalStore
from tiresias.testing.faults.executor import SimulatedExecutor
from tiresias.testing.faults.promises import Promises
from tiresias.testing.faults.trainings import random_training
from tiresias.testing.faults.user import POLICIES, User
from tiresias.testing.faults.witness import Violation, Witness
from tiresias.testing.faults.world import CALM, World

ENOUGH_S = 400_000.0  # virtual seconds in which everything finishes once faults are off
ENOUGH_EVENTS = 20_000
RESTARTS_WITHIN_S = 30.0
TIDIES_S = 5_000.0  # how often an administrator puts withdrawn GPUs back into service
THINKS_S = 20.0  # at most, between two requests of the user


@dataclass(slots=True, frozen=True)
class Parts:
    """The classes under test. Tests with a deliberate bug replace one of them."""

    manager: type[Manager] = Manager
    store: type[MortalStore] = MortalStore
    executor: type[SimulatedExecutor] = SimulatedExecutor
    clock: type[Clock] = Clock


@dataclass(slots=True)
class Life:
    """One manager, from its start until it is killed."""

    manager: Manager
    store: MortalStore
    executor: SimulatedExecutor


def _random_machine(rng: Random) -> Machine:
    nodes = [Node(f"n{index}", rng.randrange(1, 5)) for index in range(rng.randrange(1, 3))]
    gpus = {f"{node.name}:{index}": Gpu(index, "", "fake", 0) for node in nodes for index in range(node.gpus)}
    return Machine(nodes, gpus)


def _nothing() -> None:
    """An event without an effect, so that the loop runs at its instant."""


class Simulation:
    """`run` raises an exception if anything goes wrong. `story` is what happened so far."""

    def __init__(self, seed: int, home: Path, parts: Parts | None = None, odds: Odds | None = None):
        rng = Random(seed)
        self.parts = parts or Parts()
        self.home = home
        self.story: list[tuple[float, str, tuple[object, ...]]] = []
        self.events = self.lives = 0
        trainings = [random_training(rng, f"t{index}") for index in range(rng.randrange(5, 13))]
        self.machine = _random_machine(rng)
        slots = sorted(self.machine.gpus)
        self.world = World(Random(rng.random()), {each.name: each for each in trainings}, self.log)
        self.promises = Promises()
        self.witness = Witness(self.world, self.promises, frozenset(slots))
        nodes = [node.name for node in self.machine.nodes]
        self.user = User(Random(rng.random()), trainings, slots, nodes, self.promises, self.log)
        self.disasters = Disasters(Random(rng.random()), replace(odds or Odds()))
        self.rng = Random(rng.random())
        self.chosen = self.rng.choice(POLICIES)
        self.effects = Effects(self.log)
        self.life: Life | None = None
        self.is_calm = False
        self.settings = Settings()
        if self.rng.random() < 0.3:
            # Old facts and keys are removed from the journal. A clock that jumps ahead would make all of them
            # old at once, so it must not jump here.
            self.settings = Settings(compact_every_s=100.0, keep_facts_s=1000.0)
            self.disasters.odds.jump = 0.0
        self._is_last_life = False
        self._wake_at = 0.0  # when a manager that could not commit tries again
        self._faulty_events = self.rng.randrange(60, 260)

    def log(self, what: str, *about: object) -> None:
        """Add an event to the story."""
        self.story.append((self.world.at, what, about))

    # --- with faults, then without ---------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._be_born()
            self.world.after(0.0, self._user_acts)
            while self.events < self._faulty_events:
                self._happen()
            self._calm_down()
            self.world.after(TIDIES_S, self._tidy)
            deadline, most_events = self.world.at + ENOUGH_S, self.events + ENOUGH_EVENTS
            while not self._is_finished():
                if self.world.at > deadline or self.events > most_events:
                    raise Violation(f"not finished: {self._unfinished()}")
                self._happen()
                self._kill_once_more()
            self._check_ends()
        finally:
            if self.life is not None:
                self.life.store.close()

    def _happen(self) -> None:
        """Simulate the next event, then faults, then what the manager does about it."""
        self.events += 1
        world = self.world
        due_at = self._manager_due_at()
        if due_at <= world.next_at:
            world.at = max(world.at, due_at)
        else:
            world.happen()
        if not self.is_calm:
            if self.disasters.strike(world, self.effects):
                self._die()
            elif self.disasters.rng.random() < self.disasters.odds.busy:
                self.witness.look()
                return
        self._serve()
        self.witness.look()

    def _calm_down(self) -> None:
        """Switch faults off; the clock is set right; the user takes back what keeps jobs from running."""
        self.log("CALM")
        self.is_calm = True
        self.world.weather = CALM
        self.world.clocks.set_right()
        self.effects.left, self.effects.is_disk_full = None, False
        if self.life is None:
            self._be_born()
        self._wake_at = 0.0
        self._serve()
        life = self._alive()
        self.user.submit_rest(life.manager)
        self._serve()
        self.user.tidy(life.manager)
        self._serve()
        self.witness.look()

    def _kill_once_more(self) -> None:
        """Kill the manager when few jobs are left and one of them is deferred, which must not be lost."""
        if self._is_last_life or self.life is None:
            return
        jobs = self.life.manager.state.jobs.values()
        if len(jobs) <= 3 and any(job.deferred for job in jobs):
            self._is_last_life = True
            self.log("KILLED", "for the last time")
            self._die()

    def _tidy(self) -> None:
        """Restore GPUs, but only if some are withdrawn: a needless request would hide a missed timer."""
        if self.life is not None and self.life.manager.gpu_health.out_of_service:
            self.user.tidy(self.life.manager)
        self.world.after(TIDIES_S, self._tidy)

    # --- the manager -----------------------------------------------------------------------------------

    def _alive(self) -> Life:
        assert self.life is not None
        return self.life

    def _manager_due_at(self) -> float:
        """When the manager must be called next, in true time."""
        if self.life is None:
            return float("inf")
        due_at = self.world.at + self.life.manager.next_due_at - self.life.manager.journal.clock.now()
        return max(due_at, self._wake_at)

    def _serve(self) -> None:
        """Do what the service does when it is woken: apply reports and timers, commit, act, acknowledge."""
        if self.life is None or self.world.at < self._wake_at:
            return
        manager, commits = self.life.manager, self.life.store.commits
        try:
            if self.life.executor.has_news:
                manager.poll()
            manager.tick()
            manager.flush()
        except StoreError:
            self._wake_at = self.world.at + 1.0
            self.world.after(1.0, _nothing)
            return
        except Killed:
            self._die()
            return
        self.promises.acknowledge()
        for job in self.promises.jobs.values():
            if job.id is not None and job.id not in manager.state.jobs:
                self.witness.ends(job.id)
        if self.life.store.commits > commits:
            invariants.check_plan(manager.controller)

    def _be_born(self) -> None:
        """Start a manager, which may be killed while it starts."""
        if self.life is not None:
            return
        left = self.effects.left
        full = self.effects.is_disk_full
        self.effects = Effects(self.log)
        self.effects.left, self.effects.is_disk_full = left, full and not self.is_calm
        store: MortalStore | None = None
        executor = self.parts.executor(self.world)
        try:
            store = self.parts.store.open(self.home / "journal.db", synchronous="OFF")
            store.effects = self.effects
            manager = self._open(store, MortalExecutor(executor, self.effects, self.witness))
        except (Killed, StoreError) as end:
            self.log("dies as it starts", str(end))
            executor.close()
            if store is not None:
                store.close()
            self._plan_birth()
            return
        self.life = Life(manager, store, executor)
        self._wake_at = 0.0
        self.lives += 1
        self.log("the manager is there")
        self._check_nothing_lost()
        self._serve()

    def _open(self, store: MortalStore, executor: MortalExecutor) -> Manager:
        name, options = self.chosen
        clocks = self.world.clocks
        clock = self.parts.clock(wall=clocks.wall, steady=clocks.elapsed, boot_id=str(self.world.boot))
        chosen = Chosen(name, options)
        return self.parts.manager.open(
            self.home, store, executor, self.machine, chosen, clock=clock, settings=self.settings
        )

    def _die(self) -> None:
        self.effects.is_dead = True
        self.user.lost_touch()
        if self.life is not None:
            self.life.executor.close()
            self.life.store.close()
            self.life = None
            self._plan_birth()

    def _plan_birth(self) -> None:
        self.effects.left = None
        if not self.is_calm and self.rng.random() < 0.2:
            self.effects.left = self.rng.randrange(1, 12)  # it will not live long
        self.world.after(self.rng.random() * RESTARTS_WITHIN_S, self._be_born)

    def _user_acts(self) -> None:
        if self.is_calm:
            return
        self.world.after(self.rng.random() * THINKS_S, self._user_acts)
        if self.life is not None:
            try:
                self.user.act(self.life.manager, self.world.clocks.wall())
            except Killed:
                self._die()

    # --- checks ----------------------------------------------------------------------------------------

    def _check_nothing_lost(self) -> None:
        store = self._alive().store
        for job in self.promises.jobs.values():
            record = None if job.id is None else store.job(job.id)
            if job.id is not None and record is None:
                raise Violation(f"an acknowledged job is lost: {job.id} ({job.name})")
            if record is not None and job.sure_priority not in (None, record.job.priority.value):
                raise Violation(f"job {job.id} is {record.job.priority}, not {job.sure_priority}")
        chosen = store.chosen()
        if chosen is None or self.promises.sure_policy not in (None, chosen.policy):
            raise Violation(f"the policy is {chosen}, not {self.promises.sure_policy}")

    def _unfinished(self) -> list[str]:
        if self.life is None:
            return ["no manager"]
        store = self.life.store
        active = [f"job {record.id} is {record.phase}" for record in store.active()]
        return active + [f"run {gang.spec.run_id} lives" for gang in self.world.live]

    def _is_finished(self) -> bool:
        return self.life is not None and not self.life.manager.state.jobs and not self.world.live

    def _check_ends(self) -> None:
        """Every job ended as the World says, every run is in the journal, and a replay decides the same."""
        life = self._alive()
        self.witness.check_begun_once()
        phases: dict[str, Phase] = {}
        for job in self.promises.jobs.values():
            record = None if job.id is None else life.store.job(job.id)
            if record is None:
                raise Violation(f"a job that was submitted again and again is not in the journal: {job.name}")
            phases[job.name] = record.phase
        for job in self.promises.jobs.values():
            self.witness.check_end(job, phases)
            assert job.id is not None
            record = life.store.job(job.id)
            assert record is not None
            self.witness.check_times(job, record.executed_s, (record.ending or {}).get("reason", ""))
        if life.store.open_runs() or life.store.active():
            raise Violation(f"open in the journal: {life.store.open_runs()} {life.store.active()}")
        for gang in self.world.gangs:
            run = life.store.run(gang.spec.run_id)
            if run is None or run.exited_at is None or run.job_id != gang.spec.job_id:
                raise Violation(f"run {gang.spec.run_id} is not in the journal as it was: {run}")
        difference = redecide(replay(life.store))
        if difference is not None:
            raise Violation(f"the replay decides differently: {difference}")
