"""Real traces: the authors' 60 jobs under every policy, and Philly against figures measured independently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tiresias.policies  # noqa: F401  (for what it registers)
from tiresias.core import invariants
from tiresias.core.controller import Controller
from tiresias.core.model import Cluster
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.sim.engine import Engine
from tiresias.sim.rejections import rejections
from tiresias.sim.simulate import jobs_of, simulate
from tiresias.sim.trace import Trace
from tiresias.sim.traces import load
from tiresias.sim.world import World
from tiresias.testing import story_of
from tiresias.testing.checkers import check_story

pytestmark = pytest.mark.data

RealTrace = Callable[[str], Path]
POLICIES = ["fifo", "fifo-skip", "sjf", "srtf", "srsf", "las", "tiresias-l", "tiresias-g"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_authors_60_jobs(policy: str, real_trace: RealTrace) -> None:
    trace = load(real_trace("tiresias-60-jobs.csv"))
    story = story_of(trace, "4x4", policy)
    check_story(story)
    assert story.result.jobs.height == 60


def philly(real_trace: RealTrace, jobs: int) -> Trace:
    trace = load(real_trace("philly.csv.gz"))
    return Trace(trace.name, trace.jobs.head(jobs))


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("tiresias-l", {}),
        ("tiresias-l", {"queues": "3250", "order": "first-start"}),
        ("tiresias-g", {"queues": "3250,50000"}),
        ("fifo", {}),
    ],
    ids=["tiresias-l", "tiresias-l first-start", "tiresias-g", "fifo"],
)
def test_the_books_are_in_order_on_a_crowded_philly(
    policy: str, options: dict[str, str], real_trace: RealTrace
) -> None:
    """8,000 jobs on a cluster too small for them, looked at now and then: hundreds wait at a time."""
    trace, cluster = philly(real_trace, 8000), Cluster.of(8, 8)
    controller = Controller(State(cluster), policies.make(policy, options), placers.make("packed"))
    ended, instants, most = [], 0, 0

    def look(at: float) -> None:
        nonlocal instants, most
        instants += 1
        most = max(most, controller.state.waiting)
        if instants % 199 == 0:
            invariants.check_plan(controller)

    jobs = jobs_of(trace, rejections(trace, cluster).rows)
    engine = Engine(controller, World(60.0), jobs, ended.append, on_instant=look)
    engine.run()
    assert most > 300
    assert not controller.state.jobs
    assert len(ended) == int((trace.jobs["gpus"] <= cluster.gpus).sum())


def average_jct(real_trace: RealTrace, policy: str) -> float:
    result = simulate(real_trace("philly.csv.gz"), "64x8", policy, placer="count", preemption_cost_s=0)
    assert result.jobs.height == 82_247
    average: float = result.summary()["avg_jct_s"]
    return average


def test_philly_fifo(real_trace: RealTrace) -> None:
    assert average_jct(real_trace, "fifo") == pytest.approx(488_935, rel=0.005)


@pytest.mark.soak  # 40 s each: the order is compared job by job with the naive simulator elsewhere
def test_philly_srtf(real_trace: RealTrace) -> None:
    assert average_jct(real_trace, "srtf") == pytest.approx(17_375, rel=0.005)


@pytest.mark.soak
def test_philly_srsf(real_trace: RealTrace) -> None:
    assert average_jct(real_trace, "srsf") == pytest.approx(15_359, rel=0.005)
