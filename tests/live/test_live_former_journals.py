"""A manager opens the journal of an earlier version, with jobs in every phase, and goes on where it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core.model import JobId
from tiresias.live.clock import Clock
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller
from tiresias.store import Chosen, Store, redecide, replay
from tiresias.testing.still import NoProcesses

HERE = Path(__file__).parent
ROOT = Caller("root", is_admin=True)
WRITTEN_AT = 1_700_000_300.0  # later than its last fact
LATER_AT = 1_700_200_000.0  # the job `begins` may begin

WERE = {  # as the manager that wrote the journal showed them
    1: ("done", "SUCCEEDED", 1),
    2: ("fails", "RUNNING", 2),
    3: ("running", "RUNNING", 1),
    4: ("low", "PENDING", 0),
    5: ("after", "PENDING", 0),
    6: ("begins", "PENDING", 0),
    7: ("tried", "PENDING", 0),
    8: ("tried (preflight)", "SUCCEEDED", 1),
    9: ("a", "PENDING", 0),
    10: ("a", "PENDING", 0),
    11: ("a", "PENDING", 0),
    12: ("held", "HELD", 0),
    13: ("cancelled", "CANCELLED", 0),
}


@pytest.fixture(params=["journal_0_1_0.sql"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / "journal.db")
    connection.executescript((HERE / request.param).read_text(encoding="utf-8"))
    connection.close()
    return tmp_path


def test_every_job_is_where_it_was_and_can_finish(home: Path) -> None:
    executor = NoProcesses()
    with Store.open(home / "journal.db", home=home) as store:
        at = [WRITTEN_AT]
        clock = Clock(at[0], wall=lambda: at[0], steady=lambda: at[0])
        manager = Manager.open(home, store, executor, Machine.fake(4), Chosen("fifo"), clock=clock)
        found, *_ = manager.queries.summaries(ROOT, ended=True)
        assert {job.id: (job.name, job.phase, job.runs) for job in found} == WERE
        assert manager.queries.policy()["name"] == "tiresias-l"
        assert manager.queries.limits(ROOT)["bob"].max_running_gpus == 4
        [node] = manager.queries.nodes.all()
        assert [(slot.state, slot.reason) for slot in node.slots][3] == ("out", "fan")
        failed_once = manager.queries.detail(ROOT, JobId(2))
        assert (failed_once.retries, failed_once.retries_used) == (1, 1)
        assert [run.cause for run in failed_once.runs] == ["retried", None]
        assert manager.queries.detail(ROOT, JobId(3)).time_limit_s == 86400.0
        assert manager.queries.detail(ROOT, JobId(1)).env_names == ["PATH", "SECRET"]

        manager.requests.release(ROOT, JobId(12))
        manager.requests.undrain(ROOT, "box:3")
        at[0] = LATER_AT
        for _ in range(100):
            for run in list(manager.state.runs):
                executor.finish(run)
            manager.poll()
            manager.tick()
            manager.flush()
            if not manager.state.jobs:
                break
        ended, *_ = manager.queries.summaries(ROOT, ended=True)
        phases = {job.name: job.phase for job in ended}
        assert phases.pop("cancelled") == "CANCELLED"
        assert set(phases.values()) == {"SUCCEEDED"}
        assert redecide(replay(store)) is None
    executor.close()
