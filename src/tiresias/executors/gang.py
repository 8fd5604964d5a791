"""One Executor made of the agents of many nodes, which share a folder.

A run has a part on each of its nodes. It is up when every part is up, and gone when all parts are gone; a
part that fails ends the others. The workers of several parts meet at a port of the first node, which is
written into the directory of the run before any part is started, so that another manager starts the rest
likewise.

All calls to agents are made in the event loop of a thread of its own: no call of the executor waits for a
node. Agents are asked for updates all the time, which shows as well whether a node answers. Of a node that
does not answer, the folder says what becomes of its parts:

- an exit record there counts as if the agent had reported it;
- a part that nobody has claimed is claimed by the manager, and therefore never begins;
- a part whose heartbeat has stood still for lease and grace is given up (`RunGone.unknown_on`). It is listed
  in the folder until the node answers again and its agent has seen the end of it.

A run on such a node is stopped through the folder, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tiresias.core.model import RunId
from tiresias.executors import heartbeat, procfs, run_files
from tiresias.executors.agent import Adopt, Answer, Forget, Order, Start, Stop
from tiresias.executors.base import (
    SILENT_AFTER_S,
    Adopted,
    FoundNode,
    GpusTroubled,
    NodeJoined,
    NodeReturned,
    NodeSilent,
    NodeUnusable,
    NodeUpdate,
    RunGone,
    RunSpec,
    RunUp,
    RunUpdate,
)
from tiresias.executors.directories import make_passage
from tiresias.executors.exits import run_gone
from tiresias.executors.given_up import GivenUp
from tiresias.executors.launchers import launchers
from tiresias.executors.merged_exits import failed, merged

WAIT_S = 1.0  # for how long an agent may keep a question for updates before it answers that there are none
PATIENCE_S = 3.0  # after which a call counts as lost
RETRY_S = 0.2
SUSPECT_S = 1.5  # without an answer: the folder is read, too
DISCOVER_S = 1.0
READERS = 16  # threads that read the folder for silent nodes; any of them may hang there
MARGIN_S = 1.0  # beside lease and grace, for signals to take effect
MEETING = "meeting.json"  # where the workers of the run meet: an address and a port
CHOSEN = "node.json"  # the node of a run without slots
RELEASE_S = 10.0  # between two looks for reservations that no run needs

log = logging.getLogger("tiresias")
T = TypeVar("T")


class Unreachable(Exception):
    """The node did not answer, or not in time."""


class Refused(Exception):
    """The engine has no room for the run; the message says why."""


@dataclass(slots=True, frozen=True)
class Seen:
    """A node as the engine lists it now. `problem` says why it cannot be used, if it cannot.

    `troubled` are its GPUs that must not be used at present: by index, why.
    """

    node: FoundNode
    problem: str = ""
    troubled: Mapping[int, str] = field(default_factory=dict)


class Transport(Protocol):
    """Carries calls to the agents of nodes, and nothing else. All calls are made in one event loop."""

    async def nodes(self) -> list[Seen]:
        """The nodes that the engine has now, tested; Unreachable if it does not say."""

    async def act(self, node: str, orders: list[Order]) -> None:
        """See Agent.act."""

    async def updates(self, node: str, life: str, after: int, wait_s: float) -> Answer:
        """See Agent.updates."""

    async def free_port(self, node: str, spec: RunSpec) -> int:
        """See Agent.free_port."""

    async def reserve(self, run_id: RunId, gpus: Mapping[str, int]) -> None:
        """Show others on the engine that these GPUs are taken; Refused if they cannot be had."""

    async def release(self, run_id: RunId) -> None:
        """Show that they are free again; nothing if they are."""

    async def reserved(self) -> list[RunId]:
        """The runs of this manager for which GPUs are shown as taken."""

    async def close(self) -> None:
        """Runs and agents continue."""


@dataclass(slots=True)
class _Part:
    spec: RunSpec  # with its node
    is_up: bool = False
    gone: RunGone | None = None
    beat: int = -1  # the last heartbeat that was read, and when it was first read
    beat_at: float = 0.0

    @property
    def dir(self) -> str:
        return str(self.spec.part_dir)


@dataclass(slots=True)
class _Run:
    spec: RunSpec
    parts: dict[str, _Part] = field(default_factory=dict)  # by node
    is_begun: bool = False  # it is being started, or was
    is_ordered: bool = False  # the agents of its nodes are told of it
    is_up: bool = False
    is_stopping: bool = False
    grace_s: float | None = None
    is_over: bool = False


@dataclass(slots=True)
class _Node:
    name: str
    found: FoundNode | None = None
    life: str = ""
    after: int = 0
    heard_at: float = -1e9
    orders: deque[Order] = field(default_factory=deque)
    has_orders: asyncio.Event = field(default_factory=asyncio.Event)
    is_silent: bool = False
    is_told: bool = False  # the manager knows that it has joined
    problem: str = ""
    troubled: Mapping[int, str] = field(default_factory=dict)
    old_runs: set[RunId] = field(default_factory=set)  # given up here, and not known to be over

    def send(self, *orders: Order) -> None:
        self.orders.extend(orders)
        self.has_orders.set()


class GangExecutor:
    """Implements `base.Executor` and `base.NodeSource`. `folder` is that which all nodes share."""

    def __init__(
        self,
        transport: Transport,
        folder: Path,
        *,
        lease_s: float = heartbeat.DEFAULT_LEASE_S,
        on_close: Callable[[], None] = lambda: None,
    ):
        self._transport, self._lease_s, self._on_close = transport, lease_s, on_close
        self._given_up = GivenUp(folder / "given-up")
        self._runs: dict[RunId, _Run] = {}
        self._nodes: dict[str, _Node] = {}
        self._lock = threading.Lock()  # of the updates, and of the descriptor that announces them
        self._has_told = threading.Condition(self._lock)  # of a node
        self._updates: deque[RunUpdate] = deque()
        self._node_updates: deque[NodeUpdate] = deque()
        self._announces_nodes = False  # not before somebody reads what is told of nodes
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._readers = ThreadPoolExecutor(READERS, "reads the folder")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="gangs", daemon=True)
        self._thread.start()
        self._call(self._begin_work)

    # --- the executor, in the thread of the manager ----------------------------------------------------

    def start(self, spec: RunSpec) -> None:
        self._call(self._on_start, spec)

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        self._call(self._on_stop, run_id, grace_s)

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        """Through the folder: the supervisors of the parts look there at each heartbeat."""
        self._call(self._on_pace, run_id, {"turn": turn, "turns": turns, "slice_s": slice_s})

    def forget(self, run_id: RunId) -> None:
        self._call(self._on_forget, run_id)

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        adopted = Adopted()
        for spec in expected:
            if run_files.exists(str(spec.run_dir), run_files.EXIT):
                adopted.gone.append(spec.run_id)
            elif any(run_files.exists(each, run_files.CLAIM) for each in _dirs(spec)):
                adopted.running.append(spec.run_id)
            else:
                adopted.absent.append(spec.run_id)
                self._call(self._known, spec)
                continue
            self._call(self._on_start, spec)
        return adopted

    def poll(self) -> list[RunUpdate]:
        if self._failure is not None:
            raise self._failure
        with self._lock:
            with suppress(BlockingIOError):
                os.eventfd_read(self._event)
            return [self._updates.popleft() for _ in range(len(self._updates))]

    def fileno(self) -> int:
        return self._event

    def expect(self, names: Iterable[str]) -> None:
        with self._lock:
            self._announces_nodes = True
            if self._node_updates:
                self._wake()
        self._call(self._on_expect, list(names))

    def wait_for(self, names: Iterable[str], within_s: float) -> None:
        """Wait until each of these nodes has joined or cannot be used, or for `within_s` seconds."""
        wanted = set(names)

        def are_known() -> bool:
            joined = {each.node.name for each in self._node_updates if isinstance(each, NodeJoined)}
            unusable = {each.name for each in self._node_updates if isinstance(each, NodeUnusable)}
            return wanted <= joined | unusable

        with self._lock:
            self._has_told.wait_for(are_known, within_s)

    def node_updates(self) -> list[NodeUpdate]:
        with self._lock:
            return [self._node_updates.popleft() for _ in range(len(self._node_updates))]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._readers.shutdown(wait=False, cancel_futures=True)
        os.close(self._event)
        self._on_close()

    # --- the loop --------------------------------------------------------------------------------------

    def _call(self, do: Callable[..., object], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(do, *arguments)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
            self._loop.run_until_complete(self._transport.close())
        finally:
            self._loop.close()

    async def _end_tasks(self) -> None:
        """Again and again: `wait_for` loses a cancellation that comes together with an answer."""
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=RETRY_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error  # a broken invariant ends the manager, in `poll`
            self._wake()

    def _begin_work(self) -> None:
        self._spawn(self._discover())
        self._spawn(self._release_unneeded())

    def _report(self, update: RunUpdate) -> None:
        with self._lock:  # else `poll` could take it before it is announced
            self._updates.append(update)
            self._wake()

    def _report_node(self, update: NodeUpdate) -> None:
        with self._lock:
            self._node_updates.append(update)
            self._has_told.notify_all()
            if self._announces_nodes:
                self._wake()

    def _wake(self) -> None:
        os.eventfd_write(self._event, 1)

    # --- runs ------------------------------------------------------------------------------------------

    def _known(self, spec: RunSpec) -> _Run:
        return self._runs.setdefault(spec.run_id, _Run(spec))

    def _on_start(self, spec: RunSpec) -> None:
        run = self._known(spec)
        if not run.is_begun:
            run.is_begun = True
            self._spawn(self._begin(run))

    async def _begin(self, run: _Run) -> None:
        spec = run.spec
        try:
            spec = run.spec = _whole(spec)
            if await asyncio.to_thread(self._ended_before, run):
                return
            if not spec.parts:
                await self._begin_without_slots(run)
                return
            if not run.is_stopping:
                await self._reserve(spec)
            address, port = await self._meeting(spec) if len(spec.parts) > 1 else ("", 0)
        except (OSError, ValueError, Refused, Unreachable) as error:
            run.parts = {part.node: _Part(replace(spec, node=part.node)) for part in spec.parts}
            for part in run.parts.values():
                part.gone = await self._never_begun(part, error)
            if all(part.gone is not None for part in run.parts.values()):
                await self._finish(run)
                return
            run.is_stopping = True  # a part runs, of an earlier manager's start
            address, port = "", 0
        for each in spec.parts:
            part_spec = replace(spec, node=each.node, master_addr=address, master_port=port)
            run.parts.setdefault(each.node, _Part(part_spec))
        self._order(run)

    def _order(self, run: _Run) -> None:
        """Tell the agents of its nodes."""
        run.is_ordered = True
        for name, part in list(run.parts.items()):
            node = self._node(name)
            if part.gone is None:
                node.send(*self._orders(run, part))

    async def _begin_without_slots(self, run: _Run) -> None:
        """A run that holds no slots is one part, on the node with the fewest of such runs."""
        directory = str(run.spec.run_dir)
        found = await asyncio.to_thread(run_files.read, directory, CHOSEN)
        while not found:
            counts = {name: 0 for name, node in self._nodes.items() if node.is_told and not node.is_silent}
            for each in self._runs.values():
                if not each.spec.slots:
                    counts |= {name: counts[name] + 1 for name in each.parts if name in counts}
            if not counts:
                await asyncio.sleep(RETRY_S)  # no node answers yet
                continue
            chosen = {"node": min(counts, key=lambda name: (counts[name], name))}
            await asyncio.to_thread(run_files.put_once, directory, CHOSEN, chosen)
            found = await asyncio.to_thread(run_files.read, directory, CHOSEN)
        name = str(found["node"])
        run.parts = {name: _Part(replace(run.spec, node=name))}
        self._order(run)

    async def _reserve(self, spec: RunSpec) -> None:
        gpus = {part.node: len(part.slots) for part in spec.parts}
        begun = heartbeat.now()
        while True:
            try:
                return await self._transport.reserve(spec.run_id, gpus)
            except Unreachable:
                if heartbeat.now() - begun > SILENT_AFTER_S:
                    raise
            await asyncio.sleep(RETRY_S)

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

    async def _never_begun(self, part: _Part, error: Exception) -> RunGone | None:
        try:
            return await self._voided(part, str(error), lost=not isinstance(error, ValueError))
        except OSError:  # the directory cannot be made or written, so no supervisor can claim the part either
            return RunGone(part.spec.run_id, error=str(error))

    def _orders(self, run: _Run, part: _Part) -> list[Order]:
        if run.is_stopping:
            return [Adopt(part.spec), Stop(run.spec.run_id, run.grace_s)]
        return [Start(part.spec)]

    def _ended_before(self, run: _Run) -> bool:
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
        was_up = any(run_files.exists(each, run_files.UP) for each in _dirs(spec))
        if was_up and not run.is_up:
            self._report(RunUp(spec.run_id))
        self._report(gone)
        return True

    async def _meeting(self, spec: RunSpec) -> tuple[str, int]:
        """The address and port at which the workers meet, the same whoever asks."""
        directory = str(spec.run_dir)
        found = await asyncio.to_thread(run_files.read, directory, MEETING)
        if not found:
            first = spec.parts[0].node
            port = await self._persistently(first, lambda: self._transport.free_port(first, spec))
            node = self._node(first)
            meeting = {"address": node.found.address if node.found else "", "port": port}
            await asyncio.to_thread(run_files.put_once, directory, MEETING, meeting)
            found = await asyncio.to_thread(run_files.read, directory, MEETING)
        assert found, ("no meeting place", directory)
        return str(found["address"]), int(found["port"])

    async def _persistently(self, name: str, call: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Call again until the node answers; Unreachable when it is silent."""
        begun = heartbeat.now()
        while True:
            try:
                return await asyncio.wait_for(call(), PATIENCE_S)
            except (Unreachable, TimeoutError):
                if heartbeat.now() - begun > SILENT_AFTER_S:
                    raise Unreachable(f"node {name} does not answer") from None
            await asyncio.sleep(RETRY_S)

    def _on_stop(self, run_id: RunId, grace_s: float | None) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_over:
            return
        grace_s = run.spec.grace_s if grace_s is None else grace_s
        run.grace_s = grace_s if run.grace_s is None else min(run.grace_s, grace_s)
        run.is_stopping = True
        if not run.is_begun:
            self._on_start(run.spec)  # which tells the agents that it must not begin
        elif run.is_ordered:
            self._stop_parts(run)

    def _on_pace(self, run_id: RunId, wanted: dict[str, float]) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_over:
            return
        for each in _dirs(run.spec):
            with suppress(OSError):  # the folder does not answer: the run works all the time
                os.makedirs(each, exist_ok=True)
                if wanted["turns"] != 1 or run_files.exists(each, run_files.PACE):
                    run_files.put(each, run_files.PACE, wanted)

    def _stop_parts(self, run: _Run) -> None:
        for node, part in run.parts.items():
            if part.gone is None:
                self._node(node).send(Adopt(part.spec), Stop(run.spec.run_id, run.grace_s))

    def _on_forget(self, run_id: RunId) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            for name, part in run.parts.items():
                if run_id not in self._node(name).old_runs and part.gone is not None:
                    self._node(name).send(Forget(run_id))

    def _on_update(self, node: _Node, update: RunUpdate) -> None:
        run_id = update.run_id
        if run_id in node.old_runs:
            if isinstance(update, RunGone):
                self._spawn(self._cleared(node, run_id))
            return
        run = self._runs.get(run_id)
        part = None if run is None else run.parts.get(node.name)
        if run is None or part is None:
            return  # of a run that is not named yet: when it is, the agent tells it again
        if part.gone is not None:
            return
        if isinstance(update, RunUp):
            self._part_up(run, part)
        else:
            self._part_gone(run, part, update)

    def _part_up(self, run: _Run, part: _Part) -> None:
        part.is_up = True
        if not run.is_up and not run.is_over and all(each.is_up for each in run.parts.values()):
            run.is_up = True
            self._report(RunUp(run.spec.run_id))

    def _part_gone(self, run: _Run, part: _Part, gone: RunGone) -> None:
        part.gone = gone
        if all(each.gone is not None for each in run.parts.values()):
            self._spawn(self._finish(run))
        elif failed(gone) and not run.is_stopping:
            run.is_stopping = True
            self._stop_parts(run)

    async def _finish(self, run: _Run) -> None:
        """Every part is gone: write how the run ended, once and for all, and report it."""
        if run.is_over:
            return
        run.is_over = True
        spec = run.spec
        gones = {node: part.gone for node, part in run.parts.items() if part.gone is not None}
        if not spec.parts:  # the record of its one part is that of the run
            for gone in gones.values():
                self._report(gone)
            return
        record = merged(spec, gones)
        try:
            await asyncio.to_thread(run_files.write_exit, str(spec.run_dir), record)
            found = await asyncio.to_thread(run_files.read, str(spec.run_dir), run_files.EXIT)
            record = found or record
        except OSError as error:
            log.error("cannot write how run %d ended in %s: %s", spec.run_id, spec.run_dir, error)
        with suppress(Unreachable, TimeoutError):
            await self._transport.release(spec.run_id)
        self._report(await asyncio.to_thread(run_gone, spec, record))

    # --- nodes -----------------------------------------------------------------------------------------

    def _node(self, name: str) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(name, heard_at=heartbeat.now())
            self._spawn(self._listen(node))
            self._spawn(self._watch_silence(node))
            self._spawn(self._watch_folder(node))
            self._spawn(self._send(node))
        return node

    def _on_expect(self, names: list[str]) -> None:
        for name in names:
            self._node(name)

    async def _discover(self) -> None:
        while True:
            with suppress(Unreachable, TimeoutError):
                for seen in await self._transport.nodes():
                    node = self._node(seen.node.name)
                    is_new = node.found != seen.node or node.problem != seen.problem
                    node.found, node.problem = seen.node, seen.problem
                    if is_new and seen.problem:
                        node.is_told = False
                        self._report_node(NodeUnusable(node.name, seen.problem))
                    elif is_new:
                        node.is_told = False
                        self._tell(node)
                    self._tell_troubles(node, seen.troubled)
            await asyncio.sleep(DISCOVER_S)

    def _tell(self, node: _Node) -> None:
        """Tell the manager that the node may be used, if it may."""
        if node.found is None or node.problem or not node.life or node.old_runs:
            return
        if not node.is_told:
            node.is_told, node.is_silent = True, False
            self._report_node(NodeJoined(node.found))
        elif node.is_silent:
            node.is_silent = False
            self._report_node(NodeReturned(node.name))

    def _tell_troubles(self, node: _Node, troubled: Mapping[int, str]) -> None:
        if node.is_told and node.troubled != troubled:
            node.troubled = troubled
            self._report_node(GpusTroubled(node.name, troubled))

    async def _listen(self, node: _Node) -> None:
        while True:
            try:
                asked = self._transport.updates(node.name, node.life, node.after, WAIT_S)
                answer = await asyncio.wait_for(asked, PATIENCE_S)
            except (Unreachable, TimeoutError):
                await asyncio.sleep(RETRY_S)
                continue
            node.heard_at = heartbeat.now()
            if answer.life != node.life:
                try:
                    await self._introduce(node)
                except OSError as error:  # it cannot be known whether old runs are over there
                    log.warning("cannot read which runs were given up on node %s: %s", node.name, error)
                    await asyncio.sleep(RETRY_S)
                    continue
                node.life, node.after = answer.life, 0
            for number, update in answer.updates:
                node.after = number
                self._on_update(node, update)
            self._tell(node)

    async def _introduce(self, node: _Node) -> None:
        """Name all runs of the node to an agent that was started again, or that is new to this executor."""
        old = await asyncio.to_thread(self._given_up.of, node.name)
        node.old_runs = {spec.run_id for spec in old}
        node.orders.clear()
        for spec in old:
            node.send(Adopt(spec), Stop(spec.run_id, 0.0))
        for run in self._runs.values():
            part = run.parts.get(node.name)
            if run.is_ordered and part is not None and part.gone is None:
                node.send(*self._orders(run, part))

    async def _send(self, node: _Node) -> None:
        while True:
            await node.has_orders.wait()
            orders = list(node.orders)
            try:
                if orders:
                    await asyncio.wait_for(self._transport.act(node.name, orders), PATIENCE_S)
            except (Unreachable, TimeoutError, OSError):
                await asyncio.sleep(RETRY_S)  # all of them again: orders are idempotent
                continue
            for order in orders:
                if node.orders and node.orders[0] is order:
                    node.orders.popleft()
            if not node.orders:
                node.has_orders.clear()

    # --- nodes that do not answer ----------------------------------------------------------------------

    async def _watch_silence(self, node: _Node) -> None:
        while True:
            if heartbeat.now() - node.heard_at > SILENT_AFTER_S and not node.is_silent:
                node.is_silent = True
                self._report_node(NodeSilent(node.name))
            await asyncio.sleep(RETRY_S)

    async def _watch_folder(self, node: _Node) -> None:
        """Apart from all else: a read that hangs delays what is found out about this node only."""
        while True:
            if heartbeat.now() - node.heard_at > SUSPECT_S:
                await self._read_folder(node)
            await asyncio.sleep(RETRY_S)

    async def _in_folder(self, do: Callable[..., T], *arguments: Any) -> T:
        """Call in one of a few threads, which are not those that begin and end runs elsewhere."""
        return await self._loop.run_in_executor(self._readers, do, *arguments)

    async def _read_folder(self, node: _Node) -> None:
        for run in list(self._runs.values()):
            part = run.parts.get(node.name)
            if not run.is_ordered or run.is_over or part is None or part.gone is not None:
                continue
            with suppress(OSError):  # the folder cannot be read now, so nothing is known
                gone = await self._found(run, part, node)
                if gone is not None and part.gone is None:
                    self._part_gone(run, part, gone)

    async def _found(self, run: _Run, part: _Part, node: _Node) -> RunGone | None:
        """What the folder says of a part whose node does not answer; None: it may be alive."""
        if not part.is_up and await self._in_folder(run_files.exists, part.dir, run_files.UP):
            self._part_up(run, part)
        record = await self._in_folder(run_files.read, part.dir, run_files.EXIT)
        if record is not None:
            return run_gone(part.spec, record)
        if not node.is_silent:
            return None
        if not await self._in_folder(run_files.exists, part.dir, run_files.CLAIM):
            return await self._voided(part, f"node {node.name} did not answer", lost=True)
        if run.is_stopping:
            await self._in_folder(_stop_in_folder, part, run.grace_s)
        beat, now = await self._in_folder(heartbeat.read, part.dir), heartbeat.now()
        if beat != part.beat:
            part.beat, part.beat_at = beat, now
        if now - part.beat_at < self._lease_s + part.spec.grace_s + MARGIN_S:
            return None
        await self._in_folder(self._given_up.add, part.spec)
        await self._in_folder(_stop_in_folder, part, 0.0)
        node.old_runs.add(run.spec.run_id)
        silent = f"node {node.name} was silent, and the heartbeat of the run there stood still"
        error = f"{silent} for {now - part.beat_at:.0f} s"
        return RunGone(run.spec.run_id, lost=True, error=error, unknown_on=(node.name,))

    async def _voided(self, part: _Part, error: str, *, lost: bool) -> RunGone | None:
        """Take the claim of a part, so that it never begins; None if it has begun."""
        return await self._in_folder(_void, part, error, lost)

    async def _cleared(self, node: _Node, run_id: RunId) -> None:
        """The agent has seen the end of a run that was given up on its node."""
        while True:
            try:
                await asyncio.to_thread(self._given_up.remove, node.name, run_id)
                break
            except OSError as error:
                log.warning("cannot remove run %d from the list of node %s: %s", run_id, node.name, error)
                await asyncio.sleep(DISCOVER_S)
        node.old_runs.discard(run_id)
        node.send(Forget(run_id))
        self._tell(node)


def _whole(spec: RunSpec) -> RunSpec:
    """The specification with the number of workers that its launcher makes."""
    return replace(spec, workers=launchers.get(spec.launcher)().workers(spec))


def _dirs(spec: RunSpec) -> list[str]:
    """The directories of the parts of a run."""
    parts = _whole(spec).parts
    return [str(spec.run_dir / f"node-{part.rank}") for part in parts] or [str(spec.run_dir)]


def _void(part: _Part, error: str, lost: bool) -> RunGone | None:
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


def _stop_in_folder(part: _Part, grace_s: float | None) -> None:
    if not run_files.exists(part.dir, run_files.STOP):
        grace_s = part.spec.grace_s if grace_s is None else grace_s
        run_files.put(part.dir, run_files.STOP, {"grace_s": grace_s})
