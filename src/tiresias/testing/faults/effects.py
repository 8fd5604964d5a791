"""The effects of a manager (commits, commands, system calls), at each of which it may be killed.

A killed manager has no further effect, whatever its `finally` clauses try: every later effect raises again.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Any

from tiresias.core.controller import Controller
from tiresias.core.model import RunId
from tiresias.executors.base import Adopted, Executor, RunSpec, RunUpdate
from tiresias.store import Batch, Loaded, Store, StoreError
from tiresias.testing.faults.witness import Witness
from tiresias.testing.faults.world import World


class Killed(SystemExit):
    """The manager was killed with SIGKILL. Neither the manager nor its event loop catches a SystemExit."""


class Effects:
    """Counts effects, and kills the manager when `left` of them have happened."""

    def __init__(self, log: Callable[..., None]):
        self.log = log
        self.left: int | None = None  # effects until it is killed; None: it is not killed
        self.is_dead = False

    def point(self, what: str) -> None:
        """Raise Killed if the manager is to be killed here, or is dead."""
        if self.is_dead:
            raise Killed(what)
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.log("KILLED", what)
                self.is_dead = True
                raise Killed(what)


class MortalStore(Store):
    """The real store, with kills before and after each commit and with a disk that may be full."""

    effects: Effects
    world: World
    commits = 0

    def commit(self, controller: Controller, batch: Batch) -> int:
        self._before("commit")
        seq = super().commit(controller, batch)
        self.commits += 1
        self.effects.point("after the commit")
        return seq

    def set_setting(self, key: str, value: Any) -> None:
        self._before("a setting")
        super().set_setting(key, value)
        self.effects.point("after a setting")

    def load(self, policy: Any = None) -> Loaded:
        self._before("the note of a restart")
        found = super().load(policy)
        self.effects.point("after the note of a restart")
        return found

    def _before(self, what: str) -> None:
        self.effects.point(f"before {what}")
        if errno.ENOSPC in self.world.shortages:
            raise StoreError(f"{self.path}: cannot commit: the disk is full; make room")


class MortalExecutor:
    """An executor with kills before and after each command; the witness checks each command first.

    Updates may be repeated later, which a manager must bear.
    """

    def __init__(self, executor: Executor, store: Store, effects: Effects, witness: Witness, world: World):
        self._executor, self._store = executor, store
        self._effects = effects
        self._witness = witness
        self._world = world
        self._again: list[RunUpdate] = []

    def start(self, spec: RunSpec) -> None:
        self._effects.point(f"before the start of run {spec.run_id}")
        stored = self._store.run(spec.run_id)
        self._witness.starts(spec, 0 if stored is None else stored.layer)
        self._executor.start(spec)
        self._effects.point(f"after the start of run {spec.run_id}")

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        self._effects.point(f"before the stop of run {run_id}")
        self._witness.stops(run_id)
        self._executor.stop(run_id, grace_s)
        self._effects.point(f"after the stop of run {run_id}")

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        self._effects.point(f"before the turns of run {run_id}")
        self._executor.pace(run_id, turn, turns, slice_s)
        self._effects.point(f"after the turns of run {run_id}")

    def forget(self, run_id: RunId) -> None:
        self._effects.point(f"before run {run_id} is forgotten")
        stored = self._store.run(run_id)
        self._witness.forgets(run_id, stored is not None and stored.exited_at is not None)
        self._executor.forget(run_id)
        self._effects.point(f"after run {run_id} is forgotten")

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        self._effects.point("before adoption")
        adopted = self._executor.adopt(expected)
        self._effects.point("after adoption")
        return adopted

    def poll(self) -> list[RunUpdate]:
        updates, world = self._executor.poll(), self._world
        again, self._again = self._again, []
        for update in updates:
            if world.rng.random() < world.weather.duplicate:
                world.after(world.rng.random() * world.weather.update_s, self._again.append, update)
        return updates + again

    def fileno(self) -> int:
        return self._executor.fileno()

    def close(self) -> None:
        self._executor.close()
