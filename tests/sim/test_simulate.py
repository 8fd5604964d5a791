"""`simulate` from a trace to a Result: inputs, rejections, interruptions, figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.model import Cluster, Rank
from tiresias.core.plugins import OptionError, Policy
from tiresias.core.state import JobState
from tiresias.placers.packed import Packed
from tiresias.sim.engine import WATCH_EVERY
from tiresias.sim.errors import InputError
from tiresias.sim.frames import from_frame
from tiresias.sim.simulate import simulate
from tiresias.testing import a_trace

ROWS = [(0.0, 4, 10.0), (1.0, 2, 10.0), (2.0, 2, 4.0)]


def frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"submitted_at": [0.0, 1.0], "gpus": [1, 1], "duration_s": [5.0, 2.0], **columns})


def test_a_trace_may_be_a_frame_a_name_a_path_or_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    frame(id=["a", "b"]).write_csv(path)
    for trace in (frame(), path, str(path), a_trace([(0.0, 1, 5.0), (1.0, 1, 2.0)])):
        assert simulate(trace, "1x1", "fifo").jobs["finished_at"].to_list() == [5, 7]
    assert simulate("builtin:example", "1x2", "fifo").jobs.height == 3


def test_a_cluster_and_plug_ins_may_be_named_or_given() -> None:
    by_name = simulate(a_trace(ROWS), "2x2", "srtf", options={"min_run_s": "3"}, placer="packed")
    given = simulate(a_trace(ROWS), Cluster.of(2, 2), "srtf", options={"min_run_s": 3.0}, placer=Packed())
    assert by_name.jobs.equals(given.jobs)
    assert given.placer == "packed"
    assert given.options == {"min_run_s": 3.0, "protect": 0.25}


def test_jobs_come_out_in_the_order_of_the_trace_with_its_names() -> None:
    jobs = simulate(a_trace(ROWS, id=["z", "y", "x"], user=["u", "v", "w"]), "1x4", "fifo").jobs
    assert jobs["id"].to_list() == ["z", "y", "x"]
    assert jobs["user"].to_list() == ["u", "v", "w"]
    assert jobs["finished_at"].to_list() == [10, 20, 14]
    assert jobs["wait_s"].to_list() == [0, 9, 8]
    assert jobs["jct_s"].to_list() == [10, 19, 12]


def test_what_can_never_fit_is_rejected_and_counted() -> None:
    result = simulate(a_trace([(0.0, 9, 5.0), (0.0, 8, 5.0), (0.0, 99, 1.0)]), "2x4", "fifo")
    assert result.rejected_jobs == 2
    assert result.jobs["gpus"].to_list() == [8]
    assert result.summary()["jobs"] == 1


def test_a_trace_in_which_nothing_fits() -> None:
    summary = simulate(a_trace([(0.0, 9, 5.0)]), "2x4", "fifo").summary()
    assert (summary["jobs"], summary["rejected_jobs"]) == (0, 1)
    assert summary["avg_jct_s"] is None
    assert summary["makespan_s"] is None


def test_the_figures_of_a_summary() -> None:
    summary = simulate(a_trace(ROWS), "1x4", "fifo", preemption_cost_s=0).summary()
    assert summary["avg_jct_s"] == pytest.approx((10 + 19 + 12) / 3)
    assert summary["p50_jct_s"] == 12
    assert summary["max_jct_s"] == 19
    assert summary["makespan_s"] == 20
    assert summary["gpu_utilization"] == pytest.approx((40 + 20 + 8) / (4 * 20))
    assert summary["preemptions"] == 0
    assert summary["lost_gpu_s"] == 0


def test_the_timeline_has_the_use_of_the_cluster() -> None:
    rows = simulate(a_trace(ROWS), "1x4", "fifo").timeline.rows()
    assert rows == [(0, 4, 1, 0), (1, 4, 1, 1), (2, 4, 1, 2), (10, 4, 2, 0), (14, 2, 1, 0), (20, 0, 0, 0)]


def test_a_long_timeline_is_thinned_and_keeps_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = a_trace([(10.0 * nth, 1, 5.0 + nth % 3) for nth in range(40)])
    whole = simulate(trace, "1x2", "fifo").timeline.rows()
    for most in (8, 10, 16, 33):
        monkeypatch.setattr("tiresias.sim.result.TIMELINE_ROWS", most)
        thinned = simulate(trace, "1x2", "fifo").timeline.rows()
        assert set(thinned) <= set(whole)
        assert len(thinned) <= most
        assert thinned[-1] == whole[-1], "the cluster is empty at the end"


def test_the_journal_is_one_fact_a_line_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    simulate(a_trace(ROWS), "1x4", "fifo", journal=path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line["version"] == f.VERSION for line in lines)
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    kinds = [line["kind"] for line in lines]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "JobSubmitted": 3,
        "RunExited": 3,
        "RunGranted": 3,
        "RunStarted": 3,
    }
    assert lines[0]["job"]["demand"]["gpus"] == 4
    granted = next(line for line in lines if line["kind"] == "RunGranted")
    assert granted["allocation"] == [[0, 15]]


class StopsAt(Policy):
    """First in, first out, until somebody presses Ctrl-C while it ranks the job of this number."""

    name = "stops-at"
    number = 5

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        if job.id == self.number:
            raise KeyboardInterrupt
        return ()


def test_interrupted_it_returns_what_was_measured_so_far(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    trace = a_trace([(float(10 * nth), 1, 15.0) for nth in range(10)])
    result = simulate(trace, "1x4", StopsAt(), journal=path)
    assert result.interrupted
    assert result.jobs["finished_at"].to_list() == [15, 25, 35, 45]
    assert result.summary()["jobs"] == 4
    assert result.progress_gpu_s == pytest.approx(4 * 15 + 10), "the fifth was under way"
    assert json.loads(path.read_text().splitlines()[-1])["at"] <= 50


def test_interrupted_before_anything_finished() -> None:
    trace = a_trace([(float(nth), 1, 1000.0) for nth in range(10)])
    summary = simulate(trace, "1x4", StopsAt()).summary()
    assert summary["jobs"] == 0
    assert summary["avg_jct_s"] is None


def test_interrupted_from_the_progress_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[simulate.__module__], "PROGRESS_EVERY_S", 0.0)
    calls: list[tuple[int, int, float]] = []

    def progress(done: int, total: int, at: float) -> None:
        calls.append((done, total, at))
        raise KeyboardInterrupt

    jobs = 2 * WATCH_EVERY
    result = simulate(
        a_trace([(float(nth), 1, 0.5) for nth in range(jobs)]), "1x1", "fifo", progress=progress
    )
    assert result.interrupted
    assert len(calls) == 1
    done, total, at = calls[0]
    assert total == jobs
    assert result.jobs.height == done
    assert 0 < done < jobs
    assert at == pytest.approx(done, abs=1)


@pytest.mark.parametrize("cost_s", [-1.0, float("nan"), float("inf")])
def test_a_cost_that_is_none_is_refused(cost_s: float) -> None:
    with pytest.raises(InputError, match="preemption cost"):
        simulate(a_trace(ROWS), "1x4", "fifo", preemption_cost_s=cost_s)


@pytest.mark.parametrize(
    "columns",
    [
        {"gpus": [-1, 1]},
        {"gpus": [None, 1]},
        {"duration_s": [0.0, 1.0]},
        {"duration_s": [-1.0, 1.0]},
        {"duration_s": [float("inf"), 1.0]},
        {"duration_s": [None, 1.0]},
        {"submitted_at": [float("nan"), 1.0]},
        {"submitted_at": ["soon", "later"]},
        {"priority": ["urgent", "low"]},
        {"id": ["same", "same"]},
        {"colour": ["red", "blue"]},
        {"duration_s": [float("nan"), 1.0]},
        {"preemption_cost_s": [-600.0, 1.0]},
        {"preemption_cost_s": [float("nan"), 1.0]},
        {"gpus": [1.5, 1.0]},
    ],
)
def test_a_frame_that_is_no_trace_is_refused_before_anything_runs(columns: dict[str, list[Any]]) -> None:
    bad = frame().with_columns(pl.Series(key, values, strict=False) for key, values in columns.items())
    with pytest.raises(InputError, match="data frame"):
        from_frame(bad)


def test_a_frame_that_lacks_a_column_says_which() -> None:
    with pytest.raises(InputError, match="no column 'duration_s'"):
        simulate(frame().drop("duration_s"), "1x1", "fifo")


def test_an_oracle_without_durations_is_an_error_that_names_it() -> None:
    with pytest.raises(OptionError, match="no policy 'srft'; did you mean"):
        simulate(frame(), "1x1", "srft")


def test_a_frame_is_sorted_by_submission_and_ties_stay_in_its_order() -> None:
    rows = pl.DataFrame({"submitted_at": [5.0, 0.0, 0.0], "gpus": [1, 1, 1], "duration_s": [1.0, 2.0, 4.0]})
    jobs = simulate(rows, "1x1", "fifo").jobs
    assert jobs["id"].to_list() == ["1", "2", "0"]
    assert jobs["finished_at"].to_list() == [2, 6, 7]


def test_an_empty_trace() -> None:
    summary = simulate(a_trace([]), "1x1", "fifo").summary()
    assert (summary["jobs"], summary["events"], summary["avg_jct_s"]) == (0, 0, None)


def test_a_job_that_is_not_preemptible_keeps_its_gpus() -> None:
    """The long one comes first; shortest-first would stop it for the short one, if it might."""
    rows = {"submitted_at": [0.0, 1.0], "gpus": [1, 1], "duration_s": [50.0, 2.0]}
    ends = {
        given: simulate(
            pl.DataFrame({**rows, "preemptible": [given, None]}), "1x1", "srsf", preemption_cost_s=0.0
        )
        .jobs["finished_at"]
        .to_list()
        for given in (None, True, False)
    }
    assert ends == {None: [52, 3], True: [52, 3], False: [50, 52]}
