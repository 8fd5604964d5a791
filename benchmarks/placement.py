"""The effect of placement: every placer on the testbed mix and on Philly, with the network model.

`quality.placement` prints average JCT, wait and slowdown, for `profile` also with the paper's rule.
`speed.placement` prints how many events per second of processor time the simulator handles with `profile` and
a network, relative to `count` with and without one, in alternation in the same run. TIRESIAS_JOBS limits
Philly to its first jobs, TIRESIAS_PLACERS names some placers (with commas).
"""

from __future__ import annotations

import os
import time
from statistics import fmean, median
from typing import Any

import tiresias.placers  # noqa: F401  (for what it registers)
from benchmarks.common import data
from tiresias.core.plugins import placers
from tiresias.profiles.links import GBIT, PRESETS
from tiresias.sim import Trace, simulate, traces
from tiresias.sim.fabric import FABRICS, Fabric, placer_options

SEEDS = range(1, 6)
RACKS = "4*16x8"
ACROSS_GBPS = (10, 25)
ROUNDS = 3
KEYS = (
    "avg_jct_s",
    "avg_wait_s",
    "avg_slowdown",
    "work_slowdown",
    "avg_nodes_per_job",
    "fragmentation_wait_s",
)
SKEW = "profile rule=skew"
TURNS = (("count", "none"), ("count", "philly"), ("profile", "none"), ("profile", "philly"))


def philly_jobs() -> Trace | None:
    """The trace, or its first TIRESIAS_JOBS jobs."""
    path = data("philly.csv.gz")
    if path is None:
        print("philly: left out, TIRESIAS_DATA names no folder with philly.csv.gz")
        return None
    whole = traces.load(path)
    jobs = int(os.environ.get("TIRESIAS_JOBS", len(whole)))
    return Trace(whole.name, whole.jobs.head(jobs), whole.format)


def across(gbps: float) -> Fabric:
    """Philly's network with another bandwidth between racks."""
    links = PRESETS["philly"]
    cross = links.cross._replace(bandwidth_Bps=gbps * GBIT)
    return Fabric(f"philly, {gbps:g} Gb/s across racks", links._replace(cross=cross))


def compared() -> list[str]:
    """All placers, or those that TIRESIAS_PLACERS names."""
    named = os.environ.get("TIRESIAS_PLACERS")
    return named.split(",") if named else [*placers.names(), SKEW]


def measure(trace: Trace, cluster: str, name: str, fabric: Fabric) -> dict[str, Any]:
    if name == SKEW:
        made = placers.make("profile", {"rule": "skew", **placer_options(fabric)})
        return simulate(trace, cluster, "tiresias-l", placer=made, network=fabric).summary()
    return simulate(trace, cluster, "tiresias-l", placer=name, network=fabric).summary()


def quality() -> None:
    """All placers: the testbed mix over five seeds, then Philly in four racks."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in compared()}
    for seed in SEEDS:
        trace = traces.generate("builtin:testbed-480", seed=seed)
        for name, measured in rows.items():
            measured.append(measure(trace, "tiresias-testbed", name, FABRICS["tiresias-testbed"]))
    best = min(_mean(measured, "avg_jct_s") for measured in rows.values())
    print(f"testbed-480 on tiresias-testbed, tiresias-l, means over seeds {list(SEEDS)}")
    for name, measured in sorted(rows.items(), key=lambda row: _mean(row[1], "avg_jct_s")):
        _show(name, measured, best)
    for name in ("profile", SKEW):
        others = [measured for other, measured in rows.items() if other not in ("profile", SKEW)]
        over = [
            ours["avg_jct_s"] / min(measured[n]["avg_jct_s"] for measured in others)
            for n, ours in enumerate(rows.get(name, ()))
        ]
        print(f"{name} over the best other placer of each seed:", " ".join(f"{ratio:.3f}" for ratio in over))
    jobs = philly_jobs()
    if jobs is None:
        return
    for gbps in ACROSS_GBPS:
        print(f"{len(jobs):,} jobs of philly on {RACKS}, {gbps} Gb/s across racks, tiresias-l")
        for name in compared():
            _show(name, [measure(jobs, RACKS, name, across(gbps))], None)


def _mean(measured: list[dict[str, Any]], key: str) -> float:
    return fmean(each[key] for each in measured)


def _show(name: str, measured: list[dict[str, Any]], best: float | None) -> None:
    jct_s, wait_s, slow, work, nodes, refused_s = (_mean(measured, key) for key in KEYS)
    beside = "" if best is None else f" ({jct_s / best:.3f}x the best)"
    print(
        f"{name:17} JCT {jct_s:>9,.0f} s{beside}  wait {wait_s:>9,.0f} s  slowdown {slow:.3f}, "
        f"of the work {work:.3f}  {nodes:.2f} nodes per job  refused for {refused_s:>11,.0f} s"
        f"  {_mean(measured, 'migrations'):,.0f} migrations  {_mean(measured, 'wall_s'):.0f} s to simulate",
        flush=True,
    )


def speed() -> None:
    """In alternation and in processor time, so that other load on the machine matters little."""
    trace = philly_jobs()
    if trace is None:
        return
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, network in TURNS:
            began_s = time.process_time()
            figures = simulate(trace, RACKS, "tiresias-l", placer=name, network=network).summary()
            rate = figures["events"] / (time.process_time() - began_s)
            rates.setdefault(f"{name}, network {network}", []).append(rate)
    plain = rates["count, network none"]
    for what, measured in rates.items():
        shares = sorted(one / other for one, other in zip(measured, plain, strict=True))
        ratio = f"{median(shares):.2f} of count's ({shares[0]:.2f} to {shares[-1]:.2f}; at least 0.5 wanted)"
        print(f"{what:26} {median(measured):>8,.0f} events/s of processor time, {ratio}", flush=True)
