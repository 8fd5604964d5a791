"""What observing costs a training: steps with the library and without it, in turn, over and over.

Both trainings are started; then one runs for a moment while the other is stopped, and so on in turn, so that
both get the same of whatever else the machine does. Beside the example with parameter servers, which computes
and sends, a loop that does nothing but send shows the most that the library can cost.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiresias.observe.errors import ObserveError
from tiresias.observe.library import library

EXAMPLE = Path(__file__).parents[1] / "examples/train_parameter_server.py"
FOREVER = "1000000000"
MOMENT_S = 0.2
ROUNDS, TURNS = 40, 8
MOST = 0.05
START_S = 120.0
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
    """Steps of a training, then of a loop that sends, each with the library over without."""
    try:
        built = library()
    except ObserveError as error:
        print(f"observe: left out, {error}")
        return
    gang = [str(EXAMPLE), "--workers", "1", "--servers", "1", "--steps", FOREVER]
    compare("parameter-server example", gang, built, f" (at least {1 - MOST:.2f} wanted)")
    compare("a loop that only sends 1 KiB messages", ["-c", SENDS], built, "")


def compare(what: str, program: list[str], built: Path, wanted: str) -> None:
    ratios, rates = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        training(program, None, Path(folder, "plain")) as plain,
        training(program, built, Path(folder, "observed")) as observed,
    ):
        for _ in range(ROUNDS):
            done = in_turn([plain, observed])
            ratios.append(done[1] / done[0])
            rates.append([each / (TURNS * MOMENT_S) for each in done])
        assert list(Path(folder, "observed").glob("*.messages")), "nothing was recorded"
    slow, fast = (statistics.median(each) for each in zip(*rates, strict=True))
    print(f"{what}: {fast:,.1f} steps a second observed, {slow:,.1f} not (medians of {ROUNDS} rounds)")
    low, high = statistics.quantiles(ratios, n=4)[::2]
    spread = f"half of the rounds between {low:.3f} and {high:.3f}"
    print(f"{what}: ratio {statistics.median(ratios):.3f}, {spread}{wanted}", flush=True)


class Training:
    """A gang in a session of its own that prints its steps; stopped unless it is its turn."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path):
        self.process = process
        self.output = output

    @property
    def steps(self) -> int:
        with self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - 200))
            lines = [line for line in file.read().split(b"\n")[:-1] if line.startswith(b"step ")]
        return int(lines[-1].split()[1]) if lines else 0

    def tell(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)


@contextmanager
def training(program: list[str], built: Path | None, folder: Path) -> Iterator[Training]:
    """Started, past its first steps, and stopped."""
    folder.mkdir()
    env = dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1"}
    if built is not None:
        env |= {"LD_PRELOAD": str(built), "TIRESIAS_OBSERVE_DIR": str(folder)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([sys.executable, *program], env=env, stdout=output, start_new_session=True)
    made = Training(process, folder / "output")
    try:
        until = time.monotonic() + START_S
        while made.steps < 3:
            if process.poll() is not None or time.monotonic() > until:
                raise ChildProcessError(f"{program[0]} did not begin to train within {START_S:.0f} s")
            time.sleep(0.05)
        made.tell(signal.SIGSTOP)
        yield made
    finally:
        made.tell(signal.SIGKILL)
        process.wait()


def in_turn(trainings: list[Training]) -> list[int]:
    """Steps that each did in as many moments as the other."""
    before = [each.steps for each in trainings]
    for turn in range(TURNS):
        for each in trainings if turn % 2 else reversed(trainings):
            each.tell(signal.SIGCONT)
            time.sleep(MOMENT_S)
            each.tell(signal.SIGSTOP)
    return [each.steps - was for each, was in zip(trainings, before, strict=True)]
