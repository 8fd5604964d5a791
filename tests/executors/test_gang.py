"""Runs over several nodes: all or none, up and gone as a whole, nodes that fall silent and return."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tiresias.executors import run_files
from tiresias.executors.base import Executor, NodeJoined, NodeReturned, NodeSilent, RunUp, Slot
from tiresias.executors.gang import GangExecutor
from tiresias.testing.boxes import Boxes
from tiresias.testing.executors import R1, Bench, ExecutorContract, paused, processes_of, until

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


def slots(**nodes: int) -> tuple[Slot, ...]:
    return tuple(Slot(node, index) for node, count in nodes.items() for index in range(count))


class Gang(Bench):
    def __init__(self, top: Path, lease_s: float = 0.8):
        self.boxes = Boxes(top, ["a", "b", "c"], lease_s=lease_s)
        self.lease_s = lease_s
        super().__init__(GangExecutor(self.boxes, top, lease_s=lease_s), top)
        self.nodes: list[object] = []

    def told(self, kind: type, name: str) -> None:
        """Wait until the source has told this of a node."""

        def look() -> bool:
            self.nodes += self.executor.node_updates()
            return any(isinstance(each, kind) and name_of(each) == name for each in self.nodes)

        until(look, f"{kind.__name__} of {name} among {self.nodes}", within_s=LONG_S)

    def again(self) -> None:
        """Another manager takes over."""
        self.executor.close()
        self.executor = GangExecutor(self.boxes, self.top, lease_s=self.lease_s)
        self.updates.clear()
        self.nodes.clear()


def name_of(update: object) -> str:
    return update.node.name if isinstance(update, NodeJoined) else update.name


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    made = Gang(tmp_path)
    yield made
    made.boxes.cut.clear()
    for run_id in made.specs:
        made.executor.stop(run_id, grace_s=0.0)
    until(lambda: not processes_of(tmp_path), "nothing of any run is left", within_s=LONG_S)
    made.executor.close()
    made.boxes.end()


SHOW = "echo $TIRESIAS_WORKER $TIRESIAS_NODE_RANK $TIRESIAS_SLOTS $MASTER_ADDR:$MASTER_PORT"


def test_every_node_starts_its_part_and_all_meet_at_one_port(gang):
    gang.shell(SHOW, slots=slots(a=3, b=1), workers=2)
    gone = gang.gone()
    assert [each.code for each in gone.exits] == [0, 0]
    first, second = gang.output(worker=0).split(), gang.output(worker=1).split()
    assert first[:3] == ["0", "0", "a:0,a:1,a:2"]
    assert second[:3] == ["1", "1", "b:0"]
    assert first[3] == second[3]
    assert [type(each).__name__ for each in gang.updates] == ["RunUp", "RunGone"]
    assert gang.boxes.reserved_runs == {}


def test_a_part_that_fails_ends_the_others_and_is_named(gang):
    script = "[ $TIRESIAS_NODE_RANK = 1 ] && { echo I broke; exit 3; }; exec sleep 600"
    gang.shell(script, slots=slots(a=1, b=1, c=1), workers=3)
    gone = gang.gone()
    assert (gone.first_failed, gone.status, gone.tail) == (1, 3, "I broke")
    assert not gone.stopped
    assert not gone.lost
    assert [each.was_signalled for each in gone.exits] == [True, False, True]


def test_stop_reaches_every_part(gang):
    gang.shell("exec sleep 600", slots=slots(a=1, b=2), workers=2)
    gang.up()
    gang.executor.stop(R1)
    gone = gang.gone()
    assert gone.stopped
    assert [each.signal for each in gone.exits] == [signal.SIGTERM] * 2


def test_another_manager_takes_the_whole_gang_over(gang):
    spec = gang.shell(f"until [ -e {gang.top}/go ]; do sleep 0.01; done; exit 7", slots=slots(a=1, b=1))
    gang.up()
    gang.again()
    assert gang.executor.adopt([spec]).running == [R1]
    gang.up()
    (gang.top / "go").touch()
    assert gang.gone().status == 7
    gang.again()
    assert gang.executor.adopt([spec]).gone == [R1]
    assert gang.gone().status == 7


def test_an_agent_that_is_started_again_goes_on_with_its_parts(gang):
    gang.shell(f"until [ -e {gang.top}/go ]; do sleep 0.01; done; exit 0", slots=slots(a=1, b=1))
    gang.up()
    gang.boxes.restart("b")
    (gang.top / "go").touch()
    assert [each.code for each in gang.gone().exits] == [0, 0]
    assert sum(isinstance(each, RunUp) for each in gang.updates) == 1


def test_a_run_on_a_node_that_does_not_answer_goes_on_and_its_end_is_read_in_the_folder(gang):
    gang.told(NodeJoined, "b")
    gang.shell(f"until [ -e {gang.top}/go ]; do sleep 0.01; done; exit 0", slots=slots(a=1, b=1))
    gang.up()
    gang.boxes.cut.add("b")
    gang.told(NodeSilent, "b")
    assert not gang.has_ended()
    (gang.top / "go").touch()
    assert [each.code for each in gang.gone().exits] == [0, 0]
    gang.boxes.cut.clear()
    gang.told(NodeReturned, "b")


def test_a_run_on_a_node_that_does_not_answer_can_be_stopped(gang):
    gang.shell("exec sleep 600", slots=slots(a=1, b=1))
    gang.up()
    gang.boxes.cut.add("b")
    gang.executor.stop(R1)
    gone = gang.gone()
    assert gone.stopped
    assert not gone.lost


def test_a_part_that_cannot_be_started_is_not_started_later(gang):
    """All or none: the other part is stopped, and the silent node finds that the run must not begin."""
    gang.boxes.cut.add("b")
    gang.shell(f"[ $TIRESIAS_NODE_RANK = 1 ] && touch {gang.top}/late; exec sleep 600", slots=slots(a=1, b=1))
    gone = gang.gone()
    assert gone.lost
    assert gone.unknown_on == ()
    gang.boxes.cut.clear()
    gang.told(NodeJoined, "b")
    assert not (gang.top / "late").exists()


def test_a_run_is_given_up_when_its_heartbeat_stands_still_and_its_node_stays_out_until_it_is_over(gang):
    gang.told(NodeJoined, "b")
    spec = gang.shell("exec sleep 600", slots=slots(a=1, b=1), grace_s=0.2)
    gang.up()
    claim = run_files.read(str(spec.run_dir / "node-1"), run_files.CLAIM)
    with paused(claim["pid"]):
        gang.boxes.cut.add("b")
        gone = gang.gone()
        assert (gone.lost, gone.unknown_on) == (True, ("b",))
        assert gone.error.startswith("node b was silent, and the heartbeat of the run there stood still for")
        gang.executor.forget(R1)
        gang.again()  # another manager knows it, too
        gang.boxes.cut.clear()
        gang.told(NodeJoined, "a")
        assert not any(isinstance(each, NodeJoined) and name_of(each) == "b" for each in gang.nodes)
    gang.told(NodeJoined, "b")
    assert not processes_of(gang.top)


def test_a_known_node_that_a_new_source_does_not_reach_is_silent(gang):
    gang.executor.expect(["a", "d"])
    gang.told(NodeSilent, "d")
    gang.told(NodeJoined, "a")


def test_a_folder_that_hangs_for_one_node_delays_no_other(gang):
    """The record of the run on b is a named pipe: whoever opens it waits until somebody writes to it."""
    stuck = gang.shell("exec sleep 600", run=1, slots=slots(b=1))
    gang.shell(f"until [ -e {gang.top}/go ]; do sleep 0.01; done; exit 0", run=2, slots=slots(c=1))
    gang.up(1)
    gang.up(2)
    pipe = stuck.run_dir / "node-0" / run_files.EXIT
    os.mkfifo(pipe)
    gang.boxes.cut |= {"b", "c"}
    writer = until(lambda: opened(pipe), "the folder is read for b", within_s=LONG_S)  # and hangs from now on
    try:
        (gang.top / "go").touch()
        assert gang.gone(2).status == 0
        gang.told(NodeSilent, "b")
        gang.told(NodeSilent, "c")
        gang.shell("exit 0", run=3, slots=slots(a=1))
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


def test_what_an_agent_told_before_its_run_was_named_is_told_again(gang):
    """A manager that is started again may hear of a run before it has read of it in its journal."""
    spec = gang.shell(f"until [ -e {gang.top}/go ]; do sleep 0.01; done; exit 7", slots=slots(a=1, b=1))
    gang.up()
    (gang.top / "go").touch()
    gang.gone()
    (spec.run_dir / run_files.EXIT).unlink()  # the manager was killed before it wrote how the run had ended
    gang.again()
    gang.told(NodeJoined, "a")
    gang.told(NodeJoined, "b")
    gang.executor.adopt([spec])
    assert gang.gone().status == 7
    assert sum(isinstance(each, RunUp) for each in gang.updates) == 1


def test_nodes_are_announced_to_whoever_reads_of_them(gang):
    gang.executor.expect([])
    assert select.select([gang.executor], [], [], LONG_S)[0]
    gang.told(NodeJoined, "c")


def test_a_directory_that_cannot_be_made_is_the_end_of_its_run_alone(gang):
    (gang.top / "file").touch()
    gang.shell("exit 0", slots=slots(a=1, b=1), run_dir=gang.top / "file" / "1")
    assert "file" in gang.gone().error
    gang.shell("exit 0", run=2, slots=slots(a=1, b=1))
    assert gang.gone(2).status == 0
