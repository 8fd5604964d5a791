"""How fast, and whether it stays so: jobs a second, cost a job at ten times the jobs, memory."""

from __future__ import annotations

from benchmarks.common import data, in_a_process

REPEATS = 3


def philly() -> None:
    """The full Philly trace on 64x8, packed, default tiresias-l."""
    trace = data("philly.csv.gz")
    if trace is None:
        print("philly: left out, TIRESIAS_DATA names no folder with philly.csv.gz")
        return
    runs = [in_a_process("benchmarks.one", str(trace), "64x8", "tiresias-l") for _ in range(REPEATS)]
    for run in runs:
        rate = run["jobs"] / run["wall_s"]
        units = run["wall_s"] / run["jobs"] / run["yardstick_s"] * 1e6
        print(
            f"philly 64x8 tiresias-l: {rate:,.0f} jobs/s, {run['events']:,} events, "
            f"{units:.0f} dictionary stores a job (yardstick {run['yardstick_s'] * 1e3:.0f} ns a store)"
        )
    best = max(run["jobs"] / run["wall_s"] for run in runs)
    print(
        f"philly 64x8 tiresias-l: best of {REPEATS}: {best:,.0f} jobs/s (at least 7,500 wanted, aim 18,000)"
    )


def scale() -> None:
    """The same cluster and load with ten times the jobs."""
    runs = {}
    for jobs in (100_000, 1_000_000):
        run = in_a_process(
            "benchmarks.one", "builtin:philly-like", "64x8", "tiresias-l", str(jobs), "0.8", "7"
        )
        cost = run["wall_s"] / run["jobs"] / run["yardstick_s"]
        runs[jobs] = cost
        print(
            f"philly-like {jobs:>9,} jobs, load 0.8: {run['jobs'] / run['wall_s']:,.0f} jobs/s, "
            f"{run['events'] / run['jobs']:.2f} events a job, peak {run['peak_bytes'] / 2**30:.2f} GiB"
        )
    print(f"cost a job, 1,000,000 over 100,000: {runs[1_000_000] / runs[100_000]:.2f}x (at most 1.5x wanted)")
