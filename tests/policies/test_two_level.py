"""`two-level`: what a tenant owns, what is lent and recalled, and what a flood does to the others."""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Cluster
from tiresias.core.plugins import OptionError, placers, policies
from tiresias.core.state import State, is_schedulable
from tiresias.policies.two_level import REVIEW_S
from tiresias.sim.simulate import simulate
from tiresias.testing import Harness, a_trace
from tiresias.testing.floods import TENANTS, flooded_trace
from tiresias.testing.fuzz import QUIET, RandomDriver

EQUAL = dict.fromkeys(TENANTS, 1.0)


def lab(gpus: int = 8, **options: Any) -> Harness:
    return Harness("two-level", gpus=gpus, options=options)


def set_shares(lab: Harness, **shares: float) -> None:
    lab._happen(f.SharesSet(lab.at, shares))


def test_what_one_tenant_leaves_is_lent_and_recalled_when_it_has_a_job() -> None:
    scene = lab()
    for nth in range(8):
        scene.pending(f"b{nth}", tenant="b")
    assert len(scene.plan().started) == 8, "nobody else wants the GPUs"
    set_shares(scene, a=1, b=1)
    recalled = scene.submit("a0", gpus=4, tenant="a")
    assert len(recalled.preempted) == 4, "no more than what a owns and needs"
    plan = scene.exit(*recalled.preempted)
    assert plan.started == ["a0"]
    assert "tenant b has a share of 4 GPUs and holds 4" in (scene.why(recalled.preempted[0]) or Any).text


def test_a_tenant_gets_no_more_than_its_share_while_others_want_theirs() -> None:
    scene = lab()
    scene.pending("keeps", tenant="a").plan()
    set_shares(scene, a=1, b=3)
    for nth in range(8):
        scene.submit(f"a{nth}", tenant="a")
    plan = scene.submit("b0", gpus=4, tenant="b")
    assert len(plan.preempted) == 4
    assert len(scene.submit("b1", gpus=2, tenant="b").preempted) == 2
    assert not scene.submit("b2", gpus=1, tenant="b").preempted


def test_a_gang_above_the_share_of_its_tenant_runs_on_lent_gpus_and_may_be_preempted() -> None:
    scene = lab()
    scene.pending("large", gpus=8, tenant="a").plan()
    set_shares(scene, a=1, b=1)
    assert scene.state.wish is not None
    assert scene.state.wish.jobs[scene.job("large").id].lent
    assert scene.submit("b0", tenant="b").preempted == ["large"]


def test_a_tenant_that_got_less_than_its_share_is_the_first_to_which_gpus_are_lent() -> None:
    """The gang of a does not fit into its share, so a is behind; b has more than its share."""
    scene = Harness("two-level", gpus=8, options={"within_set": "queues=1e9"})
    scene.pending("b0", gpus=4, tenant="b").pending("b1", gpus=4, tenant="b", preemptible=False)
    scene.plan()
    set_shares(scene, a=2, b=2, c=4)
    scene.submit("large", gpus=4, tenant="a")
    assert scene.wait(10 * REVIEW_S).preempted == ["b0"], "what c leaves goes to a now"


def test_the_order_within_a_tenant_is_that_of_another_policy() -> None:
    scene = Harness("two-level", gpus=2, options={"within": "srsf"})
    scene.pending("long", gpus=2, duration_s=1000.0).plan()
    assert scene.submit("short", gpus=2, duration_s=10.0).preempted == ["long"]


def test_without_fairness_it_decides_as_the_policy_within() -> None:
    trace = flooded_trace(1, hours=12)
    ours = simulate(trace, "8x8", "two-level", options={"fairness": "0"}, shares=EQUAL)
    theirs = simulate(trace, "8x8", "tiresias-l")
    assert ours.jobs.equals(theirs.jobs)


def flooded(seed: int, fairness: str) -> tuple[list[float], float]:
    """Average JCT of each quiet tenant over that in a private cluster of its share, and of all jobs over that
    under tiresias-l."""
    trace = flooded_trace(seed)
    shared = simulate(trace, "8x8", "two-level", options={"fairness": fairness}, shares=EQUAL).summary()
    alone = [simulate(_of(trace, each), "2x8", "tiresias-l").summary()["avg_jct_s"] for each in TENANTS[:3]]
    tenants = [shared["tenants"][each]["avg_jct_s"] for each in TENANTS[:3]]
    whole = simulate(trace, "8x8", "tiresias-l").summary()["avg_jct_s"]
    return [mine / own for mine, own in zip(tenants, alone, strict=True)], shared["avg_jct_s"] / whole


def test_a_flood_harms_the_others_little_and_costs_little() -> None:
    """The others within 10 % of a private cluster of their share; the total within 20 % of tiresias-l.

    In the mean of the seeds: on seed 3 the total is 1.22 times that of tiresias-l if all of a share is kept,
    and 1.19 times if 95 % of it are.
    """
    totals = []
    for seed in (1, 2, 3, 4):
        quiet, total = flooded(seed, fairness="1")
        assert max(quiet) <= 1.1, (seed, quiet)
        totals.append(total)
    assert fmean(totals) <= 1.2, totals
    assert max(totals) <= 1.25, totals


@pytest.mark.parametrize("seed", [1, 3])
def test_with_95_percent_of_the_shares_kept_each_flood_costs_little(seed: int) -> None:
    quiet, total = flooded(seed, fairness="0.95")
    assert max(quiet) <= 1.1
    assert total <= 1.2


def test_with_less_fairness_the_others_suffer_more() -> None:
    trace = flooded_trace(1)
    waits = []
    for fairness in ("1", "0.6", "0"):
        result = simulate(trace, "8x8", "two-level", options={"fairness": fairness}, shares=EQUAL).summary()
        waits.append(sum(result["tenants"][tenant]["avg_jct_s"] for tenant in TENANTS[:3]))
    assert waits == sorted(waits)
    assert waits[2] > 1.2 * waits[0]


@pytest.mark.parametrize("seed", range(6))
def test_a_job_waits_only_if_its_tenant_would_have_more_than_its_share(seed: int) -> None:
    """The bound against sharing anomalies, at every plan: what HiveD calls one cannot begin."""
    controller = Controller(State(Cluster.of(3, 4)), policies.make("two-level"), placers.make("packed"))
    controller.handle([f.SharesSet(0.0, dict.fromkeys(("a", "b", ""), 1.0))], Step())
    driver = RandomDriver(controller, Random(seed), kinds=QUIET, sizes=(1, 1, 2, 3))
    refused = 0
    for _ in range(200):
        driver.happen()
        state = controller.state
        assert state.wish is not None
        jobs = [job for job in state.jobs.values() if job.gpus and is_schedulable(job)]
        taken = {entry.id for entry in controller.pinned()}
        if taken:
            continue  # their GPUs are out of reach
        for job in jobs:
            if job.id not in state.wish.jobs:
                given = [other for other in jobs if other.id in state.wish.jobs]
                has = sum(other.gpus for other in given if other.tenant == job.tenant)
                assert has + job.gpus > 4, (job.id, has)
                refused += 1
    assert refused, "nobody ever waited"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"within": "fifo"}, "fifo-skip"),
        ({"within": "two-level"}, "allocator"),
        ({"within": "nothing"}, "within='nothing'"),
        ({"within_set": "queues"}, "KEY=VALUE"),
        ({"within_set": "no_such=1"}, "no_such"),
        ({"fairness": "1.5"}, "0 to 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        policies.make("two-level", options)


def test_a_flood_cannot_keep_a_gang_as_large_as_the_share_from_running() -> None:
    rows = [(0.0, 1, 3600.0)] * 32 + [(100.0, 4, 600.0)]
    trace = a_trace(rows, tenant=["b"] * 32 + ["a"])
    result = simulate(trace, "1x8", "two-level", shares={"a": 1, "b": 1})
    [jct] = result.jobs.filter(pl.col("tenant") == "a")["jct_s"]
    assert jct <= 600 + 10, "it waits while four runs save"


def _of(trace: Any, tenant: str) -> Any:
    jobs = trace.jobs.filter(pl.col("tenant") == tenant)
    return jobs.select("submitted_at", "gpus", "duration_s", "tenant")
