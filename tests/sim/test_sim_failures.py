"""Trials of simulated jobs that fail: what is drawn, what it takes, and what the rules spare."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import Demand, Job, JobId
from tiresias.sim.errors import InputError
from tiresias.sim.failures import CLASSES, JOBS, Failures, Rules, drawn, failures_of
from tiresias.sim.result import Result
from tiresias.sim.simulate import simulate
from tiresias.testing import a_trace, story_of

MANY = 20_000
LONG_S = 1e9


def a_job(id: int, gpus: int = 1, duration_s: float = 5000.0, at: float = 0.0) -> Job:
    return Job(JobId(id), Demand(gpus), at, duration_s=duration_s)


def first_of(*, is_transient: bool, trials: int = 1, duration_s: float = 5000.0) -> int:
    """The first job that draws a failure of this sort, which does not come at the end of its work."""
    for id in range(100_000):
        of = drawn(0, JobId(id), duration_s)
        is_such = of and (of.kind.is_transient, len(of.fail_at_s)) == (is_transient, trials)
        if is_such and max(of.fail_at_s) < duration_s:
            return id
    raise AssertionError("no such job")


def alone(id: int, failures: str, *, gpus: int = 2, duration_s: float = 5000.0) -> Result:
    """The job of this number in its trace, all others being so short and early that they do not matter."""
    rows = [(float(nth), gpus if nth == id else 1, duration_s if nth == id else 1.0) for nth in range(id + 1)]
    return simulate(a_trace(rows), "1x64", "fifo", failures=failures)


# --- what is drawn --------------------------------------------------------------------------------------


def test_jobs_fail_as_often_and_for_the_reasons_of_the_table() -> None:
    found = [of for id in range(MANY) if (of := drawn(3, JobId(id), LONG_S))]
    share = sum(kind.jobs for kind in CLASSES) / JOBS
    assert len(found) / MANY == pytest.approx(share, rel=0.05)
    counts = Counter(of.kind.name for of in found)
    for kind in CLASSES:
        if kind.jobs > 1500:
            assert counts[kind.name] / MANY == pytest.approx(kind.jobs / JOBS, rel=0.2), kind.name
            trials = statistics.fmean(len(of.fail_at_s) for of in found if of.kind is kind)
            assert trials == pytest.approx(kind.trials / kind.jobs, rel=0.15), kind.name


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_trials_last_as_long_as_in_the_table(kind) -> None:
    for part, minutes in ((0.5, kind.p50_min), (0.9, kind.p90_min), (0.95, kind.p95_min)):
        assert kind.work_s(part) == pytest.approx(minutes * 60)
    grid = [kind.work_s(nth / 200) for nth in range(1, 200)]
    assert grid == sorted(grid)
    assert grid[0] >= 1.0
    assert math.isclose(kind.work_s(0.9999), kind.p95_min * 60), "the table says nothing of longer ones"


def test_a_trial_that_would_fail_after_the_end_of_the_job_fails_at_its_end() -> None:
    short = [of for id in range(MANY // 10) if (of := drawn(0, JobId(id), 60.0))]
    assert max(at for of in short for at in of.fail_at_s) == 60.0


def test_the_seed_changes_what_is_drawn_and_the_policy_does_not() -> None:
    def failed(policy: str, failures: str) -> Result:
        return simulate("builtin:testbed-480", "15x4", policy, failures=failures)

    las, fifo = failed("las", "philly"), failed("fifo-skip", "philly")
    assert las.jobs["id"].to_list() == fifo.jobs["id"].to_list()
    assert las.summary()["failed_runs"] == fifo.summary()["failed_runs"]
    assert las.jobs["id"].to_list() != failed("las", "philly,seed=1").jobs["id"].to_list()


# --- what it takes --------------------------------------------------------------------------------------


def test_a_transient_failure_costs_the_work_of_its_trials_and_then_the_job_ends_well() -> None:
    id = first_of(is_transient=True, trials=2)
    fail_at_s = drawn(0, JobId(id), 5000.0).fail_at_s
    result = alone(id, "philly")
    job = result.jobs.filter(pl.col("duration_s") == 5000.0).row(0, named=True)
    assert (job["runs"], job["preemptions"]) == (3, 0)
    assert job["jct_s"] == pytest.approx(sum(fail_at_s) + 5000.0)
    assert job["slowdown"] == 1.0, "its trials were not slow"


def test_another_failure_ends_the_job_after_all_its_trials() -> None:
    id = first_of(is_transient=False, trials=3)
    fail_at_s = drawn(0, JobId(id), 5000.0).fail_at_s
    result = alone(id, "philly")
    assert result.jobs.filter(pl.col("duration_s") == 5000.0).height == 0
    others = simulate(a_trace([(0.0, 1, 1.0)] * id), "1x64", "fifo", failures="philly").summary()
    summary = result.summary()
    assert summary["failed_jobs"] == others["failed_jobs"] + 1
    assert summary["failed_runs"] == others["failed_runs"] + 3
    assert summary["failed_gpu_s"] - others["failed_gpu_s"] == pytest.approx(2 * sum(fail_at_s))
    assert summary["jobs"] + summary["failed_jobs"] == id + 1
    assert result.unfinished_jobs == 0


def test_a_preempted_trial_goes_on_and_fails_at_the_same_work() -> None:
    """Two jobs in turn on one GPU: what a trial has done survives a preemption, and not its failure."""
    rows = [(0.0, 1, 40_000.0)] * 60
    story = story_of(a_trace(rows), "1x8", "las", preemption_cost_s=30.0, failures="philly")
    progress: dict[int, float] = {}
    grants = story.grants()
    failed = 0
    for fact in story.facts:
        if not isinstance(fact, f.RunExited):
            continue
        job = grants[fact.run_id].job_id
        if fact.cause is ExitCause.PREEMPTED:
            assert fact.progress_s >= progress.get(job, 0.0)
            progress[job] = fact.progress_s
        elif fact.cause in (ExitCause.RETRIED, ExitCause.FAILED):
            failed += 1
            assert fact.progress_s == 0.0
            progress[job] = 0.0
    assert failed > 5
    assert story.result.summary()["preemptions"] > 50


def test_work_of_failed_trials_is_not_use_of_the_cluster() -> None:
    with_, without = (
        simulate("builtin:testbed-480", "15x4", "fifo", failures=each) for each in ("philly", None)
    )
    work = (without.jobs["gpus"] * without.jobs["duration_s"]).sum()
    done = (with_.jobs["gpus"] * with_.jobs["duration_s"]).sum()
    assert without.progress_gpu_s == pytest.approx(work)
    assert with_.progress_gpu_s == pytest.approx(done)
    assert "failed_jobs" not in without.summary()


# --- rules ----------------------------------------------------------------------------------------------


def test_no_retry_spares_the_trials_after_the_first_one_and_no_transient_ones() -> None:
    id = first_of(is_transient=False, trials=3)
    with_, without = (alone(id, each).summary()["failed_gpu_s"] for each in ("philly,no-retry", "philly"))
    assert with_ < without
    transient = first_of(is_transient=True, trials=2)
    job = alone(transient, "philly,no-retry").jobs.filter(pl.col("duration_s") == 5000.0)
    assert job["runs"].to_list() == [3]


def test_a_preflight_finds_what_fails_early_and_delays_what_does_not() -> None:
    failures = Failures(Rules(preflight_s=100.0, pool=1))
    fine = next(id for id in range(1000) if drawn(0, JobId(id), 5000.0) is None)
    assert failures.preflight(a_job(fine, gpus=2)) == (100.0, False)
    early = next(
        id
        for id in range(1000)
        if (of := drawn(0, JobId(id), 5000.0)) and not of.kind.is_transient and of.fail_at_s[0] < 100.0
    )
    over_at, is_failure = failures.preflight(a_job(early, gpus=4))
    assert is_failure
    assert over_at == 100.0 + drawn(0, JobId(early), 5000.0).fail_at_s[0], "it waits for the one GPU"
    assert failures.tally.preflight_gpu_s == over_at
    assert failures.preflight(a_job(early, gpus=1)) is None, "it would take as much as it spares"


def test_with_a_preflight_a_gang_that_fails_early_never_holds_its_gpus() -> None:
    id = next(
        id
        for id in range(2000)
        if (of := drawn(0, JobId(id), 5000.0)) and not of.kind.is_transient and 1 < of.fail_at_s[0] < 50.0
    )
    rows = [(float(nth), 64 if nth == id else 1, 5000.0 if nth == id else 1.0) for nth in range(id + 1)]
    story = story_of(a_trace(rows), "1x64", "fifo", failures="philly,preflight=60,pool=1000")
    granted = {fact.job_id for fact in story.facts if isinstance(fact, f.RunGranted)}
    failed = [fact for fact in story.facts if isinstance(fact, f.JobFailed) and fact.job_id == id]
    assert id not in granted
    assert [fact.at for fact in failed] == [id + drawn(0, JobId(id), 5000.0).fail_at_s[0]]
    assert story.result.summary()["failed_in_preflight"] >= 1
    assert story.result.unfinished_jobs == 0


@pytest.mark.parametrize("policy", ["tiresias-l", "themis", "gandiva", "optimus", "philly", "two-level"])
def test_rules_save_gpu_time_under_every_kind_of_policy(policy: str) -> None:
    found = {
        rules: simulate("builtin:testbed-480", "15x4", policy, failures=f"philly{rules}").summary()
        for rules in ("", ",no-retry", ",no-retry,preflight=120")
    }
    lost = [each["failed_gpu_s"] for each in found.values()]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] > 1.5 * lost[1]
    assert len({each["failed_jobs"] for each in found.values()}) == 1, "the same jobs fail, only sooner"
    told = [each["avg_until_failed_s"] for each in found.values()]
    assert told[0] > told[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("phily", "'phily' are not known; write philly"),
        ("philly,retry", "'retry' is not a rule"),
        ("philly,preflight", "'preflight' is not a rule"),
        ("philly,preflight=-1", "preflight=-1 is not a number of seconds above 0"),
        ("philly,preflight=nan", "preflight=nan is not a number"),
        ("philly,pool=0", "pool=0 is not 1 GPU or more"),
        ("philly,seed=1.5", "seed=1.5 is not a whole number"),
        ("philly,no-retry,no-retry", "no-retry is given twice"),
    ],
)
def test_failures_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        failures_of(text)


def test_without_failures_nothing_is_drawn() -> None:
    assert failures_of(None) is None
    assert failures_of("none") is None
