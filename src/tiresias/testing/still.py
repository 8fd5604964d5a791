"""A manager whose runs have no processes, to measure what the manager itself costs.

with still_manager(tmp_path, gpus=256) as (manager, executor):
    manager.requests.submit(caller, submissions)
    manager.flush()
    executor.finish(run_id)
    manager.poll()
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tiresias.placers
import tiresias.policies  # noqa: F401  (both are imported because they register plug-ins)
from tiresias.core.model import RunId
from tiresias.executors.base import Adopted, RunGone, RunSpec, RunUp, RunUpdate, WorkerExit
from tiresias.live.clock import Clock
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.store import Chosen, Store


class NoProcesses:
    """An executor that starts nothing: every run is up at once and ends when `finish` is called.

    It shows what the manager itself costs with hundreds of runs, on a machine that could not run them.
    """

    def __init__(self) -> None:
        self._updates: list[RunUpdate] = []
        self._descriptor = os.eventfd(0)

    def start(self, spec: RunSpec) -> None:
        self._updates.append(RunUp(spec.run_id))

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        self._updates.append(RunGone(run_id, (WorkerExit(code=75, was_signalled=True),), stopped=True))

    def finish(self, run_id: RunId) -> None:
        self._updates.append(RunGone(run_id, (WorkerExit(code=0),)))

    def poll(self) -> list[RunUpdate]:
        updates, self._updates = self._updates, []
        return updates

    def fileno(self) -> int:
        return self._descriptor

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        return Adopted(running=[spec.run_id for spec in expected])

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        pass

    def forget(self, run_id: RunId) -> None:
        pass

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def still_manager(
    home: Path,
    gpus: int | Machine,
    policy: str | Chosen = "tiresias-l",
    clock: Clock | None = None,
) -> Iterator[tuple[Manager, NoProcesses]]:
    """The real manager with the real journal; only its runs have no processes.

    `gpus` is the number of GPUs of one machine, or all that can be scheduled.
    """
    executor = NoProcesses()
    machine = gpus if isinstance(gpus, Machine) else Machine.fake(gpus)
    chosen = policy if isinstance(policy, Chosen) else Chosen(policy)
    with Store.open(home / "journal.db", home=home) as store:
        yield Manager.open(home, store, executor, machine, chosen, clock=clock), executor
    executor.close()
