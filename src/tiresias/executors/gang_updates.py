"""What a gang executor tells the manager of runs and of nodes, and the descriptor that announces it."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from tiresias.executors.base import NodeJoined, NodeUnusable, NodeUpdate, RunUpdate


class Updates:
    """`report`, `report_node` and `fail` are for the loop, everything else for the thread of the manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of the updates, and of the descriptor that announces them
        self._has_reported = threading.Condition(self._lock)  # of a node
        self._updates: deque[RunUpdate] = deque()
        self._node_updates: deque[NodeUpdate] = deque()
        self._announces_nodes = False  # not before somebody reads the updates of nodes
        self._failure: BaseException | None = None
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def report(self, update: RunUpdate) -> None:
        with self._lock:  # else `poll` could take it before it is announced
            self._updates.append(update)
            self._wake()

    def report_node(self, update: NodeUpdate) -> None:
        with self._lock:
            self._node_updates.append(update)
            self._has_reported.notify_all()
            if self._announces_nodes:
                self._wake()

    def fail(self, error: BaseException) -> None:
        self._failure = error  # a broken invariant ends the manager, in `poll`
        self._wake()

    def poll(self) -> list[RunUpdate]:
        if self._failure is not None:
            raise self._failure
        with self._lock:
            with suppress(BlockingIOError):
                os.eventfd_read(self._event)
            return [self._updates.popleft() for _ in range(len(self._updates))]

    def fileno(self) -> int:
        return self._event

    def announce_nodes(self) -> None:
        """From now on, the descriptor announces updates of nodes, too."""
        with self._lock:
            self._announces_nodes = True
            if self._node_updates:
                self._wake()

    def wait_for(self, names: Iterable[str], within_s: float) -> None:
        """Wait until each of these nodes has joined or cannot be used, or for `within_s` seconds."""
        wanted = set(names)

        def are_known() -> bool:
            joined = {each.node.name for each in self._node_updates if isinstance(each, NodeJoined)}
            unusable = {each.name for each in self._node_updates if isinstance(each, NodeUnusable)}
            return wanted <= joined | unusable

        with self._lock:
            self._has_reported.wait_for(are_known, within_s)

    def node_updates(self) -> list[NodeUpdate]:
        with self._lock:
            return [self._node_updates.popleft() for _ in range(len(self._node_updates))]

    def close(self) -> None:
        os.close(self._event)

    def _wake(self) -> None:
        os.eventfd_write(self._event, 1)
