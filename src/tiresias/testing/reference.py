"""A second simulator, written from the definitions and sharing no code with the core.

Slow on purpose: plain lists, every rank and the whole plan worked out anew at each instant, GPUs counted,
nothing remembered but what a job has been through. Where it and the core disagree, one of them is wrong.

At an instant, in this order: who has done its work leaves, who has saved leaves, jobs arrive, who starves
is promoted; then one plan. The plan walks all jobs by rank over the GPUs that no pinned run holds; whoever
does not fit is skipped (or, if the policy is strict, ends the walk). Who runs and is not in the plan begins
to save; who is in the plan and has no slots gets them by rank as far as they are free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tiresias.testing.reference_ranks import RANKS, quanta, queue_of, starves_at

SAVING_SHARE = 1 / 6
TINY_S = 1e-9


@dataclass(slots=True)
class RefJob:
    """A job and all it has been through."""

    number: int
    submitted_at: float
    gpus: int
    duration_s: float
    cost_s: float
    priority: int = 1  # 0 high, 1 normal, 2 low
    preemptible: bool = True
    done_s: float = 0.0  # work done before the present run
    held_s: float = 0.0  # seconds of slots held before the present run
    granted_at: float | None = None
    works_from: float = 0.0
    saving_until: float | None = None
    first_started_at: float | None = None
    preempted_at: float = -inf
    preemptions: int = 0
    runs: int = 0
    promoted_at: float | None = None
    held_s_then: float = 0.0  # at the last promotion
    queue: int = 0  # at the last plan
    is_entering: bool = False  # a lower queue, while it runs, at this plan
    joined_at: float = 0.0  # when it came to its queue
    in_queue_since: float = 0.0  # when its present run came to run in its queue
    finished_at: float | None = None

    @property
    def holds(self) -> bool:
        return self.granted_at is not None

    @property
    def runs_on(self) -> bool:
        """It holds slots and has not been told to stop."""
        return self.granted_at is not None and self.saving_until is None

    def held_at(self, at: float) -> float:
        """Seconds for which it has held slots since its submission or last promotion."""
        now = at - self.granted_at if self.granted_at is not None else 0.0
        return self.held_s - self.held_s_then + now

    def done_at(self, at: float) -> float:
        """Seconds of work done."""
        if not self.runs_on or at <= self.works_from:
            return self.done_s
        return self.done_s + (at - self.works_from)


@dataclass(slots=True)
class Settings:
    """What a policy of the reference can be told."""

    policy: str = "fifo"
    order: str = "first-start"
    thresholds: Sequence[float] = ()
    promote_knob: float = 0.0
    min_run_s: float = 0.0
    quantum_s: float = 600.0

    @property
    def strict(self) -> bool:
        return self.policy == "fifo"

    @property
    def preempts(self) -> bool:
        return self.policy not in ("fifo", "fifo-skip", "sjf")


@dataclass(slots=True)
class Reference:
    """Run `jobs` on `gpus` GPUs to the end."""

    jobs: list[RefJob]
    gpus: int
    settings: Settings
    at: float = -inf
    active: list[RefJob] = field(default_factory=list)
    lost_gpu_s: float = 0.0

    def run(self) -> list[RefJob]:
        while (at := self.next_instant()) < inf:
            self.at = at
            self.leave()
            self.arrive()
            self.promote()
            self.plan()
        return self.jobs

    # --- time ------------------------------------------------------------------------------------------

    def next_instant(self) -> float:
        """The next at which a plan may come out differently; this one again if somebody saved in no time."""
        instants = [job.submitted_at for job in self.jobs if job.submitted_at > self.at]
        for job in self.active:
            if job.saving_until is not None:
                instants.append(job.saving_until)
            elif job.granted_at is not None:
                instants.append(job.works_from + (job.duration_s - job.done_s))
                instants.append(job.granted_at + self.settings.min_run_s)
            instants += self.crossings(job)
            if self.settings.policy == "las" and job.holds:
                worked = quanta(job, self.settings.quantum_s, self.at)
                instants.append(job.works_from + (worked + 1) * self.settings.quantum_s)
            if self.settings.promote_knob:
                instants.append(starves_at(job, self.settings.thresholds, self.settings.promote_knob))
        saved = [job for job in self.active if job.saving_until == self.at]
        return self.at if saved else min((at for at in instants if at > self.at + TINY_S), default=inf)

    def crossings(self, job: RefJob) -> list[float]:
        if job.granted_at is None:
            return []
        before_s = job.held_s - job.held_s_then
        return [job.granted_at + threshold / job.gpus - before_s for threshold in self.settings.thresholds]

    # --- what happens ----------------------------------------------------------------------------------

    def leave(self) -> None:
        for job in list(self.active):
            if job.saving_until is not None:
                if job.saving_until <= self.at + TINY_S:
                    self.give_back(job)
            elif job.runs_on and job.done_at(self.at) >= job.duration_s - TINY_S:
                self.give_back(job)
                job.finished_at = self.at
                self.active.remove(job)

    def give_back(self, job: RefJob) -> None:
        """Its slots are free."""
        assert job.granted_at is not None
        work_s = job.done_at(self.at) - job.done_s
        job.done_s += work_s
        job.held_s += self.at - job.granted_at
        job.granted_at = job.saving_until = None

    def arrive(self) -> None:
        known = {job.number for job in self.active}
        for job in self.jobs:
            never_came = job.finished_at is None and job.number not in known
            if never_came and job.submitted_at <= self.at and job.gpus <= self.gpus:
                self.active.append(job)

    def promote(self) -> None:
        """Who has waited knob times as long as it has executed counts both from 0 again."""
        if not self.settings.promote_knob:
            return
        for job in self.active:
            if starves_at(job, self.settings.thresholds, self.settings.promote_knob) <= self.at + TINY_S:
                job.promoted_at = self.at
                job.held_s_then = job.held_s

    # --- the plan --------------------------------------------------------------------------------------

    def plan(self) -> None:
        settings = self.settings
        for job in self.active:
            queue = queue_of(job, settings.thresholds, self.at)
            job.is_entering = job.runs_on and queue > job.queue
            if queue != job.queue or self.at in (job.submitted_at, job.promoted_at):
                job.joined_at = job.in_queue_since = self.at
            job.queue = queue
        pinned = [job for job in self.active if self.is_pinned(job)]
        ranked = sorted(
            (job for job in self.active if job not in pinned),
            key=lambda job: (job.priority, RANKS[settings.policy](job, settings, self.at), job.number),
        )
        room = self.gpus - sum(job.gpus for job in pinned)
        chosen = []
        for job in ranked:
            if job.gpus <= room:
                room -= job.gpus
                chosen.append(job)
            elif settings.strict:
                break
        for job in ranked:
            if job.runs_on and job not in chosen:
                self.preempt(job)
        for job in chosen:
            if not job.holds and job.gpus <= self.gpus - sum(j.gpus for j in self.active if j.holds):
                self.start(job)

    def is_pinned(self, job: RefJob) -> bool:
        """Nobody may stop it."""
        if not job.runs_on or job.granted_at is None:
            return False
        if not self.settings.preempts or not job.preemptible:
            return True
        return self.at < job.granted_at + self.settings.min_run_s - TINY_S

    def preempt(self, job: RefJob) -> None:
        assert job.granted_at is not None
        job.done_s = job.done_at(self.at)
        save_s = job.cost_s * SAVING_SHARE
        not_loaded_s = max(0.0, job.works_from - self.at)
        self.lost_gpu_s += (save_s - not_loaded_s) * job.gpus
        job.preemptions += 1
        job.preempted_at = self.at
        job.saving_until = self.at + save_s

    def start(self, job: RefJob) -> None:
        load_s = job.cost_s * (1 - SAVING_SHARE) if job.runs else 0.0
        self.lost_gpu_s += load_s * job.gpus
        job.granted_at = job.in_queue_since = self.at
        job.works_from = self.at + load_s
        job.runs += 1
        if job.first_started_at is None:
            job.first_started_at = self.at


def reference(
    rows: Sequence[tuple[float, int, float]],
    gpus: int,
    settings: Settings,
    *,
    cost_s: float = 0.0,
    more: Mapping[int, Mapping[str, object]] | None = None,
) -> Reference:
    """The reference run to its end on (submitted_at, gpus, duration_s) rows, sorted by submission.

    `more` gives fields of RefJob by row.
    """
    jobs = [RefJob(number, *row, cost_s) for number, row in enumerate(rows)]
    for number, fields in (more or {}).items():
        for name, value in fields.items():
            setattr(jobs[number], name, value)
    ran = Reference(jobs, gpus, settings)
    ran.run()
    return ran
