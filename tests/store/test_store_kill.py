"""SIGKILL during writes: every acknowledged commit is there, and no commit is there in part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from select import select

from store_worlds import assert_same

from tiresias.core import invariants
from tiresias.core.model import INFINITY
from tiresias.store import Store, redecide, replay

KILLS = 16
COMMITTER = Path(__file__).with_name("store_committer.py")


def killed_after(path: Path, seed: int, lines: int, more_bytes: int) -> int:
    """Let the process commit `lines` times, kill it during the next commit, return what it printed last."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, str(COMMITTER), str(path), str(seed)],
        stdout=subprocess.PIPE,
        env=environment,
    ) as child:
        assert child.stdout is not None
        printed = [child.stdout.readline() for _ in range(lines)]
        assert all(printed), "it ended by itself"
        wal = path.with_name(path.name + "-wal")
        size = wal.stat().st_size
        while abs(wal.stat().st_size - size) < more_bytes and child.poll() is None:
            if select([child.stdout], [], [], 0)[0]:  # the next commit has returned already
                break
            os.sched_yield()
        child.kill()
        printed += child.stdout.readlines()
    return max(int(line) for line in printed if line.endswith(b"\n"))


def test_no_acknowledged_commit_is_lost_and_none_is_stored_in_part(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    rng = Random(3)
    for kill in range(KILLS):
        acknowledged = killed_after(path, kill, rng.randrange(1, 25), rng.randrange(1, 20_000))
        with Store.open(path) as store:
            assert store.damage() == []
            assert store.last_seq >= acknowledged, ("an acknowledged commit is lost", kill)
            check_whole(store)


def check_whole(store: Store) -> None:
    """The tables agree with the facts, and every step is there with all its decisions."""
    loaded = store.load()
    invariants.check(loaded.state)
    replayed = replay(store)
    difference = redecide(replayed)
    assert difference is None, difference
    assert_same(loaded.state, replayed.state, loaded.policy.save)
    facts = list(store.all_facts(replayed.since))
    assert [stored.seq for stored in facts] == list(range(replayed.since + 1, store.last_seq + 1))
    ended = store.history.page(10**6)[0]
    assert not loaded.state.jobs.keys() & {job.id for job in ended}
    known = loaded.state.jobs.keys() | {job.id for job in ended}
    assert sorted(known) == list(range(1, store.next_job_id)), "a job is neither active nor ended"
    for job in ended:
        assert job.ended_at is not None
        assert job.ended_at < INFINITY
        runs = store.runs(job.id)
        assert [run.number for run in runs] == list(range(1, job.runs + 1))
        assert all(run.exited_at is not None and run.exit == {"code": 0, "signal": None} for run in runs)
    for id in loaded.submissions:
        assert loaded.submissions[id]["command"] == ["train", str(id)]
    assert loaded.submissions.keys() == loaded.state.jobs.keys() == loaded.managed.keys()
    assert [run.id for run in loaded.open_runs] == list(loaded.state.runs)
