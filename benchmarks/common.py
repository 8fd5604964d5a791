"""Functions that several benchmarks share."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def yardstick_s(clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds for a million dictionary stores: how fast this machine runs Python at the moment."""
    best = float("inf")
    for _ in range(3):
        start = clock()
        store: dict[int, int] = {}
        for i in range(1_000_000):
            store[i & 255] = i
        best = min(best, clock() - start)
    return best


def data(name: str) -> Path | None:
    """A file of the real traces, if this machine has them."""
    folder = os.environ.get("TIRESIAS_DATA")
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def peak_bytes() -> int:
    """The peak memory use of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_a_process(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a new process; it prints one JSON object on its last line, which is returned."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
