"""The simulated machine: LocalExecutor keeps its contract on it, also when the machine lacks something.

What is tested here is the real executor; the machine is as good as its likeness to a real one, so the same
contract that real processes pass is run on it, as far as it goes without real programs.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tiresias.core.model import RunId
from tiresias.executors import run_files
from tiresias.executors.base import Executor, RunGone, RunUp, RunUpdate
from tiresias.executors.causes import Kind, classify
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.kernel import read_all, write_all
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import Bench, ExecutorContract
from tiresias.testing.faults.effects import Effects
from tiresias.testing.faults.kernel import SimulatedKernel
from tiresias.testing.faults.trainings import OnStop, Training
from tiresias.testing.faults.world import CALM, Program, World

LOOK_S = 0.05  # virtual seconds that pass between two looks
R1 = RunId(1)
TOP = Path("/top")
NO_CGROUPS = CgroupParent(None, "the simulated machine has none")
FOR_LONG = "exec sleep 600"


class Scripts(dict[str, Program]):
    """What the scripts of the contract do, as trainings."""

    def __missing__(self, script: str) -> Program:
        lasts_s = 600.0 if FOR_LONG in script else 5.0 if "until" in script else 0.0
        code = int(found[1]) if (found := re.search(r"exit (\d+)$", script)) else 0
        how = Training(script, 1 if lasts_s else 0, lasts_s, load_s=0.0, on_stop=OnStop.DIE, ends_with=code)
        self[script] = Program(replace(how, save_s=0.0))
        return self[script]


def a_world(seed: int = 1, **weather: float) -> World:
    world = World(Random(seed), {}, lambda *_: None)
    world.programs = Scripts()
    world.weather = replace(CALM, **weather)
    return world


class Ticking(LocalExecutor):
    """Time passes when somebody looks, so there is always something to look for."""

    def __init__(self, world: World, root: Path = TOP / "executor"):
        self.kernel = SimulatedKernel(world, world.new_pid(), Effects(world.log).point)
        super().__init__(root, cgroups=NO_CGROUPS, kernel=self.kernel)
        self._world = world
        self._always = os.open(os.devnull, os.O_RDONLY)

    def poll(self) -> list[RunUpdate]:
        until = self._world.at + LOOK_S
        while self._world.next_at <= until:
            self._world.happen()
        self._world.at = until
        return super().poll()

    def fileno(self) -> int:
        return self._always

    def close(self) -> None:
        super().close()
        os.close(self._always)


class TestSimulatedMachine(ExecutorContract):
    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        executor = Ticking(self.world, root)
        yield executor
        executor.close()

    @pytest.fixture(autouse=True)
    def new_world(self) -> None:
        self.world = a_world()

    def test_a_run_started_twice_runs_once(self, bench: Bench) -> None:
        spec = bench.shell("exit 0")
        bench.executor.start(spec)
        bench.gone()
        bench.executor.start(spec)
        bench.collect(0.2)
        assert len(self.world.gangs) == 1
        assert len(bench.updates) == 2


# The other tests of the contract need real programs, real files or a real descriptor.
APPLICABLE = {
    "test_an_exit_code_is_reported",
    "test_a_run_is_up_before_it_is_gone_and_each_is_reported_once",
    "test_a_run_started_twice_runs_once",
    "test_stop_sends_sigterm_to_every_worker",
    "test_a_run_stopped_as_it_starts_ends",
    "test_commands_for_unknown_or_ended_runs_do_nothing",
    "test_a_living_run_is_adopted",
    "test_an_adopted_run_can_be_stopped",
    "test_a_run_that_ended_meanwhile_is_reported_again_until_it_is_forgotten",
    "test_a_run_that_never_began_can_be_started",
    "test_a_run_that_was_stopped_before_it_began_never_begins",
    "test_closing_does_not_affect_runs",
}
assert set(dir(ExecutorContract)) >= APPLICABLE, APPLICABLE - set(dir(ExecutorContract))
for name in dir(ExecutorContract):
    if name.startswith("test_") and name not in APPLICABLE:
        setattr(TestSimulatedMachine, name, None)


# --- a machine that lacks something ----------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    return a_world()


@pytest.fixture(params=range(10))
def bench(world: World, request: pytest.FixtureRequest) -> Bench:
    """Of the calls that need what is lacking about half fail: ten times, each time others."""
    world.rng = Random(request.param)
    return Bench(Ticking(world), TOP)


def looks(bench: Bench, count: int = 40) -> list[RunUpdate]:
    for _ in range(count):
        bench.collect()
    return bench.updates


def next_manager(bench: Bench, world: World) -> Bench:
    """The manager was killed, and another one opens the same directory."""
    assert isinstance(bench.executor, Ticking)
    bench.executor.kernel.die()
    lacking, world.shortages = world.shortages, {}
    later = Bench(Ticking(world), TOP)
    world.shortages = lacking
    return later


def test_a_living_run_is_not_taken_for_lost_when_no_descriptor_is_left(bench: Bench, world: World) -> None:
    spec = bench.shell(FOR_LONG)
    bench.up()
    later = next_manager(bench, world)
    world.shortages = {errno.EMFILE: 0.5}
    adopted = later.executor.adopt([spec])
    assert adopted.running == [R1]
    assert not any(isinstance(update, RunGone) for update in looks(later))
    world.shortages = {}
    looks(later)
    later.executor.stop(R1)
    assert later.gone().exits[0].was_signalled, "it was watched all the time"
    assert len(world.gangs) == 1


def test_a_run_that_is_stopped_before_it_was_found_again_is_watched_once(bench: Bench, world: World) -> None:
    """Else the manager would be woken for ever by a descriptor that nobody looks after."""
    spec = bench.shell(FOR_LONG)
    bench.up()
    later = next_manager(bench, world)
    assert isinstance(later.executor, Ticking)
    world.shortages = {errno.EMFILE: 1.0}
    later.executor.adopt([spec])
    world.shortages = {}
    later.executor.stop(R1)
    later.gone()
    looks(later)
    assert later.executor._epoll.poll(0) == []


def test_a_run_that_was_given_turns_before_it_was_found_again_takes_them(bench: Bench, world: World) -> None:
    spec = bench.shell(FOR_LONG)
    bench.up()
    bench.executor.pace(R1, 0, 0, 60.0)
    looks(bench)
    [gang] = world.gangs
    assert gang.is_stopped, "it is paused"
    later = next_manager(bench, world)
    world.shortages = {errno.EMFILE: 1.0}
    later.executor.adopt([spec])
    world.shortages = {}
    later.executor.pace(R1, 0, 1, 60.0)
    looks(later)
    assert not gang.is_stopped


def test_a_run_takes_the_turns_that_a_killed_manager_had_only_written(bench: Bench, world: World) -> None:
    spec = bench.shell(FOR_LONG)
    bench.up()
    bench.executor.pace(R1, 0, 0, 60.0)
    looks(bench)
    works = {"turn": 0, "turns": 1, "slice_s": 60.0}
    run_files.put(str(spec.part_dir), run_files.PACE, works, kernel_of(bench))
    later = next_manager(bench, world)
    later.executor.adopt([spec])
    later.executor.pace(R1, 0, 1, 60.0)
    looks(later)
    assert [gang.is_stopped for gang in world.gangs] == [False]


def kernel_of(bench: Bench) -> SimulatedKernel:
    assert isinstance(bench.executor, Ticking)
    return bench.executor.kernel


def test_a_run_that_ignores_sigterm_is_killed_at_once_when_the_disk_is_full(world: World) -> None:
    bench = Bench(Ticking(world), TOP)
    training = Training(FOR_LONG, 1, 600.0, load_s=0.0, on_stop=OnStop.IGNORE)
    world.programs[FOR_LONG] = Program(training)
    bench.shell(FOR_LONG, grace_s=500.0)
    bench.up()
    world.shortages = {errno.ENOSPC: 1.0}
    begun = world.at
    bench.executor.stop(R1, grace_s=0.0)
    world.shortages = {}
    assert bench.gone().killed
    assert world.at - begun < 10


def test_the_end_of_a_run_is_noticed_later_when_no_descriptor_is_left(bench: Bench, world: World) -> None:
    bench.shell("until; exit 3")
    bench.up()
    world.shortages = {errno.EMFILE: 0.5}
    looks(bench, 200)
    world.shortages = {}
    assert bench.gone().status == 3


def test_a_run_whose_start_was_seen_by_nobody_is_not_given_up_without_a_claim() -> None:
    """Its supervisor is slow; the next manager gives the run up, and the disk is full."""
    for seed in range(30):
        world = a_world(seed, spawn_s=2.0)
        first = Bench(Ticking(world), TOP)
        spec = first.shell(FOR_LONG)
        later = next_manager(first, world)
        assert later.executor.adopt([spec]).absent == [R1]
        world.shortages = {errno.ENOSPC: 0.5}
        later.executor.stop(R1)
        looks(later, 10)
        world.shortages = {}
        later.gone()
        looks(later, 100)
        assert not world.live, "a run lives that was reported to be over"


@pytest.mark.parametrize("lacking", [errno.ENOSPC, errno.EMFILE, errno.EAGAIN, errno.ENOMEM])
def test_what_the_machine_lacks_at_a_start_is_never_blamed_on_the_job(
    bench: Bench, world: World, lacking: int
) -> None:
    world.shortages = {lacking: 0.5}
    for run in range(1, 6):
        with suppress(OSError):  # the manager commands it again
            bench.shell("exit 0", run=run, slots=())
    looks(bench)
    world.shortages = {}
    looks(bench)
    for update in bench.updates:
        if isinstance(update, RunGone):
            assert classify(update).kind in (Kind.FINISHED, Kind.HOST), (update, classify(update))


def test_a_supervisor_that_is_killed_before_it_begins_is_not_blamed_on_the_job(world: World) -> None:
    world.weather = replace(CALM, spawn_s=5.0)
    bench = Bench(Ticking(world), TOP)
    bench.shell("exit 0")
    world.kill(world.supervisors[0])
    assert classify(bench.gone()).kind is Kind.LOST
    assert not world.gangs


# --- updates that are late -------------------------------------------------------------------------------


def test_updates_may_overtake_each_other_and_the_start_may_never_be_announced() -> None:
    overtaken = unannounced = False
    for seed in range(20):
        world = a_world(seed, update_s=20.0, lose_up=0.2)
        bench = Bench(Ticking(world), TOP)
        for run in (1, 2, 3):
            bench.shell(f"until {run}; do sleep 1; done", run=run)
        updates = looks(bench, 1000)
        runs = [each.run_id for each in updates]
        overtaken |= runs != sorted(runs)
        unannounced |= sum(isinstance(each, RunUp) for each in updates) < 3
        assert set(runs) == {1, 2, 3}
        bench.executor.close()
    assert overtaken
    assert unannounced


# --- the disk --------------------------------------------------------------------------------------------


def a_kernel(world: World) -> SimulatedKernel:
    kernel = SimulatedKernel(world, 1, lambda _: None)
    kernel.mkdir("/d", 0o755)
    return kernel


def fates(write: str, **weather: float) -> set[str]:
    """What may become of an exit record, or of a file that is put, in a loss of power."""
    found = set()
    for seed in range(40):
        world = a_world(seed, **weather)
        kernel = a_kernel(world)
        if write == "exit":
            run_files.write_exit("/d", {"run_id": 7}, kernel)
            name = run_files.EXIT
        else:
            run_files.put("/d", "some.json", {"run_id": 7}, kernel)
            name = "some.json"
        world.reboot()
        there = run_files.read("/d", name, kernel)
        found.add("lost" if there is None else "whole" if there.get("run_id") == 7 else "damaged")
    return found


def test_a_loss_of_power_keeps_what_was_synced_and_nothing_else_for_certain() -> None:
    assert fates("exit") == {"whole"}
    assert fates("put") == {"lost", "whole", "damaged"}


def test_files_are_whole_although_writes_are_short() -> None:
    assert fates("exit", short_write=0.9) == {"whole"}


def test_a_full_disk_takes_a_part_of_a_file_and_then_nothing() -> None:
    cut = 0
    for seed in range(40):
        world = a_world(seed)
        kernel = a_kernel(world)
        fd = kernel.open("/d/f", os.O_WRONLY | os.O_CREAT)
        world.shortages = {errno.ENOSPC: 0.5}
        with suppress(OSError):
            write_all(fd, b"x" * 1000, kernel)
        cut += 0 < len(read_all("/d/f", kernel)) < 1000
    assert cut
