"""The sizes of elastic jobs in our own format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.sim import traces
from tiresias.sim.simulate import jobs_of
from tiresias.sim.traces import TraceError

HEAD = "submitted_at,gpus,duration_s,nodes,min_gpus,max_gpus\n"


def read(tmp_path: Path, *rows: str) -> list[tuple[int, int, int]]:
    path = tmp_path / "jobs.csv"
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return [(job.demand.least, job.demand.gpus, job.demand.most) for job in jobs_of(traces.load(path))]


def test_a_range_around_the_reference_size_is_read_and_an_empty_one_is_no_range(tmp_path: Path) -> None:
    rows = ("0,2,60,,1,8", "1,2,60,,,8", "2,2,60,,1,", "3,2,60,,,", "4,2,60,,2,2")
    assert read(tmp_path, *rows) == [(1, 2, 8), (2, 2, 8), (1, 2, 2), (2, 2, 2), (2, 2, 2)]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("0,2,60,,3,8", "column min_gpus: '3' is above gpus"),
        ("0,2,60,,1,1", "column max_gpus: '1' is below gpus"),
        ("0,2,60,,0,4", "column min_gpus: '0' is below 1"),
        ("0,2,60,,1.5,4", "column min_gpus: '1.5' is not a whole number"),
        ("0,0,60,,,4", "column gpus: '0' is 0, and a job without GPUs has no sizes"),
        ("0,2,60,2,1,4", "column nodes: '2' is given for a job that may have several sizes"),
    ],
)
def test_a_range_that_makes_no_sense_is_named_with_its_line(tmp_path: Path, row: str, why: str) -> None:
    with pytest.raises(TraceError) as refused:
        read(tmp_path, row)
    assert "line 2" in str(refused.value)
    assert why in str(refused.value)
