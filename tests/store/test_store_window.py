"""What happened since an instant: only what was there then is read."""

from __future__ import annotations

from pathlib import Path

from test_store_reading import Scene

from tiresias.core import facts as f
from tiresias.core.model import Demand, Job, JobId
from tiresias.store import Reader
from tiresias.store import window as w


def test_a_window_has_the_jobs_and_runs_that_were_there(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "journal.db")
    scene.submit(1, gpus=4, at=0.0)
    scene.submit(2, gpus=2, at=1.0, user="bob")
    scene.finish(1, at=10.0)
    scene.submit(3, gpus=4, at=11.0)
    scene.happen(f.JobSubmitted(12.0, Job(JobId(4), Demand(4), 12.0)), f.JobHeld(12.0, JobId(4)))
    with Reader(tmp_path / "journal.db") as reader:
        [late] = reader.window.runs(10.5, 100)
        assert (late.job_id, late.user, late.exited_at, late.allocation) == (2, "bob", None, ((0, 0b11),))
        assert [run.job_id for run in reader.window.runs(5.0, 100)] == [2, 1]
        assert [run.job_id for run in reader.window.runs(5.0, 1)] == [2], "the latest first"
        assert [job.id for job in reader.window.ended(10.0, 9)] == [1]
        assert reader.window.ended(10.5, 9) == []
        active = {job.id: job for job in reader.window.active()}
    assert (active[2].user, active[2].tenant, active[2].gpus) == ("bob", "lab", 2)
    assert (active[2].ready_at, active[2].first_started_at) == (1.0, 10.0)
    assert (active[3].ready_at, active[4].ready_at) == (11.0, None), "what is on hold does not wait"


def test_what_ended_before_the_window_is_not_even_looked_at(tmp_path: Path) -> None:
    """Both queries go through indexes; a table that is scanned would cost more with each job that ends."""
    scene = Scene(tmp_path / "journal.db")
    scene.submit(1, at=0.0)
    with Reader(tmp_path / "journal.db") as reader:
        for sql, values in ((w._ENDED, (0.0, 9)), (w._RUNS, (0.0, 9))):
            plan = [row[3] for row in reader._all(f"EXPLAIN QUERY PLAN {sql}", *values)]
            scanned = [step for step in plan if step.startswith("SCAN") and not step.startswith("SCAN jobs")]
            assert [step for step in scanned if "there" not in step] == [], plan
            assert any("history_by_end" in step for step in plan), plan
