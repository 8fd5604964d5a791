"""The simulated machine: the ground truth, which is independent of the manager.

It has a disk, processes, clocks and true time. Supervisors are processes that the executor has started with a
plan, as on a real machine. They write the same files with the same code (`executors.run_files`), and they and
their workers outlive the manager. A run holds its slots from the claim until none of its processes lives,
which is a while after its workers ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any

from tiresias.core.model import JobId, RunId
from tiresias.executors import run_files
from tiresias.executors.base import RunSpec, Slot
from tiresias.executors.kernel import write_all
from tiresias.executors.turns import Turns
from tiresias.testing.faults.clock import Clocks
from tiresias.testing.faults.disk import Disk
from tiresias.testing.faults.kernel import Process, SimulatedKernel
from tiresias.testing.faults.trainings import CODES, TAILS, OnStop, Training, Trouble

SIGHUP, SIGINT, SIGKILL, SIGTERM = 1, 2, 9, 15
WRITES_AGAIN_S = 1.0  # a supervisor that cannot write the exit record
FIRST_PID = 100
SLOW = 100.0
LATE_S = 0.001  # a supervisor wakes a little after the beginning of a slice


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
    """One run as it really is, from its claim on. `record` is its exit record, once it is safely written."""

    spec: RunSpec
    program: Program
    supervisor: Process
    turns: Turns
    is_alive: bool = True
    is_up: bool = False
    is_loaded: bool = False
    is_ending: bool = False  # its workers have ended, but other processes of it still live
    stop_grace_s: float | None = None  # not None: it is to stop, with this grace period
    was_signalled: bool = False  # SIGTERM has reached its workers
    step: int = 0
    has_saved: bool = False
    record: dict[str, Any] | None = None
    trouble: Trouble | None = None  # what ended it
    began_at: float = 0.0  # in true time
    over_at: float | None = None
    epoch: int = 0  # scheduled events of an earlier epoch are cancelled
    due: tuple[float, Callable[[Gang], None]] | None = None  # what its workers do next, and when
    is_stopped: bool = False  # its processes have received SIGSTOP, and no SIGCONT since
    left: tuple[float, Callable[[Gang], None]] | None = None  # of a stopped run: the same, after how long
    wakes: int = 0  # only the last wish of its supervisor to be woken counts

    @property
    def is_supervised(self) -> bool:
        return self.supervisor.is_alive

    @property
    def is_lost(self) -> bool:
        """Whether nobody knows how it ended."""
        return self.record is None or bool(self.record["lost"])


@dataclass(slots=True)
class Weather:
    """How slow and unreliable the World is at present: longest delays in seconds, and probabilities."""

    spawn_s: float = 0.3
    signal_s: float = 0.1
    linger_s: float = 3.0
    update_s: float = 20.0
    duplicate: float = 0.2
    lose_up: float = 0.1
    short_write: float = 0.05
    slow_spawn: float = 0.1  # a supervisor takes SLOW times as long to begin


CALM = Weather(0.01, 0.01, 0.1, 0.05, 0.0, 0.0, 0.0, 0.0)


def spec_of(plan: dict[str, Any]) -> RunSpec:
    """The run that a supervisor was started for, as its workers see it."""
    envs = [worker["env"] for worker in plan["workers"]]
    names = [name for env in envs for name in env["TIRESIAS_SLOTS"].split(",") if name]
    env = envs[0]
    return RunSpec(
        RunId(plan["run_id"]),
        JobId(int(env["TIRESIAS_JOB_ID"])),
        int(env["TIRESIAS_RUN"]),
        tuple(plan["workers"][0]["argv"]),
        plan["cwd"],
        env,
        tuple(Slot(name.rpartition(":")[0], int(name.rpartition(":")[2])) for name in names),
        Path(plan["run_dir"]),
        env["TIRESIAS_CHECKPOINT_DIR"],
        workers=len(plan["workers"]),
        grace_s=plan["grace_s"],
        resumes=env["TIRESIAS_RESUME"] == "1",
        preflight="TIRESIAS_PREFLIGHT" in env,
    )


def _no_point(what: str) -> None:
    """A supervisor is killed between two events only."""


class Workers:
    """The workers of all runs of a World: they load, make steps, save, meet trouble, stop and end."""

    def __init__(self, world: World):
        self._world = world

    def begin(self, gang: Gang) -> None:
        """Start the workers of a run that was just claimed."""
        self._later(gang, self._world.rng.random() * self._world.weather.spawn_s, self._up)

    def _later(self, gang: Gang, delay_s: float, what: Callable[[Gang], None]) -> None:
        gang.due = self._world.at + delay_s, what
        self._world.after(delay_s, self._if_same, gang, gang.epoch, what)

    def _if_same(self, gang: Gang, epoch: int, what: Callable[[Gang], None]) -> None:
        if gang.epoch == epoch and gang.is_alive:
            gang.due = None
            what(gang)

    # --- turns -----------------------------------------------------------------------------------------

    def take_turns(self, gang: Gang) -> None:
        """Stop or continue the processes of the run, as its supervisor does at each slice and each SIGHUP."""
        if not (gang.is_alive and gang.is_supervised and gang.is_up):
            return
        now, must_end = self._world.clocks.wall(), gang.stop_grace_s is not None or gang.is_ending
        if gang.turns.may_work(now) or must_end:
            self.let_continue(gang)
        elif not gang.is_stopped:
            self._freeze(gang)
        wait_s = gang.turns.wait_s(now)
        if wait_s is not None and not must_end:
            gang.wakes += 1
            self._world.after(wait_s + LATE_S, self._wake, gang, gang.wakes)

    def _wake(self, gang: Gang, number: int) -> None:
        if gang.wakes == number:
            self.take_turns(gang)

    def _freeze(self, gang: Gang) -> None:
        gang.is_stopped = True
        gang.epoch += 1
        if gang.due is not None:
            at, what = gang.due
            gang.left, gang.due = (at - self._world.at, what), None

    def let_continue(self, gang: Gang) -> None:
        if gang.is_stopped:
            gang.is_stopped = False
            left, gang.left = gang.left, None
            if left is not None:
                self._later(gang, *left)

    # --- from the start to the end ---------------------------------------------------------------------

    def _up(self, gang: Gang) -> None:
        gang.is_up = True
        if gang.is_supervised and self._world.rng.random() >= self._world.weather.lose_up:
            self._announce(gang)
        self._later(gang, gang.program.training.load_s, self._loaded)
        self.take_turns(gang)
        if gang.supervisor.is_stopped:
            self.stop(gang)

    def _announce(self, gang: Gang) -> None:
        """Write `up.json` and wake the manager, if there is one."""
        kernel, plan = self._world.kernel_of(gang.supervisor), gang.supervisor.plan
        assert plan is not None
        try:
            about = {"boot_id": self._world.boot_id, "workers": []}
            run_files.put(plan["run_dir"], run_files.UP, about, kernel)
            pipe = kernel.open(plan["news"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            kernel.write(pipe, b"u")
        except OSError as error:
            self._world.log("cannot announce", gang.spec.run_id, str(error))

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
            self._exit(gang, code=training.ends_with)
        elif self._meets_trouble(gang):
            assert training.trouble is not None
            gang.trouble = training.trouble
            program.troubles += 1
            if training.trouble is Trouble.ASKS:
                self._save(gang)
            self._exit(gang, code=CODES[training.trouble])
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

    def stop(self, gang: Gang) -> None:
        """Send SIGTERM to every worker, and SIGKILL after the grace period, if there is one."""
        if not gang.is_supervised or gang.is_ending or not gang.is_up:
            return
        kernel = self._world.kernel_of(gang.supervisor)
        request = run_files.read(str(gang.spec.run_dir), run_files.STOP, kernel) or {}
        asked_s = float(request.get("grace_s", gang.spec.grace_s))
        grace_s = 0.0 if gang.supervisor.is_killing else asked_s
        if gang.stop_grace_s is None or grace_s < gang.stop_grace_s:
            gang.stop_grace_s = grace_s
            self._world.after(grace_s, self._kill, gang)
        if gang.was_signalled:
            return
        gang.was_signalled = True
        self.let_continue(gang)  # so that its workers get the signal
        if gang.program.training.on_stop is not OnStop.IGNORE:
            gang.epoch += 1  # its next step does not happen
            self._later(gang, gang.program.training.save_s, self._answer)

    def _answer(self, gang: Gang) -> None:
        how = gang.program.training.on_stop
        if how is not OnStop.CRASH and gang.is_loaded:
            self._save(gang)
        code = {OnStop.SAVE: 75, OnStop.ZERO: 0, OnStop.CRASH: 1}.get(how)
        self._exit(gang, code=code, signal=SIGTERM if how is OnStop.DIE else None)

    def _kill(self, gang: Gang) -> None:
        if gang.is_supervised and not gang.is_ending and gang.is_alive:
            self._exit(gang, signal=SIGKILL, killed=True)

    def _exit(
        self, gang: Gang, *, code: int | None = None, signal: int | None = None, killed: bool = False
    ) -> None:
        """All workers end in the same way."""
        end = _exit(code, signal, gang.was_signalled)
        failed = 0 if (code or signal) and not gang.was_signalled else None
        if gang.trouble is not None and gang.is_supervised:
            self._print(gang, TAILS[gang.trouble])
        how = {"exits": [end] * gang.spec.workers, "first_failed": failed, "killed": killed}
        self.end(gang, how | {"stopped": gang.was_signalled, "files_saved": int(gang.has_saved)})

    def _print(self, gang: Gang, text: str) -> None:
        """The last output of a training. There is always room for it, or its cause could not be known."""
        kernel, path = self._world.kernel_of(gang.supervisor), str(gang.spec.log(0))
        shortages, self._world.shortages = self._world.shortages, {}
        write_all(kernel.open(path, os.O_WRONLY | os.O_CREAT, 0o600), text.encode(), kernel)
        self._world.shortages = shortages

    def end(self, gang: Gang, how: dict[str, Any]) -> None:
        """The workers have ended; the other processes of the run end a little later."""
        gang.is_ending = True
        gang.epoch += 1
        rng, longest_s = self._world.rng, self._world.weather.linger_s
        linger_s = rng.random() * longest_s if rng.random() < 0.3 else 0.0
        self._later(gang, linger_s, lambda gang: self._over(gang, how))

    def _over(self, gang: Gang, how: dict[str, Any]) -> None:
        gang.is_alive, gang.over_at = False, self._world.at
        plan = gang.supervisor.plan
        assert plan is not None
        self._world.record(gang.supervisor, plan, how)  # unless it is dead


class World:
    """The disk, processes and true time. `log` is called with each event of the story."""

    def __init__(self, rng: Random, trainings: dict[str, Training], log: Callable[..., None]):
        self.rng = rng
        self.log = log
        self.at = 0.0
        self.clocks = Clocks(lambda: self.at)
        self.boot = 0
        self.weather = Weather()
        self.shortages: dict[int, float] = {}  # what the machine lacks: errors, and how many calls have one
        self.disk = Disk()
        self.processes: dict[int, Process] = {}
        self.programs = {name: Program(training) for name, training in trainings.items()}
        self.tried: dict[str, Program] = {}  # the programs of preflights
        self.gangs: list[Gang] = []  # every gang that was ever begun
        self.swept_alive: list[RunId] = []  # runs that were ended as lost though their supervisors lived
        self.workers = Workers(self)
        self._by_dir: dict[str, Gang] = {}
        self._next_pid = FIRST_PID
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

    def late(self) -> float:
        """When a process gets to know of what another one has done now: at once, or some time later."""
        # Most news is not delayed: if all were, little would be overtaken.
        if self.rng.random() >= 0.3:
            return self.at
        at = self.at + self.rng.random() * self.weather.update_s
        self.when(at, _nothing)
        return at

    # --- what is there ---------------------------------------------------------------------------------

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boot}"

    def program_of(self, spec: RunSpec) -> Program:
        """The program of a run; a preflight has its own copy, which has no effect on the job."""
        program = self.programs[spec.command[-1]]
        if not spec.preflight:
            return program
        return self.tried.setdefault(spec.command[-1], Program(program.training))

    @property
    def live(self) -> list[Gang]:
        return [gang for gang in self.gangs if gang.is_alive]

    @property
    def supervisors(self) -> list[Process]:
        return [each for each in self.processes.values() if each.is_alive]

    def gang_at(self, run_dir: Path) -> Gang | None:
        return self._by_dir.get(str(run_dir))

    def exit_of(self, gang: Gang) -> dict[str, Any] | None:
        """The exit record of a run as it is on the disk."""
        return run_files.read(str(gang.spec.run_dir), run_files.EXIT, self.kernel_of(gang.supervisor))

    # --- processes -------------------------------------------------------------------------------------

    def new_pid(self) -> int:
        self._next_pid += 1
        return self._next_pid

    def spawn(self, plan: dict[str, Any], parent: SimulatedKernel) -> int:
        """Start a supervisor, which begins a little later, even if the manager is killed meanwhile."""
        process = Process(self.new_pid(), int(self.clocks.elapsed() * 100), parent, plan)
        self.processes[process.pid] = process
        slow = SLOW if self.rng.random() < self.weather.slow_spawn else 1.0
        self.after(self.rng.random() * self.weather.spawn_s * slow, self._main, process)
        return process.pid

    def signal(self, process: Process, number: int) -> None:
        """SIGTERM to a supervisor: it is to read the stop request. SIGINT: it is to kill its gang at once.

        SIGHUP: it is to read the turns of the run.
        """
        self.after(self.rng.random() * self.weather.signal_s, self._signalled, process, number)

    def _signalled(self, process: Process, number: int) -> None:
        assert process.plan is not None
        gang = self._by_dir.get(process.plan["run_dir"])
        is_its = gang is not None and gang.supervisor is process
        if number == SIGHUP:
            if gang is not None and is_its:
                gang.turns.read()
                self.workers.take_turns(gang)
            return
        process.is_stopped = True
        process.is_killing = process.is_killing or number == SIGINT
        if gang is not None and is_its:
            self.workers.stop(gang)

    def _exits(self, process: Process, status: int = 0) -> None:
        if process.is_alive:
            process.is_alive, process.status = False, status
            process.seen_at = self.late()
            if process.parent is None:
                self.processes.pop(process.pid, None)

    def lose_parent(self, parent: SimulatedKernel) -> None:
        """The manager has ended: what it has not waited for is nobody's child any more."""
        for process in list(self.processes.values()):
            if process.parent is parent:
                process.parent = None
                if not process.is_alive:
                    del self.processes[process.pid]

    def kernel_of(self, process: Process) -> SimulatedKernel:
        return SimulatedKernel(self, process.pid, _no_point, is_limited=False)

    # --- supervisors -----------------------------------------------------------------------------------

    def _main(self, process: Process) -> None:
        if not process.is_alive:
            return
        assert process.plan is not None
        if process.plan["sweeps"]:
            self._sweep(process, process.plan)
            return
        try:
            self._supervise(process, process.plan, self.kernel_of(process))
        except OSError as error:
            self.log("cannot claim", process.plan["run_id"], str(error))
            self._exits(process, (error.errno or 1) << 8)

    def _supervise(self, process: Process, plan: dict[str, Any], kernel: SimulatedKernel) -> None:
        """Claim the run and begin it, as `executors.supervisor` does."""
        is_claimed = run_files.claim(
            plan["run_dir"],
            journal=plan["journal"],
            run_id=plan["run_id"],
            boot=self.boot_id,
            pid=process.pid,
            start=process.start,
            port=plan["port"],
            kernel=kernel,
        )
        if not is_claimed:
            self._exits(process)
            return
        spec = spec_of(plan)
        program = self.program_of(spec)
        turns = Turns(plan["run_dir"], kernel)
        gang = Gang(spec, program, process, turns, began_at=self.at, step=program.saved)
        self._by_dir[plan["run_dir"]] = gang
        self.gangs.append(gang)
        self.log("begins", spec.run_id, [str(slot) for slot in spec.slots])
        if run_files.exists(plan["run_dir"], run_files.STOP, kernel):
            self.workers.end(gang, {"stopped": True})
            return
        try:
            run_files.reserve_exit(plan["run_dir"], kernel)
        except OSError as error:
            reason = f"cannot reserve space for the exit record in {plan['run_dir']}: {error.strerror}"
            self.workers.end(gang, {"error": reason})
            return
        if program.training.trouble is Trouble.UNSTARTABLE:
            gang.trouble = program.training.trouble
            program.troubles += 1
            error_text = f"program {spec.command[0]!r} not found in PATH=/usr/bin; give its whole path"
            exits = [_exit(error=error_text)] * spec.workers
            self.workers.end(gang, {"exits": exits, "first_failed": 0})
        else:
            self.workers.begin(gang)

    def _sweep(self, process: Process, plan: dict[str, Any]) -> None:
        """End the processes of a run without a supervisor, and write its exit record."""
        gang = self._by_dir.get(plan["run_dir"])
        if gang is not None:
            if gang.is_supervised:
                self.swept_alive.append(gang.spec.run_id)
            self._vanish(gang)
        is_stopped = run_files.exists(plan["run_dir"], run_files.STOP, self.kernel_of(process))
        self.record(process, plan, {"lost": True, "error": plan["error"], "stopped": is_stopped})

    def record(self, process: Process, plan: dict[str, Any], how: dict[str, Any]) -> None:
        """Write the exit record, again and again until there is room for it; then the supervisor ends."""
        if not process.is_alive:
            return
        record = {
            "journal": plan["journal"],
            "run_id": plan["run_id"],
            "exits": [],
            "stopped": False,
            "lost": False,
            "error": "",
            "first_failed": None,
            "killed": False,
            "escaped": 0,
            "oom_kills": 0,
            "ended_at": self.clocks.wall(),
            "boot_id": self.boot_id,
            "ended_elapsed_s": self.clocks.elapsed(),
        } | how
        kernel = self.kernel_of(process)
        try:
            run_files.write_exit(plan["run_dir"], record, kernel)
        except OSError as error:
            self.log("cannot write its exit", plan["run_id"], str(error))
            self.after(WRITES_AGAIN_S, self.record, process, plan, record)
            return
        gang = self._by_dir.get(plan["run_dir"])
        if gang is not None and gang.record is None:
            gang.record = run_files.read(plan["run_dir"], run_files.EXIT, kernel)
            self.log("is over", gang.spec.run_id, _words(gang))
        self._exits(process)

    # --- disasters -------------------------------------------------------------------------------------

    def reboot(self) -> None:
        """The power fails: every process ends without an exit record, and what is not synced may be lost."""
        for process in self.processes.values():
            process.is_alive = False
        self.processes.clear()
        self.boot += 1
        self._next_pid = FIRST_PID
        self.clocks.boot()
        for gang in self.live:
            self._vanish(gang)
        self.disk.lose_power(self.rng)

    def kill(self, process: Process) -> None:
        """Kill a supervisor; its workers go on until they are swept, if they were stopped, too."""
        self._exits(process, SIGKILL)
        assert process.plan is not None
        gang = self._by_dir.get(process.plan["run_dir"])
        if gang is not None and gang.supervisor is process:
            self.keep(gang)

    def keep(self, gang: Gang) -> None:
        """What the keeper of a run does when its supervisor was killed."""
        self.workers.let_continue(gang)

    def _vanish(self, gang: Gang) -> None:
        gang.is_alive = False
        gang.epoch += 1


def _nothing() -> None:
    """An event without an effect, so that the loop runs at its instant."""


def _exit(
    code: int | None = None, signal: int | None = None, was_signalled: bool = False, error: str = ""
) -> dict[str, Any]:
    """The part of an exit record that is about one worker."""
    return {"code": code, "signal": signal, run_files.SIGNALLED: was_signalled, "error": error}


def _words(gang: Gang) -> str:
    record = gang.record
    assert record is not None
    ends = [(each["code"], each["signal"]) for each in record["exits"]]
    how = "lost" if record["lost"] else "killed" if record["killed"] else f"exit {ends[:1]}"
    stopped = ", stopped" if record["stopped"] else ""
    return f"{how}{stopped}; saved {gang.program.saved}/{gang.program.training.steps}"
