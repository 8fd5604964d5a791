"""Nodes in one process: a Transport to agents around real LocalExecutors. Nodes can be cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tiresias.core.model import RunId
from tiresias.executors.agent import Agent, Answer, Order
from tiresias.executors.base import FoundNode, RunSpec
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.gang_transport import Seen, Unreachable
from tiresias.executors.gpus import FAKE_NAME, Gpu
from tiresias.executors.local import LocalExecutor

T = TypeVar("T")


class Boxes:
    """`lease_s` is that of the supervisors. What is in `cut` does not answer."""

    def __init__(self, top: Path, names: Iterable[str], *, gpus: int = 4, lease_s: float = 60.0):
        self._top, self._gpus, self._lease_s = top, gpus, lease_s
        self.agents = {name: self._agent(name) for name in names}
        self.cut: set[str] = set()
        self.reserved_runs: dict[RunId, Mapping[str, int]] = {}
        self._threads = ThreadPoolExecutor(32)

    def _agent(self, name: str) -> Agent:
        cgroups = CgroupParent(None)
        root = self._top / "agents" / name
        executor = LocalExecutor(root, linger_s=0.2, cgroups=cgroups, detached=True, lease_s=self._lease_s)
        return Agent(name, executor)

    def restart(self, name: str) -> None:
        """Another agent takes the place of this one, as after a crash."""
        self.agents[name].close()
        self.agents[name] = self._agent(name)

    def end(self) -> None:
        for agent in self.agents.values():
            agent.close()
        self._threads.shutdown()

    async def nodes(self) -> list[Seen]:
        gpus = tuple(Gpu(index, "", FAKE_NAME, 0) for index in range(self._gpus))
        names = [name for name in self.agents if name not in self.cut]
        return [Seen(FoundNode(name, gpus, address="127.0.0.1")) for name in names]

    async def act(self, node: str, orders: list[Order]) -> None:
        await self._reach(node, lambda agent: agent.act(orders))

    async def updates(self, node: str, life: str, after: int, wait_s: float) -> Answer:
        return await self._reach(node, lambda agent: agent.updates(life, after, wait_s))

    async def free_port(self, node: str, spec: RunSpec) -> int:
        return await self._reach(node, lambda agent: agent.free_port(spec))

    async def reserve(self, run_id: RunId, gpus: Mapping[str, int]) -> None:
        self.reserved_runs[run_id] = gpus

    async def release(self, run_id: RunId) -> None:
        self.reserved_runs.pop(run_id, None)

    async def reserved(self) -> list[RunId]:
        return list(self.reserved_runs)

    async def close(self) -> None:
        return

    async def _reach(self, node: str, call: Callable[[Agent], T]) -> T:
        agent = self.agents.get(node)
        if agent is None or node in self.cut:
            raise Unreachable(node)
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, call, agent)
        if node in self.cut:  # the answer is lost, what was done is done
            raise Unreachable(node)
        return answer
