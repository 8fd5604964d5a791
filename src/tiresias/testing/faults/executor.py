"""An executor over the simulated World, as `executors.local` is one over processes.

Nothing in it survives the manager. Updates are delayed, may arrive twice and may overtake those of other
runs; the update that a run is up may be lost. The updates of one run stay in order, except for repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiresias.core.model import RunId
from tiresias.executors.base import Adopted, RunGone, RunSpec, RunUp, RunUpdate
from tiresias.testing.faults.world import Gang, World


class SimulatedExecutor:
    """See `executors.base.Executor` for the contract."""

    def __init__(self, world: World):
        self._world = world
        self._known: dict[RunId, RunSpec] = {}
        self._watched: set[RunId] = set()  # runs whose supervisor was started or that were found on the disk
        self._last_update_at: dict[RunId, float] = {}  # when the last update of each run arrives
        self._up: set[RunId] = set()
        self._over: set[RunId] = set()
        self._inbox: list[RunUpdate] = []
        self._is_open = True
        world.listeners.append(self)

    # --- commands --------------------------------------------------------------------------------------

    def start(self, spec: RunSpec) -> None:
        if spec.run_id in self._watched:
            return
        self._known[spec.run_id] = spec
        if not self._look(spec):
            self._watched.add(spec.run_id)
            if self._world.rng.random() < self._world.weather.refuse_start:
                self.is_over(self._world.refuse(spec))
            else:
                self._world.spawn(spec)

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        spec = self._known.get(run_id)
        if spec is None or run_id in self._over:
            return
        if run_id not in self._watched and not self._look(spec):
            self._watched.add(run_id)
            self.is_over(self._world.void(spec))
        else:
            self._world.stop(spec, grace_s)

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        adopted = Adopted()
        for spec in expected:
            self._known[spec.run_id] = spec
            if not self._look(spec):
                adopted.absent.append(spec.run_id)
            elif spec.run_id in self._over:
                adopted.gone.append(spec.run_id)
            else:
                adopted.running.append(spec.run_id)
        return adopted

    def forget(self, run_id: RunId) -> None:
        spec = self._known.pop(run_id, None)
        self._watched.discard(run_id)
        if spec is not None:
            self._world.forget(spec)

    def poll(self) -> list[RunUpdate]:
        updates, self._inbox = self._inbox, []
        return updates

    @property
    def has_news(self) -> bool:
        return bool(self._inbox)

    def fileno(self) -> int:
        raise OSError("nothing to wait for: the simulation knows when there is news")

    def close(self) -> None:
        self._is_open = False
        self._world.listeners.remove(self)

    # --- events of the World ---------------------------------------------------------------------------

    def is_up(self, gang: Gang) -> None:
        run_id = gang.spec.run_id
        if run_id in self._known and run_id not in self._up:
            self._up.add(run_id)
            if self._world.rng.random() >= self._world.weather.lose_up:
                self._deliver(RunUp(run_id))

    def is_over(self, gang: Gang) -> None:
        run_id = gang.spec.run_id
        if run_id in self._known and run_id not in self._over:
            self._over.add(run_id)
            assert gang.record is not None
            self._deliver(gang.record)

    def is_orphaned(self, gang: Gang) -> None:
        if gang.spec.run_id in self._known:
            self._world.sweep(gang)

    def _look(self, spec: RunSpec) -> bool:
        """Take over the run as it is on the disk; False if it has never begun."""
        gang = self._world.disk.get(spec.run_dir)
        if gang is None:
            return False
        self._watched.add(spec.run_id)
        if gang.is_up:
            self.is_up(gang)
        if gang.record is not None:
            self.is_over(gang)
        elif not gang.is_supervised:
            self._world.sweep(gang)
        return True

    def _deliver(self, update: RunUp | RunGone) -> None:
        """Deliver the update some time later, not before earlier updates of this run."""
        world, weather = self._world, self._world.weather
        # Most updates are not delayed: if all were, few would be overtaken.
        late = world.rng.random() < 0.3
        arrives_at = world.at + (world.rng.random() * weather.update_s if late else 0.0)
        arrives_at = max(arrives_at, self._last_update_at.get(update.run_id, 0.0))
        self._last_update_at[update.run_id] = arrives_at
        world.when(arrives_at, self._arrive, update)
        if world.rng.random() < weather.duplicate:
            world.when(arrives_at + world.rng.random() * weather.update_s, self._arrive, update)

    def _arrive(self, update: RunUpdate) -> None:
        if self._is_open:
            self._inbox.append(update)
