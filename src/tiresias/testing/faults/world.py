"""The simulated machines: the ground truth, which is independent of the manager.

The directory of a run is its identity, as on a real machine: the first supervisor that claims it starts the
gang, and the exit record stays in it until the manager calls `forget`. Supervisors and workers outlive the
manager. A run holds its slots from the claim until none of its processes lives, which is a while after its
workers ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tiresias.core.model import RunId
from tiresias.executors.base import RunGone, RunSpec, WorkerExit
from tiresias.testing.faults.clock import Clocks
from tiresias.testing.faults.trainings import CODES, TAILS, OnStop, Training, Trouble

SIGKILL, SIGTERM = 9, 15
LOST = "the machine was restarted during the run"


@dataclass(slots=True)
class Program:
    """What a training has on the disk, independent of its runs."""

    training: Training
    saved: int = 0  # steps in its checkpoint
    steps: list[tuple[int, RunId]] = field(default_factory=list)  # every step done, and the run that did it
    troubles: int = 0  # how often its trouble occurred
    is_finished: bool = False  # whether it called job.finished()

    @property
    def is_done(self) -> bool:
        return self.saved >= self.training.steps


@dataclass(slots=True)
class Gang:
    """One run as it really is. `record` is the exit record in its directory."""

    spec: RunSpec
    program: Program
    is_alive: bool = False
    is_supervised: bool = False
    is_up: bool = False
    is_loaded: bool = False
    is_ending: bool = False  # its workers have ended, but other processes of it still live
    stop_grace_s: float | None = None  # not None: it is to stop, with this grace period
    was_signalled: bool = False  # SIGTERM has reached its workers
    step: int = 0
    has_saved: bool = False
    record: RunGone | None = None
    trouble: Trouble | None = None  # what ended it
    began_at: float = 0.0  # in true time
    over_at: float | None = None
    epoch: int = 0  # scheduled events of an earlier epoch are cancelled


class Listener(Protocol):
    """What the World calls: an executor."""

    def is_up(self, gang: Gang) -> None: ...

    def is_over(self, gang: Gang) -> None: ...

    def is_orphaned(self, gang: Gang) -> None: ...


@dataclass(slots=True)
class Weather:
    """How slow and unreliable the World is at present: longest delays in seconds, and probabilities."""

    spawn_s: float = 0.3
    signal_s: float = 0.1
    linger_s: float = 3.0
    update_s: float = 20.0
    duplicate: float = 0.2
    lose_up: float = 0.1
    refuse_start: float = 0.05


CALM = Weather(0.01, 0.01, 0.1, 0.05, 0.0, 0.0, 0.0)


class World:
    """Slots, disks, processes and true time. `log` is called with each event of the story."""

    def __init__(self, rng: Random, trainings: dict[str, Training], log: Callable[..., None]):
        self.rng = rng
        self.log = log
        self.at = 0.0
        self.clocks = Clocks(lambda: self.at)
        self.boot = 0
        self.weather = Weather()
        self.programs = {name: Program(training) for name, training in trainings.items()}
        self.tried: dict[str, Program] = {}  # the programs of preflights
        self.disk: dict[Path, Gang] = {}  # run directories and their contents, until they are forgotten
        self.claims: set[Path] = set()  # claim.json, which is never removed
        self.stop_requests: dict[Path, float] = {}  # stop.json, also of runs that have not begun
        self.gangs: list[Gang] = []  # every gang that was ever begun
        self.listeners: list[Listener] = []  # the executors that are open
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    # --- time ------------------------------------------------------------------------------------------

    @property
    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def after(self, delay_s: float, what: Callable[..., None], *about: Any) -> None:
        self.when(self.at + delay_s, what, *about)

    def when(self, at: float, what: Callable[..., None], *about: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, what, about))

    def happen(self) -> None:
        """Simulate the next event."""
        self.at, _, what, about = heappop(self._heap)
        what(*about)

    def program_of(self, spec: RunSpec) -> Program:
        """The program of a run; a preflight has its own copy, which has no effect on the job."""
        program = self.programs[spec.command[-1]]
        if not spec.preflight:
            return program
        return self.tried.setdefault(spec.command[-1], Program(program.training))

    @property
    def live(self) -> list[Gang]:
        return [gang for gang in self.gangs if gang.is_alive]

    # --- requests to supervisors -----------------------------------------------------------------------

    def spawn(self, spec: RunSpec) -> None:
        """Start a supervisor, which begins a little later, even if the manager is killed meanwhile."""
        self.after(self.rng.random() * self.weather.spawn_s, self._begin, spec, self.boot)

    def _begin(self, spec: RunSpec, boot: int) -> None:
        if spec.run_dir in self.claims or boot != self.boot:
            return
        self.claims.add(spec.run_dir)
        program = self.program_of(spec)
        gang = Gang(spec, program, is_alive=True, is_supervised=True, began_at=self.at)
        self.disk[spec.run_dir] = gang
        self.gangs.append(gang)
        self.log("begins", spec.run_id, [str(slot) for slot in spec.slots])
        gang.step = program.saved
        training = program.training
        if spec.run_dir in self.stop_requests:
            self._end(gang, RunGone(spec.run_id, stopped=True))
        elif training.trouble is Trouble.UNSTARTABLE:
            gang.trouble = training.trouble
            program.troubles += 1
            error = f"program {spec.command[0]!r} not found in PATH=/usr/bin; give its whole path"
            exits = (WorkerExit(error=error),) * spec.workers
            self._end(gang, RunGone(spec.run_id, exits, error=error, first_failed=0))
        else:
            self._later(gang, self.rng.random() * self.weather.spawn_s, self._up)

    def void(self, spec: RunSpec) -> Gang:
        """Claim the run so that it is never started."""
        gang = Gang(spec, self.program_of(spec))
        self.claims.add(spec.run_dir)
        self.disk[spec.run_dir] = gang
        gang.record = RunGone(spec.run_id, stopped=True)
        self.log("never begins", spec.run_id)
        return gang

    def refuse(self, spec: RunSpec) -> Gang:
        """The machine has no room for the run: nothing of it is started, and its directory is claimed."""
        gang = self.void(spec)
        gang.record = RunGone(spec.run_id, error=f"[Errno 28] No space left on device: '{spec.run_dir}'")
        self.log("is refused by the machine", spec.run_id)
        return gang

    def stop(self, spec: RunSpec, grace_s: float | None) -> None:
        """Write the stop request, and signal the supervisor if there is one."""
        grace_s = spec.grace_s if grace_s is None else grace_s
        self.stop_requests[spec.run_dir] = min(grace_s, self.stop_requests.get(spec.run_dir, grace_s))
        gang = self.disk.get(spec.run_dir)
        if gang is not None and gang.is_supervised:
            self.after(self.rng.random() * self.weather.signal_s, self._signal, gang)

    def sweep(self, gang: Gang) -> None:
        """End the processes of a run without a supervisor, and write its exit record."""
        self.after(self.rng.random() * self.weather.spawn_s, self._swept, gang)

    def _swept(self, gang: Gang) -> None:
        if gang.record is None:
            self._vanish(gang)
            gang.record = RunGone(gang.spec.run_id, lost=True, error=LOST, ended_at=self.at)
            self._report_end(gang)

    def forget(self, spec: RunSpec) -> None:
        """Remove the run from the disk: the manager needs its exit record no more."""
        self.disk.pop(spec.run_dir, None)
        self.stop_requests.pop(spec.run_dir, None)

    # --- workers ---------------------------------------------------------------------------------------

    def _later(self, gang: Gang, delay_s: float, what: Callable[[Gang], None]) -> None:
        self.after(delay_s, self._if_same, gang, gang.epoch, what)

    def _if_same(self, gang: Gang, epoch: int, what: Callable[[Gang], None]) -> None:
        if gang.epoch == epoch and gang.is_alive:
            what(gang)

    def _up(self, gang: Gang) -> None:
        gang.is_up = True
        for listener in self.listeners:
            listener.is_up(gang)
        self._later(gang, gang.program.training.load_s, self._loaded)
        if gang.spec.run_dir in self.stop_requests:
            self._signal(gang)

    def _loaded(self, gang: Gang) -> None:
        gang.is_loaded = True
        self._go_on(gang)

    def _go_on(self, gang: Gang) -> None:
        """Begin the next step, or end."""
        program, training = gang.program, gang.program.training
        if gang.step >= training.steps:
            self._save(gang)
            if training.says_finished:
                program.is_finished = True
                gang.spec.job_dir.mkdir(parents=True, exist_ok=True)
                (gang.spec.job_dir / "finished").write_text("0\n")
            self._exit(gang, WorkerExit(code=training.ends_with, was_signalled=gang.was_signalled))
        elif self._meets_trouble(gang):
            assert training.trouble is not None
            gang.trouble = training.trouble
            program.troubles += 1
            if training.trouble is Trouble.ASKS:
                self._save(gang)
            self._exit(gang, WorkerExit(code=CODES[training.trouble], was_signalled=gang.was_signalled))
        else:
            self._later(gang, training.step_s, self._stepped)

    def _meets_trouble(self, gang: Gang) -> bool:
        training = gang.program.training
        return (
            training.trouble is not None
            and gang.step >= training.trouble_step
            and gang.program.troubles < training.trouble_times
        )

    def _stepped(self, gang: Gang) -> None:
        program = gang.program
        gang.step += 1
        program.steps.append((gang.step, gang.spec.run_id))
        if gang.step % program.training.saves_every == 0:
            self._save(gang)
        self._go_on(gang)

    def _save(self, gang: Gang) -> None:
        gang.program.saved = max(gang.program.saved, gang.step)
        gang.has_saved = True

    def _signal(self, gang: Gang) -> None:
        """Send SIGTERM to every worker, and SIGKILL after the grace period."""
        if not gang.is_supervised or gang.is_ending or not gang.is_up:
            return
        grace_s = self.stop_requests[gang.spec.run_dir]
        if gang.stop_grace_s is None or grace_s < gang.stop_grace_s:
            gang.stop_grace_s = grace_s
            self.after(grace_s, self._kill, gang)
        if gang.was_signalled:
            return
        gang.was_signalled = True
        if gang.program.training.on_stop is not OnStop.IGNORE:
            gang.epoch += 1  # its next step does not happen
            self._later(gang, gang.program.training.save_s, self._answer)

    def _answer(self, gang: Gang) -> None:
        how = gang.program.training.on_stop
        if how is not OnStop.CRASH and gang.is_loaded:
            self._save(gang)
        code = {OnStop.SAVE: 75, OnStop.ZERO: 0, OnStop.CRASH: 1}.get(how)
        signal = SIGTERM if how is OnStop.DIE else None
        self._exit(gang, WorkerExit(code=code, signal=signal, was_signalled=True))

    def _kill(self, gang: Gang) -> None:
        if gang.is_supervised and not gang.is_ending:
            self._exit(gang, WorkerExit(signal=SIGKILL, was_signalled=True), killed=True)

    # --- ends ------------------------------------------------------------------------------------------

    def _exit(self, gang: Gang, end: WorkerExit, *, killed: bool = False) -> None:
        failed = 0 if end.status and not end.was_signalled else None
        tail = TAILS.get(gang.trouble, "") if gang.trouble is not None else ""
        gone = RunGone(
            gang.spec.run_id,
            (end,) * gang.spec.workers,
            stopped=gang.was_signalled,
            first_failed=failed,
            tail=tail,
            killed=killed,
            files_saved=int(gang.has_saved),
        )
        self._end(gang, gone)

    def _end(self, gang: Gang, gone: RunGone) -> None:
        """The workers have ended; the other processes of the run end a little later."""
        gang.is_ending = True
        gang.epoch += 1
        linger_s = self.rng.random() * self.weather.linger_s if self.rng.random() < 0.3 else 0.0
        self._later(gang, linger_s, lambda gang: self._over(gang, gone))

    def _over(self, gang: Gang, gone: RunGone) -> None:
        gang.is_alive, gang.over_at = False, self.at
        if gang.is_supervised:  # otherwise there is nobody to write the exit record
            gang.is_supervised = False
            gang.record = replace(gone, **self._ended())
            self._report_end(gang)

    def _ended(self) -> dict[str, Any]:
        """What an exit record says about the instant at which it was written."""
        clocks = self.clocks
        return {
            "ended_at": clocks.wall(),
            "boot_id": str(self.boot),
            "ended_elapsed_s": clocks.elapsed(),
        }

    def _report_end(self, gang: Gang) -> None:
        self.log("is over", gang.spec.run_id, _words(gang))
        for listener in self.listeners:
            listener.is_over(gang)

    # --- disasters -------------------------------------------------------------------------------------

    def reboot(self) -> None:
        """End every process without an exit record."""
        self.boot += 1
        self.clocks.boot()
        for gang in self.live:
            self._vanish(gang)

    def lose_supervisor(self, gang: Gang) -> None:
        """Kill a supervisor; its workers go on until they are swept."""
        gang.is_supervised = False
        for listener in self.listeners:
            listener.is_orphaned(gang)

    def _vanish(self, gang: Gang) -> None:
        gang.is_alive = gang.is_supervised = False
        gang.epoch += 1


def _words(gang: Gang) -> str:
    gone = gang.record
    assert gone is not None
    how = "lost" if gone.lost else "killed" if gone.killed else f"status {gone.status}"
    stopped = ", stopped" if gone.stopped else ""
    return f"{how}{stopped}; saved {gang.program.saved}/{gang.program.training.steps}"
