"""The simulation of one seed: random nodes, random trainings, random faults, then calm in which all ends.

The real Service runs in a virtual event loop, over the real Manager, the real store and the real
GangExecutor, whose tasks are in the same loop. The nodes and their agents are simulated; the folder that they
share is a real one.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tiresias.core import invariants
from tiresias.core.model import JobId, Phase, RunId
from tiresias.executors.base import Adopted, NodeUpdate, RunSpec, RunUpdate
from tiresias.executors.gang import GangExecutor
from tiresias.executors.gang_loop import GangLoop
from tiresias.executors.gang_nodes import GangNodes
from tiresias.executors.gang_runs import GangRuns
from tiresias.executors.gang_silent import SilentParts
from tiresias.live.clock import Clock
from tiresias.live.errors import Unavailable
from tiresias.live.home_paths import HomePaths
from tiresias.live.manager import Manager
from tiresias.live.service import Service
from tiresias.live.settings import Settings
from tiresias.live.start import machine_of_nodes
from tiresias.live.submission import Caller, Submission
from tiresias.store import Chosen, redecide, replay
from tiresias.testing.faults.effects import Effects, Killed, MortalStore
from tiresias.testing.faults.loop import VirtualLoop
from tiresias.testing.faults.nodes.agents import SimulatedAgent, SimulatedTransport, Weather
from tiresias.testing.faults.nodes.witness import NodesWitness
from tiresias.testing.faults.nodes.world import (
    EPOCH,
    GRACE_S,
    LEASE_S,
    NodesWorld,
    Program,
    SimulatedNode,
)
from tiresias.testing.faults.simulation import Life, empty_journal
from tiresias.testing.faults.witness import Violation

FAULTY_S = 60.0  # how long there are faults
ENOUGH_S = 600.0  # in which everything finishes once there are none
RESTARTS_WITHIN_S = 6.0
LOOKS_S = 0.5  # between two looks whether everything is over
POLICIES: tuple[tuple[str, dict[str, str]], ...] = (
    ("tiresias-l", {"queues": "8"}),
    ("fifo-skip", {}),
    ("las", {"min_run_s": "2"}),
)
ANNA, ADMIN = Caller("anna"), Caller("root", is_admin=True)
SETTINGS = Settings(
    backoff_s=1.0,
    most_lost_runs=10_000,
    most_quick_requeues=10_000,
    refuse_after=10_000,
    lease_s=LEASE_S,
    reserve_bytes=0.0,
)

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class NodeParts:
    """The classes under test. Tests with a deliberate bug replace one of them."""

    manager: type[Manager] = Manager
    nodes: type[GangNodes] = GangNodes
    runs: type[GangRuns] = GangRuns
    silent: type[SilentParts] = SilentParts
    agent: type[SimulatedAgent] = SimulatedAgent


class SimulatedGangLoop(GangLoop):
    """The tasks of a gang executor in the loop of the simulation; reading the folder takes a while there."""

    def __init__(self, on_failure: Callable[[BaseException], None], loop: VirtualLoop, world: NodesWorld):
        self._on_failure, self._loop, self._world = on_failure, loop, world
        self._tasks = set()

    def begin(self, at_end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        return None

    def end(self) -> None:
        return None

    def call(self, do: Callable[..., object], *arguments: Any) -> None:
        self._loop.call_soon(do, *arguments)

    def now(self) -> float:
        return self._world.at

    async def in_thread(self, do: Callable[..., T], *arguments: Any) -> T:
        rng = self._world.rng
        await asyncio.sleep(rng.random() * 0.5 if rng.random() < 0.1 else 0.0)
        return do(*arguments)

    async def in_folder(self, do: Callable[..., T], *arguments: Any) -> T:
        return await self.in_thread(do, *arguments)


class Watched:
    """The executor, with a kill before and after each command; the witness checks each start."""

    def __init__(self, executor: GangExecutor, effects: Effects, witness: NodesWitness):
        self._executor, self._effects, self._witness = executor, effects, witness

    def start(self, spec: RunSpec) -> None:
        self._effects.point(f"before the start of run {spec.run_id}")
        self._witness.commands(spec)
        self._executor.start(spec)
        self._effects.point(f"after the start of run {spec.run_id}")

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        self._effects.point(f"before the stop of run {run_id}")
        self._executor.stop(run_id, grace_s)

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        self._executor.pace(run_id, turn, turns, slice_s)

    def forget(self, run_id: RunId) -> None:
        self._effects.point(f"before run {run_id} is forgotten")
        self._executor.forget(run_id)

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        specs = list(expected)
        for spec in specs:
            self._witness.commands(spec)
        return self._executor.adopt(specs)

    def poll(self) -> list[RunUpdate]:
        return self._executor.poll()

    def fileno(self) -> int:
        return self._executor.fileno()

    def close(self) -> None:
        self._executor.close()

    def expect(self, names: Iterable[str]) -> None:
        self._executor.expect(names)

    def node_updates(self) -> list[NodeUpdate]:
        return self._executor.node_updates()


class NodesSimulation:
    """`run` raises an exception if anything goes wrong. `story` is what happened so far."""

    def __init__(self, seed: int, home: Path, parts: NodeParts | None = None):
        rng = self.rng = Random(seed)
        self.parts, self.paths = parts or NodeParts(), HomePaths(home, home / "shared")
        self.paths.files.mkdir()
        self.story: list[tuple[float, str, tuple[object, ...]]] = []
        self.events = self.lives = 0
        sizes = [rng.randrange(1, 4) for _ in range(rng.randrange(2, 5))]
        programs = [self._program(index, sizes) for index in range(rng.randrange(4, 8))]
        self.world = NodesWorld(Random(rng.random()), {each.name: each for each in programs}, self.log)
        for index, size in enumerate(sizes):
            name = f"n{index}"
            self.world.nodes[name] = SimulatedNode(self.world, name, size, rng.choice(("", "a", "b")))
            self.world.agents[name] = self.parts.agent(self.world.nodes[name])
        self.witness = NodesWitness(self.world)
        self.chosen = Chosen(*rng.choice(POLICIES))
        self.weather, self.reservations = Weather(), dict[RunId, Mapping[str, int]]()
        self.effects = Effects(self.log)
        self.life: Life | None = None
        self.executor: GangExecutor | None = None
        self.is_calm = self.is_over = False
        self._submitted: set[str] = set()
        self._acknowledged: set[str] = set()
        (home / "journal.db").write_bytes(empty_journal())

    def _program(self, index: int, sizes: list[int]) -> Program:
        rng = self.rng
        nodes = rng.randrange(1, len(sizes) + 1) if rng.random() < 0.4 else None
        most = sum(sizes) if nodes is None else nodes * sorted(sizes, reverse=True)[nodes - 1]
        gpus = rng.randrange(nodes or 1, most + 1)
        return Program(
            f"t{index}",
            gpus,
            nodes,
            steps=rng.randrange(2, 20),
            step_s=rng.choice((0.3, 1.0, 2.0)),
            saves_every=rng.choice((1, 3)),
            save_s=rng.choice((0.1, 1.0, 3.0)),
        )

    def log(self, what: str, *about: object) -> None:
        self.story.append((self.world.at, what, about))

    # --- with faults, then without ---------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._be_born()
            self.world.after(0.0, self._user_acts)
            self.world.after(0.0, self._strike)
            self.world.after(FAULTY_S, self._calm_down)
            while not self.is_over:
                self._go_on()
            self._check_ends()
        finally:
            self.effects.is_dead = True
            self._end_life()

    def _go_on(self) -> None:
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

    def _wait(self, seconds: float | None) -> None:
        """The service waits: everything that was ready has been done."""
        life = self.life
        assert life is not None
        if life.store.commits != life.commits_checked and not life.manager.problem:
            life.commits_checked = life.store.commits
            invariants.check_plan(life.manager.controller)
        self._happen(self.world.at + seconds if seconds is not None else float("inf"))
        if self.is_over:
            life.loop.stop()

    def _happen(self, until: float) -> None:
        self.events += 1
        if self.world.next_at <= until:
            self.world.happen()
            self.witness.look()
        else:
            self.world.at = until

    def _calm_down(self) -> None:
        """No more faults; nodes that are off, paused or cut off return by themselves."""
        self.log("CALM")
        self.is_calm = True
        self.effects.left = None
        self.weather.lost = self.weather.repeated = 0.0
        self.world.after(0.0, self._look, self.world.at + ENOUGH_S)

    def _look(self, deadline: float) -> None:
        """Whether everything is over; what an administrator would put right is put right."""
        if self.life is not None and not self.life.manager.problem:
            state = self.life.manager.state
            for node in state.ledger.nodes:
                if not state.ledger.in_service[state.ledger.position(node.name)]:
                    self.life.manager.requests.undrain(ADMIN, node.name)
            if self._is_finished():
                self.is_over = True
                return
        if self.world.at > deadline:
            raise Violation(f"not finished: {self._unfinished()}")
        self.world.after(LOOKS_S, self._look, deadline)

    def _unfinished(self) -> list[str]:
        found = [f"run {each.spec.run_id} lives on {each.node.name}" for each in self.world.alive]
        if self.life is None:
            return [*found, "no manager"]
        state = self.life.manager.state
        silent = [node.name for node in state.ledger.nodes if not self._is_usable(node.name)]
        active = [f"job {job.id} is {job.phase}" for job in state.jobs.values()]
        return [*found, *active, f"out of use: {silent}", f"reserved: {self.reservations}", *self._given_up()]

    def _is_usable(self, name: str) -> bool:
        assert self.life is not None
        ledger = self.life.manager.state.ledger
        return ledger.has_node(name) and ledger.is_usable(ledger.position(name))

    def _given_up(self) -> list[str]:
        return [str(path.name) for path in (self.paths.files / "given-up").glob("*/*.json")]

    def _is_finished(self) -> bool:
        assert self.life is not None
        if len(self._acknowledged) < len(self.world.programs) or self.life.manager.state.jobs:
            return False
        if any(node.processes for node in self.world.nodes.values()) or self.reservations:
            return False
        return not self._given_up() and all(self._is_usable(name) for name in self.world.nodes)

    # --- faults ----------------------------------------------------------------------------------------

    def _strike(self) -> None:
        if self.is_calm:
            return
        rng = self.rng
        self.world.after(rng.random() * 6.0, self._strike)
        node = rng.choice(list(self.world.nodes.values()))
        lasts_s = rng.choice((1.0, 4.0, LEASE_S + 1.0, LEASE_S + GRACE_S + 1.0, 15.0)) + rng.random()
        what = rng.choice(("lost", "paused", "cut", "cut from the folder", "cut from both", "agent", "kill"))
        self.log(what, node.name, round(lasts_s, 2))
        if what == "kill":
            self.effects.left = rng.randrange(1, 12)
            if rng.random() < 0.5:
                raise Killed("at any time")
        elif what == "agent":
            if node.is_running:
                self.world.agents[node.name] = self.parts.agent(node)
        elif what == "lost":
            if node.is_on:
                node.lose_power()
                self.world.after(lasts_s, self._power_returns, node)
        elif what == "paused":
            if node.is_running:
                node.pause()
                self.world.after(lasts_s, self._wakes, node, node.boot)
        else:
            node.is_reachable = node.is_reachable and what == "cut from the folder"
            node.has_folder = node.has_folder and what == "cut"
            self.world.after(lasts_s, self._link_returns, node)

    def _power_returns(self, node: SimulatedNode) -> None:
        self.log("boots", node.name)
        node.boot_again()
        self.world.agents[node.name] = self.parts.agent(node)

    def _wakes(self, node: SimulatedNode, boot: int) -> None:
        if node.boot == boot and node.is_paused:
            self.log("wakes", node.name)
            node.wake()

    def _link_returns(self, node: SimulatedNode) -> None:
        self.log("is reached again", node.name)
        node.is_reachable = node.has_folder = True

    # --- the user --------------------------------------------------------------------------------------

    def _user_acts(self) -> None:
        """Submit the next training, or again one that was not acknowledged."""
        left = [each for each in self.world.programs.values() if each.name not in self._acknowledged]
        if not left:
            return
        self.world.after(self.rng.random() * (1.0 if self.is_calm else 8.0), self._user_acts)
        if self.life is None:
            return
        program = left[0]
        submission = Submission(
            ("train", program.name),
            "/",
            {"PATH": "/usr/bin"},
            gpus=program.gpus,
            nodes=program.nodes,
            name=program.name,
            grace_s=GRACE_S,
            retries=3,
        )
        manager, service = self.life.manager, self.life.service
        if len(manager.state.ledger.nodes) < len(self.world.nodes):
            return  # nodes have yet to join
        with suppress(Unavailable):
            manager.requests.submit(ANNA, [submission], key=program.name, digest=program.name)
            task = self.life.loop.create_task(service.committed())
            task.add_done_callback(lambda done: self._is_acknowledged(program.name, done))

    def _is_acknowledged(self, name: str, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._acknowledged.add(name)

    # --- the manager -----------------------------------------------------------------------------------

    def _be_born(self) -> None:
        if self.life is not None:
            return
        self.effects = Effects(self.log)
        loop = VirtualLoop(lambda: self.world.at, self._wait, _is_readable)
        transport = SimulatedTransport(self.world, self.weather, self.reservations)
        executor = self._executor_in(loop, transport)
        store = MortalStore.open(self.paths.journal, synchronous="OFF")
        store.effects, store.world = self.effects, self.world  # type: ignore[assignment]
        watched = Watched(executor, self.effects, self.witness)
        clock = Clock(wall=lambda: EPOCH + self.world.at, steady=lambda: self.world.at, boot_id="manager")
        machine = machine_of_nodes(store, executor)
        manager = self.parts.manager.open(
            self.paths.home,
            store,
            watched,
            machine,
            self.chosen,
            clock=clock,
            settings=SETTINGS,
            paths=self.paths,
        )
        self.executor = executor
        self.life = Life(manager, store, Service(manager), loop)
        self.lives += 1
        self.log("the manager is there")

    def _executor_in(self, loop: VirtualLoop, transport: SimulatedTransport) -> GangExecutor:
        def looped(on_failure: Callable[[BaseException], None]) -> GangLoop:
            return SimulatedGangLoop(on_failure, loop, self.world)

        parts = self.parts
        return GangExecutor(
            transport,
            self.paths.files,
            lease_s=LEASE_S,
            loop=looped,
            parts=(parts.nodes, parts.runs, parts.silent),
        )

    def _die(self) -> None:
        self.log("KILLED")
        self.effects.is_dead = True
        self._end_life()
        self.world.after(self.rng.random() * RESTARTS_WITHIN_S, self._be_born)

    def _end_life(self) -> None:
        if self.life is not None:
            self.life.end()
            self.life = None
        if self.executor is not None:
            self.executor.close()
            self.executor = None

    # --- at the end ------------------------------------------------------------------------------------

    def _check_ends(self) -> None:
        assert self.life is not None
        store = self.life.store
        self.witness.check_programs()
        records = [store.job(JobId(number + 1)) for number in range(len(self.world.programs))]
        phases = [None if record is None else record.phase for record in records]
        if set(phases) != {Phase.SUCCEEDED}:
            raise Violation(f"not every job has succeeded: {phases}")
        for gang in self.world.gangs.values():
            run = store.run(gang.spec.run_id)
            if run is None or run.exited_at is None or run.job_id != gang.spec.job_id:
                raise Violation(f"run {gang.spec.run_id} is not in the journal as it was: {run}")
        difference = redecide(replay(store))
        if difference is not None:
            raise Violation(f"the replay decides differently: {difference}")


def _is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])
