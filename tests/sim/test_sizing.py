"""How many GPUs a trace needs: the smallest size that passes, beside one that does not."""

from __future__ import annotations

import polars as pl
import pytest

from tiresias.sim import simulate, sizing, traces
from tiresias.sim.errors import InputError, TraceError
from tiresias.sim.frames import from_frame


@pytest.fixture(scope="module")
def testbed():
    return traces.load("builtin:testbed-480")


def test_the_answer_passes_and_one_node_fewer_does_not(testbed):
    found = sizing.size(testbed, 1800.0, gpus_per_node=4, policy="fifo-skip")
    waits = {
        nodes: simulate(testbed, f"{nodes}x4", "fifo-skip").summary()["p95_wait_s"]
        for nodes in (found.answer.nodes, found.answer.nodes - 1)
    }
    assert waits[found.answer.nodes] <= 1800.0 < waits[found.answer.nodes - 1]
    assert found.answer.gpus == 4 * found.answer.nodes
    assert [each.nodes for each in found.tried] == sorted(each.nodes for each in found.tried)
    assert found.answer in found.tried


def test_a_cluster_holds_at_least_the_widest_job():
    frame = pl.DataFrame({"submitted_at": [0.0, 1e6], "gpus": [33, 1], "duration_s": [10.0, 10.0]})
    found = sizing.size(from_frame(frame), 1e9, gpus_per_node=8, policy="fifo")
    assert found.answer.nodes == 5


def test_jobs_that_all_come_at_once_need_all_gpus_to_wait_for_nothing():
    frame = pl.DataFrame({"submitted_at": [0.0] * 10, "gpus": [1] * 10, "duration_s": [100.0] * 10})
    found = sizing.size(from_frame(frame), 0.0, gpus_per_node=1, policy="fifo")
    assert found.answer.gpus == 10


def test_no_larger_cluster_is_tried_than_one_on_which_all_jobs_run_at_once():
    """The load of jobs that come within a second is thousands of GPUs."""
    frame = pl.DataFrame({"submitted_at": [0.0, 0.5, 1.0], "gpus": [1, 1, 2], "duration_s": [3600.0] * 3})
    found = sizing.size(from_frame(frame), 0.0, gpus_per_node=2, policy="fifo")
    assert max(each.gpus for each in found.tried) == 4


def test_the_plot_shows_sizes_and_the_answer(testbed, tmp_path):
    found = sizing.size(testbed, 1800.0, gpus_per_node=4, policy="fifo-skip")
    [axes] = found.plot().axes
    assert axes.get_xlabel() == "GPUs"
    assert f"{found.answer.gpus:,} GPUs" in [text.get_text() for text in axes.get_legend().get_texts()]
    sizing.draw(found, tmp_path / "size.png")
    assert (tmp_path / "size.png").read_bytes().startswith(b"\x89PNG")


# --- columns of others ----------------------------------------------------------------------------------

FOREIGN = "job,submit,num_gpu,run_s,gpus\na,0,2,100,A100\nb,5,1,50,V100\n"
COLUMNS = {"gpus": "num_gpu", "submitted_at": "submit", "duration_s": "run_s", "id": "job"}


def test_columns_of_a_foreign_table_are_named(tmp_path):
    path = tmp_path / "foreign.csv"
    path.write_text(FOREIGN)
    trace = traces.load(path, columns=COLUMNS)
    assert trace.jobs["gpus"].to_list() == [2, 1]
    assert trace.jobs["id"].to_list() == ["a", "b"]
    assert "gpus (not mapped)" in " ".join(trace.notes)


def test_quoted_headers_are_understood(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('"the job","submit, at","num gpu","run"\n"a, b",0,2,100\n')
    columns = {"id": "the job", "submitted_at": "submit, at", "gpus": "num gpu", "duration_s": "run"}
    assert traces.load(path, columns=columns).jobs["id"].to_list() == ["a, b"]


def test_a_bad_row_is_named_by_its_line(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(FOREIGN + "c,9,many,50,V100\n")
    with pytest.raises(TraceError, match="line 4"):
        traces.load(path, columns=COLUMNS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"gpus": "num_gpus"}, "has no column 'num_gpus'; it has job, submit"),
        ({"gpu": "num_gpu"}, "there is no column gpu; known: "),
    ],
)
def test_a_name_that_is_wrong_is_refused_with_those_that_are_right(tmp_path, columns, message):
    path = tmp_path / "foreign.csv"
    path.write_text(FOREIGN)
    with pytest.raises(TraceError, match=message):
        traces.load(path, columns=columns)


def test_a_trace_without_jobs_has_no_size():
    frame = pl.DataFrame(schema={"submitted_at": pl.Float64, "gpus": pl.Int64, "duration_s": pl.Float64})
    with pytest.raises(InputError, match="no jobs"):
        sizing.size(from_frame(frame), 1.0, policy="fifo")
