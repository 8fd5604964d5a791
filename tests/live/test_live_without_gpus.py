"""Jobs without GPUs under a real manager: `-g 0`, beside the GPUs and after trainings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiresias.core import invariants
from tiresias.live.answers import Limits
from tiresias.live.errors import Invalid
from tiresias.live.submission import Caller, Submission
from tiresias.store import redecide, replay
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob")


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager finds four cores, whatever the machine has: two jobs without GPUs run at once."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))


def test_it_runs_beside_full_gpus_and_sees_none_of_them(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        train = lab.submit("sleep 600", gpus=2)
        lab.until_running(train)
        command = ("sh", "-c", 'echo "devices=[$CUDA_VISIBLE_DEVICES] slots=[$TIRESIAS_SLOTS]"')
        show = lab.submit(command, gpus=0)
        lab.until_ended(show)
        assert lab.of(show).phase == "SUCCEEDED"
        assert lab.output(show) == "devices=[] slots=[]\n"
        assert (lab.of(show).gpus, lab.of(show).service_gpu_s) == (0, 0.0)
        assert lab.of(train).phase == "RUNNING"
        [usage] = lab.manager.queries.usage(ADMIN, "user")
        assert usage.running_gpus == 2
        events = [event.text for event in lab.manager.queries.story(ADMIN, show)]
        assert events[0] == "submitted by ann without GPUs"
        invariants.check_plan(lab.manager.journal.controller)


def test_it_waits_for_what_it_depends_on(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        train = lab.submit("sleep 600")
        summary = lab.submit("echo summary", gpus=0, after=(train,))
        lab.until_running(train)
        assert lab.of(summary).reason == "Dependency"
        lab.manager.requests.cancel(ADMIN, train)
        lab.until_ended(train, summary)
        assert lab.of(summary).reason == "DependencyFailed"


@pytest.mark.usefixtures("four_cores")
def test_a_third_one_waits_and_says_why_and_all_of_it_outlives_the_manager(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        jobs = [lab.submit("sleep 600", gpus=0) for _ in range(3)]
        lab.until_running(*jobs[:2])
        why = lab.manager.queries.why(ADMIN, jobs[2])
        assert why.text.endswith("2 of at most 2 run, and 0 jobs wait before it")
        assert "`tir ls`" in why.next_step
        lab.restart()
        lab.turn()
        assert [lab.of(id).phase for id in jobs] == ["RUNNING", "RUNNING", "PENDING"]
        assert [lab.of(id).runs for id in jobs] == [1, 1, 0]
        invariants.check_plan(lab.manager.journal.controller)
        lab.manager.requests.cancel(ADMIN, jobs[0])
        lab.until_running(jobs[2])
        assert redecide(replay(lab.manager.store)) is None


@pytest.mark.usefixtures("four_cores")
def test_a_dry_run_says_whether_it_would_start(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        asked = Submission(("/bin/true",), str(tmp_path), gpus=0)
        assert lab.manager.requests.dry_run(ADMIN, asked).starts_now
        lab.until_running(*[lab.submit("sleep 600", gpus=0) for _ in range(2)])
        found = lab.manager.requests.dry_run(ADMIN, asked)
        assert not found.starts_now
        assert found.why is not None
        assert found.why.code == "LimitOfJobsWithoutGPUs"


def test_a_limit_on_gpus_does_not_concern_it_and_one_on_jobs_does(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=1))
        train = lab.submit("sleep 600", by=BOB)
        lab.until_running(train)
        lab.until_running(lab.submit("sleep 600", by=BOB, gpus=0))
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_active_jobs=2))
        with pytest.raises(Exception, match="2"):
            lab.submit("sleep 600", by=BOB, gpus=0)


def test_more_processes_than_one_are_refused(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        with pytest.raises(Invalid, match="2 workers cannot share 0 GPUs"):
            lab.submit("true", gpus=0, workers=2)
        with pytest.raises(Invalid, match="per-gpu starts one process per GPU"):
            lab.submit("true", gpus=0, launcher="per-gpu")
        with pytest.raises(Invalid, match="from 0 up"):
            lab.submit("true", gpus=-1)


def test_a_journal_that_did_not_know_the_cores_learns_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)))
        lab.restart()
        assert lab.manager.state.ledger.nodes[0].cpus == 12
        assert lab.manager.journal.controller.without_gpus.most == 6
        lab.restart()
        assert lab.manager.state.ledger.nodes[0].cpus == 12
