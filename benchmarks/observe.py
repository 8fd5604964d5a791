"""What observation costs a training: steps with the library and without it, in alternation.

Both trainings are started. Then one does some steps while the other is stopped, and so on in alternation, so
that other load on the machine affects both equally. Each round compares the two: the steps per second, and
the processor time per step of all processes of the gang, which other programs disturb less. All run on the
same core, because the choice of the core makes more difference than the library. The location of memory makes
a difference, too, so both are started again several times. Besides the examples, which compute and send, a
loop that only sends shows the highest cost of the library.
"""

from __future__ import annotations

import importlib.util
import math
import os
import select
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tiresias.executors import procfs
from tiresias.observe.errors import ObserveError
from tiresias.observe.library import library
from tiresias.observe.trial import PRELOAD, Trial

EXAMPLES = Path(__file__).parents[1] / "examples"
FOREVER = "1000000000"
TURN_S = 0.06  # how long the steps of a turn take without the library, about
PAIR_S = 4.0  # how long each pair takes turns
BUDGET_S = 20.0  # new pairs are started until it is used up, at least two
MOST = 0.05  # the largest cost that is wanted
WAIT_S = 60.0  # for the first steps, or for those of a turn
SENDS = """
import socket, threading
listening = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listening.getsockname())
b = listening.accept()[0]
def drain():
    while b.recv(1 << 20): pass
threading.Thread(target=drain, daemon=True).start()
data = bytes(1024)
step = 0
while True:
    for _ in range(1000):
        a.send(data)
    step += 1
    print("step", step, flush=True)
"""


def overhead() -> None:
    """Trainings and a loop that sends: the speed of each with the library relative to that without."""
    try:
        built = library()
    except ObserveError as error:
        print(f"observe: left out, {error}")
        return
    wanted = f" (at least {1 - MOST:.2f} wanted)"
    gang = [str(EXAMPLES / "train_parameter_server.py"), "--workers", "1", "--servers", "1"]
    compare("parameter-server example", [*gang, "--steps", FOREVER], 1, built, wanted)
    if importlib.util.find_spec("torch") is None:
        print("PyTorch example: left out, PyTorch is not installed")
    else:
        gang = [str(EXAMPLES / "train_torch_ddp.py"), "--steps", FOREVER, "--save-every", FOREVER]
        compare("PyTorch example, two workers over gloo", gang, 2, built, wanted)
    compare("a loop that only sends 1 KiB messages", ["-c", SENDS], 1, built, "")


@dataclass(frozen=True)
class Seen:
    """The progress of a training; the difference of two is what it did in between."""

    step: int
    wall_s: float
    cpu_s: float

    def __sub__(self, before: Seen) -> Seen:
        return Seen(self.step - before.step, self.wall_s - before.wall_s, self.cpu_s - before.cpu_s)

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.step + other.step, self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.step / self.wall_s

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of processor time per step."""
        return 1000 * self.cpu_s / self.step


Round = tuple[Seen, Seen]  # what both did: without the library, and with it


class Training(Trial):
    """A gang that prints its steps into a pipe; it is stopped unless it is its turn."""

    is_observed = True
    step = 0
    pipe = -1
    unread = b""
    pids: tuple[int, ...] = ()

    def environment(self) -> dict[str, str]:
        made = super().environment() | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return made if self.is_observed else {name: made[name] for name in made if name != PRELOAD}

    def reach(self, step: int) -> Seen:
        """Wait until it has done at least that step."""
        until = time.monotonic() + WAIT_S
        while self.step < step:
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self.pipe, 1 << 16) if ready else b""
            if not data:
                did = "ended" if ready else f"took more than {WAIT_S:.0f} s"
                raise ChildProcessError(f"{self.command[1]} {did} before step {step}")
            *lines, self.unread = (self.unread + data).split(b"\n")
            done = [line for line in lines if line.startswith(b"step ")]
            self.step = int(done[-1].split()[1]) if done else self.step
        return Seen(self.step, time.perf_counter(), sum(map(cpu_s, self.pids)))

    def settle(self) -> None:
        """Wait for its first steps, put it on the core that both share, and stop it."""
        self.reach(3)
        sessions = {process.pid for process in self.processes}
        self.pids = tuple(each.pid for each in procfs.all_processes() if each.session in sessions)
        self.send(signal.SIGSTOP)
        for thread in chain.from_iterable(Path(f"/proc/{pid}/task").iterdir() for pid in self.pids):
            os.sched_setaffinity(int(thread.name), {max(os.sched_getaffinity(0))})

    def turn(self, steps: int) -> Seen:
        """Do so many whole steps, and stop again."""
        self.send(signal.SIGCONT)
        before = self.reach(self.step + 1)  # the end of the one in which it was stopped
        done = self.reach(self.step + steps) - before
        self.send(signal.SIGSTOP)
        return done


def cpu_s(pid: int) -> float:
    """Processor time of another process, in nanoseconds' resolution: clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | 2)


@contextmanager
def started(program: list[str], workers: int, built: Path, is_observed: bool) -> Iterator[Training]:
    """A training that has been started; at the end all its processes and files are removed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiresias-bench-")))
        made = Training((sys.executable, *program), folder, built, workers, grace_s=0.0)
        made.is_observed = is_observed
        made.pipe, output = os.pipe()
        stack.callback(os.close, made.pipe)
        stack.callback(made.end)
        made.output = output
        try:
            made.start()
        finally:
            os.close(output)
        yield made
        assert bool(list(folder.glob("*.messages"))) is is_observed, "wrongly recorded, or not recorded"


def compare(what: str, program: list[str], workers: int, built: Path, wanted: str) -> None:
    print(f"{what}:", flush=True)
    until = time.monotonic() + BUDGET_S
    pairs: list[list[Round]] = []
    while len(pairs) < 2 or time.monotonic() < until:
        pairs.append(pair(program, workers, built, is_first=len(pairs) % 2 > 0))
    show(pairs, wanted)


def pair(program: list[str], workers: int, built: Path, is_first: bool) -> list[Round]:
    """Start both, the observed one first or last, and let them do steps in turn."""
    rounds: list[Round] = []
    with (
        started(program, workers, built, is_first) as first,
        started(program, workers, built, not is_first) as last,
    ):
        observed, plain = (first, last) if is_first else (last, first)
        for each in (plain, observed):
            each.settle()
        steps = 1
        while (seen := plain.turn(steps)).wall_s < TURN_S:
            steps = max(steps + 1, math.ceil(min(4 * steps, seen.rate * TURN_S * 1.1)))
        until = time.monotonic() + PAIR_S
        while time.monotonic() < until:
            one, two = observed.turn(steps), plain.turn(steps)  # A B B A: a drift affects both equally
            rounds.append((two + plain.turn(steps), one + observed.turn(steps)))
    return rounds


def show(pairs: list[list[Round]], wanted: str) -> None:
    """Print the medians of both, and of the ratios of all rounds."""
    rounds = list(chain.from_iterable(pairs))
    slow, fast = (statistics.median(each.rate for each in side) for side in zip(*rounds, strict=True))
    cheap, dear = (statistics.median(each.cpu_ms for each in side) for side in zip(*rounds, strict=True))
    print(f"  medians of {len(rounds)} rounds, observed and not:", end=" ")
    print(f"{fast:,.1f} and {slow:,.1f} steps per second,", end=" ")
    print(f"{dear:,.3f} and {cheap:,.3f} ms of processor time per step")
    print(f"  steps per second: {ratios(pairs, lambda plain, observed: observed.rate / plain.rate)}{wanted}")
    by_cpu = ratios(pairs, lambda plain, observed: plain.cpu_ms / observed.cpu_ms)
    print(f"  steps per second of processor time: {by_cpu}{wanted}", flush=True)


def ratios(pairs: list[list[Round]], ratio: Callable[[Seen, Seen], float]) -> str:
    """The median and the quartiles of all rounds, and the median of each pair."""
    all_of = [[ratio(*each) for each in rounds] for rounds in pairs]
    joined = list(chain.from_iterable(all_of))
    low, middle, high = statistics.quantiles(joined, n=4)
    each = ", ".join(f"{statistics.median(rounds):.3f}" for rounds in all_of)
    return f"ratio {middle:.3f}, half of the rounds from {low:.3f} to {high:.3f}, the pairs {each}"
