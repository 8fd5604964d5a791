"""The speed of elastic jobs on more or fewer GPUs than their reference size.

Rules: the work of a job is counted in seconds at its reference size. A run of another size goes faster or
slower as profiles/scaling.py says, times the speed that other SpeedModels give. With a network, the curve is
that of what the job trains; without one it is the assumed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiresias.core.ledger import Ledger
from tiresias.core.model import RunId
from tiresias.core.plugins import SpeedModel
from tiresias.profiles.network import Network
from tiresias.profiles.scaling import assumed_speedup, speedup
from tiresias.sim.network import ProfileOf
from tiresias.sim.world import WorldRun


class Scaling:
    """The SpeedModel of a trace with elastic jobs; `runs` are the World's, `others` give what else matters.

    `network` and `profile_of` belong together: without them the curve is the assumed one.
    """

    def __init__(
        self,
        runs: Mapping[RunId, WorldRun],
        others: SpeedModel | None = None,
        network: Network | None = None,
        profile_of: ProfileOf | None = None,
    ):
        self._runs = runs
        self._others = others
        self._network = network
        self._profile_of = profile_of
        self._by_size: dict[RunId, float] = {}  # of elastic runs on GPUs that have not exited

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> dict[RunId, float]:
        changed = list(changed)
        found = {} if self._others is None else dict(self._others.speeds(changed, ledger))
        for run_id in changed:
            run = self._runs.get(run_id)
            if run is None:  # it has exited
                self._by_size.pop(run_id, None)
            elif run.gpus and run.job.demand.is_elastic and run_id not in self._by_size:
                self._by_size[run_id] = self._of(run)
                found.setdefault(run_id, 1.0)
        return {run_id: speed * self._by_size.get(run_id, 1.0) for run_id, speed in found.items()}

    def _of(self, run: WorldRun) -> float:
        reference = run.job.demand.gpus
        if self._network is None or self._profile_of is None:
            return assumed_speedup(run.gpus, reference)
        return speedup(self._network, self._profile_of(run.job), run.gpus, reference)
