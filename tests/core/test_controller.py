"""Random facts straight into the Controller: the books stay in order, the plan is that of a recomputation."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiresias.policies  # noqa: F401  (for what it registers)
from tiresias.core.controller import Controller
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


def test_who_starves_is_promoted(within: Any) -> None:
    with within(10):
        for seed in range(15):
            drive(driver("tiresias-l promoting", seed, kinds=EVERYTHING), 60)
