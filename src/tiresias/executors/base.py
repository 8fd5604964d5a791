"""What the manager asks of an executor, and what it hears back.

Rules:
- Everything is idempotent by `run_id`; a run's gang is started at most once, for ever.
- An executor remembers nothing that the manager must not lose: after a restart the manager names the runs
  whose exit it has not committed (`adopt`), and hears of each of them again.
- `RunUp` and `RunGone` come once a run for as long as the executor lives. `RunGone` is the only way in
  which a run ends, and it comes only when nothing of the run is alive any more.
- What is wrong with one run (no such program, no such directory) is that run's exit, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tiresias.core.model import JobId, RunId


@dataclass(slots=True, frozen=True)
class Slot:
    """One schedulable GPU. `uuid` is empty for a fake one."""

    node: str
    index: int
    uuid: str = ""

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


@dataclass(slots=True, frozen=True)
class Identity:
    """As whom the workers run."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    user: str
    home: str


@dataclass(slots=True, frozen=True)
class RunSpec:
    """All that is needed to start a run; the manager can build the same one again after a restart.

    `run_dir` belongs to this run alone. The executor keeps its records and the workers' output there; the
    job may write in `job_dir` only.
    """

    run_id: RunId
    job_id: JobId
    number: int  # the job's runs, counted from 1
    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]  # the submitter's, complete
    slots: tuple[Slot, ...]
    run_dir: Path
    checkpoint_dir: str
    job_name: str = ""
    workers: int = 1
    grace_s: float = 60.0
    resumes: bool = False
    preflight: bool = False
    array_index: int | None = None
    launcher: str = "plain"
    identity: Identity | None = None  # None: as the manager itself

    @property
    def job_dir(self) -> Path:
        """The job's `TIRESIAS_RUN_DIR`: what the job tells the manager is found here."""
        return self.run_dir / "job"

    def log(self, worker: int) -> Path:
        """Standard output and error of one worker, only ever appended to."""
        return self.run_dir / f"worker-{worker}.log"


@dataclass(slots=True, frozen=True)
class WorkerExit:
    """How one worker ended: an exit code or a signal, or an error that kept it from starting."""

    code: int | None = None
    signal: int | None = None
    told: bool = False  # we had told it to stop before it ended
    error: str = ""  # why it never ran, and what to do about it

    @property
    def status(self) -> int:
        """As a shell counts: the code, or 128 + the signal."""
        if self.code is not None:
            return self.code
        return 127 if self.signal is None else 128 + self.signal


@dataclass(slots=True, frozen=True)
class RunUp:
    """Every worker executes its program (or has already ended)."""

    run_id: RunId


@dataclass(slots=True, frozen=True)
class RunGone:
    """The run is over and nothing of it lives. The manager commits this, then says `forget`."""

    run_id: RunId
    exits: tuple[WorkerExit, ...] = ()  # by worker; empty if no worker was ever begun
    stopped: bool = False  # `stop` had been called (or the machine shuts down) before the last worker ended
    lost: bool = False  # the supervisor was gone before the workers: their exits are not known
    error: str = ""  # why the run did not start or was lost
    first_failed: int | None = None  # the worker that failed first by itself
    tail: str = ""  # last lines of that worker's output, or of worker 0's
    oom_kills: int = 0  # how often the kernel ran out of memory on this node during the run
    killed: bool = False  # grace had passed, so SIGKILL was sent to a worker
    escaped: int = 0  # processes that outlived the workers and had to be ended
    ended_at: float = 0.0  # epoch seconds by the node's clock, for people
    busy_gpus: tuple[str, ...] = ()  # GPUs (uuid) that still look used long after the end

    @property
    def status(self) -> int:
        """The run's exit status: of the first that failed, else of the first that did not exit with 0."""
        if self.first_failed is not None:
            return self.exits[self.first_failed].status
        return next((each.status for each in self.exits if each.status), 0 if self.exits else 127)


Report = RunUp | RunGone


@dataclass(slots=True)
class Adopted:
    """What became of the expected runs. Of `running` and `gone`, `poll` tells as if they were new.

    A run in `absent` has not begun. It may still begin by itself if the last manager was killed in the act
    of starting it: so either `start` it again or `stop` it, and it ends with a report as every other.
    """

    running: list[RunId] = field(default_factory=list)
    gone: list[RunId] = field(default_factory=list)
    absent: list[RunId] = field(default_factory=list)


class Executor(Protocol):
    """Used by one thread. No call waits for a run."""

    def start(self, spec: RunSpec) -> None:
        """Begin the run, unless it has ever begun before; in both cases its reports will come."""

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        """SIGTERM to every worker, SIGKILL after the grace (None: the run's own).

        Again, a shorter grace counts and a longer one does not. A run that is not known, or is over, is
        left as it is. A run that has not begun never will.
        """

    def poll(self) -> list[Report]:
        """What is new; never waits."""

    def fileno(self) -> int:
        """Readable when `poll` has something to look at: for `loop.add_reader` or `select`."""

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        """After a restart: take over the runs whose exit the manager has not committed."""

    def forget(self, run_id: RunId) -> None:
        """The exit is committed: this run is no longer our business."""

    def close(self) -> None:
        """Let go; runs go on."""
