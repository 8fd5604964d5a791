"""Gangs that share a node get into each other's way, on its PCIe, memory and CPUs.

Rules: only runs of two GPUs and more suffer, and only such runs are in the way. A run takes up to
`1 + interference` times as long: so much where others hold all the slots of one of its nodes that it does
not hold itself, and in proportion where they hold some; its worst node counts. One number for all models,
on top of what the links do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, RunId
from tiresias.core.plugins import SpeedModel
from tiresias.sim.world import WorldRun


class Interference:
    """The SpeedModel of nodes whose gangs disturb each other; `others` tells how fast runs go otherwise."""

    def __init__(
        self, interference: float, cluster: Cluster, runs: Mapping[RunId, WorldRun], others: SpeedModel
    ):
        self._interference = interference
        self._sizes = [node.gpus for node in cluster.nodes]
        self._runs = runs
        self._others = others
        self._undisturbed: dict[RunId, float] = {}  # the speed of each gang, were it alone on its nodes
        self._held: dict[RunId, dict[int, int]] = {}  # by gang: its slots on each of its nodes
        self._gangs: list[dict[RunId, None]] = [{} for _ in cluster.nodes]
        self._busy = [0] * len(cluster.nodes)  # by node: slots that gangs hold

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> dict[RunId, float]:
        changed = list(changed)
        found = dict(self._others.speeds(changed, ledger))
        touched: dict[RunId, None] = {}
        for run_id in changed:
            nodes = self._leave(run_id) if run_id in self._held else self._come(run_id, ledger)
            for node in nodes:
                touched |= self._gangs[node]
        for run_id, speed in found.items():
            if run_id in self._held:
                self._undisturbed[run_id] = speed
                touched[run_id] = None
        return found | {run_id: self._speed(run_id) for run_id in touched if run_id in self._held}

    def _come(self, run_id: RunId, ledger: Ledger) -> Iterable[int]:
        allocation = ledger.held.get(run_id)
        if allocation is None or self._runs[run_id].gpus < 2:
            return ()
        held = {node: slots.bit_count() for node, slots in allocation}
        self._held[run_id] = held
        self._undisturbed[run_id] = 1.0
        for node, slots in held.items():
            self._gangs[node][run_id] = None
            self._busy[node] += slots
        return held

    def _leave(self, run_id: RunId) -> Iterable[int]:
        held = self._held.pop(run_id)
        del self._undisturbed[run_id]
        for node, slots in held.items():
            del self._gangs[node][run_id]
            self._busy[node] -= slots
        return held

    def _speed(self, run_id: RunId) -> float:
        worst = 0.0
        for node, slots in self._held[run_id].items():
            left = self._sizes[node] - slots
            if left:
                worst = max(worst, (self._busy[node] - slots) / left)
        return self._undisturbed[run_id] / (1 + self._interference * worst)
