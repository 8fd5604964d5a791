"""The simulation of one seed: a random machine, random trainings, a random user and random faults.

The real Service runs in a virtual event loop, over the real Manager, the real store and the real
LocalExecutor, whose system calls go to a simulated machine. Whenever the Service waits, the next event of the
World happens.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tiresias.core import invariants
from tiresias.core.model import Node, Phase
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.gpus import Gpu
from tiresias.executors.local import LocalExecutor
from tiresias.live.clock import Clock
from tiresias.live.dispatcher import SLICE_S
from tiresias.live.home_paths import HomePaths
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.service import Service
from tiresias.live.settings import Settings
from tiresias.store import Chosen, Store, StoreError, redecide, replay
from tiresias.testing.faults.disasters import Disasters, Odds
from tiresias.testing.faults.effects import Effects, Killed, MortalExecutor, MortalStore
from tiresias.testing.faults.kernel import SimulatedKernel
from tiresias.testing.faults.loop import VirtualLoop
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
NO_CGROUPS = CgroupParent(None, "the simulated machine has none")


@dataclass(slots=True, frozen=True)
class Parts:
    """The classes under test. Tests with a deliberate bug replace one of them."""

    manager: type[Manager] = Manager
    service: type[Service] = Service
    store: type[MortalStore] = MortalStore
    executor: type[LocalExecutor] = LocalExecutor
    clock: type[Clock] = Clock


@cache
def empty_journal() -> bytes:
    """A journal that has not begun, as a file. To make one takes as long as a tenth of a simulation."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        Store.open(path, synchronous="OFF").close()
        return path.read_bytes()


class Life:
    """One manager, from its start until it is killed."""

    def __init__(self, manager: Manager, store: MortalStore, service: Service, loop: VirtualLoop):
        self.manager, self.store, self.service, self.loop = manager, store, service, loop
        self.commits_checked = 0
        self.trouble: BaseException | None = None  # an exception that its event loop has caught
        self._has_ended = False
        loop.set_exception_handler(self._caught)
        loop.create_task(service.run())

    def _caught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.trouble is None and not self._has_ended:
            self.trouble = error or Violation(context["message"])
        loop.stop()

    def end(self) -> None:
        """Whatever its coroutines still try has no effect, for the manager is dead."""
        self._has_ended = True
        for task in asyncio.all_tasks(self.loop):
            with suppress(Killed, Exception):
                task.get_coro().close()
        self.loop.close()
        self.store.close()


def _random_machine(rng: Random) -> Machine:
    nodes = [Node(f"n{index}", rng.randrange(1, 5)) for index in range(rng.randrange(1, 3))]
    gpus = {f"{node.name}:{index}": Gpu(index, "", "fake", 0) for node in nodes for index in range(node.gpus)}
    return Machine(nodes, gpus)


class Simulation:
    """`run` raises an exception if anything goes wrong. `story` is what happened so far."""

    def __init__(self, seed: int, home: Path, parts: Parts | None = None, odds: Odds | None = None):
        rng = Random(seed)
        self.parts = parts or Parts()
        self.home, self.paths = home, HomePaths(home)
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
        self.kernel = SimulatedKernel(self.world, 0, self.effects.point)
        self.life: Life | None = None
        self.is_calm = False
        self.settings = Settings()
        if self.rng.random() < 0.3:
            # Old facts and keys are removed from the journal. A clock that jumps ahead would make all of them
            # old at once, so it must not jump here.
            self.settings = Settings(compact_every_s=100.0, keep_facts_s=1000.0)
            self.disasters.odds.jump = 0.0
        self._is_last_life = self._is_tidied = self._is_over = False
        self._faulty_events = self.rng.randrange(60, 260)
        self._deadline, self._most_events = float("inf"), 10**9
        (home / "journal.db").write_bytes(empty_journal())

    def log(self, what: str, *about: object) -> None:
        """Add an event to the story."""
        self.story.append((self.world.at, what, about))

    # --- with faults, then without ---------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._be_born()
            self.world.after(0.0, self._user_acts)
            while not self._is_over:
                self._go_on()
            self._check_ends()
        finally:
            if self.life is not None:
                self.effects.is_dead = True
                self.life.end()

    def _go_on(self) -> None:
        """Let the service run until something must be done about it; without one, the next event happens."""
        life = self.life
        try:
            if life is None:
                self._happen(float("inf"))
            else:
                life.loop.run_forever()
        except Killed:
            self._die()
        if life is not None and life.trouble is not None:
            raise life.trouble
        if not self.is_calm and self.events >= self._faulty_events:
            self._calm_down()

    def _wait(self, seconds: float | None) -> None:
        """The service waits: everything that was ready has been done."""
        life = self._alive()
        self._look_at_manager(life)
        self._is_over = self.is_calm and self._is_finished()
        if self._is_over:
            life.loop.stop()
            return
        self._happen(self.world.at + seconds if seconds is not None else float("inf"))
        if not self.is_calm and self.events >= self._faulty_events:
            life.loop.stop()
        elif not self.is_calm and self.disasters.rng.random() < self.disasters.odds.busy:
            life.loop.is_busy = True

    def _happen(self, until: float) -> None:
        """Simulate the next event, if there is one until then; then faults."""
        self.events += 1
        world = self.world
        if world.next_at <= until:
            world.happen()
        else:
            world.at = until
        if self.is_calm:
            if world.at > self._deadline or self.events > self._most_events:
                raise Violation(f"not finished: {self._unfinished()}")
            self._kill_once_more()
        elif self.disasters.strike(world, self.effects):
            self.witness.check_durable()
            raise Killed("by a loss of power")
        self.witness.look()

    def _calm_down(self) -> None:
        """Switch faults off; the clock is set right; the user takes back what keeps jobs from running."""
        self.log("CALM")
        self.is_calm = True
        self.world.weather = CALM
        self.world.shortages.clear()
        self.world.clocks.set_right()
        self.effects.left = None
        self._deadline, self._most_events = self.world.at + ENOUGH_S, self.events + ENOUGH_EVENTS
        self._be_born()
        self.world.after(0.0, self._submit_rest)

    def _submit_rest(self) -> None:
        if self.life is None or self.life.manager.problem:
            self.world.after(1.0, self._submit_rest)
        elif self.user.has_more:
            self.user.submit_rest(self.life.manager)
            self.world.after(1.0, self._submit_rest)
        else:
            self.user.tidy(self.life.manager)
            self._is_tidied = True
            self.world.after(TIDIES_S, self._tidy)

    def _kill_once_more(self) -> None:
        """Kill the manager when few jobs are left and one of them is deferred, which must not be lost."""
        if self._is_last_life or self.life is None or not self._is_tidied or self.promises.open:
            return
        jobs = self.life.manager.state.jobs.values()
        if len(jobs) <= 3 and any(job.deferred for job in jobs):
            self._is_last_life = True
            self.log("KILLED", "for the last time")
            raise Killed("for the last time")

    def _tidy(self) -> None:
        """Restore GPUs, but only if some are withdrawn: a needless request would hide a missed timer."""
        if self.life is not None and self.life.manager.gpu_health.out_of_service:
            self.user.tidy(self.life.manager)
        self.world.after(TIDIES_S, self._tidy)

    # --- the manager -----------------------------------------------------------------------------------

    def _alive(self) -> Life:
        assert self.life is not None
        return self.life

    def _look_at_manager(self, life: Life) -> None:
        """After everything that was ready is done: what is over is durable, and the plan is as it must be."""
        manager = life.manager
        if life.store.commits == life.commits_checked or manager.problem:
            return
        life.commits_checked = life.store.commits
        invariants.check_plan(manager.controller)
        if not manager.journal.commands and not manager.dispatcher.problem:
            slice_s = getattr(manager.controller.policy, "slice_s", SLICE_S)
            self.witness.check_turns(manager.state, slice_s)
        for job in self.promises.jobs.values():
            if job.id is not None and job.id not in manager.state.jobs:
                self.witness.ends(job.id)

    def _be_born(self) -> None:
        """Start a manager, which may be killed while it starts."""
        if self.life is not None:
            return
        left = self.effects.left
        self.effects = Effects(self.log)
        self.effects.left = left
        if not self.is_calm:
            self.disasters.strike_at_start(self.world)
        self.kernel = SimulatedKernel(self.world, self.world.new_pid(), self.effects.point)
        store: MortalStore | None = None
        try:
            executor = self.parts.executor(self.paths.executor, cgroups=NO_CGROUPS, kernel=self.kernel)
            store = self.parts.store.open(self.paths.journal, synchronous="OFF")
            store.effects, store.world = self.effects, self.world
            mortal = MortalExecutor(executor, store, self.effects, self.witness, self.world)
            manager = self._open(store, mortal)
        except (Killed, StoreError, OSError) as end:
            self.log("dies as it starts", str(end))
            self.kernel.die()
            if store is not None:
                store.close()
            self._plan_birth()
            return
        loop = VirtualLoop(self.world.clocks.elapsed, self._wait, self.kernel.is_readable)
        service = self.parts.service(manager)
        self.life = Life(manager, store, service, loop)
        self.user.meet(service, loop)
        self.lives += 1
        self.log("the manager is there")
        self._check_nothing_lost()

    def _open(self, store: MortalStore, executor: MortalExecutor) -> Manager:
        name, options = self.chosen
        clocks = self.world.clocks
        clock = self.parts.clock(wall=clocks.wall, steady=clocks.elapsed, boot_id=self.world.boot_id)
        chosen = Chosen(name, options)
        return self.parts.manager.open(
            self.home, store, executor, self.machine, chosen, clock=clock, settings=self.settings
        )

    def _die(self) -> None:
        self.effects.is_dead = True
        self.kernel.die()
        self.witness.look()
        self.user.lost_touch()
        if self.life is not None:
            self.life.end()
            self.life = None
            self._plan_birth()

    def _plan_birth(self) -> None:
        self.effects.left = None
        if not self.is_calm and self.rng.random() < 0.2:
            self.effects.left = self.rng.randrange(1, 40)  # it will not live long
        self.world.after(self.rng.random() * RESTARTS_WITHIN_S, self._be_born)

    def _user_acts(self) -> None:
        if self.is_calm:
            return
        self.world.after(self.rng.random() * THINKS_S, self._user_acts)
        if self.life is not None:
            self.user.act(self.life.manager, self.world.clocks.wall())
            while self.rng.random() < 0.1:  # several at once are in one commit
                self.user.act(self.life.manager, self.world.clocks.wall())

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
        """Everything that was asked for is answered and durable, every job has ended, no process lives."""
        if not self._is_tidied or self.promises.open or self.world.supervisors or self.world.live:
            return False
        return not self._alive().manager.state.jobs and not self._alive().manager.problem

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
