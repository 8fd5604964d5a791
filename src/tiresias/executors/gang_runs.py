"""The runs of a gang executor, each with a part on every one of its nodes: how they begin, stop and end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tiresias.core.model import RunId
from tiresias.executors import procfs, run_files
from tiresias.executors.agent import Adopt, Forget, Order, Start, Stop
from tiresias.executors.base import SILENT_AFTER_S, RunGone, RunSpec, RunUp, RunUpdate
from tiresias.executors.directories import make_passage
from tiresias.executors.exits import run_gone
from tiresias.executors.gang_loop import GangLoop
from tiresias.executors.gang_nodes import GangNodes
from tiresias.executors.gang_transport import PATIENCE_S, RETRY_S, Refused, Transport, Unreachable
from tiresias.executors.gang_updates import Updates
from tiresias.executors.launchers import launchers
from tiresias.executors.merged_exits import failed, merged

MEETING = "meeting.json"  # where the workers of the run meet: an address and a port
CHOSEN = "node.json"  # the node of a run without slots
RELEASE_S = 10.0  # between two looks for reservations that no run needs

log = logging.getLogger("tiresias")


@dataclass(slots=True)
class GangPart:
    spec: RunSpec  # with its node
    is_up: bool = False
    gone: RunGone | None = None
    beat: int = -1  # the last heartbeat that was read, and when it was first read
    beat_at: float = 0.0
    dir: str = field(init=False)  # of the part; it is asked for at each look into the folder

    def __post_init__(self) -> None:
        self.dir = str(self.spec.part_dir)


@dataclass(slots=True)
class GangRun:
    spec: RunSpec
    parts: dict[str, GangPart] = field(default_factory=dict)  # by node
    is_begun: bool = False  # it is being started, or was
    is_ordered: bool = False  # its orders are for the agents of its nodes
    is_up: bool = False
    is_stopping: bool = False
    grace_s: float | None = None
    is_over: bool = False


class GangRuns:
    """Implements `gang_nodes.Hosted`. All methods are called in the loop."""

    def __init__(self, transport: Transport, loop: GangLoop, updates: Updates, nodes: GangNodes):
        self._transport, self._loop, self._updates, self._nodes = transport, loop, updates, nodes
        self._runs: dict[RunId, GangRun] = {}

    def begin(self) -> None:
        self._loop.spawn(self._release_unneeded())

    # --- what the manager wants ------------------------------------------------------------------------

    def know(self, spec: RunSpec) -> GangRun:
        return self._runs.setdefault(spec.run_id, GangRun(spec))

    def start(self, spec: RunSpec) -> None:
        run = self.know(spec)
        if not run.is_begun:
            run.is_begun = True
            self._loop.spawn(self._begin(run))

    def stop(self, run_id: RunId, grace_s: float | None) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_over:
            return
        grace_s = run.spec.grace_s if grace_s is None else grace_s
        run.grace_s = grace_s if run.grace_s is None else min(run.grace_s, grace_s)
        run.is_stopping = True
        if not run.is_begun:
            self.start(run.spec)  # which tells the agents that it must not begin
        elif run.is_ordered:
            self._stop_parts(run)

    def pace(self, run_id: RunId, wanted: dict[str, float]) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_over:
            return
        for each in part_dirs(run.spec):
            with suppress(OSError):  # the folder does not answer: the run works all the time
                make_passage(Path(each))
                if wanted["turns"] != 1 or run_files.exists(each, run_files.PACE):
                    run_files.put(each, run_files.PACE, wanted)

    def forget(self, run_id: RunId) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            for name, part in run.parts.items():
                if run_id not in self._nodes.get(name).old_runs and part.gone is not None:
                    self._nodes.get(name).send(Forget(run_id))

    # --- what becomes of them --------------------------------------------------------------------------

    def orders_for(self, node: str) -> list[Order]:
        return [order for run, part in self.on_node(node) for order in self._orders(run, part)]

    def on_node(self, node: str) -> list[tuple[GangRun, GangPart]]:
        """The parts that the agent of this node has orders for, and whose end is not known."""
        found = [(run, run.parts.get(node)) for run in self._runs.values() if run.is_ordered]
        return [(run, part) for run, part in found if part is not None and part.gone is None]

    def on_update(self, node: str, update: RunUpdate) -> None:
        run = self._runs.get(update.run_id)
        part = None if run is None else run.parts.get(node)
        if run is None or part is None:
            return  # of a run that is not named yet: when it is, the agent tells it again
        if part.gone is not None:
            return
        if isinstance(update, RunUp):
            self.part_up(run, part)
        else:
            self.part_gone(run, part, update)

    def part_up(self, run: GangRun, part: GangPart) -> None:
        part.is_up = True
        if not run.is_up and not run.is_over and all(each.is_up for each in run.parts.values()):
            run.is_up = True
            self._updates.report(RunUp(run.spec.run_id))

    def part_gone(self, run: GangRun, part: GangPart, gone: RunGone) -> None:
        part.gone = gone
        if all(each.gone is not None for each in run.parts.values()):
            self._loop.spawn(self._finish(run))
        elif failed(gone) and not run.is_stopping:
            run.is_stopping = True
            self._stop_parts(run)

    async def void(self, part: GangPart, error: str, *, lost: bool) -> RunGone | None:
        """Take the claim of a part, so that it never begins; None if it has begun."""
        return await self._loop.in_folder(_take_claim, part, error, lost)

    # --- the beginning of one --------------------------------------------------------------------------

    async def _begin(self, run: GangRun) -> None:
        spec = run.spec
        try:
            spec = run.spec = _whole(spec)
            if await self._loop.in_thread(self._ended_before, run):
                return
            if not spec.parts:
                await self._begin_without_slots(run)
                return
            if not run.is_stopping:
                await self._reserve(spec)
            address, port = await self._meeting(spec) if len(spec.parts) > 1 else ("", 0)
        except (OSError, ValueError, Refused, Unreachable) as error:
            run.parts = {part.node: GangPart(replace(spec, node=part.node)) for part in spec.parts}
            for part in run.parts.values():
                part.gone = await self._never_begun(part, error)
            if all(part.gone is not None for part in run.parts.values()):
                await self._finish(run)
                return
            run.is_stopping = True  # a part runs, of an earlier manager's start
            address, port = "", 0
        for each in spec.parts:
            part_spec = replace(spec, node=each.node, master_addr=address, master_port=port)
            run.parts.setdefault(each.node, GangPart(part_spec))
        self._order(run)

    def _ended_before(self, run: GangRun) -> bool:
        """Report a run whose exit record is there, or whose directory is that of another run."""
        spec = run.spec
        directory, run_id = str(spec.run_dir), int(spec.run_id)
        make_passage(spec.run_dir)
        run_files.own(directory, journal=spec.journal, run_id=run_id)
        other = run_files.other_owner(directory, journal=spec.journal, run_id=run_id)
        record = None if other else run_files.read(directory, run_files.EXIT)
        if not other and record is None:
            return False
        run.is_over = True
        error = f"the directory {directory} belongs to another run: {other}; move it away, and submit again"
        gone = run_gone(spec, record) if record is not None else RunGone(spec.run_id, error=error)
        was_up = any(run_files.exists(each, run_files.UP) for each in part_dirs(spec))
        if was_up and not run.is_up:
            self._updates.report(RunUp(spec.run_id))
        self._updates.report(gone)
        return True

    async def _never_begun(self, part: GangPart, error: Exception) -> RunGone | None:
        try:
            return await self.void(part, str(error), lost=not isinstance(error, ValueError))
        except OSError:  # the directory cannot be made or written, so no supervisor can claim the part either
            return RunGone(part.spec.run_id, error=str(error))

    async def _begin_without_slots(self, run: GangRun) -> None:
        """A run that holds no slots is one part, on the node with the fewest of such runs."""
        directory = str(run.spec.run_dir)
        found = await self._loop.in_thread(run_files.read, directory, CHOSEN)
        while not found:
            counts = dict.fromkeys(self._nodes.in_use(), 0)
            for each in self._runs.values():
                if not each.spec.slots:
                    counts |= {name: counts[name] + 1 for name in each.parts if name in counts}
            if not counts:
                await asyncio.sleep(RETRY_S)  # no node answers yet
                continue
            chosen = {"node": min(counts, key=lambda name: (counts[name], name))}
            await self._loop.in_thread(run_files.put_once, directory, CHOSEN, chosen)
            found = await self._loop.in_thread(run_files.read, directory, CHOSEN)
        name = str(found["node"])
        run.parts = {name: GangPart(replace(run.spec, node=name))}
        self._order(run)

    def _order(self, run: GangRun) -> None:
        """Tell the agents of its nodes."""
        run.is_ordered = True
        for name, part in list(run.parts.items()):
            node = self._nodes.get(name)
            if part.gone is None:
                node.send(*self._orders(run, part))

    def _orders(self, run: GangRun, part: GangPart) -> list[Order]:
        if run.is_stopping:
            return [Adopt(part.spec), Stop(run.spec.run_id, run.grace_s)]
        return [Start(part.spec)]

    async def _meeting(self, spec: RunSpec) -> tuple[str, int]:
        """The address and port at which the workers meet, the same whoever asks."""
        directory = str(spec.run_dir)
        found = await self._loop.in_thread(run_files.read, directory, MEETING)
        if not found:
            first = spec.parts[0].node
            port = await self._persistently(first, lambda: self._transport.free_port(first, spec))
            meeting = {"address": await self._address(first), "port": port}
            await self._loop.in_thread(run_files.put_once, directory, MEETING, meeting)
            found = await self._loop.in_thread(run_files.read, directory, MEETING)
        assert found, ("no meeting place", directory)
        return str(found["address"]), int(found["port"])

    async def _address(self, name: str) -> str:
        """That of a node, which a manager that was just started may not know yet."""
        begun = self._loop.now()
        while (found := self._nodes.get(name).found) is None:
            if self._loop.now() - begun > SILENT_AFTER_S:
                raise Unreachable(f"the engine does not list node {name}")
            await asyncio.sleep(RETRY_S)
        return found.address

    async def _persistently(self, name: str, call: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Call again until the node answers; Unreachable when it is silent."""
        begun = self._loop.now()
        while True:
            try:
                return await asyncio.wait_for(call(), PATIENCE_S)
            except (Unreachable, TimeoutError):
                if self._loop.now() - begun > SILENT_AFTER_S:
                    raise Unreachable(f"node {name} does not answer") from None
            await asyncio.sleep(RETRY_S)

    def _stop_parts(self, run: GangRun) -> None:
        for node, part in run.parts.items():
            if part.gone is None:
                self._nodes.get(node).send(Adopt(part.spec), Stop(run.spec.run_id, run.grace_s))

    # --- the end of one --------------------------------------------------------------------------------

    async def _finish(self, run: GangRun) -> None:
        """Every part is gone: write how the run ended, once and for all, and report it."""
        if run.is_over:
            return
        run.is_over = True
        spec = run.spec
        gones = {node: part.gone for node, part in run.parts.items() if part.gone is not None}
        if not spec.parts:  # the record of its one part is that of the run
            for gone in gones.values():
                self._updates.report(gone)
            return
        record = merged(spec, gones)
        try:
            await self._loop.in_thread(run_files.write_exit, str(spec.run_dir), record)
            found = await self._loop.in_thread(run_files.read, str(spec.run_dir), run_files.EXIT)
            record = found or record
        except OSError as error:
            log.error("cannot write how run %d ended in %s: %s", spec.run_id, spec.run_dir, error)
        self._loop.spawn(self._release(spec.run_id))  # nobody waits for it but those who want these GPUs
        self._updates.report(await self._loop.in_thread(run_gone, spec, record))

    # --- what the engine shows as taken ----------------------------------------------------------------

    async def _reserve(self, spec: RunSpec) -> None:
        gpus = {part.node: len(part.slots) for part in spec.parts}
        begun = self._loop.now()
        while True:
            try:
                return await self._transport.reserve(spec.run_id, gpus)
            except Unreachable:
                if self._loop.now() - begun > SILENT_AFTER_S:
                    raise
            await asyncio.sleep(RETRY_S)

    async def _release(self, run_id: RunId) -> None:
        with suppress(Unreachable, TimeoutError):
            await self._transport.release(run_id)

    async def _release_unneeded(self) -> None:
        """Reservations of runs that ended while nobody could release them."""
        before: set[RunId] = set()
        while True:
            await asyncio.sleep(RELEASE_S)
            with suppress(Unreachable):
                unneeded = {id for id in await self._transport.reserved() if id not in self._runs}
                for run_id in sorted(unneeded & before):  # seen twice: no start is under way
                    await self._transport.release(run_id)
                before = unneeded


def _whole(spec: RunSpec) -> RunSpec:
    """The specification with the number of workers that its launcher makes."""
    return replace(spec, workers=launchers.get(spec.launcher)().workers(spec))


def part_dirs(spec: RunSpec) -> list[str]:
    """The directories of the parts of a run."""
    parts = _whole(spec).parts
    return [str(spec.run_dir / f"node-{part.rank}") for part in parts] or [str(spec.run_dir)]


def _take_claim(part: GangPart, error: str, lost: bool) -> RunGone | None:
    spec = part.spec
    journal, run_id = spec.journal, int(spec.run_id)
    make_passage(spec.part_dir)
    run_files.own(part.dir, journal=journal, run_id=run_id)
    boot = procfs.boot_id()
    if not run_files.claim(part.dir, journal=journal, run_id=run_id, boot=boot, pid=0, start=0):
        return None
    why = {"error": error, "stopped": False, "lost": lost, "never_begun": True}
    record = {"journal": journal, "run_id": run_id, **why}
    run_files.write_exit(part.dir, record)
    return run_gone(spec, record)
