"""A process that wakes after its job runs again elsewhere overwrites nothing that was saved by the SDK."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tiresias.testing.executors import until

SAVE = """
    from pathlib import Path
    from tiresias import job
    job.save(job.checkpoint_dir / "model", lambda file: file.write({content!r}))
"""

# A training that stops between the check for a newer run and the replacement of the file: the worst moment.
PAUSED = """
    import os, signal
    from tiresias import job
    replace = os.replace
    def paused(*paths):
        open("paused", "w").close()
        os.kill(os.getpid(), signal.SIGSTOP)
        replace(*paths)
    os.replace = paused
    job.save(job.checkpoint_dir / "model", lambda file: file.write(b"of run 1"))
"""


@pytest.fixture
def run(trainings):
    """Starts code in the run with this number of one job, whose directory is then there."""

    def start(number: int, code: str):
        directory = trainings.path / "runs" / str(number) / "job"
        directory.mkdir(parents=True, exist_ok=True)
        return trainings.start(
            code, TIRESIAS_RUN_DIR=str(directory), TIRESIAS_RUN=str(number), TIRESIAS_JOB_KEY="7-abc"
        )

    return start


def ended(process) -> tuple[int, str]:
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def content(trainings) -> str:
    return (trainings.path / "ckpt" / "model").read_text()


def test_the_newest_run_saves(trainings, run):
    assert ended(run(1, SAVE.format(content=b"of run 1")))[0] == 0
    assert ended(run(2, SAVE.format(content=b"of run 2")))[0] == 0
    assert content(trainings) == "of run 2"
    assert os.listdir(trainings.path / "ckpt") == ["model"]


def test_an_earlier_run_saves_nothing_and_ends_as_preempted(trainings, run):
    ended(run(2, SAVE.format(content=b"of run 2")))
    code, said = ended(run(1, SAVE.format(content=b"of run 1")))
    assert code == 75
    assert "run 2 of this job has begun, and this is run 1" in said
    assert content(trainings) == "of run 2"
    assert os.listdir(trainings.path / "ckpt") == ["model"]


def test_a_process_that_sleeps_between_the_check_and_the_replacement_replaces_nothing(trainings, run):
    late = run(1, PAUSED)
    trainings.wait_for("paused")
    until(lambda: "T" in Path(f"/proc/{late.pid}/stat").read_text().split()[2], "it sleeps")
    ended(run(2, SAVE.format(content=b"of run 2")))
    late.send_signal(signal.SIGCONT)
    code, said = ended(late)
    assert (code, "FileNotFoundError" in said) == (1, True)
    assert content(trainings) == "of run 2"


def test_files_that_another_job_is_about_to_save_in_the_same_place_are_left_alone(trainings, run):
    (trainings.path / "ckpt").mkdir()
    other = trainings.path / "ckpt" / ".model.8-def.run1.77.1.part"
    other.write_text("of another job")
    ended(run(2, SAVE.format(content=b"of run 2")))
    assert other.exists()


def test_a_run_without_a_numbered_directory_saves_as_before(trainings):
    """As outside of a manager, or with the variables of an earlier version."""
    assert ended(trainings.start(SAVE.format(content=b"x"), TIRESIAS_RUN="1"))[0] == 0
    assert content(trainings) == "x"
