"""The contract of executors: the calls that a manager makes, and the updates that it gets back.

The second half is the contract of a source of nodes: what an engine that has many machines tells the manager
about them.

Rules:
- Every call is idempotent by `run_id`. The gang of a run is started at most once, ever.
- An executor keeps no state that the manager could lose with it. After a restart the manager names the runs
  whose exit it has not committed (`adopt`) and gets an update on each of them again.
- During the life of an executor there is at most one `RunUp` and one `RunGone` per run. `RunGone` is the only
  way in which a run ends, and it comes only when no process of the run is alive any more.
- An error that concerns one run (no such program, no such directory) is the exit of that run and never an
  exception.

A run over several nodes:
- It has one part per node (`RunSpec.parts`): the slots of the run there, and the workers that hold them. A
  worker never straddles nodes, and workers are numbered node by node, so that ranks follow nodes.
- It is up when every part is up, and gone when all parts are gone; the failure of one part ends all of them.
- An executor of one node is given the same specification with `node` set, and starts that part alone. Its
  own files (claim, up, stop, exit) are in `RunSpec.part_dir`; logs and progress reports of all parts are in
  the directory of the run.
- The one exception to "none of its processes is alive": a run of which a part is on a silent node is gone
  when the heartbeat of that part has stood still for its lease and grace. `RunGone.unknown_on` then names
  the silent nodes, and their slots are not used again before the source says that they are clear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tiresias.core.model import JobId, RunId
from tiresias.executors.gpus import Gpu


@dataclass(slots=True, frozen=True)
class Slot:
    """One schedulable GPU. `uuid` is empty for a fake one, and for a slot of CPUs.

    `machine` is set where it is not the node: GPUs that a machine got later are a node of their own.
    """

    node: str
    index: int
    uuid: str = ""
    machine: str = ""

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


@dataclass(slots=True, frozen=True)
class Identity:
    """The user and groups under which the workers run, and what they inherit from the submitter's process."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    user: str
    home: str
    umask: int | None = None  # None: not known, DEFAULT_UMASK applies
    limits: tuple[tuple[int, int, int], ...] = ()  # resource, soft and hard limit; others are the manager's


@dataclass(slots=True, frozen=True)
class RunPart:
    """What one node does for a run: it holds these slots and starts these workers.

    `rank` counts the nodes of the run from 0. The workers are `first_worker` and those that follow it.
    """

    node: str
    rank: int
    slots: tuple[Slot, ...]
    first_worker: int
    workers: int

    def slots_of(self, worker: int) -> tuple[Slot, ...]:
        """Those of one worker: adjacent ones, shared out evenly; the first workers get what is left over."""
        nth = worker - self.first_worker
        size, rest = divmod(len(self.slots), self.workers)
        start = nth * size + min(nth, rest)
        return self.slots[start : start + size + (nth < rest)]


def parts_of(slots: tuple[Slot, ...], workers: int) -> tuple[RunPart, ...]:
    """The parts of a run with so many workers, in the order in which the nodes come among the slots.

    Each node has at least one worker, so there may be more than were asked for. The others go, one by one,
    to the node whose workers have the most slots each.
    """
    nodes: dict[str, list[Slot]] = {}
    for slot in slots:
        nodes.setdefault(slot.machine or slot.node, []).append(slot)
    counts = dict.fromkeys(nodes, 1)
    for _ in range(workers - len(nodes) if nodes else 0):
        counts[max(nodes, key=lambda name: len(nodes[name]) / counts[name])] += 1  # the first of equal ones
    parts, first = [], 0
    for rank, (node, some) in enumerate(nodes.items()):
        parts.append(RunPart(node, rank, tuple(some), first, counts[node]))
        first += counts[node]
    return tuple(parts)


@dataclass(slots=True, frozen=True)
class RunSpec:
    """Everything that is needed to start a run. The manager can build the same one again after a restart.

    `run_dir` belongs to this run alone. The executor keeps its own files and the output of the workers there;
    the job may write only in `job_dir`.
    """

    run_id: RunId
    job_id: JobId
    number: int  # the runs of a job are numbered from 1
    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]  # the complete environment of the submitter
    slots: tuple[Slot, ...]
    run_dir: Path
    checkpoint_dir: str
    job_name: str = ""
    workers: int = 1
    grace_s: float = 60.0
    resumes: bool = False
    preflight: bool = False
    has_own_checkpoints: bool = False  # the executor makes `checkpoint_dir`, for this job alone
    array_index: int | None = None
    launcher: str = "plain"
    identity: Identity | None = None  # None: the user of the manager itself
    journal: str = ""  # the id of the journal that granted the run; empty for one of an earlier version
    job_key: str = ""  # of the job alone, also among jobs of other managers
    auto: bool = False  # the hook that resumes trainings by themselves is on the Python path
    log_bytes: int = 0  # that the logs of all runs of the job may take together; 0: no cap
    reserve_bytes: int = 0  # that logs leave free on the disk
    terminal: bool = False  # its worker has a terminal, to which a user can attach
    idle_limit_s: float | None = None  # the run is ended when nobody has used it for so long; None: never
    cpus: int | None = None  # cores' worth of time that its processes may use together; None: no limit
    memory_bytes: int | None = None  # that they may use together; None: no limit
    sdk: Path | None = None  # what the executor puts on the Python path; see executors/sdk.py
    node: str = ""  # only the part of this node is started; empty: all parts, on this machine
    master_addr: str = ""  # an address of the first node that the others can reach; empty: the loopback one
    master_port: int = 0  # free on the first node; 0: the executor chooses one that is free on its machine

    @property
    def parts(self) -> tuple[RunPart, ...]:
        """What each node does, the first node first; empty for a run without slots."""
        return parts_of(self.slots, self.workers)

    @property
    def part(self) -> RunPart | None:
        """What the node does that `node` names; None for a run that is started as a whole."""
        return next((part for part in self.parts if part.node == self.node), None) if self.node else None

    @property
    def part_dir(self) -> Path:
        """The directory in which the executor keeps its own files about what it has started."""
        part = self.part
        return self.run_dir if part is None else self.run_dir / f"node-{part.rank}"

    @property
    def job_dir(self) -> Path:
        """The `TIRESIAS_RUN_DIR` of the job, in which it leaves its progress reports."""
        return self.run_dir / "job"

    def log(self, worker: int) -> Path:
        """The file to which standard output and standard error of one worker are appended."""
        return self.run_dir / f"worker-{worker}.log"


@dataclass(slots=True, frozen=True)
class WorkerExit:
    """How one worker ended: an exit code or a signal, or an error that kept it from starting."""

    code: int | None = None
    signal: int | None = None
    was_signalled: bool = False  # the supervisor had sent it SIGTERM before it ended
    error: str = ""  # why it never ran, and what to do about it

    @property
    def status(self) -> int:
        """The exit status as a shell counts it: the code, or 128 + the number of the signal."""
        if self.code is not None:
            return self.code
        return 127 if self.signal is None else 128 + self.signal


@dataclass(slots=True, frozen=True)
class RunUp:
    """Every worker of the run executes its program or has already ended."""

    run_id: RunId


@dataclass(slots=True, frozen=True)
class RunGone:
    """The run has ended and none of its processes is alive. The manager commits this, then calls `forget`."""

    run_id: RunId
    exits: tuple[WorkerExit, ...] = ()  # by worker; empty if no worker was started
    stopped: bool = False  # `stop` was called, or the machine shut down, before the last worker ended
    lost: bool = False  # the supervisor ended before the workers: their exits are not known
    never_begun: bool = False  # no supervisor has claimed it, and none will: it used none of its job's time
    error: str = ""  # why the run did not start or was lost
    first_failed: int | None = None  # the worker that failed first without having been signalled
    tail: str = ""  # the last lines of the output of that worker, or of worker 0
    oom_kills: int = 0  # processes on this node that the kernel killed for want of memory during the run
    own_oom_kills: int | None = None  # those that were processes of the run; None: not known
    # Its memory limit, if the kernel killed a process of the run because the run had reached that.
    over_memory_bytes: int | None = None
    killed: bool = False  # SIGKILL was sent to a worker after the grace period
    idle: bool = False  # the supervisor has ended it because nobody used it
    escaped: int = 0  # processes that outlived the workers and were ended by the supervisor
    ended_at: float = 0.0  # epoch seconds by the wall clock of the node; 0: not known
    boot_id: str = ""  # the boot of the node in which the run ended; empty: not known
    ended_elapsed_s: float = 0.0  # seconds since that boot, suspended time included
    # Files in the checkpoint directory that the run made or changed; None: it could not be looked at.
    files_saved: int | None = None
    last_saved_at: float = 0.0  # when the last of them was written, by the clock of their file system
    busy_gpus: tuple[str, ...] = ()  # uuids of GPUs that the driver still shows in use seconds after the end
    # Silent nodes on which the run was given up: its processes there may be alive (see the module).
    unknown_on: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The exit status of the worker that failed first, else of the first that did not exit with 0."""
        if self.first_failed is not None:
            return self.exits[self.first_failed].status
        return next((each.status for each in self.exits if each.status), 0 if self.exits else 127)


RunUpdate = RunUp | RunGone
"""What `Executor.poll` returns. (A progress report is something else: it is written by the training.)"""


@dataclass(slots=True)
class Adopted:
    """The expected runs by what was found of them. `poll` returns updates on `running` and `gone` runs.

    A run in `absent` has not begun. It may still begin by itself if the previous manager was killed while it
    started the run. So the caller must either `start` or `stop` it; in both cases it ends with a `RunGone`.
    """

    running: list[RunId] = field(default_factory=list)
    gone: list[RunId] = field(default_factory=list)
    absent: list[RunId] = field(default_factory=list)


class Executor(Protocol):
    """Used by one thread only. No call waits for a run."""

    def start(self, spec: RunSpec) -> None:
        """Start the run unless it was started before. In both cases `poll` will return its updates."""

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        """Send SIGTERM to every worker and SIGKILL after `grace_s` seconds (None: the grace of the run).

        If it is called again, a shorter grace replaces the earlier one; a longer grace is ignored. A run that
        is unknown or has ended is left as it is. A run that has not begun will never begin.
        """

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        """Let the run work in the `turn`-th of every `turns` slices of so many seconds; 1: always, 0: never.

        In the others its processes are stopped (SIGSTOP). This goes on without the manager, and ends with the
        run. If the supervisor is killed, nobody stays stopped. A run that is not known is left as it is.
        """

    def poll(self) -> list[RunUpdate]:
        """Return the updates since the last call, without waiting for any."""

    def fileno(self) -> int:
        """A descriptor that is readable when `poll` should be called: for `loop.add_reader` or `select`."""

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        """Take over, after a restart, the runs whose exit the manager has not committed."""

    def forget(self, run_id: RunId) -> None:
        """Drop a run whose exit the manager has committed."""

    def close(self) -> None:
        """Release descriptors and threads. Runs continue."""


# --- nodes that come and go ----------------------------------------------------------------------------

SILENT_AFTER_S = 5.0
"""A source calls a node silent when it has not answered for so long; nothing new is started there."""


@dataclass(slots=True, frozen=True)
class FoundNode:
    """A node as it describes itself. `name` is its own for ever, whatever id the engine gives it.

    GPUs are in the order of their indices; a GPU with a reason in `unhealthy` is not used. `gpu_type` is
    what users ask for with `--gpu-type`, and empty where the GPUs differ. A node without GPUs offers its
    cores to jobs that may run on CPUs. 0 cores or bytes mean that the number is not known.
    """

    name: str
    gpus: tuple[Gpu, ...] = ()
    gpu_type: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    rack: str = ""
    address: str = ""  # at which the other nodes can reach it: the MASTER_ADDR of gangs that begin there
    sockets: tuple[tuple[int, ...], ...] = ()  # groups of GPU indices that are near each other


@dataclass(slots=True, frozen=True)
class NodeJoined:
    """The node answers and may be used: no process of a run that was given up there is alive.

    A source tells this of every node once in its own life, and again when a node has another description.
    """

    node: FoundNode


@dataclass(slots=True, frozen=True)
class NodeSilent:
    """The node has not answered for SILENT_AFTER_S. Its runs may go on; nothing new is started there."""

    name: str


@dataclass(slots=True, frozen=True)
class NodeReturned:
    """A silent node answers again as it was, and no process of a run that was given up there is alive."""

    name: str


@dataclass(slots=True, frozen=True)
class NodeUnusable:
    """The node answers and must not be used, until it joins. `reason` is a clause for users.

    Examples: it does not see the shared folder, it has another version, another node has the same name.
    """

    name: str
    reason: str


@dataclass(slots=True, frozen=True)
class GpusTroubled:
    """The GPUs of a node that must not be used at present: by index, why. Replaces the report before."""

    name: str
    reasons: Mapping[int, str]


NodeUpdate = NodeJoined | NodeSilent | NodeReturned | NodeUnusable | GpusTroubled
"""What `NodeSource.node_updates` returns."""


class NodeSource(Protocol):
    """Tells of nodes. It is used by the thread of the executor, and is often the executor itself.

    It keeps nothing that the manager could lose with it: a new source tells again of every node. Of a node
    that the manager knows and that a new source has not reached after SILENT_AFTER_S, it tells NodeSilent.
    """

    def expect(self, names: Iterable[str]) -> None:
        """The nodes that the manager knows already, called once before the first `node_updates`."""

    def node_updates(self) -> list[NodeUpdate]:
        """The updates since the last call, without waiting; `Executor.fileno` announces them as well."""
