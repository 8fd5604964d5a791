"""A second simulator, written from the definitions, which shares no code with the core.

It is slow on purpose: plain lists, and every rank and the whole plan are computed again at each instant. GPUs
are only counted. If it and the core disagree, one of them is wrong.

At an instant, in this order: jobs that have done their work leave, runs that have saved leave, jobs arrive,
starving jobs are promoted; then there is one plan. The plan walks all jobs by rank over the GPUs that no
pinned run holds. A job that does not fit is skipped, or ends the walk if the policy is strict. Running jobs
that are not in the plan begin to save; jobs in the plan without slots get them by rank while slots are free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf

SAVING_SHARE = 1 / 6
TINY_S = 1e-9
TINY_GPU_S = 1e-6

Rank = tuple[float, ...]
"""Smaller ranks go first."""


@dataclass(slots=True)
class RefJob:
    """A job and its history."""

    number: int
    submitted_at: float
    gpus: int
    duration_s: float
    cost_s: float
    priority: int = 1  # 0 high, 1 normal, 2 low
    preemptible: bool = True
    done_s: float = 0.0  # work done before the present run
    executed_s: float = 0.0  # seconds for which it held slots before the present run
    granted_at: float | None = None
    works_from: float = 0.0
    saving_until: float | None = None
    first_started_at: float | None = None
    preempted_at: float = -inf
    preemptions: int = 0
    runs: int = 0
    promoted_at: float | None = None
    executed_s_then: float = 0.0  # executed_s at the last promotion
    queue: int = 0  # at the last plan
    is_entering: bool = False  # whether it enters a lower queue at this plan, while it runs
    joined_at: float = 0.0  # when it entered its queue
    in_queue_since: float = 0.0  # since when its present run has been running in its queue
    finished_at: float | None = None

    @property
    def holds(self) -> bool:
        return self.granted_at is not None

    @property
    def runs_on(self) -> bool:
        """Whether it holds slots and is not saving."""
        return self.granted_at is not None and self.saving_until is None

    def executed_at(self, at: float) -> float:
        """Seconds for which it has held slots since its submission or last promotion."""
        now = at - self.granted_at if self.granted_at is not None else 0.0
        return self.executed_s - self.executed_s_then + now

    def done_at(self, at: float) -> float:
        """Seconds of work done."""
        if not self.runs_on or at <= self.works_from:
            return self.done_s
        return self.done_s + (at - self.works_from)


@dataclass(slots=True)
class Settings:
    """The policy of the reference and its options."""

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


# --- ranks, from their definitions ---------------------------------------------------------------------


def queue_of(job: RefJob, thresholds: Sequence[float], at: float) -> int:
    """How many thresholds its attained service (GPUs x seconds) has reached."""
    service = job.gpus * job.executed_at(at)
    return len([threshold for threshold in thresholds if service >= threshold - TINY_GPU_S])


def quanta(job: RefJob, quantum_s: float, at: float) -> int:
    """For how many whole quanta its run has worked, not counting the loading."""
    stopped_loading = not job.runs_on and job.preempted_at < job.works_from
    return 0 if at < job.works_from or stopped_loading else floor((at - job.works_from) / quantum_s + 1e-9)


def starves_at(job: RefJob, thresholds: Sequence[float], knob: float) -> float:
    """When a waiting job below the first queue will have waited knob times as long as it has executed."""
    if job.holds or queue_of(job, thresholds, 0.0) == 0:
        return inf
    since = job.submitted_at if job.promoted_at is None else job.promoted_at
    executed_s = job.executed_at(0.0)
    return since + executed_s + knob * executed_s


def arrival(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.submitted_at,)


def length(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.duration_s, job.submitted_at)


def remaining_time(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.duration_s - job.done_at(at), job.submitted_at)


def remaining_service(job: RefJob, settings: Settings, at: float) -> Rank:
    return ((job.duration_s - job.done_at(at)) * job.gpus, job.submitted_at)


def attained_service(job: RefJob, settings: Settings, at: float) -> Rank:
    """The service after the last whole quantum of work of the present run, or at its grant."""
    if job.granted_at is not None:
        worked = quanta(job, settings.quantum_s, at)
        at = job.works_from + worked * settings.quantum_s if worked else job.granted_at
    return (job.gpus * job.executed_at(at), job.submitted_at)


def queues(job: RefJob, settings: Settings, at: float) -> Rank:
    return (job.queue, *ORDERS[settings.order](job), job.submitted_at)


def first_start(job: RefJob) -> Rank:
    """Jobs that have started, by their first start; then the others, by submission."""
    return (0, job.first_started_at) if job.first_started_at is not None else (1, job.submitted_at)


def running_first(job: RefJob) -> Rank:
    """The same, but running jobs go before jobs that wait."""
    if job.first_started_at is None:
        return (2, job.submitted_at)
    return (0 if job.runs_on else 1, job.first_started_at)


def last_preempted_first(job: RefJob) -> Rank:
    """Running jobs, by when they began to run in this queue; jobs preempted in it, the latest first; others.

    As in the lists of the authors' simulator, a job goes to the end of a queue: of the first one when it is
    new or promoted, of a lower one when it is demoted. There it stays until it runs in that queue.
    """
    if job.runs_on and not job.is_entering:
        return (0, job.in_queue_since)
    if job.preempted_at > job.joined_at:
        return (1, -job.preempted_at)
    return (2, job.joined_at)


ORDERS: dict[str, Callable[[RefJob], Rank]] = {
    "first-start": first_start,
    "running-first": running_first,
    "last-preempted-first": last_preempted_first,
}

RANKS: dict[str, Callable[[RefJob, Settings, float], Rank]] = {
    "fifo": arrival,
    "fifo-skip": arrival,
    "sjf": length,
    "srtf": remaining_time,
    "srsf": remaining_service,
    "las": attained_service,
    "tiresias-l": queues,
}


# --- the simulator -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reference:
    """The simulator: `run` runs `jobs` on `gpus` GPUs to the end."""

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
        """The next instant at which the plan may differ; the present one if a job saved in zero seconds."""
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
        before_s = job.executed_s - job.executed_s_then
        return [job.granted_at + threshold / job.gpus - before_s for threshold in self.settings.thresholds]

    # --- events ----------------------------------------------------------------------------------------

    def leave(self) -> None:
        for job in list(self.active):
            if job.saving_until is not None:
                if job.saving_until <= self.at + TINY_S:
                    self.free_slots(job)
            elif job.runs_on and job.done_at(self.at) >= job.duration_s - TINY_S:
                self.free_slots(job)
                job.finished_at = self.at
                self.active.remove(job)

    def free_slots(self, job: RefJob) -> None:
        """End the present run of the job."""
        assert job.granted_at is not None
        work_s = job.done_at(self.at) - job.done_s
        job.done_s += work_s
        job.executed_s += self.at - job.granted_at
        job.granted_at = job.saving_until = None

    def arrive(self) -> None:
        known = {job.number for job in self.active}
        for job in self.jobs:
            is_new = job.finished_at is None and job.number not in known
            if is_new and job.submitted_at <= self.at and job.gpus <= self.gpus:
                self.active.append(job)

    def promote(self) -> None:
        """A job that has waited knob times as long as it has executed counts both from 0 again."""
        if not self.settings.promote_knob:
            return
        for job in self.active:
            if starves_at(job, self.settings.thresholds, self.settings.promote_knob) <= self.at + TINY_S:
                job.promoted_at = self.at
                job.executed_s_then = job.executed_s

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
        """Whether the present run of the job may not be preempted."""
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
    """Run the reference to its end on (submitted_at, gpus, duration_s) rows, which are sorted by submission.

    `more` has further fields of RefJob by the number of the row.
    """
    jobs = [RefJob(number, *row, cost_s) for number, row in enumerate(rows)]
    for number, fields in (more or {}).items():
        for name, value in fields.items():
            setattr(jobs[number], name, value)
    ran = Reference(jobs, gpus, settings)
    ran.run()
    return ran
