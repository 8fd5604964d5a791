"""The agents of simulated nodes, and what carries calls to them: late, twice, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tiresias.core.model import RunId
from tiresias.executors import run_files
from tiresias.executors.agent import Adopt, Answer, Forget, Order, Start, Stop
from tiresias.executors.base import FoundNode, RunGone, RunSpec, RunUp, RunUpdate
from tiresias.executors.exits import run_gone
from tiresias.executors.gang_transport import PATIENCE_S, Seen, Unreachable
from tiresias.executors.gpus import FAKE_NAME, Gpu
from tiresias.testing.faults.nodes.world import NodesWorld, SimulatedNode, write_exit

LOOKS_S = 0.25
LOST = 0.04  # of calls and of answers, while there are faults
REPEATED = 0.04


class SimulatedAgent:
    """As `executors.agent.Agent` with its LocalExecutor: it keeps nothing that a restart would lose but
    what it has reported."""

    def __init__(self, node: SimulatedNode):
        self.node = node
        self.life = f"{node.name}-{node.world.rng.random()}"
        self._known: dict[RunId, RunSpec] = {}
        self._dirs: dict[RunId, str] = {}  # of their parts
        self._reported: dict[RunId, dict[type, tuple[int, RunUpdate]]] = {}
        self._number = 0
        node.after(LOOKS_S, self._look)

    def act(self, orders: list[Order]) -> None:
        for order in orders:
            if isinstance(order, Start | Adopt):
                assert order.spec.node == self.node.name, ("a part of another node", order.spec.node)
                if not self.node.has_folder:
                    raise OSError("the folder does not answer")
                is_new = order.spec.run_id not in self._known
                self._known[order.spec.run_id] = order.spec
                self._dirs[order.spec.run_id] = str(order.spec.part_dir)
                self._tell_again(order.spec.run_id)
                if isinstance(order, Start) and is_new:
                    self._start(order.spec)
            elif isinstance(order, Stop):
                self._stop(order)
            else:
                assert isinstance(order, Forget)
                self._known.pop(order.run_id, None)
                self._dirs.pop(order.run_id, None)
                self._reported.pop(order.run_id, None)
        self._find()

    def answer(self, life: str, after: int) -> Answer:
        after = after if life == self.life else 0
        found = [
            each for reported in self._reported.values() for each in reported.values() if each[0] > after
        ]
        return Answer(self.life, tuple(sorted(found, key=lambda each: each[0])))

    def _start(self, spec: RunSpec) -> None:
        spec.part_dir.mkdir(parents=True, exist_ok=True)
        if not run_files.exists(str(spec.part_dir), run_files.CLAIM):
            self.node.spawn(spec)

    def _stop(self, order: Stop) -> None:
        spec = self._known.get(order.run_id)
        if spec is None:
            return
        if not self.node.has_folder:
            raise OSError("the folder does not answer")
        grace_s = spec.grace_s if order.grace_s is None else order.grace_s
        directory = str(spec.part_dir)
        spec.part_dir.mkdir(parents=True, exist_ok=True)
        about = {"journal": spec.journal, "run_id": int(spec.run_id)}
        if run_files.claim(directory, **about, boot=self.node.boot_id, pid=0, start=0):  # type: ignore[arg-type]
            write_exit(spec, self.node, {"stopped": True, "never_begun": True})
        for process in list(self.node.processes.values()):
            if process.spec.run_id == order.run_id and process.is_working:
                self.node.signal(process, grace_s)

    def is_of_this_boot(self, boot_id: str) -> bool:
        return boot_id == self.node.boot_id

    def _is_alive(self, claim: dict[str, object]) -> bool:
        return self.is_of_this_boot(str(claim.get("boot_id"))) and claim.get("pid") in self.node.processes

    def _look(self) -> None:
        if self.node.world.agents.get(self.node.name) is self:
            self._find()
            self.node.after(LOOKS_S, self._look)

    def _find(self) -> None:
        """Tell what has become of the runs that are known, and end those whose supervisor is dead."""
        if not self.node.has_folder:
            return
        for spec in self._known.values():
            reported, directory = self._reported.get(spec.run_id, {}), self._dirs[spec.run_id]
            if RunGone in reported:
                continue
            if RunUp not in reported and run_files.exists(directory, run_files.UP):
                self._tell(RunUp(spec.run_id))
            record = run_files.read(directory, run_files.EXIT)
            claim = None if record else run_files.read(directory, run_files.CLAIM)
            if claim and claim.get("pid") and not self._is_alive(claim):
                write_exit(spec, self.node, {"lost": True, "error": "its supervisor is not there any more"})
                record = run_files.read(directory, run_files.EXIT)
            if record:
                self._tell(run_gone(spec, record))

    def _tell(self, update: RunUpdate) -> None:
        self._number += 1
        self._reported.setdefault(update.run_id, {})[type(update)] = (self._number, update)

    def _tell_again(self, run_id: RunId) -> None:
        for kind, (_, update) in list(self._reported.get(run_id, {}).items()):
            self._number += 1
            self._reported[run_id][kind] = (self._number, update)


@dataclass(slots=True)
class Weather:
    """How calls fare at present."""

    lost: float = LOST
    repeated: float = REPEATED
    slow_s: float = 0.3


class SimulatedTransport:
    """Implements `gang_transport.Transport`. One per manager; what it reserves outlives the manager."""

    def __init__(self, world: NodesWorld, weather: Weather, reservations: dict[RunId, Mapping[str, int]]):
        self._world, self._weather, self._reservations = world, weather, reservations

    async def nodes(self) -> list[Seen]:
        await self._pass(None)
        return [
            Seen(
                FoundNode(
                    node.name,
                    tuple(Gpu(index, "", FAKE_NAME, 0) for index in range(node.gpus)),
                    rack=node.rack,
                    address=f"address-of-{node.name}",
                )
            )
            for node in self._world.nodes.values()
            if node.is_on and node.is_reachable
        ]

    async def act(self, node: str, orders: list[Order]) -> None:
        await self._pass(node)
        if self._world.rng.random() < self._weather.repeated:
            self._world.nodes[node].after(self._world.rng.random() * 5.0, self._act_late, node, list(orders))
        self._world.agents[node].act(orders)
        await self._pass(node)

    def _act_late(self, node: str, orders: list[Order]) -> None:
        """A message that was sent twice arrives again."""
        starts = [each for each in orders if isinstance(each, Start | Stop)]
        if self._world.nodes[node].is_reachable and self._world.nodes[node].has_folder:
            self._world.agents[node].act(starts)

    async def updates(self, node: str, life: str, after: int, wait_s: float) -> Answer:
        await self._pass(node)
        answer: Answer = self._world.agents[node].answer(life, after)
        if answer.life == life and not answer.updates:
            await asyncio.sleep(wait_s)
            self._check(node)
            answer = self._world.agents[node].answer(life, after)
        await self._pass(node)
        return answer

    async def free_port(self, node: str, spec: RunSpec) -> int:
        await self._pass(node)
        return 20_000 + int(spec.run_id)

    async def reserve(self, run_id: RunId, gpus: Mapping[str, int]) -> None:
        await self._pass(None)
        self._reservations[run_id] = gpus

    async def release(self, run_id: RunId) -> None:
        await self._pass(None)
        self._reservations.pop(run_id, None)

    async def reserved(self) -> list[RunId]:
        await self._pass(None)
        return list(self._reservations)

    async def close(self) -> None:
        return None

    async def _pass(self, node: str | None) -> None:
        """A message goes to the node, or back, or to the engine itself."""
        rng, weather = self._world.rng, self._weather
        if rng.random() < 0.2:
            await asyncio.sleep(rng.random() * weather.slow_s)
        if rng.random() < weather.lost:
            raise Unreachable(f"a message about {node} is lost")
        if node is not None:
            self._check(node)
            if self._world.nodes[node].is_paused:
                await asyncio.sleep(2 * PATIENCE_S)
                raise Unreachable(f"{node} is paused")

    def _check(self, node: str) -> None:
        found = self._world.nodes.get(node)
        if found is None or not found.is_on or not found.is_reachable:
            raise Unreachable(f"{node} cannot be reached")
