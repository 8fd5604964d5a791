"""A comparison and a sweep as values for a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.sim import page, report
from tiresias.sim.experiment import compare, grid, sweep
from tiresias.sim.traces import load


def test_a_comparison_has_figures_and_curves_that_agree():
    trace = load("builtin:example")
    results = compare(trace, "1x2", ["fifo", "srsf"], workers=1).results
    shown = page.comparison(results, ["fifo", "srsf"], trace="example", cluster="1x2", notes=[])
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert (shown["gpus"], [each["label"] for each in shown["results"]]) == (2, ["fifo", "srsf"])
    for each, result in zip(shown["results"], results, strict=True):
        assert each["avg_jct_s"] == result.summary()["avg_jct_s"]
        assert each["cdf"] == sorted(each["cdf"])
        assert each["cdf"][-1] == 1.0
        step = shown["at"][1] - shown["at"][0]
        held = sum(each["busy_gpus"]) * step
        assert held == pytest.approx(result.jobs["service_gpu_s"].sum(), rel=0.02)


def test_a_sweep_has_its_points_and_says_which_are_best(tmp_path: Path):
    cells = grid(["1x2", "1x4"], ["fifo", "srsf"], options={}, seeds=[None])
    swept = sweep(cells, {None: load("builtin:example")}, tmp_path / "sweep.csv", workers=1)
    shown = page.sweep(report.frontier(swept.rows), notes=["a note"])
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert [(each["gpus"], each["policy"]) for each in shown["points"]].count((2, "fifo")) == 1
    assert {each["cluster"] for each in shown["points"] if each["is_best"]} == {"1x2", "1x4"}
