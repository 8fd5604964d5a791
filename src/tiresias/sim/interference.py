"""How gangs that share a node slow each other down, through its PCIe, memory and CPUs.

Rules: only runs of two or more GPUs slow others down and are slowed down. A run takes up to
`1 + interference` times as long: that much if other gangs hold all remaining slots of one of its nodes, and
in proportion if they hold some of them; the worst node counts. The number is the same for all models, and
the effect comes on top of that of shared links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, RunId
from tiresias.core.plugins import SpeedModel
from tiresias.sim.world import WorldRun


class Interference:
    """The SpeedModel of nodes whose gangs disturb each other; `others` gives the speeds without that."""

    def __init__(
        self, interference: float, cluster: Cluster, runs: Mapping[RunId, WorldRun], others: SpeedModel
    ):
        self._interference = interference
        self._sizes = [node.gpus for node in cluster.nodes]
        self._runs = runs
        self._others = others
        self._undisturbed: dict[RunId, float] = {}  # the speed of each gang if it were alone on its nodes
        self._slots: dict[RunId, dict[int, int]] = {}  # by gang: how many slots it holds on each node
        self._gangs: list[dict[RunId, None]] = [{} for _ in cluster.nodes]
        self._busy = [0] * len(cluster.nodes)  # by node: slots that gangs hold

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> dict[RunId, float]:
        changed = list(changed)
        found = dict(self._others.speeds(changed, ledger))
        touched: dict[RunId, None] = {}
        for run_id in changed:
            nodes = self._leave(run_id) if run_id in self._slots else self._join(run_id, ledger)
            for node in nodes:
                touched |= self._gangs[node]
        for run_id, speed in found.items():
            if run_id in self._slots:
                self._undisturbed[run_id] = speed
                touched[run_id] = None
        return found | {run_id: self._speed(run_id) for run_id in touched if run_id in self._slots}

    def _join(self, run_id: RunId, ledger: Ledger) -> Iterable[int]:
        allocation = ledger.allocations.get(run_id)
        if allocation is None or self._runs[run_id].gpus < 2:
            return ()
        counts = {node: slots.bit_count() for node, slots in allocation}
        self._slots[run_id] = counts
        self._undisturbed[run_id] = 1.0
        for node, slots in counts.items():
            self._gangs[node][run_id] = None
            self._busy[node] += slots
        return counts

    def _leave(self, run_id: RunId) -> Iterable[int]:
        counts = self._slots.pop(run_id)
        del self._undisturbed[run_id]
        for node, slots in counts.items():
            del self._gangs[node][run_id]
            self._busy[node] -= slots
        return counts

    def _speed(self, run_id: RunId) -> float:
        worst = 0.0
        for node, slots in self._slots[run_id].items():
            left = self._sizes[node] - slots
            if left:
                worst = max(worst, (self._busy[node] - slots) / left)
        return self._undisturbed[run_id] / (1 + self._interference * worst)
