"""What a run has saved when it was stopped, and what its job has lost: judged from what was seen. Pure.

The manager cannot look into a training. It sees:
- what the training reports (`job.save`, `job.saved`), and an exit with code 75, which says the same;
- files that the run has made or changed in the checkpoint directory;
- steps: a run that begins where the one before it began has resumed nothing, whatever that one had saved; a
  run that begins further on has resumed.

If there is no sign, the work of the run counts as lost, unless the user has said that the job is resumable.
One lost run is enough to know that a job does not save, if it was long enough to have saved something. A
later sign to the contrary corrects it, in either direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tiresias.core import facts as f
from tiresias.core.state import JobState
from tiresias.executors.base import RunGone
from tiresias.job import PREEMPTED
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.words import lasting, work

Point = tuple[float, int | None]  # an instant by the wall clock, and the steps that were done then


@dataclass(slots=True, frozen=True)
class Judgement:
    """What is said about the work of a run, the facts that follow, and what changes in the ManagedJob."""

    sentence: str
    facts: tuple[f.Fact, ...] = ()
    lost_s: float = 0.0
    changes: dict[str, Any] = field(default_factory=dict)


def judge(
    gone: RunGone,
    job: JobState,
    managed: ManagedJob,
    *,
    held_s: float,
    steps: Sequence[int] | None,
    reported: Point | None,
    judge_after_s: float,
    at: float,
) -> Judgement:
    """About a run that was stopped, or asked to be run again, of a job that will run again.

    `held_s` is for how long the run held its slots; `steps` are the first and the last step that it reported,
    and `reported` its last report that its state is saved.
    """
    fell_back = _fell_back(managed.steps, steps)
    lost_s = managed.kept_s if fell_back else 0.0
    kept_s = managed.kept_s - lost_s
    is_resumable = False if fell_back else True if _went_on(managed.steps, steps) else job.resumable
    sign = "" if fell_back else _sign(gone, reported)
    if sign:
        sentence, kept_s, is_resumable = sign, kept_s + held_s, True
    elif not fell_back and (managed.spec.resumable or gone.files_saved is None):
        said = "its user says that it is resumable" if managed.spec.resumable else "this is not known"
        sentence, kept_s = f"The manager has not seen that it saved; {said}.", kept_s + held_s
    else:
        lost_s += held_s
        if is_resumable is None and held_s >= judge_after_s:
            is_resumable = False
        sentence = _loss(lost_s, job.gpus, is_resumable, managed.steps if fell_back else None, steps)
    facts: list[f.Fact] = []
    if is_resumable and job.resumable is not True:
        facts.append(f.WorkSaved(at, job.id))
    elif is_resumable is False and lost_s:
        facts.append(f.WorkLost(at, job.id, lost_s, job.gpus))
    changes = {"steps": None if steps is None else list(steps), "kept_s": kept_s}
    if lost_s:
        changes |= {"lost_s": managed.lost_s + lost_s, "unsaved_runs": managed.unsaved_runs + 1}
    return Judgement(sentence, tuple(facts), lost_s, changes)


def _sign(gone: RunGone, reported: Point | None) -> str:
    """What shows that the run has saved, as a sentence; empty if nothing does."""
    if reported is not None:
        step = "" if reported[1] is None else f" after step {reported[1]:,}"
        return f"It reported that its state{step} is saved."
    if gone.files_saved:
        files = "1 file" if gone.files_saved == 1 else f"{gone.files_saved:,} files"
        before_s = gone.ended_at - gone.last_saved_at
        when = f", the last one {lasting(before_s)} before its end" if 0 <= before_s < 1e9 else ""
        return f"It has written {files} in its checkpoint directory{when}."
    if any(each.code == PREEMPTED for each in gone.exits):
        return f"It exited with code {PREEMPTED}, which says that it has saved."
    return ""


def _loss(
    lost_s: float,
    gpus: int,
    is_resumable: bool | None,
    before: Sequence[int] | None,
    now: Sequence[int] | None,
) -> str:
    took = work(lost_s, gpus)
    if before is not None and now is not None:
        return (
            f"It began anew at step {now[0]:,}, though a run before had reached step {before[1]:,}:"
            f" {took} of work are lost."
        )
    if is_resumable:
        return f"It saved nothing in this run: {took} of work are lost. A run before had saved."
    return f"It saved nothing: {took} of work are lost, and it begins anew."


def _fell_back(before: Sequence[int] | None, now: Sequence[int] | None) -> bool:
    """Whether a run began no further than the run before, although that one had made steps."""
    return before is not None and now is not None and now[0] <= before[0] < before[1]


def _went_on(before: Sequence[int] | None, now: Sequence[int] | None) -> bool:
    return before is not None and now is not None and now[0] > before[0]
