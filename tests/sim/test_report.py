"""Results as files and pictures, and what a grid of results says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tiresias.sim import plots, report, simulate
from tiresias.sim.errors import InputError
from tiresias.sim.report import OBJECTS, SUMMARY_KEYS, SweepFile, SweepRow, frontier


def row(cluster: str, gpus: int, policy: str, jct_h: float, **changes: object) -> SweepRow:
    figures = dict.fromkeys(SUMMARY_KEYS[1:], 0.0) | {"placer": "packed", "gpus": gpus}
    figures |= {"avg_jct_s": jct_h * 3600, "rejected_jobs": changes.pop("rejected", 0)}
    seed = changes.pop("seed", None)
    assert not changes
    return SweepRow(f"{cluster}-{policy}-{seed}", "1", "t", seed, cluster, policy, "", 60.0, figures)


def marks(rows: list[SweepRow]) -> dict[tuple[str, str], str]:
    """For each point: b if it is its cluster's best, p if it is Pareto-optimal."""
    return {
        (point.cluster, point.policy): "b" * point.is_best + "p" * point.is_pareto for point in frontier(rows)
    }


def test_the_summary_has_the_promised_keys():
    keys = simulate("builtin:example", "1x2", "fifo").summary()
    assert tuple(key for key in keys if key not in OBJECTS) == SUMMARY_KEYS


def test_json_has_no_numbers_that_json_does_not_have():
    assert json.loads(report.to_json({"a": [math.nan, math.inf, 1.5]})) == {"a": [None, None, 1.5]}


class TestFrontier:
    def test_the_best_of_a_size_is_optimal_where_no_smaller_cluster_is_as_fast(self):
        found = marks(
            [
                row("6x8", 48, "fifo", 9.0),
                row("6x8", 48, "las", 5.0),
                row("7x8", 56, "fifo", 6.0),  # slower than las on fewer GPUs
                row("8x8", 64, "las", 4.0),
            ]
        )
        assert found == {
            ("6x8", "fifo"): "",
            ("6x8", "las"): "bp",
            ("7x8", "fifo"): "b",
            ("8x8", "las"): "bp",
        }

    def test_equals_are_both_optimal_and_shapes_of_one_size_compete(self):
        found = marks([row("8x8", 64, "a", 4.0), row("8x8", 64, "b", 4.0), row("16x4", 64, "a", 5.0)])
        assert found == {("8x8", "a"): "bp", ("8x8", "b"): "bp", ("16x4", "a"): "b"}

    def test_seeds_are_averaged_and_a_point_without_all_of_them_is_not_compared(self):
        rows = [
            row("1x8", 8, "a", 2.0, seed=1),
            row("1x8", 8, "a", 4.0, seed=2),
            row("1x8", 8, "b", 1.0, seed=1),
        ]
        points = {point.policy: point for point in frontier(rows)}
        assert points["a"].avg_jct_s == 3.0 * 3600
        assert points["a"].is_best
        assert not points["b"].is_best

    def test_a_cluster_that_rejects_more_jobs_is_not_compared(self):
        assert marks([row("1x4", 4, "a", 1.0, rejected=2), row("1x8", 8, "a", 2.0)]) == {
            ("1x4", "a"): "",
            ("1x8", "a"): "bp",
        }

    def test_a_point_where_no_job_finished_is_not_compared(self):
        assert marks([row("1x4", 4, "a", math.nan), row("1x4", 4, "b", 2.0)]) == {
            ("1x4", "a"): "",
            ("1x4", "b"): "bp",
        }


class TestSweepFile:
    def test_what_is_appended_is_read_back(self, tmp_path):
        written = row("2*1x4", 8, "a", 1 / 3, seed=7)
        written.trace = 'a "strange", name\nin two lines'
        written.figures["makespan_s"] = None  # no job finished
        with SweepFile(tmp_path / "g.csv") as file:
            file.append(written)
        with SweepFile(tmp_path / "g.csv") as file:
            (read,) = file.rows.values()
        assert read.trace == 'a "strange", name in two lines'
        assert (read.key, read.seed, read.cluster) == (written.key, 7, "2*1x4")
        assert read.number("avg_jct_s") == written.number("avg_jct_s")
        assert math.isnan(read.number("makespan_s"))

    def test_a_row_is_on_disk_before_the_next_cell_runs(self, tmp_path):
        with SweepFile(tmp_path / "g.csv") as file:
            file.append(row("1x4", 4, "a", 1.0))
            assert len((tmp_path / "g.csv").read_text().splitlines()) == 2

    @pytest.mark.parametrize("cut", [1, 5, 60])
    def test_however_the_last_line_is_torn_the_others_are_kept(self, tmp_path, cut):
        path = tmp_path / "g.csv"
        with SweepFile(path) as file:
            for policy in ("a", "b"):
                file.append(row("1x4", 4, policy, 1.0))
        path.write_bytes(path.read_bytes()[:-cut])
        with SweepFile(path) as file:
            assert [each.policy for each in file.rows.values()] == ["a"]
            file.append(row("1x4", 4, "b", 1.0))
        assert len(path.read_text().splitlines()) == 3

    def test_a_file_of_another_kind_is_left_alone(self, tmp_path):
        path = tmp_path / "g.csv"
        path.write_text("id,gpus\n1,2\n")
        with pytest.raises(InputError, match="not the table of a sweep"), SweepFile(path):
            pass
        assert path.read_text() == "id,gpus\n1,2\n"


class TestPlots:
    def test_thinning_keeps_mean_lowest_and_highest(self):
        at = np.array([0.0, 1.0, 1.5, 4.0, 10.0])
        value = np.array([2.0, 8.0, 0.0, 4.0, 0.0])
        edges, mean, low, high = plots.thin(at, value, 5)
        assert edges.tolist() == [0, 2, 4, 6, 8, 10]
        assert mean.tolist() == [(2 * 1 + 8 * 0.5) / 2, 0.0, 4.0, 4.0, 4.0]
        assert low.tolist() == [0, 0, 4, 4, 4]
        assert high.tolist() == [8, 0, 4, 4, 4]

    @pytest.mark.parametrize("jobs", [0, 1, 3])
    def test_few_jobs_or_none_still_make_pictures(self, tmp_path, jobs):
        result = simulate("builtin:example", "1x2", "fifo")
        result.trace_name = "costs $5 and $6"  # not a formula
        result.jobs = result.jobs.head(jobs)
        result.timeline = result.timeline.head(jobs)
        plots.draw_jct_cdf([result], tmp_path / "a.png")
        plots.draw_timeline(result, tmp_path / "b.png")
        assert (tmp_path / "a.png").stat().st_size > 5000
        assert (tmp_path / "b.png").stat().st_size > 5000

    def test_a_picture_does_not_grow_with_the_trace(self):
        many = np.sort(np.random.default_rng(1).lognormal(8, 2, 200_000))
        x, y = plots._steps(many)
        assert len(x) <= plots.POINTS + 1
        assert (y[0], y[-1]) == (0.0, 1.0)
        assert x[-1] == many[-1]
