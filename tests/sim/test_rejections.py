"""Jobs that the cluster can never run are left out before the simulation, counted and named."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tiresias.core.model import Cluster, Node
from tiresias.sim import simulate, traces
from tiresias.sim.errors import InputError
from tiresias.testing import a_trace

MIXED = Cluster([Node("n0", 4, gpu_type="P100", cpus=20), Node("n1", 4, gpu_type="K80", cpus=16)])
ROWS = [(0.0, 4, 10.0)] * 5


def test_jobs_that_ask_for_a_type_that_no_node_has_are_rejected() -> None:
    kinds = ["P100", "H100", "", "H100", "V100"]
    result = simulate(a_trace(ROWS, id=list("abcde"), gpu_type=kinds), MIXED, "tiresias-l")
    assert result.jobs["id"].to_list() == ["a", "c"]
    assert (result.rejected_jobs, result.unfinished_jobs) == (3, 0)
    assert result.rejections == [
        "2 jobs rejected (b, d): each asks for GPUs of type H100, and there are 4 P100, 4 K80; "
        "ask for what there is",
        "1 job rejected (e): it asks for GPUs of type V100, and there are 4 P100, 4 K80; "
        "ask for what there is",
    ]


def test_jobs_get_the_type_they_ask_for() -> None:
    rows = [(0.0, 2, 10.0), (0.0, 4, 10.0), (0.0, 2, 10.0)]
    result = simulate(a_trace(rows, gpu_type=["K80", "K80", "P100"]), MIXED, "fifo-skip")
    assert result.jobs["finished_at"].to_list() == [10, 20, 10]


def test_cores_and_memory_are_those_of_the_whole_gang() -> None:
    result = simulate(a_trace(ROWS[:3], cpus=[20, 21, None]), MIXED, "fifo-skip")
    assert result.rejected_jobs == 1
    assert "asks for GPUs with 5.25 cores each, and no node has more than 5" in result.rejections[0]


def test_jobs_that_are_too_large_and_those_of_an_unknown_type_have_different_reasons() -> None:
    rows = [(0.0, 9, 10.0), (0.0, 1, 10.0)]
    result = simulate(a_trace(rows, gpu_type=["H100", "H100"]), MIXED, "fifo")
    assert result.rejections[0] == "1 job rejected: larger than the cluster's 8 GPUs"
    assert len(result.rejections) == result.rejected_jobs == 2


def test_only_some_reasons_are_shown() -> None:
    rows = [(0.0, 1, 1.0)] * 6
    result = simulate(a_trace(rows, gpu_type=list("abcdef")), MIXED, "fifo")
    assert result.rejected_jobs == 6
    assert result.rejections[-1] == "3 jobs more rejected: they ask for what no node has either"


def test_the_columns_of_our_own_format(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submitted_at,gpus,duration_s,gpu_type,cpus,memory_gib\n0,4,10,P100,16,64.5\n0,1,10,,,\n")
    jobs = traces.load(path).jobs
    assert jobs.select("gpu_type", "cpus", "memory_gib").rows() == [("P100", 16, 64.5), ("", None, None)]
    traces.write(traces.load(path), tmp_path / "again.csv")
    assert traces.load(tmp_path / "again.csv").jobs.equals(jobs)


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [("cpus", "1.5", "is not a whole number"), ("cpus", "0", "is below 1"), ("memory_gib", "0", "above 0")],
)
def test_an_impossible_demand(tmp_path: Path, column: str, cell: str, expected: str) -> None:
    (tmp_path / "bad.csv").write_text(f"submitted_at,gpus,duration_s,{column}\n0,1,10,{cell}\n")
    with pytest.raises(traces.TraceError, match=f"line 2, column {column}: '{cell}' .*{expected}"):
        traces.load(tmp_path / "bad.csv")


def test_a_data_frame_is_checked_too() -> None:
    frame = pl.DataFrame({"submitted_at": [0.0], "gpus": [1], "duration_s": [1.0], "cpus": [0]})
    with pytest.raises(InputError, match="is not a job"):
        simulate(frame, "1x4")


@pytest.mark.parametrize("policy", ["fifo", "themis", "gandiva", "philly"])
def test_a_trace_of_which_every_job_is_rejected_has_an_empty_result(policy: str) -> None:
    result = simulate(a_trace([(0.0, 16, 10.0)]), "1x8", policy)
    assert (result.jobs.height, result.timeline.height, result.rejected_jobs) == (0, 0, 1)
    assert result.summary()["avg_jct_s"] is None
