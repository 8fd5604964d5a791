"""The executor of a manager on a bed, in the process of the tests: only its carrier is in a box.

The carrier and the agents are those of all tests of a module, because Ray takes seconds to start either.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tiresias.core.model import RunId
from tiresias.executors import sdk
from tiresias.executors.agent import Answer, Forget, Order
from tiresias.executors.base import RunSpec
from tiresias.executors.gang import GangExecutor
from tiresias.executors.gang_transport import Refused, Seen, Unreachable
from tiresias.executors.ray import RayOptions, RayTransport
from tiresias.testing.executors import until
from tiresias.testing.gangs import GangLab
from tiresias.testing.ray_bed import Bed

T = TypeVar("T")
LEASE_S = 5.0
AGENT = "NodeAgent"  # is part of the title of its process
PROBE = RunId(99)


class KeptTransport:
    """Implements `gang_transport.Transport` by one RayTransport, which survives `close`."""

    def __init__(self, bed: Bed, top: Path):
        self.bed = bed
        shared = top / "shared"
        shared.mkdir()
        options = RayOptions(
            address=bed.address,
            shared=str(shared),
            sdk=str(sdk.publish(top / "sdk")),
            lease_s=LEASE_S,
            fake_gpus=4,
            uid=os.geteuid(),
            user="root",
            manager={"journal": "contract", "home": str(top), "host": "n0", "pid": os.getpid()},
            tests_first=True,
        )
        self._real = RayTransport(options, top / "ray.log", prefix=bed.boxes[0].command(()))
        assert len(self._real.begin()) == len(bed.boxes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """For the thread of the tests."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _awaited(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def nodes(self) -> list[Seen]:
        return await self._awaited(self._real.nodes())

    async def act(self, node: str, orders: list[Order]) -> None:
        await self._awaited(self._real.act(node, orders))

    async def updates(self, node: str, life: str, after: int, wait_s: float) -> Answer:
        return await self._awaited(self._real.updates(node, life, after, wait_s))

    async def free_port(self, node: str, spec: RunSpec) -> int:
        return await self._awaited(self._real.free_port(node, spec))

    async def reserve(self, run_id: RunId, gpus: Mapping[str, int]) -> None:
        await self._awaited(self._real.reserve(run_id, gpus))

    async def release(self, run_id: RunId) -> None:
        await self._awaited(self._real.release(run_id))

    async def reserved(self) -> list[RunId]:
        return await self._awaited(self._real.reserved())

    async def close(self) -> None:
        return

    def end(self) -> None:
        self.call(self._real.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def clean(self, names: list[str]) -> None:
        """Let the agents forget all runs, so that the next test can have runs with the same ids."""
        for name in names:
            until(lambda name=name: self._is_clean(name), f"the agent of {name} knows no run", within_s=60)
        for run_id in self.call(self._real.reserved()):
            self.call(self._real.release(run_id))
        # After a cut it takes Ray a while to give GPUs of that node again.
        until(lambda: self._can_reserve(names), "Ray gives the GPUs of all nodes", within_s=60)

    def _can_reserve(self, names: list[str]) -> bool:
        try:
            self.call(self._real.reserve(PROBE, dict.fromkeys(names, 4)))
        except Refused:
            return False
        self.call(self._real.release(PROBE))
        return True

    def _is_clean(self, name: str) -> bool:
        try:
            self.call(self._real.act(name, [Forget(RunId(run_id)) for run_id in range(1, 4)]))
            return not self.call(self._real.updates(name, "", 0, 0.0)).updates
        except Unreachable:
            return False


class RayBedLab(GangLab):
    """`cut` takes the link of a box away."""

    def __init__(self, kept: KeptTransport, top: Path):
        self.names = tuple(box.name for box in kept.bed.boxes)
        self.lease_s, self._kept, self._top = LEASE_S, kept, top
        self._are_cut: set[str] = set()

    def executor(self) -> GangExecutor:
        return GangExecutor(self._kept, self._top, lease_s=self.lease_s)

    def _box(self, name: str):
        return self._kept.bed.boxes[self.names.index(name)]

    def cut(self, name: str) -> None:
        self._box(name).cut()
        self._are_cut.add(name)

    def mend(self) -> None:
        for name in self._are_cut:
            self._box(name).mend()
        self._are_cut.clear()

    def restart_agent(self, name: str) -> None:
        """Kill it; the carrier starts another one."""
        [pid] = self._box(name).pids(AGENT)
        os.kill(pid, signal.SIGKILL)

    def reserved(self) -> list[int]:
        return sorted(self._kept.call(self._kept.reserved()))

    def end(self) -> None:
        self.mend()
        self._kept.clean(list(self.names))
