"""The answers to queries, as values that `dataclasses.asdict` turns into JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from typing import Any, Self, get_type_hints

from tiresias.core.reasons import Reason
from tiresias.spec.job import IN_DETAIL, JobSpec


@dataclass(slots=True)
class ProgressInfo:
    """How far a training has come, by its own reports."""

    step: int | None = None
    total_steps: int | None = None
    fraction: float | None = None
    steps_per_s: float | None = None
    eta_s: float | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    skipped_losses: int = 0  # reports of this run whose loss was no number


@dataclass(slots=True)
class JobSummary:
    """One row of `tir ls`. Instants are epoch seconds; None means that it has not happened yet."""

    id: int
    name: str
    user: str
    phase: str
    reason: str  # a code such as BehindHigherRank, Running, OutOfGpuMemory: core.reasons.ReasonCode
    gpus: int
    runs: int
    preemptions: int
    service_gpu_s: float
    submitted_at: float
    first_started_at: float | None
    finished_at: float | None
    exit_code: int | None
    progress: ProgressInfo | None
    tenant: str = ""
    priority: str = "normal"
    queue: int | None = None  # 1 is Q1; None where the policy has no queues or the job has ended
    since_at: float | None = None  # since when it is in its phase; None while it is stopping
    reason_text: str = ""  # the reason as a phrase for people
    resumable: bool | None = None  # whether its work outlives a stop; None: that is not known
    lost_gpu_s: float = 0.0  # GPU-seconds of work that it lost because it had not saved it
    loss: str = ""  # the same as a phrase for people; empty if it has lost nothing
    min_gpus: int | None = None  # of an elastic job: `gpus` is the size that it has now, and these are its
    max_gpus: int | None = None  # range; None: it has one size


@dataclass(slots=True)
class RunInfo:
    """One run of a job."""

    id: int
    number: int
    slots: list[str]  # node:index
    granted_at: float
    started_at: float | None
    revoked_at: float | None
    exited_at: float | None
    cause: str | None  # finished, preempted, retried, failed
    exit_code: int | None
    sentence: str  # why it ended, in words
    evidence: str  # the line of output that says so
    workers: int
    revoked_by: str = ""  # the rule by which it was stopped: core.facts.Rule, or cancelled, held, requeued
    revoked_for: int | None = None  # the job that gets its slots
    from_queue: int | None = None  # the queue of the job when the run was granted; Q1 is 1
    to_queue: int | None = None  # and when it was revoked
    revoked_text: str = ""  # the same as a phrase for people; empty: nobody stopped it, or that is not known


@dataclass(slots=True)
class Explanation:
    """Why a job is where it is: the dominant reason, its evidence, and the next step."""

    code: str
    text: str
    next_step: str
    ahead_jobs: int = 0
    ahead_gpus: int = 0
    free_gpus: int = 0
    best_hole: int = 0
    ahead: list[int] = field(default_factory=list)  # the first few jobs ahead
    starts_p50_s: float | None = None  # seconds from now until its start, as estimated from history
    starts_p90_s: float | None = None
    stopped: str = ""  # why its last run was stopped, as a phrase; empty: it was not, or that is not known
    learned: str = ""  # what the policy has learned of jobs like it, and what that means for its place
    starts: str = ""  # when it starts, in words, or why that cannot be known; empty: its rank decides nothing

    @classmethod
    def of(cls, found: Reason) -> Self:
        """From the answer of the core."""
        counts = (found.ahead_jobs, found.ahead_gpus, found.free_gpus, found.best_hole)
        return cls(found.code, found.text, "", *counts)


@dataclass(slots=True)
class Eta:
    """Seconds from now until a job starts and ends; null where that is over, cannot be known, or does not
    follow from its rank, as for a job on hold."""

    starts_p50_s: float | None = None
    starts_p90_s: float | None = None
    ends_p50_s: float | None = None
    ends_p90_s: float | None = None
    history: int = 0  # ended jobs from which durations were drawn
    unknown: str = ""  # why it cannot be known
    measured: str = ""  # how often such estimates held


_TYPES = get_type_hints(JobSpec)
OptionValues: Any = make_dataclass("OptionValues", [(name, _TYPES[name]) for name in IN_DETAIL], slots=True)


@dataclass(slots=True)
class JobDetail(OptionValues):  # type: ignore[misc]  # the options of JobSpec that are part of the detail
    """What `tir show` prints. Of the environment only the names are shown, and only to the owner."""

    summary: JobSummary
    why: Explanation
    env_names: list[str]
    retries_used: int
    array: str
    array_index: int | None
    runs: list[RunInfo]
    protection: str = ""  # of a job that does not save: whether it is preempted again


@dataclass(slots=True)
class SlotInfo:
    """One GPU. `state` is free, busy, saving, foreign, out (of service) or drained.

    Several jobs may share it, on layers: `job_ids` are all that hold it, and `job_id` is the first of them.
    """

    name: str  # node:index
    state: str
    job_id: int | None
    run_id: int | None
    gpu: str  # the name of the GPU, or `fake`
    memory_bytes: int
    reason: str  # why it is out of service
    utilisation: float | None = None  # from 0 to 1; null where the driver does not know it
    memory_used_bytes: int | None = None
    temperature_c: int | None = None
    job_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class NodeInfo:
    name: str
    gpus: int
    free_gpus: int
    is_drained: bool
    reason: str
    slots: list[SlotInfo]
    groups: list[list[int]] = field(default_factory=list)  # of GPU indices, joined by fast links
    rack: str = ""
    gpu_type: str = ""  # what `--gpu-type` asks for
    cpus: int = 0  # cores; 0: not known
    memory_bytes: int = 0  # 0: not known
    address: str = ""  # at which other nodes can reach it
    is_silent: bool = False  # it does not answer, or is not usable; `reason` says why


@dataclass(slots=True)
class ManagerStatus:
    pid: int
    uptime_s: float
    version: str
    policy: str
    policy_options: dict[str, Any]
    placer: str
    slots: int
    free_slots: int
    jobs: dict[str, int]  # by phase, active and ended ones
    is_ready: bool
    problem: str  # why the manager cannot make anything durable, such as a full disk; empty if it can
    start_problem: str = ""  # why no run can be started, such as a disk without inodes; empty if runs can
    clock_problem: str = ""  # whether the wall clock was set, and what that means; empty if it is right
    plugin_problem: str = ""  # what a policy or placer raised that was replaced because of it, and where


@dataclass(slots=True)
class QueueLevel:
    """One queue of the policy, or all jobs where it has none. Service is in GPU-seconds."""

    number: int  # Q1 is 1
    from_gpu_s: float  # the service with which a job comes to it
    to_gpu_s: float | None  # the service with which a job leaves it; null: never
    jobs: int = 0
    running_jobs: int = 0
    waiting_jobs: int = 0  # those on hold or that wait for something else included
    running_gpus: int = 0
    wanted_gpus: int = 0  # by the jobs that wait


@dataclass(slots=True)
class QueueInfo:
    """How the policy orders the jobs with GPUs at present."""

    policy: str
    kind: str  # levels, order (one order), strict (none passes another), allocator
    preempts: bool
    levels: list[QueueLevel]
    next_displaced: list[JobSummary]  # runs that would be preempted, the first to be so first; not known of
    # an allocator, which decides anew about all jobs
    not_preemptible: int  # runs that no plan may stop at present
    learned: list[str]  # what the policy has learned, as sentences
    again_at: float | None = None  # when an allocator decides again, if nothing happens before
    leases: dict[int, float] = field(default_factory=dict)  # until when an allocator lets a job keep its GPUs


@dataclass(slots=True)
class DryRun:
    """What would become of a submission now."""

    starts_now: bool
    slots: list[str]  # the placement it would get now
    displaces: list[int]  # jobs that would be preempted for it
    why: Explanation | None  # why it would not start


@dataclass(slots=True)
class UsageRow:
    """What one user or tenant got. Many short jobs per GPU-hour show that work was split."""

    who: str
    jobs: int  # submitted
    active_jobs: int
    running_gpus: int
    service_gpu_s: float
    mean_wait_s: float | None
    short_jobs: int  # ended jobs that held their GPUs for less than five minutes
    resubmitted: int  # ended jobs with a command that had been submitted before
    lost_gpu_s: float = 0.0  # service that was in vain: the work was not saved when a run was stopped


@dataclass(slots=True)
class SlowdownRow:
    """How fast gangs of a model ran in a shape; a slowdown is the ratio to the time in the best shape."""

    model: str
    gpus: int
    shape: str  # nodes x groups of GPUs on a node
    runs: int  # of the latest
    steps_per_s: float  # their median
    predicted: float | None  # by the network model; None if the placer does not predict
    measured: float | None  # None for the best shape, and if there are too few runs
    used: float | None  # the value that the placer uses


NO_LIMIT = "none"


@dataclass(slots=True)
class Limits:
    """What one user may use at once. None: that of `*`, or no limit if `*` has none; NO_LIMIT: no limit."""

    max_running_gpus: int | str | None = None
    max_active_jobs: int | str | None = None


@dataclass(slots=True)
class EventInfo:
    """One fact of the journal, as text for people."""

    seq: int
    at: float
    kind: str
    job_id: int | None
    text: str
    run: int | None = None  # the number of its run among those of the job; null: it is not about a run
