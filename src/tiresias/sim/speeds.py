"""The speed of runs on nodes that differ in speed.

Rules: a run goes at the speed of its slowest node, times the speed that another SpeedModel (the network's)
gives for nodes of speed 1. On CPUs it goes at the speed of the slowest node times the `cpu_speed` of its job,
and the network has no effect. A job without GPUs goes at full speed. Not modelled: a faster GPU waits for the
network for more of its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, RunId
from tiresias.core.plugins import SpeedModel
from tiresias.sim.world import WorldRun


class NodeSpeeds:
    """The SpeedModel of a cluster whose nodes differ in speed; `runs` are the World's."""

    def __init__(self, cluster: Cluster, runs: Mapping[RunId, WorldRun], others: SpeedModel | None = None):
        self._nodes = cluster.nodes
        self._runs = runs
        self._others = others
        self._slowest: dict[RunId, float] = {}

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> dict[RunId, float]:
        changed = list(changed)
        found = {} if self._others is None else dict(self._others.speeds(changed, ledger))
        for run_id in changed:
            run = self._runs.get(run_id)
            if run is None:  # it has exited
                self._slowest.pop(run_id, None)
            elif run_id not in self._slowest:
                cpu_speed = None if run.gpus else run.job.demand.cpu_speed
                slowest = min((self._nodes[node].speed for node in run.nodes), default=1.0)
                self._slowest[run_id] = slowest * (cpu_speed or 1.0)
                found.setdefault(run_id, 1.0)
        return {run_id: speed * self._slowest[run_id] for run_id, speed in found.items()}


def differ(cluster: Cluster) -> bool:
    """Whether any node has CPUs only, or a speed other than that to which the durations of jobs refer."""
    return any(node.speed != 1.0 or not node.gpus for node in cluster.nodes)
