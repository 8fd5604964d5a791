"""Average JCT relative to the oracle and to the paper's settings, on the real trace and the testbed mix."""

from __future__ import annotations

from statistics import fmean

from benchmarks.common import data
from tiresias.sim import Result, simulate, traces

PAPER = {"queues": "3200", "order": "first-start", "cost": "0"}


def philly() -> None:
    """Full Philly on 64x8, packed, cost 60: the defaults, the paper's settings, and the other two orders."""
    path = data("philly.csv.gz")
    if path is None:
        print("philly: left out, TIRESIAS_DATA names no folder with philly.csv.gz")
        return
    trace = traces.load(path)
    oracle = simulate(trace, "64x8", "srsf")
    show("srsf", oracle, oracle)
    for policy in ("tiresias-l", "tiresias-g"):
        show(f"{policy} (defaults)", simulate(trace, "64x8", policy), oracle)
    for order in ("first-start", "running-first", "last-preempted-first"):
        options = PAPER | {"order": order}
        show(f"tiresias-l 3200 {order}", simulate(trace, "64x8", "tiresias-l", options=options), oracle)
    for policy in ("srtf", "las", "sjf", "fifo-skip", "fifo"):
        show(policy, simulate(trace, "64x8", policy), oracle)


def show(name: str, result: Result, oracle: Result) -> None:
    figures = result.summary()
    ratio = figures["avg_jct_s"] / oracle.summary()["avg_jct_s"]
    print(
        f"{name:36} avg JCT {figures['avg_jct_s']:>9,.0f} s ({ratio:5.2f}x srsf)  "
        f"median {figures['p50_jct_s']:>7,.0f}  p95 {figures['p95_jct_s']:>9,.0f}  "
        f"preemptions {figures['preemptions']:>7,}  lost {figures['lost_gpu_s'] / 3600:>6,.0f} GPU-h",
        flush=True,
    )


def testbed() -> None:
    """The paper's testbed mix on 15x4, seeds 1 to 5: fifo relative to tiresias-l."""
    ideal, real = [], []
    for seed in range(1, 6):
        trace = traces.generate("builtin:testbed-480", seed=seed)
        row = []
        for cost_s, options in ((0.0, {"queues": "3200"}), (60.0, {})):
            placer = "packed" if cost_s else "count"
            fifo = simulate(trace, "15x4", "fifo", placer=placer, preemption_cost_s=cost_s).summary()
            ours = simulate(
                trace, "15x4", "tiresias-l", options=options, placer=placer, preemption_cost_s=cost_s
            ).summary()
            row.append((fifo["avg_jct_s"] / ours["avg_jct_s"], fifo["p50_jct_s"] / ours["p50_jct_s"]))
        ideal.append(row[0])
        real.append(row[1])
        print(
            f"testbed-480 seed {seed}: fifo / tiresias-l queues=3200, cost 0: {row[0][0]:.2f}x average, "
            f"{row[0][1]:.1f}x median; defaults, cost 60: {row[1][0]:.2f}x average, {row[1][1]:.1f}x median"
        )
    print(f"testbed-480 mean: {fmean(a for a, _ in ideal):.2f}x and {fmean(a for a, _ in real):.2f}x average")
