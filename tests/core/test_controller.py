"""Random facts straight into the Controller: its counters stay right, the plan is that of a recomputation."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiresias.policies  # noqa: F401  (for what it registers)
from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Cluster
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.testing.fuzz import (
    EVERYTHING,
    NODES,
    PEOPLE,
    QUIET,
    RandomDriver,
    check_consistent,
    check_rebuilt,
)

SETTINGS: dict[str, dict[str, Any]] = {
    "fifo": {},
    "fifo-skip": {},
    "sjf": {},
    "srtf": {"min_run_s": "20"},
    "srsf": {},
    "las": {"quantum_s": "10", "min_run_s": "5"},
    "tiresias-l": {"queues": "40,300", "order": "first-start"},
    "tiresias-l running": {"queues": "40,300", "order": "running-first", "min_run_s": "15"},
    "tiresias-l last": {"queues": "40,300", "order": "last-preempted-first", "min_run_s": "15"},
    "tiresias-l auto": {},
    "tiresias-g": {"queues": "100,800", "distribution": "50,200,1000", "order": "running-first"},
    "tiresias-g online": {"queues": "100,800", "learn_after": "5", "min_run_s": "15"},
}
CROWDED = ["tiresias-l", "tiresias-l last", "tiresias-g", "fifo-skip", "srsf"]
DECISIONS = {  # kinds that only a Controller makes
    f.JobPromoted,
    f.RunGranted,
    f.RunPaced,
    f.RunRevoked,
    f.WishChanged,
    f.WishRefused,
}
PROMOTING = {"queues": "40,300", "order": "running-first", "promote_knob": "2"}


def driver(name: str, seed: int, **more: Any) -> RandomDriver:
    policy = policies.make(name.split()[0], SETTINGS.get(name, PROMOTING))
    controller = Controller(State(Cluster.of(3, 4)), policy, placers.make("packed" if seed % 2 else "count"))
    return RandomDriver(controller, Random(seed), **more)


def drive(driven: RandomDriver, instants: int, anew: float = 0.2) -> None:
    for _ in range(instants):
        driven.happen()
        check_consistent(driven)
        if driven.rng.random() < anew:
            check_rebuilt(driven)


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=50)
@given(seed=st.integers(0, 10**9))
def test_jobs_come_and_go(name: str, seed: int) -> None:
    drive(driver(name, seed, kinds=QUIET), 60)


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=50)
@given(seed=st.integers(0, 10**9))
def test_people_hold_release_and_cancel(name: str, seed: int) -> None:
    drive(driver(name, seed, kinds=QUIET | PEOPLE), 60)


@pytest.mark.parametrize("name", SETTINGS)
def test_everything_happens(name: str) -> None:
    for seed in range(15):
        drive(driver(name, seed, kinds=EVERYTHING), 60)


@pytest.mark.parametrize("name", SETTINGS)
def test_nodes_come_and_go(name: str) -> None:
    for seed in range(15):
        drive(driver(name, seed, kinds=QUIET | NODES), 60)


def test_every_kind_of_fact_is_among_the_random_ones() -> None:
    """A new kind of fact needs an event in testing/fuzz.py, or an entry in DECISIONS."""
    happened: set[type] = set()
    for seed in range(20):
        driven = driver("tiresias-l", seed, kinds=EVERYTHING)
        for _ in range(200):
            driven.happen()
            happened |= {type(fact) for fact in driven.given}
    assert happened == set(get_args(f.Fact)) - DECISIONS


@pytest.mark.parametrize("name", CROWDED)
def test_hundreds_of_jobs(name: str) -> None:
    """So many that chunks of the ranking split and vanish."""
    driven = driver(name, 1, kinds=QUIET | PEOPLE, most=400)
    for _ in range(300):  # a crowd
        driven.happen()
        for _ in range(2):
            driven.handle([fact for fact in [driven._submit(set())] if fact])
        if driven.rng.random() < 0.2:
            check_consistent(driven)
    drive(driven, 150, anew=0.02)


class Recorder(Controller):
    """Keeps of each promotion the seconds that its job has waited and executed since its last one."""

    def __init__(self, *parts: Any):
        self.promotions: list[tuple[float, float]] = []
        self._last: dict[int, tuple[float, float]] = {}  # by job: its last promotion, what it had executed
        super().__init__(*parts)

    def handle(self, facts: Iterable[f.Fact], step: Step) -> bool:
        is_planned = super().handle(facts, step)
        for fact in step.facts:
            if isinstance(fact, f.JobPromoted):
                job = self.state.jobs[fact.job_id]
                since, before_s = self._last.get(job.id, (job.submitted_at, 0.0))
                executed_s = job.executed_s - before_s
                self.promotions.append((fact.at - since - executed_s, executed_s))
                self._last[job.id] = (fact.at, job.executed_s)
        return is_planned


def promotions(kinds: Collection[str]) -> list[tuple[float, float]]:
    """(seconds waited, seconds executed) of every promotion while these things happen."""
    found: list[tuple[float, float]] = []
    for seed in range(60):
        policy = policies.make("tiresias-l", PROMOTING)
        recorder = Recorder(State(Cluster.of(3, 4)), policy, placers.make("packed" if seed % 2 else "count"))
        drive(RandomDriver(recorder, Random(seed), kinds=kinds), 150, anew=0.1)
        found += recorder.promotions
    assert len(found) > 50, "hardly any job was promoted"
    return found


def test_a_job_is_promoted_as_soon_as_it_starves(within: Any) -> None:
    """It starves when it has waited twice as long as it has executed, both since its last promotion."""
    with within(300):  # a promotion that is due and not decided would be due for ever
        found = promotions(QUIET - {"finish"})
    assert all(waited_s >= 2 * executed_s - 1e-5 for waited_s, executed_s in found)
    at_once = [waited_s for waited_s, executed_s in found if waited_s <= 2 * executed_s + 1e-5]
    assert len(at_once) > len(found) / 2, "the others starved already while they were saving"


def test_no_job_is_promoted_too_early_whatever_happens(within: Any) -> None:
    with within(300):
        found = promotions(EVERYTHING - {"finish", "cancel", "fail", "fail waiting"})
    assert all(waited_s >= 2 * executed_s - 1e-5 for waited_s, executed_s in found)
