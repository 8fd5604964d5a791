"""Runs over several nodes: the contracts of executors and of gangs, with the agents in this process."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tiresias.executors import run_files
from tiresias.executors.base import Executor, NodeJoined, NodeSilent
from tiresias.executors.gang import GangExecutor
from tiresias.testing.boxes import Boxes
from tiresias.testing.executors import ExecutorContract, processes_of, until
from tiresias.testing.gangs import GangBench, GangContract, GangLab

LONG_S = 60.0


class TestGang(ExecutorContract):
    """What holds for the executor of one machine holds for a run on one node of many."""

    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        boxes = Boxes(root, ["n0"])
        executor = GangExecutor(boxes, root)
        yield executor
        executor.close()
        boxes.end()


class BoxesLab(GangLab):
    def __init__(self, top: Path):
        self.names, self.lease_s, self.top = ("a", "b", "c"), 0.8, top
        self.boxes = Boxes(top, self.names, lease_s=self.lease_s)

    def executor(self) -> GangExecutor:
        return GangExecutor(self.boxes, self.top, lease_s=self.lease_s)

    def cut(self, name: str) -> None:
        self.boxes.cut.add(name)

    def mend(self) -> None:
        self.boxes.cut.clear()

    def restart_agent(self, name: str) -> None:
        self.boxes.restart(name)

    def reserved(self) -> list[int]:
        return sorted(self.boxes.reserved_runs)


class TestGangs(GangContract):
    @contextmanager
    def open(self, root: Path) -> Iterator[GangLab]:
        lab = BoxesLab(root)
        yield lab
        lab.boxes.end()


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[GangBench]:
    lab = BoxesLab(tmp_path)
    made = GangBench(lab, tmp_path)
    yield made
    made.end()
    lab.boxes.end()


def test_a_folder_that_hangs_for_one_node_delays_no_other(gang):
    """The record of the run on b is a named pipe: whoever opens it waits until somebody writes to it."""
    stuck = gang.shell("exec sleep 600", run=1, on=(0, 1))
    gang.shell(gang.until_go(), run=2, on=(0, 0, 1))
    gang.up(1)
    gang.up(2)
    pipe = stuck.run_dir / "node-0" / run_files.EXIT
    os.mkfifo(pipe)
    gang.lab.cut("b")
    gang.lab.cut("c")
    writer = until(lambda: opened(pipe), "the folder is read for b", within_s=LONG_S)  # and hangs from now on
    try:
        gang.go()
        assert gang.gone(2).status == 0
        gang.reports(NodeSilent, "b")
        gang.reports(NodeSilent, "c")
        gang.shell("exit 0", run=3, on=(1,))
        assert gang.gone(3).status == 0
        assert not gang.has_ended(1)
    finally:  # first the end of the run: whoever reads the pipe then finds an empty record
        run_files.put(str(pipe.parent), run_files.STOP, {"grace_s": 0.0})
        until(lambda: not processes_of(stuck.run_dir), "the run on b has ended", within_s=LONG_S)
        pipe.unlink()
        os.close(writer)


def opened(pipe: Path) -> int | None:
    """The end of the pipe to write to, once somebody reads it."""
    with suppress(OSError):
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    return None


def test_nodes_are_announced_to_whoever_reads_of_them(gang):
    gang.executor.expect([])
    assert select.select([gang.executor], [], [], LONG_S)[0]
    gang.reports(NodeJoined, "c")


def test_a_directory_that_cannot_be_made_is_the_end_of_its_run_alone(gang):
    (gang.top / "file").touch()
    gang.shell("exit 0", on=(1, 1), run_dir=gang.top / "file" / "1")
    assert "file" in gang.gone().error
    gang.shell("exit 0", run=2, on=(1, 1))
    assert gang.gone(2).status == 0
