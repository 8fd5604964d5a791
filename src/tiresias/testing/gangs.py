"""The contract of gangs over several nodes, with real processes, whatever carries calls to the agents:

class TestMine(GangContract):
    @contextmanager
    def open(self, root):
        lab = MyLab(root)
        yield lab
        lab.end()
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tiresias.executors import run_files
from tiresias.executors.base import (
    NodeJoined,
    NodeReturned,
    NodeSilent,
    NodeUpdate,
    RunSpec,
    RunUp,
    Slot,
)
from tiresias.executors.gang import GangExecutor
from tiresias.testing.executors import R1, Bench, paused, processes_of, until

LONG_S = 90.0
LINES = 20_000


class GangLab(ABC):
    """Nodes with agents, and what can happen to them. The first of `names` is that of the manager."""

    names: tuple[str, ...]
    lease_s: float

    @abstractmethod
    def executor(self) -> GangExecutor:
        """A new one, as a manager that was started again has it."""

    @abstractmethod
    def cut(self, name: str) -> None:
        """From now on, the node does not answer."""

    @abstractmethod
    def mend(self) -> None:
        """All nodes answer again."""

    @abstractmethod
    def restart_agent(self, name: str) -> None:
        """The agent of this node ends as in a crash, and another one takes its place."""

    @abstractmethod
    def reserved(self) -> list[int]:
        """The runs whose GPUs others on the engine see as taken."""


class GangBench(Bench):
    """`a`, `b` and `c` are names of nodes; the manager is on `a`."""

    executor: GangExecutor

    def __init__(self, lab: GangLab, top: Path):
        self.lab = lab
        self.a, self.b, self.c = lab.names[:3]
        super().__init__(lab.executor(), top)
        self.nodes: list[NodeUpdate] = []

    def spec(self, *command: str, run: int = 1, **changes: Any) -> RunSpec:
        """`on` are the slots: how many on a, on b and on c."""
        counts = zip(self.lab.names, changes.pop("on", (1,)), strict=False)
        slots = tuple(Slot(name, index) for name, count in counts for index in range(count))
        return super().spec(*command, run=run, **{"slots": slots, **changes})

    def reports(self, kind: type, name: str) -> None:
        """Wait until the source has reported this of a node."""

        def look() -> bool:
            self.nodes += self.executor.node_updates()
            return any(isinstance(each, kind) and name_of(each) == name for each in self.nodes)

        until(look, f"{kind.__name__} of {name} among {self.nodes}", within_s=LONG_S)

    def joined(self) -> None:
        """Wait for all three nodes."""
        for name in (self.a, self.b, self.c):
            self.reports(NodeJoined, name)

    def again(self) -> None:
        """Another manager takes over."""
        self.executor.close()
        self.executor = self.lab.executor()
        self.updates.clear()
        self.nodes.clear()

    def until_go(self, then: str = "exit 0") -> str:
        """A script that waits for `go`."""
        return f"until [ -e {self.top}/go ]; do sleep 0.01; done; {then}"

    def go(self) -> None:
        (self.top / "go").touch()

    def end(self) -> None:
        """End all runs, forget them, and close the executor."""
        self.lab.mend()
        for run_id in self.specs:
            self.executor.stop(run_id, grace_s=0.0)
        until(lambda: not processes_of(self.top), "nothing of any run is left", within_s=LONG_S)
        for run_id in self.specs:
            self.executor.forget(run_id)
        self.executor.close()


def name_of(update: NodeUpdate) -> str:
    return update.node.name if isinstance(update, NodeJoined) else update.name


SHOW = "echo $TIRESIAS_WORKER $TIRESIAS_NODE_RANK $TIRESIAS_SLOTS $MASTER_ADDR:$MASTER_PORT"


class GangContract(ABC):
    """The contract of gangs. A subclass implements `open`."""

    @abstractmethod
    def open(self, root: Path) -> AbstractContextManager[GangLab]:
        """Three nodes or more, which have at least four slots each."""

    @pytest.fixture
    def gang(self, tmp_path: Path) -> Iterator[GangBench]:
        with self.open(tmp_path) as lab:
            made = GangBench(lab, tmp_path)
            made.joined()
            yield made
            made.end()

    # --- as a whole ------------------------------------------------------------------------------------

    def test_every_node_of_an_uneven_gang_starts_its_part_and_all_meet_at_one_port(
        self, gang: GangBench
    ) -> None:
        gang.shell(SHOW, on=(3, 1), workers=2)
        gone = gang.gone()
        assert [each.code for each in gone.exits] == [0, 0]
        first, second = gang.output(worker=0).split(), gang.output(worker=1).split()
        assert first[:3] == ["0", "0", f"{gang.a}:0,{gang.a}:1,{gang.a}:2"]
        assert second[:3] == ["1", "1", f"{gang.b}:0"]
        assert first[3] == second[3]
        assert [type(each).__name__ for each in gang.updates] == ["RunUp", "RunGone"]

    def test_the_gpus_of_a_gang_are_shown_as_taken_until_it_is_gone(self, gang: GangBench) -> None:
        gang.shell(gang.until_go(), on=(3, 1), workers=2)
        gang.up()
        assert gang.lab.reserved() == [1]
        gang.go()
        gang.gone()
        until(lambda: not gang.lab.reserved(), "nothing is taken")

    def test_a_part_that_fails_ends_the_others_and_is_named(self, gang: GangBench) -> None:
        script = "[ $TIRESIAS_NODE_RANK = 1 ] && { echo I broke; exit 3; }; exec sleep 600"
        gang.shell(script, on=(1, 1, 1), workers=3)
        gone = gang.gone()
        assert (gone.first_failed, gone.status, gone.tail) == (1, 3, "I broke")
        assert not gone.stopped
        assert not gone.lost
        assert [each.was_signalled for each in gone.exits] == [True, False, True]

    def test_stop_reaches_every_part(self, gang: GangBench) -> None:
        gang.shell("exec sleep 600", on=(1, 2), workers=2)
        gang.up()
        gang.executor.stop(R1)
        gone = gang.gone()
        assert gone.stopped
        assert [each.signal for each in gone.exits] == [signal.SIGTERM] * 2

    def test_logs_are_whole_though_an_agent_and_the_manager_are_started_again(self, gang: GangBench) -> None:
        """Every line of every worker, in order, when the run is gone."""
        script = (
            f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1));"
            f" [ $i = {LINES // 2} ] && {gang.until_go(':')}; done"
        )
        spec = gang.shell(script, on=(2, 1, 1), workers=4)
        gang.up()
        gang.lab.restart_agent(gang.b)
        gang.again()
        gang.executor.adopt([spec])
        gang.go()
        assert [each.code for each in gang.gone().exits] == [0] * 4
        whole = "".join(f"line {number}\n" for number in range(LINES))
        assert [gang.output(worker=each) == whole for each in range(4)] == [True] * 4

    # --- managers and agents that are started again ----------------------------------------------------

    def test_another_manager_takes_the_whole_gang_over(self, gang: GangBench) -> None:
        spec = gang.shell(gang.until_go("exit 7"), on=(1, 1))
        gang.up()
        gang.again()
        assert gang.executor.adopt([spec]).running == [R1]
        gang.up()
        gang.go()
        assert gang.gone().status == 7
        gang.again()
        assert gang.executor.adopt([spec]).gone == [R1]
        assert gang.gone().status == 7

    def test_an_agent_that_is_started_again_goes_on_with_its_parts(self, gang: GangBench) -> None:
        gang.shell(gang.until_go(), on=(1, 1))
        gang.up()
        gang.lab.restart_agent(gang.b)
        gang.go()
        assert [each.code for each in gang.gone().exits] == [0, 0]
        assert sum(isinstance(each, RunUp) for each in gang.updates) == 1

    def test_what_an_agent_reported_before_its_run_was_named_is_reported_again(self, gang: GangBench) -> None:
        """A manager that is started again may hear of a run before it has read of it in its journal."""
        spec = gang.shell(gang.until_go("exit 7"), on=(1, 1))
        gang.up()
        gang.go()
        gang.gone()
        (spec.run_dir / run_files.EXIT).unlink()  # it was killed before it wrote how the run had ended
        gang.again()
        gang.joined()
        gang.executor.adopt([spec])
        assert gang.gone().status == 7
        assert sum(isinstance(each, RunUp) for each in gang.updates) == 1

    # --- nodes that do not answer ----------------------------------------------------------------------

    def test_a_run_on_a_node_that_does_not_answer_goes_on_and_its_end_is_read_in_the_folder(
        self, gang: GangBench
    ) -> None:
        gang.shell(gang.until_go(), on=(1, 1))
        gang.up()
        gang.lab.cut(gang.b)
        gang.reports(NodeSilent, gang.b)
        assert not gang.has_ended()
        gang.go()
        assert [each.code for each in gang.gone().exits] == [0, 0]
        gang.lab.mend()
        gang.reports(NodeReturned, gang.b)

    def test_a_run_on_a_node_that_does_not_answer_can_be_stopped(self, gang: GangBench) -> None:
        gang.shell("exec sleep 600", on=(1, 1))
        gang.up()
        gang.lab.cut(gang.b)
        gang.executor.stop(R1)
        gone = gang.gone()
        assert gone.stopped
        assert not gone.lost

    def test_a_part_that_cannot_be_started_is_not_started_later(self, gang: GangBench) -> None:
        """All or none: the other part is stopped, and the silent node finds that the run must not begin."""
        gang.lab.cut(gang.b)
        gang.shell(f"[ $TIRESIAS_NODE_RANK = 1 ] && touch {gang.top}/late; exec sleep 600", on=(1, 1))
        gone = gang.gone()
        assert gone.lost
        assert gone.unknown_on == ()
        gang.reports(NodeSilent, gang.b)
        gang.lab.mend()
        gang.reports(NodeReturned, gang.b)
        assert not (gang.top / "late").exists()

    def test_a_run_is_given_up_when_its_heartbeat_stands_still_and_its_node_stays_out_until_it_is_over(
        self, gang: GangBench
    ) -> None:
        spec = gang.shell("exec sleep 600", on=(1, 1), grace_s=0.2)
        gang.up()
        claim = run_files.read(str(spec.run_dir / "node-1"), run_files.CLAIM)
        assert claim is not None
        with paused(claim["pid"]):
            gang.lab.cut(gang.b)
            gone = until_gone(gang)
            assert (gone.lost, gone.unknown_on) == (True, (gang.b,))
            silent = f"node {gang.b} was silent, and the heartbeat of the run there stood still for"
            assert gone.error.startswith(silent)
            gang.executor.forget(R1)
            gang.again()  # another manager knows it, too
            gang.lab.mend()
            gang.reports(NodeJoined, gang.a)
            assert not any(isinstance(each, NodeJoined) and name_of(each) == gang.b for each in gang.nodes)
        gang.reports(NodeJoined, gang.b)
        assert not processes_of(gang.top)

    def test_a_run_whose_directory_is_lost_for_a_while_is_ended_and_reported_when_it_is_back(
        self, gang: GangBench
    ) -> None:
        """The supervisors cannot write their heartbeats, so they end their workers after the lease."""
        spec = gang.shell("exec sleep 600", on=(1, 1), grace_s=0.2)
        gang.up()
        away = spec.run_dir.with_name("away")
        spec.run_dir.rename(away)
        until(lambda: not processes_of(gang.top), "the workers were ended", within_s=LONG_S)
        away.rename(spec.run_dir)
        gone = until_gone(gang)
        assert not gone.unknown_on
        gang.shell("exit 0", run=2, on=(1, 1))
        assert gang.gone(2).status == 0

    def test_a_known_node_that_a_new_source_does_not_reach_is_silent(self, gang: GangBench) -> None:
        gang.again()
        gang.executor.expect([gang.a, "nowhere"])
        gang.reports(NodeSilent, "nowhere")
        gang.reports(NodeJoined, gang.a)


def until_gone(gang: GangBench) -> Any:
    """Its end, however long the lease is."""
    until(gang.has_ended, "the run is given up", within_s=LONG_S)
    return gang.gone()
