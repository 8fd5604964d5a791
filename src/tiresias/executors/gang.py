"""One Executor made of the agents of many nodes, which share a folder.

A run has a part on each of its nodes. It is up when every part is up, and gone when all parts are gone; a
part that fails ends the others. The workers of several parts meet at a port of the first node, which is
written into the directory of the run before any part is started, so that another manager starts the rest
likewise.

All calls to agents are made in the event loop of a thread of its own (gang_loop.py): no call of the executor
waits for a node. The nodes are in gang_nodes.py, the runs in gang_runs.py, what the folder says of nodes that
do not answer in gang_silent.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tiresias.core.model import RunId
from tiresias.executors import heartbeat, run_files
from tiresias.executors.base import Adopted, NodeUpdate, RunSpec, RunUpdate
from tiresias.executors.gang_loop import GangLoop
from tiresias.executors.gang_nodes import GangNodes
from tiresias.executors.gang_runs import GangRuns, part_dirs
from tiresias.executors.gang_silent import SilentParts
from tiresias.executors.gang_transport import Transport
from tiresias.executors.gang_updates import Updates
from tiresias.executors.given_up import GivenUp


class GangExecutor:
    """Implements `base.Executor` and `base.NodeSource`. `folder` is that which all nodes share."""

    def __init__(
        self,
        transport: Transport,
        folder: Path,
        *,
        lease_s: float = heartbeat.DEFAULT_LEASE_S,
        on_close: Callable[[], None] = lambda: None,
        loop: Callable[[Callable[[BaseException], None]], GangLoop] = GangLoop,
        parts: tuple[type[GangNodes], type[GangRuns], type[SilentParts]] = (GangNodes, GangRuns, SilentParts),
    ):
        self._on_close = on_close
        nodes, runs, silent = parts
        self._updates = Updates()
        self._loop = loop(self._updates.fail)
        given_up = GivenUp(folder / "given-up")
        self._nodes = nodes(transport, self._loop, self._updates, given_up)
        self._runs = runs(transport, self._loop, self._updates, self._nodes)
        self._silent = silent(self._loop, self._runs, given_up, lease_s)
        self._loop.begin(transport.close)
        self._loop.call(self._nodes.begin, self._runs, self._silent.watch)
        self._loop.call(self._runs.begin)

    def start(self, spec: RunSpec) -> None:
        self._loop.call(self._runs.start, spec)

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        self._loop.call(self._runs.stop, run_id, grace_s)

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        """Through the folder: the supervisors of the parts look there at each heartbeat."""
        self._loop.call(self._runs.pace, run_id, {"turn": turn, "turns": turns, "slice_s": slice_s})

    def forget(self, run_id: RunId) -> None:
        self._loop.call(self._runs.forget, run_id)

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        adopted = Adopted()
        for spec in expected:
            if run_files.exists(str(spec.run_dir), run_files.EXIT):
                adopted.gone.append(spec.run_id)
            elif any(run_files.exists(each, run_files.CLAIM) for each in part_dirs(spec)):
                adopted.running.append(spec.run_id)
            else:
                adopted.absent.append(spec.run_id)
                self._loop.call(self._runs.know, spec)
                continue
            self._loop.call(self._runs.start, spec)
        return adopted

    def poll(self) -> list[RunUpdate]:
        return self._updates.poll()

    def fileno(self) -> int:
        return self._updates.fileno()

    def expect(self, names: Iterable[str]) -> None:
        self._updates.announce_nodes()
        self._loop.call(self._nodes.expect, list(names))

    def wait_for(self, names: Iterable[str], within_s: float) -> None:
        """Wait until each of these nodes has joined or cannot be used, or for `within_s` seconds."""
        self._updates.wait_for(names, within_s)

    def node_updates(self) -> list[NodeUpdate]:
        return self._updates.node_updates()

    def close(self) -> None:
        self._loop.end()
        self._updates.close()
        self._on_close()
