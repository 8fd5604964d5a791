"""The simulated nodes, which are the ground truth: what runs on them, what they reach, and true time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

from tiresias.core.model import RunId
from tiresias.executors import heartbeat, run_files
from tiresias.executors.base import RunSpec

LEASE_S = 6.0
GRACE_S = 2.0
MARGIN_S = 1.0  # until workers that were killed are gone
BEAT_S = heartbeat.beat_s(LEASE_S)
AGAIN_S = 0.5  # until something is tried again for which the folder is needed
EPOCH = 1_700_000_000.0


@dataclass(slots=True, eq=False)
class Program:
    """A training. `saved` is the step of its checkpoint, which is in the shared folder."""

    name: str
    gpus: int
    nodes: int | None
    steps: int
    step_s: float
    saves_every: int
    save_s: float
    saved: int = 0
    newest: int = 0  # the number of the newest run that has begun: no older one saves any more
    overwritten: bool = False


@dataclass(slots=True, eq=False)
class Process:
    """The supervisor of a part of a run, with its workers."""

    spec: RunSpec
    node: SimulatedNode
    pid: int
    is_working: bool = False  # its workers are there
    is_over: bool = False
    is_ending: bool = False
    is_signalled: bool = False
    beats: int = 0
    beat_at: float = 0.0
    kill_at: float = float("inf")
    dir: str = field(init=False)

    def __post_init__(self) -> None:
        self.dir = str(self.spec.part_dir)


@dataclass(slots=True, eq=False)
class Gang:
    """The workers of a run, on all its nodes. They work while all of them are there and reach each other."""

    spec: RunSpec
    program: Program
    processes: dict[str, Process] = field(default_factory=dict)  # by node
    step: int = 0
    is_whole: bool = False  # all have met at the address of the first

    @property
    def alive(self) -> list[Process]:
        return [each for each in self.processes.values() if each.is_working]

    @property
    def can_work(self) -> bool:
        alive = self.alive
        return len(alive) == len(self.spec.parts) and all(
            each.node.is_running and (each.node.is_reachable or len(alive) == 1) and not each.is_ending
            for each in alive
        )


class SimulatedNode:
    """A machine. `is_reachable` is whether others reach it, `has_folder` whether it reaches the folder."""

    def __init__(self, world: NodesWorld, name: str, gpus: int, rack: str):
        self.world, self.name, self.gpus, self.rack = world, name, gpus, rack
        self.is_on, self.is_paused = True, False
        self.is_reachable = self.has_folder = True
        self.boot = 0
        self.woke_at = -1e9
        self.wall_offset_s = world.rng.choice((-1e5, -30.0, 0.0, 2.5, 1e6))
        self._booted_at = -world.rng.random() * 1e6
        self._late: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.processes: dict[int, Process] = {}  # by pid, of this boot

    @property
    def is_running(self) -> bool:
        return self.is_on and not self.is_paused

    @property
    def boot_id(self) -> str:
        return f"{self.name}-{self.boot}"

    @property
    def elapsed_s(self) -> float:
        return self.world.at - self._booted_at

    def after(self, delay_s: float, do: Callable[..., None], *about: Any) -> None:
        """Do it on this node in so many seconds, if it has not lost its power, and once it is not paused."""
        self.world.after(delay_s, self._due, self.boot, do, about)

    def _due(self, boot: int, do: Callable[..., None], about: tuple[Any, ...]) -> None:
        if boot != self.boot or not self.is_on:
            return
        if self.is_paused:
            self._late.append((do, about))
        else:
            do(*about)

    def pause(self) -> None:
        self.is_paused = True

    def wake(self) -> None:
        self.is_paused, self.woke_at = False, self.world.at
        late, self._late = self._late, deque()
        for do, about in late:
            do(*about)

    def lose_power(self) -> None:
        self.is_on = self.is_paused = False
        self._late.clear()
        for process in self.processes.values():
            process.is_working, process.is_over = False, True
        self.processes.clear()

    def boot_again(self) -> None:
        self.boot += 1
        self.is_on, self._booted_at = True, self.world.at

    # --- supervisors -----------------------------------------------------------------------------------

    def spawn(self, spec: RunSpec) -> None:
        process = Process(spec, self, self.world.new_pid())
        self.processes[process.pid] = process
        self.after(self.world.rng.random() * 0.5, self._main, process)

    def _main(self, process: Process) -> None:
        if process.is_over:
            return
        if not self.has_folder:
            self.after(AGAIN_S, self._main, process)
            return
        spec = process.spec
        about = {"journal": spec.journal, "run_id": int(spec.run_id)}
        run_files.own(process.dir, **about)  # type: ignore[arg-type]
        if not run_files.claim(process.dir, **about, boot=self.boot_id, pid=process.pid, start=0):  # type: ignore[arg-type]
            self._leave(process)
            return
        if run_files.exists(process.dir, run_files.STOP):
            self._record(process, {"exits": [], "stopped": True})
            return
        self._beat(process)
        self.world.begins(process)
        self.after(self.world.rng.random() * 0.3, self._up, process)

    def _up(self, process: Process) -> None:
        if process.is_ending or process.is_over:
            return
        if self.has_folder:
            run_files.put(process.dir, run_files.UP, {})
            self.world.is_up(process)
        else:
            self.after(AGAIN_S, self._up, process)

    def _beat(self, process: Process) -> None:
        """As `heartbeat.Heart`: a beat is written, the stop request looked for, the lease watched."""
        if process.is_over:
            return
        if process.beats and self.world.at >= process.beat_at + LEASE_S:
            self.signal(process, GRACE_S)
        elif self.has_folder:
            process.beats += 1
            process.beat_at = self.world.at
            with suppress(FileNotFoundError):
                heartbeat.write(process.dir, process.beats)
            if (stop := run_files.read(process.dir, run_files.STOP)) is not None:
                self.signal(process, float(stop.get("grace_s", GRACE_S)))
        left_s = process.beat_at + LEASE_S - self.world.at
        self.after(min(BEAT_S, left_s) if left_s > 0 else BEAT_S, self._beat, process)

    def signal(self, process: Process, grace_s: float) -> None:
        """SIGTERM to the workers, and SIGKILL after the grace."""
        if process.is_over or process.is_ending:
            return
        process.kill_at = min(process.kill_at, self.world.at + grace_s)
        self.after(grace_s, self._kill, process)
        if process.is_signalled:
            return
        process.is_signalled = True
        gang = self.world.gangs[process.spec.run_id]
        self.after(gang.program.save_s, self._save_and_exit, process, gang)

    def _save_and_exit(self, process: Process, gang: Gang) -> None:
        if not process.is_ending and not process.is_over:
            self.world.save(gang, process)
            self.end(process, [{"code": 75, "signal": None, run_files.SIGNALLED: True, "error": ""}])

    def _kill(self, process: Process) -> None:
        if not process.is_ending and not process.is_over and self.world.at >= process.kill_at - 1e-6:
            killed = {"code": None, "signal": 9, run_files.SIGNALLED: True, "error": ""}
            self.end(process, [killed], killed=True)

    def end(self, process: Process, exits: list[dict[str, Any]], **how: Any) -> None:
        """The workers end; a little later they are gone, and the supervisor writes how they ended."""
        process.is_ending = True
        part = process.spec.part
        assert part is not None
        failed = next((0 for each in exits if not process.is_signalled and each["code"]), None)
        record = {"exits": exits * part.workers, "stopped": process.is_signalled, "first_failed": failed}
        self.after(self.world.rng.random() * 0.8 * MARGIN_S, self._record, process, record | how)

    def _record(self, process: Process, how: dict[str, Any]) -> None:
        process.is_working = False
        if not self.has_folder:
            self.after(AGAIN_S, self._record, process, how)
            return
        write_exit(process.spec, self, how)
        codes = [each["code"] for each in how["exits"]]
        self.world.log("is over", process.spec.run_id, self.name, codes)
        self._leave(process)

    def _leave(self, process: Process) -> None:
        process.is_working, process.is_over = False, True
        self.processes.pop(process.pid, None)


def write_exit(spec: RunSpec, node: SimulatedNode, how: dict[str, Any]) -> None:
    """An exit record by the clocks of this node."""
    record = {
        "journal": spec.journal,
        "run_id": int(spec.run_id),
        "exits": [],
        "stopped": False,
        "lost": False,
        "error": "",
        "first_failed": None,
        "ended_at": EPOCH + node.world.at + node.wall_offset_s,
        "boot_id": node.boot_id,
        "ended_elapsed_s": node.elapsed_s,
    } | how
    run_files.write_exit(str(spec.part_dir), record)


class NodesWorld:
    """All nodes, all gangs, and the events to come. `log` is called with each event of the story."""

    def __init__(self, rng: Random, programs: dict[str, Program], log: Callable[..., None]):
        self.rng, self.programs, self.log = rng, programs, log
        self.at = 0.0
        self.nodes: dict[str, SimulatedNode] = {}
        self.agents: dict[str, Any] = {}  # by node: agents.SimulatedAgent
        self.gangs: dict[RunId, Gang] = {}
        self.shortages: dict[int, float] = {}  # none: see `effects.MortalStore`
        self.on_begin: Callable[[Process], None] = lambda process: None
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = self._pid = 0

    def new_pid(self) -> int:
        self._pid += 1
        return self._pid

    # --- time ------------------------------------------------------------------------------------------

    @property
    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def after(self, delay_s: float, what: Callable[..., None], *about: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (self.at + delay_s, self._sequence, what, about))

    def happen(self) -> None:
        self.at, _, what, about = heappop(self._heap)
        what(*about)

    # --- what runs -------------------------------------------------------------------------------------

    @property
    def alive(self) -> Iterator[Process]:
        """The processes whose workers are there."""
        return (each for node in self.nodes.values() for each in node.processes.values() if each.is_working)

    def begins(self, process: Process) -> None:
        spec = process.spec
        program = self.programs[spec.command[-1]]
        gang = self.gangs.setdefault(spec.run_id, Gang(spec, program))
        process.is_working = True
        gang.processes[process.node.name] = process
        program.newest = max(program.newest, spec.number)
        self.log("begins", spec.run_id, spec.node, program.name)
        self.on_begin(process)

    def is_up(self, process: Process) -> None:
        """The workers meet at the address of the first node, and load the checkpoint."""
        gang = self.gangs[process.spec.run_id]
        if len(gang.alive) == len(process.spec.parts) and not gang.is_whole:
            gang.is_whole = True
            gang.step = gang.program.saved
            gang.processes[gang.spec.parts[0].node].node.after(gang.program.step_s, self._step, gang)

    def _step(self, gang: Gang) -> None:
        first = gang.processes[gang.spec.parts[0].node]
        if first.is_ending or first.is_over:
            return
        if gang.can_work:
            gang.step = min(gang.step + 1, gang.program.steps)
            if gang.step >= gang.program.steps:
                self._done(gang)
                return
            if gang.step % gang.program.saves_every == 0:
                self.save(gang, first)
        first.node.after(gang.program.step_s, self._step, gang)

    def _done(self, gang: Gang) -> None:
        if not gang.processes[gang.spec.parts[0].node].node.has_folder:
            gang.step -= 1  # the last checkpoint cannot be written now
            first = gang.processes[gang.spec.parts[0].node]
            first.node.after(gang.program.step_s, self._step, gang)
            return
        self.save(gang, gang.processes[gang.spec.parts[0].node])
        for process in gang.alive:
            process.node.end(process, [{"code": 0, "signal": None, run_files.SIGNALLED: False, "error": ""}])

    def save(self, gang: Gang, process: Process) -> None:
        """The first worker writes the checkpoint, unless a newer run has begun (as `job.save` does)."""
        is_first = process.node.name == gang.spec.parts[0].node
        if not is_first or not gang.is_whole or not process.node.has_folder:
            return
        if gang.spec.number >= gang.program.newest:
            gang.program.overwritten |= gang.step < gang.program.saved
            gang.program.saved = gang.step
            self.log("saves", gang.spec.run_id, gang.program.name, gang.step)
