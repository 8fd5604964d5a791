"""What a run has saved and what its job has lost, judged from what was seen after the run."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core.model import RunId
from tiresias.core.state import JobState
from tiresias.executors.base import RunGone, WorkerExit
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.saving import Judgement, judge
from tiresias.live.submission import Submission
from tiresias.testing import a_job

TERM = (WorkerExit(signal=15, was_signalled=True),)


def judged(
    *,
    files: int | None = 0,
    exits: tuple[WorkerExit, ...] = TERM,
    held_s: float = 720.0,
    steps: tuple[int, int] | None = None,
    reported: tuple[float, int | None] | None = None,
    resumable: bool | None = None,
    said: bool | None = None,
    before: tuple[int, int] | None = None,
    kept_s: float = 0.0,
) -> Judgement:
    """Of a stopped run of a job with 8 GPUs; `before` are the steps of the run before."""
    gone = RunGone(RunId(1), exits, stopped=True, files_saved=files, last_saved_at=996.0, ended_at=1000.0)
    job = JobState(a_job(7, 8, resumable=resumable))
    spec = Submission(("train",), "/", resumable=said)
    managed = ManagedJob(spec, steps=None if before is None else list(before), kept_s=kept_s)
    return judge(
        gone, job, managed, held_s=held_s, steps=steps, reported=reported, judge_after_s=30.0, at=2000.0
    )


LOST = f.WorkLost(2000.0, 7, 720.0, 8)  # type: ignore[arg-type]
SAVED = f.WorkSaved(2000.0, 7)  # type: ignore[arg-type]


def test_a_run_without_any_sign_of_saving_has_lost_its_work() -> None:
    found = judged()
    assert found.sentence == "It saved nothing: 12 min x 8 GPUs of work are lost, and it begins anew."
    assert found.facts == (LOST,)
    assert found.changes["lost_s"] == 720
    assert found.changes["unsaved_runs"] == 1


@pytest.mark.parametrize(
    ("signs", "sentence"),
    [
        (
            {"files": 3},
            "It has written 3 files in its checkpoint directory, the last one 4 s before its end.",
        ),
        ({"reported": (990.0, 900)}, "It reported that its state after step 900 is saved."),
        ({"reported": (990.0, None)}, "It reported that its state is saved."),
        ({"exits": (WorkerExit(code=75),)}, "It exited with code 75, which says that it has saved."),
    ],
)
def test_each_sign_of_saving_is_told_as_what_it_is(signs: dict[str, Any], sentence: str) -> None:
    found = judged(**signs)
    assert found.sentence == sentence
    assert found.facts == (SAVED,)
    assert found.lost_s == 0
    assert found.changes["kept_s"] == 720


def test_what_is_known_already_is_not_stated_again() -> None:
    assert judged(files=1, resumable=True).facts == ()


def test_a_run_that_was_too_short_to_save_shows_nothing_about_its_job() -> None:
    found = judged(held_s=20.0)
    assert found.facts == ()
    assert found.lost_s == 20, "but its work is lost"


def test_where_the_manager_cannot_look_it_claims_nothing() -> None:
    found = judged(files=None)
    assert found.sentence == "The manager has not seen that it saved; this is not known."
    assert (found.facts, found.lost_s) == ((), 0)


def test_the_word_of_the_user_counts_until_a_run_begins_anew() -> None:
    found = judged(said=True, resumable=True, steps=(1, 900))
    assert (found.facts, found.lost_s) == ((), 0)
    assert "its user says that it is resumable" in found.sentence
    found = judged(said=True, resumable=True, steps=(1, 500), before=(1, 900), kept_s=720.0)
    assert found.facts == (f.WorkLost(2000.0, 7, 1440.0, 8),)  # type: ignore[arg-type]


def test_steps_that_fall_back_show_that_nothing_was_resumed_whatever_was_written() -> None:
    """The run before wrote files and reached step 900; this one began at step 1 again and wrote files."""
    found = judged(files=2, resumable=True, held_s=60.0, steps=(1, 70), before=(1, 900), kept_s=720.0)
    assert found.facts == (f.WorkLost(2000.0, 7, 780.0, 8),)  # type: ignore[arg-type]
    assert found.sentence == (
        "It began anew at step 1, though a run before had reached step 900: 13 min x 8 GPUs of work are lost."
    )


def test_steps_that_go_on_show_that_the_job_resumes_although_nothing_was_seen_saved() -> None:
    """It saves in a directory of its own. That it was taken for one that does not save is corrected."""
    found = judged(resumable=False, held_s=60.0, steps=(800, 1400), before=(1, 900))
    assert found.facts == (SAVED,)


def test_a_job_that_saves_loses_what_one_run_did_not_save_and_stays_resumable() -> None:
    found = judged(resumable=True)
    assert found.sentence.startswith("It saved nothing in this run: 12 min x 8 GPUs of work are lost. ")
    assert found.facts == ()
    assert found.lost_s == 720
