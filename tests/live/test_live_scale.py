"""No request and no exit costs more because many jobs wait: calls and rows are counted, not seconds."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiresias.live.answers import Limits
from tiresias.live.clock import Clock
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import NoProcesses, still_manager

ANN = Caller("ann", is_admin=True)
FEW, MANY = 60, 1200
GPUS = 16
LIMITS = {"no limit": None, "a limit of GPUs": Limits(max_running_gpus=8)}


def asked(home: Path, **more: object) -> Submission:
    return Submission(("true",), str(home), {"PATH": "/bin"}, name="bert", **more)  # type: ignore[arg-type]


@contextmanager
def a_queue(home: Path, waiting: int, limits: Limits | None, **more: object) -> Iterator[_Queue]:
    home.mkdir()
    ticks = Ticks()
    with still_manager(home, GPUS, clock=Clock(wall=ticks, steady=ticks)) as (manager, executor):
        if limits is not None:
            manager.requests.set_limits(ANN, "*", limits)
        manager.requests.submit(ANN, [asked(home, **more) for _ in range(waiting)])
        queue = _Queue(manager, executor, ticks)
        queue.turn()
        yield queue


class Ticks:
    """A clock that the test moves: on a busy machine, more would become due while many jobs are submitted."""

    def __init__(self) -> None:
        self.at = 1e9

    def __call__(self) -> float:
        return self.at


class _Queue:
    def __init__(self, manager: Manager, executor: NoProcesses, ticks: Ticks):
        self.manager, self.executor, self.ticks = manager, executor, ticks

    def turn(self) -> None:
        self.ticks.at += 0.01
        self.manager.flush()
        self.manager.poll()
        self.manager.flush()

    def exit(self) -> None:
        self.executor.finish(next(iter(self.manager.state.runs)))
        self.manager.poll()

    def cost(self, deed: Callable[[], object]) -> tuple[int, int]:
        """Calls of functions and rows written, until all of it is decided, durable and carried out."""
        calls = 0

        def count(frame: object, event: str, _: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        rows = self.manager.store._write.total_changes
        gc.disable()  # what is collected meanwhile, and who is called for that, is no cost of the deed
        sys.setprofile(count)
        try:
            deed()
            self.manager.flush()
        finally:
            sys.setprofile(None)
            gc.enable()
        rows = self.manager.store._write.total_changes - rows
        self.turn()
        return calls, rows


def deeds(queue: _Queue, home: Path, **more: object) -> dict[str, tuple[int, int]]:
    """What each thing costs that happens again and again; the dearest of three times."""
    manager = queue.manager
    last = max(manager.state.jobs)
    one = str(last) if "array" in more else "bert"  # the name of an array means all of its jobs
    things: dict[str, Callable[[], object]] = {
        "submit": lambda: manager.requests.submit(ANN, [asked(home, **more)]),
        "find": lambda: manager.queries.find(ANN, one),
        "cancel": lambda: manager.requests.cancel(ANN, last),
        "hold": lambda: manager.requests.hold(ANN, last - 1),
        "release": lambda: manager.requests.release(ANN, last - 1),
        "exit": queue.exit,
        "tick": manager.tick,
    }
    repeated = ("submit", "exit", "tick")
    return {
        name: max(queue.cost(deed) for _ in range(3 if name in repeated else 1))
        for name, deed in things.items()
    }


def grown(few: dict[str, tuple[int, int]], many: dict[str, tuple[int, int]]) -> list[str]:
    """What costs more than half as much again with twenty times the jobs."""
    return [
        f"{name}: {few[name]} calls and rows with few waiting, {many[name]} with many"
        for name in few
        if many[name][0] > 1.5 * few[name][0] + 50 or many[name][1] > few[name][1] + 5
    ]


@pytest.mark.parametrize("limits", LIMITS)
def test_nothing_costs_more_because_many_jobs_wait(tmp_path: Path, limits: str) -> None:
    found = []
    for waiting in (FEW, MANY):
        home = tmp_path / str(waiting)
        with a_queue(home, waiting, LIMITS[limits]) as queue:
            found.append(deeds(queue, home))
    assert grown(*found) == []


def test_nor_because_they_wait_for_others_of_their_array(tmp_path: Path) -> None:
    found = []
    for waiting in (FEW, MANY):
        home = tmp_path / str(waiting)
        with a_queue(home, waiting, None, array="a", array_limit=4) as queue:
            assert len(queue.manager.state.runs) == 4
            found.append(deeds(queue, home, array="a", array_limit=4))
    assert grown(*found) == []


def test_nothing_is_kept_of_jobs_that_have_ended(tmp_path: Path) -> None:
    """Everything that grows with the jobs of a manager is empty again when there are none."""
    home = tmp_path / "home"
    with a_queue(home, 40, Limits(max_running_gpus=4), array="a", array_limit=2) as queue:
        manager = queue.manager
        last = max(manager.state.jobs)
        manager.requests.submit(
            ANN, [asked(home, after=(last,), preflight=True, snapshot=f"{home}/snapshots/s")]
        )
        queue.turn()
        while manager.state.jobs:
            for run in list(manager.state.runs):
                queue.executor.finish(run)
            manager.poll()
            queue.turn()
        admission, managed = manager.admission, manager.journal.managed
        collections = {
            "managed": managed,
            "names": managed._by_name,
            "snapshots": managed._by_snapshot,
            "changed": managed._changed,
            "users": admission._by_user,
            "limits": admission._of_user,
            "arrays": admission._of_array,
            "needs": admission._needs,
            "needed by": admission._needed_by,
            "back-offs": admission._backoffs,
            "doomed": admission._doomed,
            "marked": admission._marked,
            "read": manager.runs._progress._read,
            "commands": manager.journal.commands,
            "forget": manager.dispatcher._forget,
            "after the commit": manager.journal._after_commit,
            "failed": manager.failures,
            "ready": manager.controller._ready,
            "wakes": manager.controller._wakes,
        }
        assert {name: found for name, found in collections.items() if found} == {}
