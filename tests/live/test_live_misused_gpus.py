"""A run that computes on a GPU that it was not given is noticed, and named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.core.model import JobId
from tiresias.executors.gpus import Driver, Gpu
from tiresias.live.manager import Manager
from tiresias.live.start import Options, open_manager
from tiresias.live.submission import Caller, Submission
from tiresias.testing.executors import until

ADA = Caller("ada", is_admin=True)


class Cards(Driver):
    """Two GPUs, and the processes on them."""

    def __init__(self) -> None:
        self.used: dict[str, list[int]] = {}

    def gpus(self) -> list[Gpu]:
        return [Gpu(index, f"GPU-{index}", "a card", 2**30) for index in range(2)]

    def processes(self, uuid: str) -> list[int]:
        return self.used.get(uuid, [])


@pytest.fixture
def cards() -> Cards:
    return Cards()


@pytest.fixture
def manager(tmp_path: Path, cards: Cards) -> Iterator[Manager]:
    manager = open_manager(tmp_path, Options(settings={"gpu_check_s": 0.0}), driver=cards)
    yield manager
    cards.used.clear()
    manager.requests.cancel(ADA, JobId(1))
    manager.flush()
    until(lambda: step(manager) and manager.queries.status().free_slots == 2, "the end of the run")
    manager.executor.close()
    manager.store.close()


def step(manager: Manager) -> bool:
    manager.poll()
    manager.tick()
    manager.flush()
    return True


def test_a_run_on_a_gpu_that_it_was_not_given_puts_that_gpu_out_of_service(manager, cards, tmp_path):
    path = tmp_path / "pid"
    command = ("/bin/sh", "-c", f"echo $$ > {path}.new; mv {path}.new {path}; exec sleep 600")
    env = {"PATH": os.environ["PATH"]}
    manager.requests.submit(ADA, [Submission(command=command, cwd=str(tmp_path), env=env, grace_s=0.2)])
    manager.flush()
    pid = int(until(lambda: step(manager) and path.exists() and path.read_text(), "the pid of the worker"))
    slots = manager.queries.nodes.all()[0].slots
    given, other = (0, 1) if slots[0].state == "busy" else (1, 0)
    cards.used = {f"GPU-{given}": [pid]}
    step(manager)
    assert [manager.queries.nodes.all()[0].slots[each].state for each in (given, other)] == ["busy", "free"]
    cards.used = {f"GPU-{given}": [pid], f"GPU-{other}": [pid]}
    step(manager)
    found = manager.queries.nodes.all()[0].slots[other]
    assert found.state == "foreign"
    assert found.reason == f"used by others: job 1 (pid {pid}), to which it was not given"
    cards.used = {f"GPU-{given}": [pid]}
    step(manager)
    assert manager.queries.nodes.all()[0].slots[other].state == "free"
