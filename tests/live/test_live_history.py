"""What the manager keeps of jobs that have ended, for a replay in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, LiveLab

TRAINING = (
    "import json, os, sys, time\n"
    "from tiresias import job\n"
    "saved = job.checkpoint_dir / 'step'\n"
    "time.sleep(1.0)\n"  # loading
    "step = int(saved.read_text()) if saved.exists() else 0\n"
    "while step < int(sys.argv[1]):\n"
    "    if job.should_stop():\n"
    "        saved.write_text(str(step))\n"
    "        time.sleep(0.5)\n"  # saving
    "        job.preempted()\n"
    "    step += 1\n"
    "    time.sleep(0.05)\n"
    "    job.report(step=step)\n"
)


def history(lab: LiveLab, caller: Caller = ADMIN) -> dict[int, dict[str, Any]]:
    rows, following = lab.manager.queries.history(caller, None)
    assert following is None
    return {row["id"]: row for row in rows}


def test_what_a_preemption_cost_is_measured_by_the_steps_told(tmp_path: Path) -> None:
    """A second to load and half a second to save, each time; the rest of its time it worked."""
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit(("python", "-c", TRAINING, "40"))
        lab.until(lambda: (told := lab.of(job).progress) is not None and told.step and told.step > 5)
        lab.manager.requests.requeue(ADMIN, job)
        lab.until_ended(job)
        row = history(lab)[job]
    assert row["runs"] == 2
    assert row["interruptions"] == 1
    assert row["preemption_cost_s"] > 1.5
    assert row["startup_s"] > 1.0
    assert row["duration_s"] == row["executed_s"] - row["preemption_cost_s"]
    assert row["duration_s"] > 1.0 + 40 * 0.05  # loading once, and every step once
    assert row["ready_at"] == row["submitted_at"]


def test_a_job_is_ready_when_only_its_turn_is_to_come(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        first = lab.submit("sleep 0.2")
        second = lab.submit("true", after=(first,))
        held = lab.submit("true")
        lab.manager.requests.hold(ADMIN, held)
        lab.until_ended(first, second)
        lab.restart()
        lab.manager.requests.release(ADMIN, held)
        lab.until_ended(held)
        rows = history(lab)
    assert rows[first]["ready_at"] == rows[first]["submitted_at"]
    assert rows[first]["finished_at"] <= rows[second]["ready_at"] <= rows[second]["first_started_at"]
    assert rows[held]["ready_at"] > rows[second]["finished_at"]


def test_jobs_that_failed_or_were_cancelled_are_told_with_the_time_they_held(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        failed = lab.submit("sh -c 'sleep 0.2; exit 1'", retries=0, preemptible=False)
        never = lab.submit("true")
        lab.manager.requests.cancel(ADMIN, never)
        lab.until_ended(failed, never)
        rows = history(lab, Caller("bob"))
    assert rows[failed]["phase"] == "FAILED"
    assert rows[failed]["duration_s"] == rows[failed]["executed_s"] > 0.2
    assert not rows[failed]["preemptible"]
    assert rows[never]["duration_s"] == 0.0
    assert rows[never]["startup_s"] is None
    assert {row["name"] for row in rows.values()} == {""}  # bob sees that somebody used GPUs, not for what


def test_the_history_shows_names_of_jobs_to_their_owner_and_to_administrators_only(tmp_path: Path) -> None:
    ada, bob = Caller("ada"), Caller("bob")
    with LiveLab(tmp_path) as lab:
        job = lab.submit("true", by=ada, name="secret-project")
        lab.until_ended(job)
        assert [history(lab, caller)[job]["name"] for caller in (ada, bob, ADMIN)] == [
            "secret-project",
            "",
            "secret-project",
        ]


def test_a_summary_says_when_a_job_first_started(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        first, waits = lab.submit("sleep 600"), lab.submit("sleep 600")
        lab.until_running(first)
        assert lab.of(first).first_started_at == lab.manager.state.jobs[first].first_started_at
        assert lab.of(waits).first_started_at is None
