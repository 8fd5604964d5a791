"""Commands whose jobs have lost their work because they do not save: whoever submits one again is warned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import INFINITY, JobId
from tiresias.core.protection import protected_gpus
from tiresias.core.state import JobState
from tiresias.live.journal import Input, Journal, Taken
from tiresias.live.managed_jobs import fingerprint
from tiresias.live.submission import Submission
from tiresias.live.words import work
from tiresias.store import StoredEnding

MOST_REMEMBERED = 1000


class Loss(NamedTuple):
    """The last job of a command or name that lost its work, and how much that was."""

    job_id: JobId
    lost_s: float
    gpus: int

    @property
    def words(self) -> str:
        return f"job {self.job_id} lost {work(self.lost_s, self.gpus)} of work because it does not save"


def protection_of(job: JobState, controller: Controller) -> str:
    """Whether a job that does not save is preempted again, in words; empty if that is not the question."""
    policy = controller.policy
    if job.resumable is not False or not job.preemptible or not policy.preempts or not job.gpus:
        return ""
    most = protected_gpus(policy.protect, controller.state.ledger.gpus)
    gpus = f"{most} GPU{'' if most == 1 else 's'}"
    if not most:
        return f"not protected: {policy.name} preempts jobs that do not save (protect=0)"
    needs = job.gpus if job.run is None else job.run.gpus
    if needs > most:
        return f"not protected from preemption: protected jobs hold at most {gpus}, and it needs {needs}"
    if job.run is None:
        return ""
    if job.run.id in controller.protection.runs:
        return "protected from preemption while it runs"
    return f"not protected from preemption now: protected jobs hold at most {gpus}, and others came first"


class UnsavedWork:
    """The part that remembers them: by the fingerprint of the command, and by user and name."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal, latest: Iterable[StoredEnding]):
        self._journal = journal
        self._losses: dict[str, Loss] = {}  # the latest last
        for ended in latest:
            ending = ended.ending
            if (is_resumable := ending.get("resumable")) is None:
                continue
            marks = [ending.get("fingerprint", ""), _named(ended.user, ended.name)]
            if is_resumable:
                self._forget(marks)
            elif ending.get("lost_s"):
                self._remember(marks, Loss(ended.id, ending["lost_s"], ended.gpus))

    def load(self) -> None:
        """Take in what active jobs have lost."""
        for id, managed in self._journal.managed.items():
            job = self._journal.state.jobs[id]
            if job.resumable is False and managed.lost_s:
                self._remember(_marks(managed.spec), Loss(id, managed.lost_s, job.gpus))

    def of(self, spec: Submission) -> Loss | None:
        """What this command, or a job of this name of the same user, has lost last."""
        if not self._losses:
            return None
        return next((self._losses[mark] for mark in _marks(spec) if mark in self._losses), None)

    def on(self, taken: Taken) -> list[Input]:
        for fact in taken.facts:
            if isinstance(fact, f.WorkLost | f.WorkSaved) and fact.job_id in self._journal.managed:
                marks = _marks(self._journal.managed[fact.job_id].spec)
                if isinstance(fact, f.WorkSaved):
                    self._forget(marks)
                else:
                    lost_s = self._journal.managed[fact.job_id].lost_s
                    self._remember(marks, Loss(fact.job_id, lost_s, fact.gpus))
        return []

    def due(self, at: float) -> list[Input]:
        return []

    def _remember(self, marks: list[str], loss: Loss) -> None:
        self._forget(marks)
        self._losses |= {mark: loss for mark in marks if mark}
        while len(self._losses) > MOST_REMEMBERED:
            del self._losses[next(iter(self._losses))]

    def _forget(self, marks: list[str]) -> None:
        for mark in marks:
            self._losses.pop(mark, None)


def _marks(spec: Submission) -> list[str]:
    return [fingerprint(spec), _named(spec.user, spec.name)]


def _named(user: str, name: str) -> str:
    return f"{user}/{name}" if name else ""
