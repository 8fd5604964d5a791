"""What observing costs a training: steps a second with the library and without, in turn, over and over.

Alternating runs share whatever else the machine does; the ratio of each pair is taken, and the median of
these told. Beside the example with parameter servers, which computes and sends, a loop that does nothing but
send shows the most that the library can cost.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tiresias.observe.errors import ObserveError
from tiresias.observe.library import library

EXAMPLE = Path(__file__).parents[1] / "examples/train_parameter_server.py"
PAIRS = 15
STEPS = 150
MOST = 0.05
SENDS = """
import socket, threading, time
listening = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listening.getsockname())
b = listening.accept()[0]
def drain():
    while b.recv(1 << 20): pass
reader = threading.Thread(target=drain)
reader.start()
data = bytes(1024)
began = time.perf_counter()
for _ in range(100_000):
    a.send(data)
print(100_000 / (time.perf_counter() - began))
a.close(); reader.join()
"""


def overhead() -> None:
    """Steps a second of a training, then sends a second, each with the library over without."""
    try:
        built = library()
    except ObserveError as error:
        print(f"observe: left out, {error}")
        return
    gang = [str(EXAMPLE), "--workers", "1", "--servers", "1", "--steps", str(STEPS)]
    compare("parameter-server example, steps a second", gang, built, limit=True)
    compare("a loop that only sends 1 KiB messages, sends a second", ["-c", SENDS], built, limit=False)


def compare(what: str, program: list[str], built: Path, *, limit: bool) -> None:
    ratios, rates = [], []
    rate(program, None)  # whatever is slow only once
    for pair in range(PAIRS):
        order = (None, built) if pair % 2 else (built, None)
        found = {each: rate(program, each) for each in order}
        rates.append(found)
        ratios.append(found[built] / found[None])
    ratio = statistics.median(ratios)
    low, high = statistics.quantiles(ratios, n=4)[::2]
    without, within = (statistics.median(each[key] for each in rates) for key in (None, built))
    wanted = f" (at least {1 - MOST:.2f} wanted)" if limit else ""
    print(
        f"{what}: {within:,.1f} observed, {without:,.1f} not; ratio {ratio:.3f}, half of {PAIRS} pairs "
        f"between {low:.3f} and {high:.3f}{wanted}",
        flush=True,
    )


def rate(program: list[str], built: Path | None) -> float:
    """Steps a second, as the program tells on its last line."""
    with tempfile.TemporaryDirectory() as records:
        env = dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1"}
        if built is not None:
            env |= {"LD_PRELOAD": str(built), "TIRESIAS_OBSERVE_DIR": records}
        done = subprocess.run([sys.executable, *program], env=env, capture_output=True, text=True, check=True)
        assert built is None or list(Path(records).iterdir()), "nothing was recorded"
    return float(done.stdout.splitlines()[-1].split()[0])
