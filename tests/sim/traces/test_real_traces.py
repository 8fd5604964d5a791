"""The real traces, where they are at hand: our numbers against the published ones."""

from __future__ import annotations

import pytest

from tiresias.sim.traces import describe, generate, load

pytestmark = pytest.mark.data


def needed(data, name):
    path = data / name
    if not path.exists():
        pytest.skip(f"{name} is not in TIRESIAS_DATA")
    return path


def test_philly_has_the_published_statistics(data):
    trace = load(needed(data, "philly.csv.gz"))
    found = describe(trace)
    assert (found["jobs"], found["tenants"], found["largest_gpus"]) == (82_247, 15, 128)
    assert found["gpu_hours"] == pytest.approx(978_078, abs=1)
    assert found["busy_gpus"] == pytest.approx(374, abs=0.5)
    assert found["duration_s"]["p50"] == 1144
    assert found["service_gpu_s"]["p50"] == 1186
    shares = {size["gpus"]: round(100 * size["service_share"], 1) for size in found["sizes"]}
    assert {gpus: shares[gpus] for gpus in (1, 2, 4, 8, 16, 32)} == {
        1: 18.1,
        2: 3.2,
        4: 16.7,
        8: 48.4,
        16: 11.5,
        32: 1.8,
    }
    assert trace.jobs["submitted_at"].is_sorted()
    assert trace.skipped_rows == 0


def test_philly_like_is_like_philly(data):
    real = describe(load(needed(data, "philly.csv.gz")))
    made = describe(generate("philly-like", jobs=82_247, load=0.9, cluster_gpus=416))
    for kind in ("duration_s", "service_gpu_s"):
        for level in ("p10", "p25", "p50", "p75", "p90", "p95", "p99", "mean"):
            assert made[kind][level] == pytest.approx(real[kind][level], rel=0.06), (kind, level)  # type: ignore[literal-required]
    assert made["span_s"] == pytest.approx(real["span_s"], rel=0.05)


def test_philly_like_comes_in_bursts_like_philly(data):
    real = load(needed(data, "philly.csv.gz")).jobs["submitted_at"]
    real = real.filter(real > real[0] + 20 * 86400)  # hardly a job a day before that
    made = generate("philly-like", jobs=len(real), load=0.9, cluster_gpus=416).jobs["submitted_at"]
    for level in (0.25, 0.5, 0.9):
        assert made.diff().quantile(level) == pytest.approx(real.diff().quantile(level), rel=0.25)
    assert made.diff().quantile(0.5) < 0.1 * made.diff().mean()
    by_hour = [((at - at[0]) / 3600).floor().value_counts()["count"] for at in (real, made)]
    for level in (0.5, 0.95, 0.99):
        assert by_hour[1].quantile(level) == pytest.approx(by_hour[0].quantile(level), rel=0.35)


def test_the_sixty_jobs_of_the_tiresias_simulator(data):
    trace = load(needed(data, "tiresias-60-jobs.csv"))
    assert trace.format == "tiresias-sim"
    found = describe(trace)
    assert {size["gpus"]: size["jobs"] for size in found["sizes"]} == {1: 30, 2: 10, 4: 10, 8: 10}
    assert (found["span_s"], trace.jobs["model"].n_unique()) == (1779.0, 10)
