"""What the folder says of the parts of runs whose node does not answer.

- An exit record there counts as if the agent had reported it.
- A part that nobody has claimed is claimed by the manager, and therefore never begins.
- A part whose heartbeat has stood still for lease and grace is given up (`RunGone.unknown_on`). It is listed
  in the folder until the node answers again and its agent has seen the end of it.

A run on such a node is stopped through the folder, too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tiresias.executors import heartbeat, run_files
from tiresias.executors.base import RunGone
from tiresias.executors.exits import run_gone
from tiresias.executors.gang_loop import GangLoop
from tiresias.executors.gang_nodes import GangNode
from tiresias.executors.gang_runs import GangPart, GangRun, GangRuns
from tiresias.executors.gang_transport import RETRY_S
from tiresias.executors.given_up import GivenUp

SUSPECT_S = 1.5  # without an answer: the folder is read, too
MARGIN_S = 1.0  # beside lease and grace, for signals to take effect


class SilentParts:
    """Reads the folder for each node that is given to `watch`, while it does not answer."""

    def __init__(self, loop: GangLoop, runs: GangRuns, given_up: GivenUp, lease_s: float):
        self._loop, self._runs, self._given_up, self._lease_s = loop, runs, given_up, lease_s

    def watch(self, node: GangNode) -> None:
        self._loop.spawn(self._watch(node))

    async def _watch(self, node: GangNode) -> None:
        """Apart from all else: a read that hangs delays what is found out about this node only."""
        while True:
            if self._loop.now() - node.heard_at > SUSPECT_S:
                await self._read(node)
            await asyncio.sleep(RETRY_S)

    async def _read(self, node: GangNode) -> None:
        for run, part in self._runs.on_node(node.name):
            if run.is_over or part.gone is not None:
                continue
            with suppress(OSError):  # the folder cannot be read now, so nothing is known
                gone = await self._found(run, part, node)
                if gone is not None and part.gone is None:
                    self._runs.part_gone(run, part, gone)

    async def _found(self, run: GangRun, part: GangPart, node: GangNode) -> RunGone | None:
        """What the folder says of a part whose node does not answer; None: it may be alive."""
        if not part.is_up and await self._loop.in_folder(run_files.exists, part.dir, run_files.UP):
            self._runs.part_up(run, part)
        record = await self._loop.in_folder(run_files.read, part.dir, run_files.EXIT)
        if record is not None:
            return run_gone(part.spec, record)
        asked = self._loop.now()  # the answer may be late, or this process paused: neither makes it older
        beat = await self._loop.in_folder(heartbeat.read, part.dir)
        if beat != part.beat:
            part.beat, part.beat_at = beat, self._loop.now()
        if not node.is_silent:
            return None
        if not await self._loop.in_folder(run_files.exists, part.dir, run_files.CLAIM):
            return await self._runs.void(part, f"node {node.name} did not answer", lost=True)
        if run.is_stopping:
            await self._loop.in_folder(_stop_in_folder, part, run.grace_s)
        if asked - part.beat_at < self._lease_s + part.spec.grace_s + MARGIN_S:
            return None
        await self._loop.in_folder(self._given_up.add, part.spec)
        await self._loop.in_folder(_stop_in_folder, part, 0.0)
        if part.gone is not None:  # the node has answered meanwhile: its agent does not tell the end again
            await self._loop.in_folder(self._given_up.remove, node.name, run.spec.run_id)
            return None
        node.old_runs.add(run.spec.run_id)
        silent = f"node {node.name} was silent, and the heartbeat of the run there stood still"
        error = f"{silent} for {asked - part.beat_at:.0f} s"
        return RunGone(run.spec.run_id, lost=True, error=error, unknown_on=(node.name,))


def _stop_in_folder(part: GangPart, grace_s: float | None) -> None:
    if not run_files.exists(part.dir, run_files.STOP):
        grace_s = part.spec.grace_s if grace_s is None else grace_s
        run_files.put(part.dir, run_files.STOP, {"grace_s": grace_s})
