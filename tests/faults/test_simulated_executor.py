"""The simulated executor keeps the contract of executors, as far as it goes without real programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tiresias.executors.base import Executor, RunUp, RunUpdate
from tiresias.testing.executors import Bench, ExecutorContract
from tiresias.testing.faults.executor import SimulatedExecutor
from tiresias.testing.faults.trainings import OnStop, Training
from tiresias.testing.faults.world import CALM, Program, World

LOOK_S = 0.05  # virtual seconds that pass between two looks


class Scripts(dict[str, Program]):
    """What the scripts of the contract do, as trainings."""

    def __missing__(self, script: str) -> Program:
        lasts_s = 600.0 if "exec sleep 600" in script else 5.0 if "until" in script else 0.0
        code = int(found[1]) if (found := re.search(r"exit (\d+)$", script)) else 0
        how = Training(script, 1 if lasts_s else 0, lasts_s, load_s=0.0, on_stop=OnStop.DIE, ends_with=code)
        self[script] = Program(replace(how, save_s=0.0))
        return self[script]


class Ticking(SimulatedExecutor):
    """Time passes when somebody looks, so there is always something to look for."""

    def __init__(self, world: World):
        super().__init__(world)
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


class TestSimulatedExecutor(ExecutorContract):
    @contextmanager
    def open(self, root: Path) -> Iterator[Executor]:
        executor = Ticking(self.world)
        yield executor
        executor.close()

    @pytest.fixture(autouse=True)
    def a_world(self) -> None:
        self.world = World(Random(1), {}, lambda *_: None)
        self.world.programs = Scripts()
        self.world.weather = CALM

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
        setattr(TestSimulatedExecutor, name, None)


def updates_of_a_world(weather_seed: int, **weather: float) -> list[RunUpdate]:
    """The updates of three runs that last a while."""
    world = World(Random(weather_seed), {}, lambda *_: None)
    world.programs = Scripts()
    world.weather = replace(CALM, **weather)
    bench = Bench(Ticking(world), Path("/nowhere"))
    for run in (1, 2, 3):
        bench.shell(f"until {run}; do sleep 1; done", run=run)
    for _ in range(1000):
        bench.collect()
    bench.executor.close()
    return bench.updates


def test_updates_may_come_twice_and_overtake_each_other() -> None:
    twice = overtaken = unannounced = False
    for seed in range(20):
        updates = updates_of_a_world(seed, update_s=20.0, duplicate=0.3, lose_up=0.2)
        runs = [each.run_id for each in updates]
        twice |= len({(type(each), each.run_id) for each in updates}) < len(updates)
        overtaken |= runs != sorted(runs)
        unannounced |= sum(isinstance(each, RunUp) for each in updates) < 3
        assert set(runs) == {1, 2, 3}
    assert twice
    assert overtaken
    assert unannounced
