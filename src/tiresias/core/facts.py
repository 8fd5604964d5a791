"""What happened: the only input of the Controller, stored for ever.

Rules: names are in the past tense; `at` is epoch seconds and never decreases; facts are never mutated. They
are slotted but not frozen, because a frozen one costs three times as much to make. A fact's kind is its class
name; a change of its fields raises VERSION. Outside facts come from a driver; decisions are what the
Controller answers. Replay applies both and asks no policy again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiresias.core.model import Job, JobId, Node, RunId, later

VERSION = 2  # 2: RunRevoked has `why`

Allocation = tuple[tuple[int, int], ...]
"""The slots a run holds: (node position in the cluster, bit mask of slot indices), one pair per node."""


@dataclass(slots=True)
class Allotment:
    """What an allocator wants one job to hold: so many GPUs, on these slots if it names them.

    With `until` the run has a lease: no plan stops it before that instant. Two runs may hold one slot only on
    different layers. In each slice of time a run works if it has the turn: `turn` counts from 0, and with 1
    turn it always works, with 0 turns never: it is paused. Runs of one slot with the same turn are packed.
    `lent` says that the GPUs are of what other tenants leave of their shares; only the allocator reads it.
    """

    job_id: JobId
    gpus: int
    slots: Allocation | None = None
    until: float | None = None
    layer: int = later(0)
    turn: int = later(0)
    turns: int = later(1)
    lent: bool = later(False)


class ExitCause(StrEnum):
    FINISHED = "finished"  # the job's work is done
    PREEMPTED = "preempted"  # stopped by a StopRun, or it asked to be run again
    RETRIED = "retried"  # failed for a reason that another run may not meet
    FAILED = "failed"


class Rule(StrEnum):
    """By which rule a plan stopped a run."""

    PRIORITY = "priority"  # a job of a higher priority class gets its slots
    DEMOTED = "demoted"  # it fell to a lower queue, and a job of a queue that it has left gets its slots
    OUTRANKED = "outranked"  # a job with a better rank gets its slots
    CAPACITY = "capacity"  # fewer GPUs are left: out of service, or held by runs that may not be preempted
    MIGRATION = "migration"  # it starts again on other slots, which makes a hole for a gang
    GPUS_FREE = "gpus-free"  # it ran on CPUs, and there are free GPUs for it
    WISH = "wish"  # the wish of an allocator gives its slots to others, or other slots to it
    RESIZE = "resize"  # the wish of an allocator gives its job another number of GPUs


@dataclass(slots=True)
class Revocation:
    """Why a plan stopped a run: by which rule, for which job, and the queues of the stopped job.

    `from_queue` is its queue when the run was granted, `to_queue` the one when it was revoked; Q1 is 1. Both
    are None under a policy without queues. A job that is resized goes on with `gpus` GPUs.
    """

    rule: Rule
    job_id: JobId | None = None
    from_queue: int | None = None
    to_queue: int | None = None
    gpus: int | None = later(None)


@dataclass(slots=True)
class JobSubmitted:
    at: float
    job: Job


@dataclass(slots=True)
class JobHeld:
    at: float
    job_id: JobId


@dataclass(slots=True)
class JobReleased:
    at: float
    job_id: JobId


@dataclass(slots=True)
class JobCancelled:
    at: float
    job_id: JobId


@dataclass(slots=True)
class JobRequeued:
    """The job's run must stop; the job goes back to the queue with what it has saved."""

    at: float
    job_id: JobId


@dataclass(slots=True)
class JobDeferred:
    """The job waits for something other than its rank: another job, a limit, an instant.

    `reason` is a code for users. With `until` the Controller clears the deferral itself at that instant.
    """

    at: float
    job_id: JobId
    reason: str
    until: float | None = None


@dataclass(slots=True)
class JobCleared:
    """The job is no longer deferred. This is a decision if the deferral had an end."""

    at: float
    job_id: JobId


@dataclass(slots=True)
class JobFailed:
    """A job that holds no slots has failed: what it needs can never be there."""

    at: float
    job_id: JobId


@dataclass(slots=True)
class JobChanged:
    """The job is now this one. Its demand may change only before its first run."""

    at: float
    job: Job


@dataclass(slots=True)
class JobPromoted:
    """Decision: a starving job goes back to the first queue; its service and waiting count from now."""

    at: float
    job_id: JobId


@dataclass(slots=True)
class RunGranted:
    """Decision: the job gets these slots now, on this layer of them."""

    at: float
    run_id: RunId
    job_id: JobId
    allocation: Allocation
    layer: int = later(0)


@dataclass(slots=True)
class RunPaced:
    """Decision: the run works in the `turn`-th of every `turns` slices of time; with 0 turns it is paused."""

    at: float
    run_id: RunId
    turn: int
    turns: int


@dataclass(slots=True)
class RunRevoked:
    """Decision: the run must stop; its slots stay taken until its exit is known.

    Facts of version 1 did not say why.
    """

    at: float
    run_id: RunId
    why: Revocation | None = None


@dataclass(slots=True)
class RunStarted:
    """The run makes progress from now on, `speed` seconds of work per second."""

    at: float
    run_id: RunId
    speed: float = 1.0


@dataclass(slots=True)
class RunProgressed:
    """The job has done `progress_s` of work in all, and goes on at `speed`."""

    at: float
    run_id: RunId
    progress_s: float
    speed: float


@dataclass(slots=True)
class RunEnded:
    """The run ended at `ended_at`, before its exit was seen: its service ends then. RunExited follows."""

    at: float
    run_id: RunId
    ended_at: float


@dataclass(slots=True)
class RunExited:
    """The run's slots are free; the job has saved `progress_s` of work in all."""

    at: float
    run_id: RunId
    cause: ExitCause
    progress_s: float


@dataclass(slots=True)
class WorkSaved:
    """The job has shown that its work outlives a stop: it saved, or a run went on where one had stopped."""

    at: float
    job_id: JobId


@dataclass(slots=True)
class WorkLost:
    """The job begins anew after a stop: the work of runs that held its `gpus` for `lost_s` is lost."""

    at: float
    job_id: JobId
    lost_s: float
    gpus: int


@dataclass(slots=True)
class NodeAdded:
    at: float
    node: Node


@dataclass(slots=True)
class NodeDrained:
    """Nothing new starts on the node; what runs there may go on."""

    at: float
    node: str


@dataclass(slots=True)
class NodeRestored:
    at: float
    node: str


@dataclass(slots=True)
class NodeFellSilent:
    """The node does not answer: nothing new starts there, and its slots stay out of use until it returns.

    That is independent of whether it is drained.
    """

    at: float
    node: str


@dataclass(slots=True)
class NodeReturned:
    """A silent node answers again, and all runs that were given up there are known to be over."""

    at: float
    node: str


@dataclass(slots=True)
class NodeChanged:
    """The node of this name, with as many GPUs as before, has other properties now."""

    at: float
    node: Node


@dataclass(slots=True)
class SlotDrained:
    """Nothing new starts on this slot; a run that holds it may go on."""

    at: float
    node: str
    index: int


@dataclass(slots=True)
class SlotRestored:
    at: float
    node: str
    index: int


@dataclass(slots=True)
class NodeRegrouped:
    """The node's groups of slots that are near each other (Node.sockets) are now these."""

    at: float
    node: str
    sockets: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class SharesSet:
    """The weights of tenants are now these; a tenant that is not named has a weight of 1."""

    at: float
    shares: dict[str, float]


@dataclass(slots=True)
class WishChanged:
    """Decision: the wish of the allocator `by` is the one before, but for these jobs.

    It is asked again at `again_at`; None: when something has happened.
    """

    at: float
    by: str
    given: tuple[Allotment, ...]
    withdrawn: tuple[JobId, ...]
    again_at: float | None = None


@dataclass(slots=True)
class WishRefused:
    """Decision: nothing of a wish of the allocator `by` is applied, because of this problem in it."""

    at: float
    by: str
    problem: str


@dataclass(slots=True)
class NodeCoresCounted:
    """The node, which has GPUs, has so many CPU cores (Node.cpus)."""

    at: float
    node: str
    cpus: int


@dataclass(slots=True)
class TimerFired:
    at: float


Fact = (
    JobSubmitted
    | JobHeld
    | JobReleased
    | JobCancelled
    | JobRequeued
    | JobDeferred
    | JobCleared
    | JobFailed
    | JobChanged
    | JobPromoted
    | RunGranted
    | RunPaced
    | RunRevoked
    | RunStarted
    | RunProgressed
    | RunEnded
    | RunExited
    | WorkSaved
    | WorkLost
    | NodeAdded
    | NodeDrained
    | NodeRestored
    | NodeFellSilent
    | NodeReturned
    | NodeChanged
    | SlotDrained
    | SlotRestored
    | NodeRegrouped
    | SharesSet
    | WishChanged
    | WishRefused
    | NodeCoresCounted
    | TimerFired
)
