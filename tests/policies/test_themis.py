"""`themis` and `ftf`: who is worst off comes first, leases hold, and apps are groups of jobs."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.plugins import OptionError, policies
from tiresias.sim import traces
from tiresias.sim.simulate import simulate
from tiresias.testing import Harness, a_trace, story_of
from tiresias.testing.floods import flooded_trace

BOTH = ("themis", "ftf")


@pytest.mark.parametrize("name", BOTH)
def test_a_run_is_not_stopped_before_its_lease_is_over(name: str) -> None:
    scene = Harness(name, gpus=1, options={"lease_s": "600"})
    scene.pending("long", duration_s=36000.0).plan()
    scene.submit("short", duration_s=600.0)
    assert scene.wait(599.0).preempted == []
    assert scene.wait(1.5).preempted == ["long"], "the short job is worse off"


@pytest.mark.parametrize("name", BOTH)
def test_every_lease_of_a_trace_is_kept(name: str) -> None:
    story = story_of(flooded_trace(1, hours=6), "8x8", name)
    grants = story.grants()
    until = {}
    for fact in story.facts:
        if isinstance(fact, f.WishChanged):
            until.update({each.job_id: each.until for each in fact.given if each.until is not None})
        if isinstance(fact, f.RunRevoked):
            assert fact.at >= until[grants[fact.run_id].job_id] - 1e-3, fact


@pytest.mark.parametrize("name", BOTH)
def test_whoever_is_best_off_gives_its_gpus_away_and_not_whoever_came_last(name: str) -> None:
    scene = Harness(name, gpus=2, options={"lease_s": "600"})
    scene.pending("long", duration_s=360_000.0).pending("last", duration_s=1200.0).plan()
    scene.submit("new", duration_s=900.0)
    assert scene.wait(601.0).preempted == ["long"]


def test_a_new_job_waits_for_a_round_and_not_for_a_whole_lease() -> None:
    """Leases of 600 s that began at 0 and 300: at 900 some are over, though no multiple of 600 is."""
    scene = Harness("themis", gpus=2, options={"lease_s": "600", "rounds": "2"})
    scene.pending("long", duration_s=360_000.0).plan()
    scene.wait(310.0)
    scene.submit("longer", duration_s=720_000.0)
    scene.wait(300.0)
    scene.submit("new", duration_s=700.0)
    assert scene.wait(291.0).preempted == ["long"]


def test_a_gang_is_not_outbid_for_ever() -> None:
    """Jobs on one GPU gain more per GPU by a round than a gang that has waited for hours: seed 1 of the
    testbed trace has a gang of 16 that waited for three hours and a half while it was the worst off."""
    trace = traces.generate("builtin:testbed-480", seed=1)
    gangs = [
        simulate(trace, "15x4", "themis", options={"f": f}).rho().filter(pl.col("gpus") == 16)["rho"].max()
        for f in ("0", "0.8")
    ]
    assert gangs[1] < 2.0 < gangs[0]


def test_between_rounds_nobody_is_preempted_and_what_is_free_is_used() -> None:
    scene = Harness("themis", gpus=2)
    scene.pending("a", gpus=1, duration_s=5000.0).plan()
    scene.submit("wide", gpus=2, duration_s=600.0)
    plan = scene.submit("narrow", gpus=1, duration_s=700.0)
    assert (plan.preempted, plan.started) == ([], ["narrow"])


def test_jobs_of_a_group_are_one_app() -> None:
    """Ten jobs of one search compete with one job: with apps by group, the job is one of two."""
    rows = [(0.0, 1, 3000.0)] * 11
    groups = ["search"] * 10 + [""]
    ungrouped = simulate(a_trace(rows), "1x2", "themis").jobs["finished_at"][10]
    grouped = simulate(a_trace(rows, group=groups), "1x2", "themis").jobs["finished_at"][10]
    assert grouped < ungrouped


def test_themis_and_ftf_have_a_smaller_worst_rho_than_policies_without_durations() -> None:
    trace = traces.generate("builtin:testbed-480", seed=1)
    worst = {
        name: simulate(trace, "15x4", name).summary()["max_rho"]
        for name in (*BOTH, "tiresias-l", "fifo-skip", "las", "philly", "two-level")
    }
    assert max(worst[name] for name in BOTH) < min(worst[name] for name in worst if name not in BOTH)
    assert worst["tiresias-l"] > 1.5 * worst["themis"]


def test_f_trades_fairness_for_gpu_time() -> None:
    """In the mean over five traces; single ones differ."""
    worst: list[float] = []
    jain: list[float] = []
    service: list[float] = []
    seeds = [traces.generate("builtin:testbed-480", seed=seed) for seed in range(1, 6)]
    for each in ("0", "0.8", "1"):
        found = [simulate(trace, "15x4", "themis", options={"f": each}) for trace in seeds]
        worst.append(fmean(result.summary()["max_rho"] for result in found))
        jain.append(fmean(result.summary()["jain"] for result in found))
        service.append(sum(result.jobs["service_gpu_s"].sum() for result in found))
    assert worst == sorted(worst, reverse=True)
    assert jain == sorted(jain)
    assert service[0] < service[1]


@pytest.mark.parametrize("name", BOTH)
def test_in_a_flood_nobody_is_much_worse_off_than_the_flood_itself(name: str) -> None:
    """The promise against starvation: rho bounds the wait of every job, however large."""
    flood = [(nth * 300 / 16, 1, 300.0) for nth in range(16 * 48)]
    rows = sorted([*flood, (600.0, 1, 900.0), (601.0, 4, 900.0), (602.0, 8, 900.0)])
    tenants = ["b" if row[2] == 300 else "a" for row in rows]
    result = simulate(a_trace(rows, tenant=tenants), "2x4", name)
    rho = result.rho()
    worst = rho.group_by("tenant").agg(pl.col("rho").max()).sort("tenant")["rho"].to_list()
    assert worst[0] <= 1.2 * worst[1], worst


def test_a_waiting_job_is_told_its_rho() -> None:
    scene = Harness("themis", gpus=1)
    scene.pending("a", duration_s=5000.0).plan()
    scene.submit("b", duration_s=600.0)
    assert "rho" in (scene.why("b") or Any).text


def test_durations_need_not_be_known() -> None:
    scene = Harness("ftf", gpus=1)
    scene.pending("a").pending("b").plan()
    assert len(scene.wait(1300.0).preempted) == 1, "who has waited is worse off"


@pytest.mark.parametrize(
    ("options", "said"),
    [({"f": "1.2"}, "0 to 1"), ({"f": "-1"}, "0 to 1"), ({"lease_s": "0"}, "more than 0")],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        policies.make("themis", options)


@pytest.mark.parametrize("name", BOTH)
def test_a_lease_shorter_than_a_preemption_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="lease_s=30 is not longer than a preemption"):
        simulate(a_trace([(0.0, 1, 10.0)]), "1x1", name, options={"lease_s": "30"})
