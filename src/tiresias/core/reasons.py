"""Why a job is where it is: one enumeration, one precedence, one phrase per reason.

Rules: `code_of` is the only place that decides which reason is the dominant one. `tir ls`, `tir why` and the
API show its answer. `TEXT` has the phrase for each reason, and `explain` adds the evidence. Planning itself
does no work for any of it. Codes are stored in journals: new ones may be added, and none may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiresias.core import overflow, without_gpus
from tiresias.core.demands import unmet
from tiresias.core.entries import Entry, JobEntry
from tiresias.core.model import Phase
from tiresias.core.plugins import Placer
from tiresias.core.state import JobState, State


class ReasonCode(StrEnum):
    """Why a job is where it is. The first group is about active jobs, the second about ended ones."""

    RUNNING = "Running"
    RUNNING_ON_CPUS = "RunningOnCPUs"
    PAUSED = "Paused"
    STARTING = "Starting"
    STOPPING = "Stopping"
    IMPOSSIBLE = "Impossible"
    OUT_OF_SERVICE = "OutOfService"
    HOST_FAULT = "HostFault"
    HELD = "Held"
    NOT_YET_EVALUATED = "NotYetEvaluated"
    DEPENDENCY = "Dependency"
    BEGIN_TIME = "BeginTime"
    PREFLIGHT = "Preflight"
    QUOTA = "Quota"
    ARRAY_LIMIT = "ArrayLimit"
    INTERACTIVE_LIMIT = "InteractiveLimit"
    BACKOFF = "BackoffAfterFailure"
    WITHOUT_GPUS = "LimitOfJobsWithoutGPUs"
    VICTIMS = "WaitingForVictimsToExit"
    ITS_KIND = "WaitingForItsKind"
    FRAGMENTED = "Fragmented"
    KEPT = "KeptForJobsAhead"
    BLOCKED_HEAD = "BehindBlockedHead"
    HIGHER_RANK = "BehindHigherRank"
    NOT_ALLOTTED = "NotAllotted"

    FINISHED = "Finished"
    STOPPED = "Stopped"
    CANCELLED = "Cancelled"
    TIME_LIMIT = "TimeLimit"
    IDLE = "Idle"
    REQUEUE_LOOP = "RequeueLoop"
    DEPENDENCY_FAILED = "DependencyFailed"
    NOT_NEEDED = "NotNeeded"
    PREFLIGHT_FAILED = "PreflightFailed"
    NOT_STARTED = "NotStarted"
    LOST = "Lost"
    GPU_MEMORY = "OutOfGpuMemory"
    HOST_MEMORY = "OutOfHostMemory"
    MEMORY_LIMIT = "OverMemoryLimit"
    KILLED = "Killed"
    DISK_FULL = "DiskFull"
    CODE_ERROR = "CodeError"
    IMPORT_ERROR = "ImportError"
    FILE_ERROR = "FileError"
    NETWORK = "Network"
    GPU_OR_DRIVER = "GpuOrDriver"
    UNKNOWN_FAILURE = "UnknownFailure"


TEXT: dict[str, str] = {
    ReasonCode.RUNNING: "it is running",
    ReasonCode.RUNNING_ON_CPUS: "it runs on CPUs until GPUs are free",
    ReasonCode.PAUSED: "it is paused: it holds its GPUs while others work on them",
    ReasonCode.STARTING: "it is starting",
    ReasonCode.STOPPING: "it is stopping",
    ReasonCode.IMPOSSIBLE: "larger than the cluster",
    ReasonCode.OUT_OF_SERVICE: "too few GPUs are in service",
    ReasonCode.HOST_FAULT: "the machine cannot start runs",
    ReasonCode.HELD: "on hold; tir release",
    ReasonCode.NOT_YET_EVALUATED: "not evaluated yet",
    ReasonCode.DEPENDENCY: "waits for other jobs",
    ReasonCode.BEGIN_TIME: "begin time not reached",
    ReasonCode.PREFLIGHT: "waits for its preflight",
    ReasonCode.QUOTA: "limit of its user reached",
    ReasonCode.ARRAY_LIMIT: "limit of its array reached",
    ReasonCode.INTERACTIVE_LIMIT: "limit of interactive jobs reached",
    ReasonCode.BACKOFF: "waits after a failure",
    ReasonCode.WITHOUT_GPUS: "as many jobs without GPUs run as may",
    ReasonCode.VICTIMS: "next, while others stop",
    ReasonCode.ITS_KIND: "GPUs of its kind are taken",
    ReasonCode.FRAGMENTED: "free GPUs are too fragmented",
    ReasonCode.KEPT: "GPUs kept for jobs ahead",
    ReasonCode.BLOCKED_HEAD: "behind a job that waits",
    ReasonCode.HIGHER_RANK: "other jobs are ahead",
    ReasonCode.NOT_ALLOTTED: "the GPUs go to other jobs",
    ReasonCode.FINISHED: "finished",
    ReasonCode.STOPPED: "stopped",
    ReasonCode.CANCELLED: "cancelled",
    ReasonCode.TIME_LIMIT: "time limit reached",
    ReasonCode.IDLE: "nobody used it",
    ReasonCode.REQUEUE_LOOP: "asked again and again to be run again",
    ReasonCode.DEPENDENCY_FAILED: "a job that it needs failed",
    ReasonCode.NOT_NEEDED: "the job whose failure it waited for succeeded",
    ReasonCode.PREFLIGHT_FAILED: "its preflight failed",
    ReasonCode.NOT_STARTED: "could not be started",
    ReasonCode.LOST: "its run was lost",
    ReasonCode.GPU_MEMORY: "out of GPU memory",
    ReasonCode.HOST_MEMORY: "out of host memory",
    ReasonCode.MEMORY_LIMIT: "over its memory limit",
    ReasonCode.KILLED: "killed",
    ReasonCode.DISK_FULL: "disk full",
    ReasonCode.CODE_ERROR: "error in the code",
    ReasonCode.IMPORT_ERROR: "a module could not be imported",
    ReasonCode.FILE_ERROR: "a file is missing or not readable",
    ReasonCode.NETWORK: "network error",
    ReasonCode.GPU_OR_DRIVER: "error of the GPU or its driver",
    ReasonCode.UNKNOWN_FAILURE: "failed for an unknown reason",
}


def text_of(code: str) -> str:
    """The phrase for a code. A code that is not known, of a plug-in or a later version, stands for itself."""
    return TEXT.get(code, code)


@dataclass(slots=True)
class Reason:
    """The dominant reason and its evidence. `text` begins with the phrase for the code."""

    code: str
    text: str
    ahead_jobs: int = 0
    ahead_gpus: int = 0
    free_gpus: int = 0
    best_hole: int = 0


def code_of(entry: JobEntry, state: State, placer: Placer, head: Entry | None = None) -> str:
    """The first reason that applies, in strict precedence.

    `head` is the job of a strict policy that no job may pass: the first ranked one that is not admitted.
    """
    job, ledger = entry.job, state.ledger
    if job.phase is Phase.RUNNING or job.phase is Phase.STARTING:
        if job.gpu_run is None:
            return ReasonCode.RUNNING_ON_CPUS
        return ReasonCode.RUNNING if job.phase is Phase.RUNNING else ReasonCode.STARTING
    if job.phase is Phase.STOPPING:
        return ReasonCode.STOPPING
    if job.phase is Phase.PAUSED:
        return ReasonCode.PAUSED
    if not ledger.can_serve(job.job.demand):
        is_there = not unmet(job.job.demand, ledger.nodes)
        return ReasonCode.OUT_OF_SERVICE if is_there else ReasonCode.IMPOSSIBLE
    if job.on_hold:
        return ReasonCode.HELD
    if job.deferred:
        return job.deferred
    if not job.gpus:
        return ReasonCode.WITHOUT_GPUS
    if entry.admitted:
        return _code_of_admitted(job, state, placer) if job.gpus <= ledger.free else ReasonCode.VICTIMS
    if head is not None and head is not entry:
        return ReasonCode.BLOCKED_HEAD
    return ReasonCode.HIGHER_RANK if state.wish is None else ReasonCode.NOT_ALLOTTED


def _installed(job: JobState, state: State) -> int:
    """The GPUs that suit the job, in service or not."""
    return sum(node.gpus for node in state.ledger.nodes if node.suits(job.job.demand))


def _code_of_admitted(job: JobState, state: State, placer: Placer) -> str:
    """Why a job of the target is not started although enough slots are free."""
    holes = state.ledger.open_to(job.job.demand)
    if job.gpus > holes.free:
        return ReasonCode.ITS_KIND
    at = state.at
    allocation = placer.place(job, holes, at, state.refused_since.get(job.id, at))
    return ReasonCode.FRAGMENTED if allocation is None else ReasonCode.KEPT


def blocked_head(ranked: Iterable[JobEntry]) -> JobEntry | None:
    """The first ranked job that is not admitted."""
    return next((entry for entry in ranked if not entry.admitted), None)


def explain(
    entry: JobEntry,
    pinned: Sequence[JobEntry],
    ranked: Iterable[JobEntry],
    state: State,
    placer: Placer,
    *,
    strict: bool = False,
) -> Reason:
    """The dominant reason with its evidence. `ranked` are the jobs in rank order, at least up to this one."""
    ahead = []
    for other in ranked:
        if other is entry:
            break
        ahead.append(other)
    head = blocked_head(ahead) if strict else None
    code = code_of(entry, state, placer, head)
    reason = Reason(code, "")
    evidence = _evidence(reason, entry, state, placer, head)
    if code == ReasonCode.NOT_ALLOTTED:
        evidence = _others(reason, entry, pinned, ranked, state)
    elif code in (ReasonCode.BLOCKED_HEAD, ReasonCode.HIGHER_RANK):
        passed = ahead if head is None else ahead[: ahead.index(head)]
        winners = [*pinned, *(other for other in passed if other.admitted)]
        reason.ahead_jobs, reason.ahead_gpus = len(winners), sum(other.gpus for other in winners)
        if head is None:
            evidence = _those_ahead(reason, entry, state)
    reason.text = f"{text_of(code)}: {evidence}" if evidence else text_of(code)
    return reason


def _evidence(reason: Reason, entry: JobEntry, state: State, placer: Placer, head: JobEntry | None) -> str:
    """What can be said about this job beyond the phrase; also fills in the figures of the reason."""
    job, ledger, code = entry.job, state.ledger, reason.code
    if code in (ReasonCode.RUNNING, ReasonCode.STARTING):
        return _placement(job, state, placer)
    if code == ReasonCode.PAUSED:
        return ""
    if code == ReasonCode.RUNNING_ON_CPUS:
        return overflow.where(job, state)
    if code in (ReasonCode.IMPOSSIBLE, ReasonCode.OUT_OF_SERVICE):
        return _too_large(job, state)
    if job.phase is Phase.STOPPING or job.on_hold or job.deferred:
        return ""
    if code == ReasonCode.WITHOUT_GPUS:
        return without_gpus.where(job, state)
    free, reason.free_gpus, reason.best_hole = ledger.free, ledger.free, ledger.best_hole()
    if code == ReasonCode.VICTIMS:
        return f"{free} free, needs {job.gpus}; it starts when the runs before it have exited"
    if code == ReasonCode.BLOCKED_HEAD:
        assert head is not None
        return f"job {head.id} ({gpus_of(head)}) is ahead and does not fit; no job may pass it"
    if code in (ReasonCode.HIGHER_RANK, ReasonCode.NOT_ALLOTTED):
        return ""
    holes = ledger.open_to(job.job.demand)
    free, reason.free_gpus, reason.best_hole = holes.free, holes.free, holes.best_hole()
    if code == ReasonCode.FRAGMENTED:
        return placer.refusal(job, holes, state.at, state.refused_since.get(job.id, state.at))
    return f"{free} free, needs {job.gpus}"


def _others(
    reason: Reason, entry: JobEntry, pinned: Sequence[JobEntry], ranked: Iterable[JobEntry], state: State
) -> str:
    """To whom the wish of an allocator gives the GPUs; their order has no meaning."""
    winners = [*pinned, *(other for other in ranked if other.admitted)]
    reason.ahead_jobs, reason.ahead_gpus = len(winners), sum(other.gpus for other in winners)
    jobs = "1 job has" if len(winners) == 1 else f"{len(winners)} jobs have"
    return f"{jobs} {reason.ahead_gpus} of {state.ledger.gpus} GPUs, it needs {entry.gpus}"


def _those_ahead(reason: Reason, entry: JobEntry, state: State) -> str:
    jobs, gpus, total = reason.ahead_jobs, reason.ahead_gpus, state.ledger.gpus
    ahead = "1 job ahead holds or gets" if jobs == 1 else f"{jobs} jobs ahead hold or get"
    return f"{ahead} {gpus} of {total} GPUs; {max(total - gpus, 0)} left, needs {entry.gpus}"


def _too_large(job: JobState, state: State) -> str:
    ledger = state.ledger
    if job.job.demand.nodes is not None:
        return unmet(job.job.demand, ledger.nodes) or _out_of_service(job, state)
    in_service, installed = ledger.most(job.job.demand), _installed(job, state)
    kind = " of its kind" if job.job.demand.is_choosy else ""
    if job.gpus <= installed:
        return f"needs {gpus_of(job)}{kind}, {in_service} of {installed} are in service"
    return f"needs {gpus_of(job)}{kind}, the cluster has {installed}; ask for fewer"


def _out_of_service(job: JobState, state: State) -> str:
    """For how many of its nodes those that are in service are large enough."""
    ledger, demand = state.ledger, job.job.demand
    number, least = len(demand.pieces), demand.pieces[-1]
    suiting = [node for node in ledger.nodes if node.suits(demand)]
    offered = [ledger.offered[ledger.position(node.name)].bit_count() for node in suiting]
    nodes = "1 node" if number == 1 else f"{number} nodes"
    there = f"{sum(count >= least for count in offered)} of {len(suiting)}"
    return f"needs {gpus_of(job)} on {nodes}, at least {least} on each; {there} such nodes are in service"


def _placement(job: JobState, state: State, placer: Placer) -> str:
    """Why it runs on these nodes, if there are others, and with whom it takes turns."""
    run = job.run
    if run is None:
        return ""
    turns = f"it has 1 of {run.turns} turns on its slots" if run.turns > 1 else ""
    verdict = placer.verdict(job) if job.gpus > 1 and len(state.ledger.nodes) > 1 else ""
    if not verdict:
        return turns
    nodes = len(run.allocation)
    where = f"on {'1 node' if nodes == 1 else f'{nodes} nodes'}, because {verdict}"
    return f"{where}; {turns}" if turns else where


def gpus_of(job: JobState | Entry) -> str:
    return "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"
