"""Generated traces: the paper's numbers exactly, Philly's closely, the same on every machine."""

from __future__ import annotations

import hashlib

import polars as pl
import pytest

from tiresias.sim.trace import OPTIONAL, SCHEMA
from tiresias.sim.traces import BUILTINS, TraceError, describe, generate, load, write


def digest(trace, tmp_path):
    write(trace, tmp_path / "t.csv")
    return hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", BUILTINS)
def test_every_builtin_loads_in_order_and_whole(name):
    trace = load(f"builtin:{name}")
    assert trace.name == name
    assert trace.jobs.schema == pl.Schema(SCHEMA)
    assert trace.jobs["submitted_at"].is_sorted()
    assert trace.jobs["submitted_at"][0] == 0.0
    assert trace.jobs["id"].is_unique().all()
    assert trace.jobs.drop(OPTIONAL).null_count().sum_horizontal().item() == 0


def test_the_example_is_the_papers():
    jobs = generate("example").jobs
    assert jobs.select("id", "submitted_at", "gpus", "duration_s").rows() == [
        ("J1", 0.0, 2, 2.0),
        ("J2", 0.0, 1, 8.0),
        ("J3", 0.0, 2, 6.0),
    ]


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_the_testbed_has_the_papers_counts_for_every_seed(seed):
    jobs = generate("testbed-480", seed=seed).jobs
    sizes = dict(jobs["gpus"].value_counts().sort("gpus").iter_rows())
    assert sizes == {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
    models = dict(jobs["model"].value_counts().iter_rows())
    assert len(models) == 10
    assert set(models.values()) == {48}
    assert {"VGG19", "AlexNet", "ResNet152", "Inception4", "GoogLeNet"} <= set(models)
    short = pl.col("duration_s") < 800
    small = pl.col("gpus") <= 4
    assert jobs.filter(small & short).height == 305
    assert jobs.filter(small & ~short).height == 55
    assert jobs.filter(~small & short).height == 79
    assert jobs.filter(~small & ~short).height == 41
    assert jobs.filter((pl.col("duration_s") < 120) | (pl.col("duration_s") >= 7200)).height == 0


def test_the_testbed_arrives_every_30_s_on_average_at_random():
    gaps = pl.concat(
        [generate("testbed-480", seed=s).jobs["submitted_at"].diff().drop_nulls() for s in range(20)]
    )
    assert gaps.mean() == pytest.approx(30.0, rel=0.03)
    assert gaps.std() == pytest.approx(30.0, rel=0.05)  # as a Poisson process has
    assert gaps.median() == pytest.approx(20.8, rel=0.05)


def test_short_and_long_jobs_of_the_testbed_are_log_uniform():
    durations = pl.concat([generate("testbed-480", seed=s).jobs["duration_s"] for s in range(20)])
    assert durations.filter(durations < 800).median() == pytest.approx((120 * 800) ** 0.5, rel=0.05)
    assert durations.filter(durations >= 800).median() == pytest.approx((800 * 7200) ** 0.5, rel=0.05)


def test_size_model_and_time_are_shuffled_by_the_seed():
    a, b = generate("testbed-480", seed=1).jobs, generate("testbed-480", seed=2).jobs
    for column in ("gpus", "model", "duration_s", "submitted_at"):
        assert a[column].to_list() != b[column].to_list()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("example", {}, "14e7d73639f8c6b4"),
        ("testbed-480", {}, "2157e86204fbfb3d"),
        ("philly-like", {}, "1eaa91df1b40e693"),
        ("philly-like", {"jobs": 1000, "load": 1.2, "cluster_gpus": 64, "seed": 7}, "30a208ddb1918b4c"),
        ("philly-like", {"recurring": 0.6}, "79512fb38bd28339"),
    ],
)
def test_the_same_seed_gives_the_same_bytes_everywhere(tmp_path, name, options, expected):
    assert digest(generate(name, **options), tmp_path) == expected


def test_philly_like_has_the_published_mix_and_gpu_time():
    sizes = {size["gpus"]: size for size in describe(generate("philly-like", jobs=82_247))["sizes"]}
    published = {
        1: (0.9317, 0.181),
        2: (0.0221, 0.032),
        4: (0.0227, 0.167),
        8: (0.0200, 0.484),
        16: (0.0024, 0.115),
    }
    for gpus, (jobs_share, service_share) in published.items():
        assert sizes[gpus]["jobs_share"] == pytest.approx(jobs_share, abs=0.0002)
        assert sizes[gpus]["service_share"] == pytest.approx(service_share, abs=0.01)
    assert sizes[32]["service_share"] == pytest.approx(0.018, abs=0.003)
    assert (sizes[64]["jobs"], sizes[128]["jobs"]) == (6, 3)


@pytest.mark.parametrize("jobs", [5_000, 82_247])
def test_philly_like_has_the_published_durations(jobs):
    found = describe(generate("philly-like", jobs=jobs, seed=3))
    published_s = {"p10": 61, "p25": 115, "p50": 1144, "p75": 2932, "p90": 11266, "p95": 43648, "p99": 254884}
    for level, seconds in published_s.items():
        assert found["duration_s"][level] == pytest.approx(seconds, rel=0.08), level
    assert found["duration_s"]["mean"] == pytest.approx(13_136, rel=0.08)
    published_gpu_s = {"p50": 1186, "p75": 3171, "p90": 12_678, "p95": 62_434}
    for level, gpu_s in published_gpu_s.items():
        assert found["service_gpu_s"][level] == pytest.approx(gpu_s, rel=0.08), level


@pytest.mark.parametrize(
    ("jobs", "load", "cluster_gpus"), [(2000, 0.5, 64), (2000, 1.0, 8), (100, 2.0, 10_000), (20_000, 0.9, 1)]
)
def test_the_load_is_the_one_asked_for(jobs, load, cluster_gpus):
    found = describe(generate("philly-like", jobs=jobs, load=load, cluster_gpus=cluster_gpus))
    assert found["jobs"] == jobs
    assert found["busy_gpus"] == pytest.approx(load * cluster_gpus, rel=1e-4)


@pytest.mark.parametrize(("cluster_gpus", "largest"), [(1, 1), (7, 4), (64, 64), (127, 64), (128, 128)])
def test_no_job_is_larger_than_the_cluster(cluster_gpus, largest):
    assert generate("philly-like", jobs=100_000, cluster_gpus=cluster_gpus).jobs["gpus"].max() == largest


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_few_jobs_are_a_trace_too(jobs):
    trace = generate("philly-like", jobs=jobs, cluster_gpus=1)
    assert len(trace) == jobs
    assert trace.jobs["submitted_at"][0] == 0.0


def test_jobs_come_in_bursts_of_one_tenant():
    jobs = generate("philly-like", jobs=82_247, load=0.9, cluster_gpus=416).jobs
    gaps = jobs["submitted_at"].diff().drop_nulls()
    assert gaps.std() / gaps.mean() > 2  # a Poisson process has 1
    close = gaps < 15
    same = (jobs["tenant"][1:] == jobs["tenant"][:-1]).filter(close)
    assert close.mean() > 0.5
    assert same.mean() > 0.8


def test_nights_and_week_ends_are_quieter():
    at = generate("philly-like", jobs=300_000, load=0.9, cluster_gpus=416).jobs["submitted_at"]
    gaps = at.diff().fill_null(1e9)
    starts = at.filter(gaps > 60)
    hours = ((starts / 3600).floor() % 24).cast(pl.Int64)
    morning, midday = hours.is_in([6, 7, 8]).sum(), hours.is_in([12, 13, 14]).sum()
    assert morning > 1.1 * midday
    days = ((starts / 86400).floor() % 7).cast(pl.Int64)
    assert days.is_in([1, 2]).sum() > 1.15 * days.is_in([5, 6]).sum()


def test_a_seed_changes_when_jobs_are_submitted_but_hardly_their_mix():
    a, b = generate("philly-like", seed=1), generate("philly-like", seed=2)
    assert a.jobs["gpus"].to_list() != b.jobs["gpus"].to_list()
    assert a.jobs["gpus"].sort().to_list() == b.jobs["gpus"].sort().to_list()
    assert describe(a)["gpu_hours"] == pytest.approx(describe(b)["gpu_hours"], rel=0.1)


def test_a_million_jobs_take_seconds():
    assert len(generate("philly-like", jobs=1_000_000)) == 1_000_000


def test_the_notes_say_how_it_was_made():
    assert generate("philly-like", jobs=10, load=0.5, cluster_gpus=64, seed=9).notes == [
        "generated with seed 9: 10 jobs, load 0.5 of 64 GPUs"
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"jobs": 0}, "jobs 0: must be from 1"),
        ({"jobs": 10**9}, "jobs 1000000000: must be from 1 to 20,000,000"),
        ({"load": 0.0}, "load 0.0: must be a number"),
        ({"load": -1.0}, "load -1.0: must be a number"),
        ({"load": float("nan")}, "load nan: must be a number"),
        ({"load": float("inf")}, "load inf: must be a number"),
        ({"cluster_gpus": 0}, "cluster_gpus 0: must be from 1"),
        ({"recurring": -0.1}, "recurring -0.1: must be a share of the jobs from 0 to 1"),
        ({"recurring": 1.5}, "recurring 1.5: must be a share"),
        ({"recurring": float("nan")}, "recurring nan: must be a share"),
        ({"seed": -1}, "seed -1: a seed is a whole number from 0 up"),
    ],
)
def test_impossible_sizes(options, expected):
    with pytest.raises(TraceError, match=expected):
        generate("builtin:philly-like", **options)


@pytest.mark.parametrize("name", ["example", "testbed-480"])
def test_fixed_traces_take_no_options(name):
    with pytest.raises(TraceError, match="is fixed: it takes no jobs, load"):
        generate(name, jobs=5, load=0.5)


# Recurrence


@pytest.fixture(scope="module")
def named():
    """20,000 jobs by share of the jobs that recur."""
    return {
        share: generate("philly-like", jobs=20_000, recurring=share, seed=4).jobs for share in (0, 0.6, 1)
    }


def spread(jobs: pl.DataFrame, *by: str) -> float:
    """The variance of the logarithm of the durations within classes, as a share of that within sizes."""
    logs = jobs.with_columns(log=pl.col("duration_s").log())
    within = logs.select((pl.col("log") - pl.col("log").mean().over("gpus", *by)).pow(2).sum()).item()
    return within / logs.select((pl.col("log") - pl.col("log").mean().over("gpus")).pow(2).sum()).item()


def test_without_recurrence_nobody_has_a_name():
    jobs = generate("philly-like", jobs=500).jobs
    assert set(jobs["user"]) | set(jobs["name"]) == {""}


@pytest.mark.parametrize("share", [0, 0.6, 1])
def test_recurrence_changes_no_submission_no_size_and_no_duration_as_a_whole(named, share):
    plain, jobs = generate("philly-like", jobs=20_000, seed=4).jobs, named[share]
    for column in ("id", "submitted_at", "gpus", "tenant"):
        assert jobs[column].equals(plain[column]), column
    assert jobs["duration_s"].equals(plain["duration_s"]) == (share == 0)
    kept = [frame.select("gpus", "duration_s").sort("gpus", "duration_s") for frame in (plain, jobs)]
    assert kept[0].equals(kept[1])


def test_without_a_share_each_name_is_used_for_one_burst_and_tells_nothing(named):
    jobs = named[0].filter(pl.col("gpus") == 1)
    lots = jobs.group_by("name").agg(span=pl.col("submitted_at").max() - pl.col("submitted_at").min())
    assert len(lots) > 3000
    assert (lots["span"] > 86400).mean() < 0.01
    assert spread(named[0], "tenant", "user") > 0.95


def test_names_that_recur_come_again_on_other_days_and_tell_a_duration(named):
    jobs = named[1]
    days = jobs.with_columns(day=(pl.col("submitted_at") / 86400).floor())
    known = days.with_columns(days=pl.col("day").n_unique().over("tenant", "user", "name", "gpus"))
    assert (known["days"] >= 3).mean() > 0.7
    assert spread(jobs, "tenant", "user", "name") < 0.5 < spread(named[0], "tenant", "user", "name")


def test_about_the_share_of_the_jobs_has_a_name_that_recurs(named):
    same = named[0]["duration_s"] == named[0.6]["duration_s"]
    assert same.mean() == pytest.approx(0.4, abs=0.03)  # the others keep their durations


def test_a_name_belongs_to_one_user_one_tenant_and_one_size(named):
    for share in (0, 0.6, 1):
        owners = (
            named[share].group_by("name").agg(pl.struct("tenant", "user", "gpus").n_unique().alias("count"))
        )
        assert owners["count"].max() == 1


def test_the_notes_say_which_share_recurs():
    assert (
        generate("philly-like", jobs=10, recurring=0.25)
        .notes[0]
        .endswith("a share of 0.25 of the jobs recurs")
    )


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_few_jobs_may_recur_too(jobs):
    assert len(generate("philly-like", jobs=jobs, cluster_gpus=1, recurring=1)) == jobs
