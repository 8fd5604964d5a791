"""The speed of the simulator in processor time: jobs per second, the cost per job with ten times the jobs,
memory, loading, and what a worker costs.
"""

from __future__ import annotations

import cProfile
import csv
import gzip
import io
import pstats
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.common import data, in_a_process
from tiresias.sim import Result, simulate, traces
from tiresias.sim.experiment import Cell, run_cells

REPEATS = 3
WORKERS = 7
PROFILED = 30_000  # jobs


def philly() -> None:
    """The full Philly trace on 64x8, packed, default tiresias-l."""
    trace = data("philly.csv.gz")
    if trace is None:
        print("philly: left out, TIRESIAS_DATA names no folder with philly.csv.gz")
        return
    runs = [in_a_process("benchmarks.one", str(trace), "64x8", "tiresias-l") for _ in range(REPEATS)]
    for run in runs:
        rate = run["jobs"] / run["cpu_s"]
        units = run["cpu_s"] / run["jobs"] / run["yardstick_s"] * 1e6
        print(
            f"philly 64x8 tiresias-l: {rate:,.0f} jobs/s, {run['events']:,} events, "
            f"{units:.0f} dictionary stores per job (yardstick {run['yardstick_s'] * 1e3:.0f} ns per store)"
        )
    best = max(run["jobs"] / run["cpu_s"] for run in runs)
    print(
        f"philly 64x8 tiresias-l: best of {REPEATS}: {best:,.0f} jobs/s (at least 7,500 wanted, aim 18,000)"
    )


def profile() -> None:
    """Where the time goes in the first jobs of Philly, by module: processor time under Python's profiler."""
    trace = data("philly.csv.gz")
    if trace is None:
        print("profile: left out, TIRESIAS_DATA names no folder with philly.csv.gz")
        return
    jobs = traces.load(trace)
    some = replace(jobs, jobs=jobs.jobs.head(PROFILED))
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(simulate, some, "64x8", "tiresias-l")
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own_s, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        module = file.rpartition("/src/tiresias/")[2] if "/src/tiresias/" in file else "everything else"
        spent[module] += own_s
    for module, own_s in spent.most_common():
        if own_s > 0.01 * spent.total():
            print(f"profile: {own_s / spent.total():6.1%} {module}")


def scale() -> None:
    """The same cluster and load with 100,000 jobs and with ten times as many."""
    runs = {}
    for jobs in (100_000, 1_000_000):
        run = in_a_process(
            "benchmarks.one", "builtin:philly-like", "64x8", "tiresias-l", str(jobs), "0.8", "7"
        )
        cost = run["cpu_s"] / run["jobs"] / run["yardstick_s"]
        runs[jobs] = cost
        print(
            f"philly-like {jobs:>9,} jobs, load 0.8: {run['jobs'] / run['cpu_s']:,.0f} jobs/s, "
            f"{run['events'] / run['jobs']:.2f} events per job, peak {run['peak_bytes'] / 2**30:.2f} GiB"
        )
    ratio = runs[1_000_000] / runs[100_000]
    print(f"cost per job, 1,000,000 over 100,000: {ratio:.2f}x (at most 1.2x wanted)")


def worker() -> None:
    """What a worker of `compare` and `sweep` costs, from its start to the end of a tiny simulation."""
    bare = [sys.executable, "-c", "import time; print(time.process_time())"]
    nothing_s, worker_s = [], []
    for number in range(WORKERS + 1):
        took_s = float(subprocess.run(bare, stdout=subprocess.PIPE, text=True, check=True).stdout)
        cells = run_cells([Cell("tiresias", "1x2")], {None: traces.load("builtin:example")}, _spent_s)
        [(_, simulated_s)] = cells
        if number:  # the first turn compiles the modules
            nothing_s.append(took_s)
            worker_s.append(simulated_s)
    ratio = median(worker_s) / median(nothing_s)
    print(
        f"worker: {median(worker_s):.3f} s of processor time until it has simulated a trace of 2 jobs,"
        f" {ratio:.0f} times `python -c pass` ({median(nothing_s) * 1e3:.1f} ms)"
    )


def _spent_s(result: Result) -> float:
    return time.process_time()


def load() -> None:
    """Loading the full Philly trace, relative to splitting the same file with the csv module."""
    trace = data("philly.csv.gz")
    if trace is None:
        print("load: left out, TIRESIAS_DATA names no folder with philly.csv.gz")
        return
    plain_s = _best_s(lambda: _rows(trace))
    load_s = _best_s(lambda: traces.load(trace))
    jobs = len(traces.load(trace))
    print(f"load philly: {jobs:,} jobs in {load_s:.2f} s, {jobs / load_s:,.0f} jobs/s, best of {REPEATS}")
    print(f"load philly: {load_s / plain_s:.2f}x gzip and csv alone ({plain_s:.2f} s; at most 1.5x wanted)")


def _rows(path: Path) -> int:
    text = gzip.decompress(path.read_bytes()).decode()
    return len(list(csv.reader(io.StringIO(text))))


def _best_s(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken)
