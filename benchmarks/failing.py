"""What failures of trainings take, and what preflights and rules against retries spare."""

from __future__ import annotations

from benchmarks.common import data
from tiresias.sim import simulate, traces
from tiresias.sim.trace import Trace

RULES = ("none", "philly", "philly,no-retry", "philly,preflight=120", "philly,no-retry,preflight=120")


def failing() -> None:
    """The testbed trace, and the whole of Philly, with failures and with the rules that spare GPUs."""
    _show("testbed-480 on 15x4, seed 1", traces.generate("builtin:testbed-480", seed=1), "15x4")
    path = data("philly.csv.gz")
    if path is None:
        print("Philly is left out: TIRESIAS_DATA names no folder with the real traces")
    else:
        _show("the whole of Philly on 64x8", traces.load(path), "64x8")


def _show(title: str, trace: Trace, cluster: str) -> None:
    print(f"{title}, tiresias-l; all rows have the same failures")
    base: dict[str, float] = {}
    for rules in RULES:
        found = simulate(trace, cluster, "tiresias-l", failures=rules).summary()
        if "failed_jobs" not in found:
            times = f"average JCT {found['avg_jct_s']:8,.0f} s, median {found['p50_jct_s']:7,.0f} s"
            print(f"  {rules:30} {times}")
            continue
        base = base or found
        took = found["failed_gpu_s"] + found["preflight_gpu_s"]
        print(
            f"  {rules:30} average JCT {found['avg_jct_s']:8,.0f} s"
            f" ({found['avg_jct_s'] / base['avg_jct_s']:.3f}x), median {found['p50_jct_s']:7,.0f} s,"
            f" {found['failed_jobs']:,} jobs failed after {found['avg_until_failed_s']:9,.0f} s"
            f" ({found['failed_in_preflight']:,} in preflights), {found['failed_runs']:,} runs failed,"
            f" {took / 3600:9,.0f} GPU-h lost or for preflights ({took / base['failed_gpu_s']:.3f}x)"
        )
