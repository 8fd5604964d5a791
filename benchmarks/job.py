"""The job SDK: what its import and its calls cost a training, as ratios to other work in the same run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path

import tiresias
from benchmarks.common import yardstick_s
from tiresias.job._job import Job

SRC = str(Path(tiresias.__file__).parents[1])


def job() -> None:
    """Start an interpreter with and without the SDK; call what a training calls at every step."""
    bare_s, with_job_s = (min(_start_s(code) for _ in range(10)) for code in ("pass", "import tiresias.job"))
    print(
        f"job: the import takes {(with_job_s - bare_s) * 1e3:.1f} ms (less than 20 ms wanted);"
        f" the start of Python takes {with_job_s / bare_s:.2f} times as long with it as without"
    )
    dictionary_s = yardstick_s() / 1e6
    with tempfile.TemporaryDirectory() as folder:
        training = Job({"TIRESIAS_RUN_DIR": folder})
        training.report(step=0)
        calls: dict[str, Callable[[], object]] = {
            "report() that is not due": lambda: training.report(step=1, total_steps=2, loss=0.5),
            "should_stop()": training.should_stop,
        }
        for name, call in calls.items():
            call_s = min(timeit.repeat(call, number=5000, repeat=20, timer=time.thread_time)) / 5000
            ratio = call_s / dictionary_s
            print(
                f"job: {name} takes {call_s * 1e6:.2f} us (less than 2 us wanted),"
                f" as long as {ratio:.0f} dictionary stores"
            )
        training.finished()  # writes the last report while the directory exists


def _start_s(code: str) -> float:
    began = time.perf_counter()
    line = f"import sys; sys.path.insert(0, {SRC!r}); {code}"
    subprocess.run([sys.executable, "-I", "-c", line], check=True)
    return time.perf_counter() - began
