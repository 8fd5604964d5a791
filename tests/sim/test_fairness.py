"""Finish-time fairness against a plain computation in small steps, and the shares of tenants."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from tiresias.sim import simulate
from tiresias.sim.clusters import read
from tiresias.sim.errors import ClusterError, InputError
from tiresias.sim.fairness import average_apps
from tiresias.sim.tenants import parse

Arrival = tuple[float, int, float, str]
FOUR_HOURS = 14_400.0


def plainly(jobs: list[Arrival], gpus: int, step_s: float) -> list[float]:
    """The average number of apps, by the definition: every job is advanced in small steps of time."""
    left = [duration_s for _, _, duration_s, _ in jobs]
    crowd, life = [0.0] * len(jobs), [0.0] * len(jobs)
    at = 0.0
    while any(seconds > 0 for seconds in left):
        active = [job for job, (submitted_at, *_) in enumerate(jobs) if submitted_at <= at and left[job] > 0]
        wants: dict[str | int, int] = {}
        for job in active:
            app = jobs[job][3] or job
            wants[app] = wants.get(app, 0) + jobs[job][1]
        for job in active:
            app = jobs[job][3] or job
            left[job] -= step_s * min(1.0, gpus / (len(wants) * wants[app]))
            crowd[job] += len(wants) * step_s
            life[job] += step_s
        at += step_s
    return [each / seconds for each, seconds in zip(crowd, life, strict=True)]


@pytest.mark.parametrize("seed", range(8))
def test_the_number_of_apps_is_that_of_a_computation_in_small_steps(seed: int) -> None:
    rng = Random(seed)
    groups = ("",) if seed < 2 else ("", "", "a", "b")
    jobs = sorted(
        (rng.uniform(0, 300), rng.choice((1, 2, 4)), rng.uniform(5, 100), rng.choice(groups))
        for _ in range(25)
    )
    expected = plainly(jobs, 4, step_s=0.02)
    assert list(average_apps(jobs, 4)) == pytest.approx(expected, rel=2e-3)


def test_two_jobs_that_share_a_cluster_for_ever_have_two_apps() -> None:
    assert list(average_apps([(0, 4, 100, ""), (0, 4, 100, "")], 4)) == [2.0, 2.0]


def test_the_jobs_of_one_group_are_one_app() -> None:
    assert list(average_apps([(0, 4, 100, "search"), (0, 4, 100, "search")], 4)) == [1.0, 1.0]


def two_tenants() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "submitted_at": [0, 0, 0],
            "gpus": [4, 4, 4],
            "duration_s": [FOUR_HOURS] * 3,
            "tenant": ["vision", "vision", "speech"],
        }
    )


def test_the_jobs_behind_in_a_strict_order_have_the_larger_rho() -> None:
    result = simulate(two_tenants(), "1x4", "fifo")
    assert result.rho()["rho"].to_list() == pytest.approx([1 / 3, 2 / 3, 1.0])
    figures = result.summary()
    assert figures["max_rho"] == pytest.approx(1.0)
    assert figures["p50_rho"] == pytest.approx(2 / 3)
    assert figures["jain"] == pytest.approx(4 / (3 * (1 / 9 + 4 / 9 + 1)))


def test_figures_by_tenant_with_shares_by_the_gpu_time_of_the_trace() -> None:
    figures = simulate(two_tenants(), "1x4", "fifo").summary()
    assert figures["shares"] == "trace"
    assert figures["tenants"] == {
        "speech": {
            "share_gpus": 1,
            "avg_jct_s": 3 * FOUR_HOURS,
            "p50_jct_s": 3 * FOUR_HOURS,
            "avg_wait_s": 2 * FOUR_HOURS,
            "max_rho": pytest.approx(1.0),
        },
        "vision": {
            "share_gpus": 3,
            "avg_jct_s": 1.5 * FOUR_HOURS,
            "p50_jct_s": 1.5 * FOUR_HOURS,
            "avg_wait_s": 0.5 * FOUR_HOURS,
            "max_rho": pytest.approx(2 / 3),
        },
    }


def test_given_shares_are_whole_gpus_and_all_of_them() -> None:
    figures = simulate(two_tenants(), "1x8", "fifo", shares={"vision": 2, "speech": 1}).summary()
    assert figures["shares"] == "given"
    assert [each["share_gpus"] for each in figures["tenants"].values()] == [3, 5]  # speech, vision


def test_shares_of_a_cluster_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "lab.yaml"
    file.write_text("nodes: [{gpus: 4}]\nshares: {vision: 1, speech: 1}\n")
    figures = simulate(two_tenants(), str(file), "fifo").summary()
    assert figures["shares"] == "cluster"
    assert [each["share_gpus"] for each in figures["tenants"].values()] == [2, 2]


def test_a_short_job_that_waits_a_little_is_not_treated_unfairly() -> None:
    jobs = pl.DataFrame({"submitted_at": [0, 0], "gpus": [1, 1], "duration_s": [60, 5]})
    _, short = simulate(jobs, "1x1", "fifo").rho()["rho"]
    assert short == pytest.approx(660 / 1200)  # half of the GPU would have been its part


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=-1", "a=-1 must be a number, 0 or more"),
        ("a=nan", "a=nan must be a number, 0 or more"),
        ("a=0,b=0", "all shares are 0; give at least one tenant more"),
        ("a", "'a' is not TENANT=WEIGHT; write for example a=3,b=1"),
        ("a=x", "a='x' is not a number; write for example a=3"),
        ("a=1,a=2", "a is given twice; give each tenant one weight"),
    ],
)
def test_shares_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        parse(text)


def test_a_share_of_a_tenant_that_is_not_in_the_trace_is_refused() -> None:
    with pytest.raises(InputError, match="tenant 'audio'; its tenants are 'speech', 'vision'"):
        simulate(two_tenants(), "1x4", "fifo", shares={"audio": 1})


@pytest.mark.parametrize("shares", ["{a: -1}", "{a: yes}", "{a: 0}", "[a]", "{}"])
def test_a_cluster_file_with_impossible_shares_is_refused(tmp_path, shares: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "lab.yaml"
    file.write_text(f"nodes: [{{gpus: 4}}]\nshares: {shares}\n")
    with pytest.raises(ClusterError, match=r"lab\.yaml: shares"):
        read(str(file))
