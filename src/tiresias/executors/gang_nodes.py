"""The nodes of a gang executor: which there are, which orders they get, and whether they answer.

Each node has tasks of its own, so that one that does not answer delays no other. Agents are asked for updates
all the time, which shows as well whether a node answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from tiresias.core.model import RunId
from tiresias.executors.agent import Adopt, Forget, Order, Stop
from tiresias.executors.base import (
    SILENT_AFTER_S,
    FoundNode,
    GpusTroubled,
    NodeJoined,
    NodeReturned,
    NodeSilent,
    NodeUnusable,
    RunGone,
    RunUpdate,
)
from tiresias.executors.gang_loop import GangLoop
from tiresias.executors.gang_transport import PATIENCE_S, RETRY_S, Transport, Unreachable
from tiresias.executors.gang_updates import Updates
from tiresias.executors.given_up import GivenUp

WAIT_S = 1.0  # for how long an agent may keep a question for updates before it answers that there are none
DISCOVER_S = 1.0

log = logging.getLogger("tiresias")


class Hosted(Protocol):
    """What the nodes ask of the runs."""

    def orders_for(self, node: str) -> list[Order]:
        """The orders that an agent which is new to this executor needs for the runs of its node."""

    def on_update(self, node: str, update: RunUpdate) -> None:
        """The agent of this node has reported something about a run."""


@dataclass(slots=True)
class GangNode:
    name: str
    found: FoundNode | None = None
    life: str = ""
    after: int = 0
    heard_at: float = -1e9
    orders: deque[Order] = field(default_factory=deque)
    has_orders: asyncio.Event = field(default_factory=asyncio.Event)
    is_silent: bool = False
    is_reported: bool = False  # the manager knows that it has joined
    problem: str = ""
    troubled: Mapping[int, str] = field(default_factory=dict)
    old_runs: set[RunId] = field(default_factory=set)  # given up here, and not known to be over

    def send(self, *orders: Order) -> None:
        self.orders.extend(orders)
        self.has_orders.set()


class GangNodes:
    """Begins to discover nodes with `begin`. `on_new` is called with each node once."""

    def __init__(self, transport: Transport, loop: GangLoop, updates: Updates, given_up: GivenUp):
        self._transport, self._loop, self._updates, self._given_up = transport, loop, updates, given_up
        self._nodes: dict[str, GangNode] = {}

    def begin(self, runs: Hosted, on_new: Callable[[GangNode], None]) -> None:
        self._runs, self._on_new = runs, on_new
        self._loop.spawn(self._discover())

    def get(self, name: str) -> GangNode:
        """The node of this name; from now on it is listened to."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = GangNode(name, heard_at=self._loop.now())
            self._loop.spawn(self._listen(node))
            self._loop.spawn(self._watch_silence(node))
            self._loop.spawn(self._send(node))
            self._on_new(node)
        return node

    def expect(self, names: Iterable[str]) -> None:
        for name in names:
            self.get(name)

    def in_use(self) -> list[str]:
        """The nodes on which something new may start."""
        return [name for name, node in self._nodes.items() if node.is_reported and not node.is_silent]

    async def _discover(self) -> None:
        while True:
            with suppress(Unreachable, TimeoutError):
                for seen in await self._transport.nodes():
                    node = self.get(seen.node.name)
                    is_new = node.found != seen.node or node.problem != seen.problem
                    node.found, node.problem = seen.node, seen.problem
                    if is_new and seen.problem:
                        node.is_reported = False
                        self._updates.report_node(NodeUnusable(node.name, seen.problem))
                    elif is_new:
                        node.is_reported = False
                        self._tell(node)
                    self._tell_troubles(node, seen.troubled)
            await asyncio.sleep(DISCOVER_S)

    def _tell(self, node: GangNode) -> None:
        """Tell the manager that the node may be used, if it may."""
        if node.found is None or node.problem or not node.life or node.old_runs:
            return
        if not node.is_reported:
            node.is_reported, node.is_silent = True, False
            self._updates.report_node(NodeJoined(node.found))
        elif node.is_silent:
            node.is_silent = False
            self._updates.report_node(NodeReturned(node.name))

    def _tell_troubles(self, node: GangNode, troubled: Mapping[int, str]) -> None:
        if node.is_reported and node.troubled != troubled:
            node.troubled = troubled
            self._updates.report_node(GpusTroubled(node.name, troubled))

    async def _listen(self, node: GangNode) -> None:
        while True:
            try:
                asked = self._transport.updates(node.name, node.life, node.after, WAIT_S)
                answer = await asyncio.wait_for(asked, PATIENCE_S)
            except (Unreachable, TimeoutError):
                await asyncio.sleep(RETRY_S)
                continue
            node.heard_at = self._loop.now()
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

    async def _introduce(self, node: GangNode) -> None:
        """Name all runs of the node to an agent that was started again, or that is new to this executor."""
        old = await self._loop.in_thread(self._given_up.of, node.name)
        node.old_runs = {spec.run_id for spec in old}
        node.orders.clear()
        for spec in old:
            node.send(Adopt(spec), Stop(spec.run_id, 0.0))
        node.send(*self._runs.orders_for(node.name))

    async def _send(self, node: GangNode) -> None:
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

    async def _watch_silence(self, node: GangNode) -> None:
        while True:
            if self._loop.now() - node.heard_at > SILENT_AFTER_S and not node.is_silent:
                node.is_silent = True
                self._updates.report_node(NodeSilent(node.name))
            await asyncio.sleep(RETRY_S)

    async def _cleared(self, node: GangNode, run_id: RunId) -> None:
        """The agent has seen the end of a run that was given up on its node."""
        while True:
            try:
                await self._loop.in_thread(self._given_up.remove, node.name, run_id)
                break
            except OSError as error:
                log.warning("cannot remove run %d from the list of node %s: %s", run_id, node.name, error)
                await asyncio.sleep(DISCOVER_S)
        node.old_runs.discard(run_id)
        node.send(Forget(run_id))
        self._tell(node)

    def _on_update(self, node: GangNode, update: RunUpdate) -> None:
        # Of an old run, too: the manager that gave it up may have been killed before it stored that.
        self._runs.on_update(node.name, update)
        if update.run_id in node.old_runs and isinstance(update, RunGone):
            self._loop.spawn(self._cleared(node, update.run_id))
