"""Traces with jobs that ask for no GPUs: they run beside the GPUs, in a simulation as live."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tiresias.sim import simulate
from tiresias.sim.traces.describe import describe
from tiresias.sim.traces.load import load

POLICIES = ("fifo", "fifo-skip", "las", "srtf", "srsf", "sjf", "tiresias-l", "tiresias-g", "tiresias")
JOBS = """id,submitted_at,gpus,duration_s,user,tenant,model
train,0,4,100,ann,vision,vgg16
summary,0,0,50,ann,vision,vgg16
waits,1,2,10,bob,speech,resnet50
"""


def trace(tmp_path: Path, text: str = JOBS) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("network", [None, "pcie-10g"])
def test_cpu_work_takes_nothing_from_the_others(tmp_path: Path, policy: str, network: str | None) -> None:
    with_it = simulate(trace(tmp_path), "2x2", policy, network=network)
    rows = "".join(line for line in JOBS.splitlines(keepends=True) if not line.startswith("summary"))
    without = simulate(trace(tmp_path, rows), "2x2", policy, network=network)
    assert (
        with_it.jobs.filter(pl.col("id") != "summary")
        .drop("row", strict=False)
        .equals(without.jobs.drop("row", strict=False))
    )
    [summary] = with_it.jobs.filter(pl.col("id") == "summary").iter_rows(named=True)
    assert (summary["jct_s"], summary["wait_s"], summary["service_gpu_s"]) == (50.0, 0.0, 0.0)
    for figure in ("gpu_utilization", "max_rho", "jain", "avg_nodes_per_job", "lost_gpu_s"):
        assert with_it.summary()[figure] == without.summary()[figure], figure


def test_only_so_many_run_at_once(tmp_path: Path) -> None:
    rows = "submitted_at,gpus,duration_s\n" + "0,0,10\n" * 6
    result = simulate(trace(tmp_path, rows), "1x2", "fifo")
    assert sorted(result.jobs["finished_at"]) == [10.0, 10.0, 20.0, 20.0, 30.0, 30.0]
    assert result.summary()["max_rho"] is None


def test_a_frame_may_have_them_and_a_trace_describes_them(tmp_path: Path) -> None:
    frame = pl.DataFrame({"submitted_at": [0.0], "gpus": [0], "duration_s": [5.0]})
    assert simulate(frame, "1x1", "tiresias-l").jobs["jct_s"].to_list() == [5.0]
    found = describe(load(trace(tmp_path)))
    assert [size["gpus"] for size in found["sizes"]] == [0, 2, 4]
    assert found["sizes"][0]["service_share"] == 0.0


def test_cores_and_memory_do_not_matter_to_them(tmp_path: Path) -> None:
    rows = "submitted_at,gpus,duration_s,cpus,memory_gib,gpu_type\n0,0,5,9999,9999,H100\n"
    result = simulate(trace(tmp_path, rows), "1x1", "tiresias-l")
    assert (result.jobs.height, result.rejected_jobs) == (1, 0)


def test_fewer_than_none_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="column gpus"):
        load(trace(tmp_path, "submitted_at,gpus,duration_s\n0,-1,5\n"))
