"""Allocators beside `tiresias-l`: on Philly, and what a flood by one tenant does to the others."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from time import process_time

import polars as pl

from benchmarks.common import data
from tiresias.core.plugins import policies
from tiresias.sim import simulate, traces
from tiresias.sim.trace import Trace
from tiresias.testing.floods import TENANTS, flooded_trace

EQUAL = dict.fromkeys(TENANTS, 1.0)
SEEDS = range(1, 6)
FLOODS = range(1, 16)  # 1 to 5 were looked at while it was written


def flood() -> None:
    """Four tenants on 8x8; by fairness: the quiet ones against private clusters, all against tiresias-l."""
    for quiet, flooding in ((0.6, 2.0), (0.8, 2.5)):
        load = (3 * quiet + flooding) / 4
        print(f"quiet tenants ask for {quiet:g} of their shares, one for {flooding:g}: load {load:.0%}")
        traces = [flooded_trace(seed, quiet=quiet, flood=flooding) for seed in FLOODS]
        private = [[_alone(trace, tenant) for tenant in TENANTS[:3]] for trace in traces]
        plain = [simulate(trace, "8x8", "tiresias-l", shares=EQUAL).summary() for trace in traces]
        _show("tiresias-l", plain, private, plain)
        for fairness in ("1", "0.95", "0.9", "0.8", "0.3"):
            options = {"fairness": fairness}
            found = [
                simulate(trace, "8x8", "two-level", options=options, shares=EQUAL).summary()
                for trace in traces
            ]
            _show(f"two-level fairness={fairness}", found, private, plain)


def _alone(trace: Trace, tenant: str) -> float:
    """Average JCT of a tenant in a private cluster of its share."""
    jobs = trace.jobs.filter(pl.col("tenant") == tenant).select("submitted_at", "gpus", "duration_s")
    return float(simulate(jobs, "2x8", "tiresias-l").summary()["avg_jct_s"])


def _show(what: str, found: list[dict], private: list[list[float]], plain: list[dict]) -> None:
    ratios = [
        each["tenants"][tenant]["avg_jct_s"] / alone
        for each, alone_of in zip(found, private, strict=True)
        for tenant, alone in zip(TENANTS, alone_of, strict=False)
    ]
    totals = [each["avg_jct_s"] / other["avg_jct_s"] for each, other in zip(found, plain, strict=True)]
    preemptions = fmean(each["preemptions"] for each in found)
    print(
        f"  {what:24} quiet / private: mean {fmean(ratios):.2f}, worst {max(ratios):.2f};"
        f" all / tiresias-l: mean {fmean(totals):.2f}, worst {max(totals):.2f};"
        f" preemptions {preemptions:,.0f}"
    )


def predictions() -> None:
    """`optimus` on the testbed with smooth and realistic losses, rigid and elastic, beside others."""
    cases = [("tiresias-l", None), ("tiresias", None)]
    cases += [("optimus", losses) for losses in ("smooth", "realistic", "none")]
    for cluster in ("15x4", "12x4"):
        for least, most in ((1.0, 1.0), (0.5, 2.0)):
            print(f"testbed-480 on {cluster}, gangs of {least:g} to {most:g} times their size, seeds 1 to 5")
            jct: dict[str, list[float]] = {}
            for seed in SEEDS:
                trace = _sized(traces.generate("builtin:testbed-480", seed=seed), least, most)
                oracle = simulate(trace, cluster, "srsf").summary()["avg_jct_s"]
                for name, losses in cases:
                    found = simulate(trace, cluster, name, losses=losses).summary()
                    label = f"{name} {losses}" if losses else name
                    jct.setdefault(label, []).append(found["avg_jct_s"] / oracle)
            for label, ratios in jct.items():
                each = " ".join(f"{ratio:.2f}" for ratio in ratios)
                print(f"  {label:18} average JCT over srsf: mean {fmean(ratios):.3f} ({each})")


def _sized(trace: Trace, least: float, most: float) -> Trace:
    """The trace with a range of sizes for every gang."""
    low, high = (pl.col("gpus") * least).ceil(), (pl.col("gpus") * most).floor()
    sizes = {"min_gpus": low.clip(1).cast(pl.Int64), "max_gpus": high.clip(1).cast(pl.Int64)}
    return replace(trace, jobs=trace.jobs.with_columns(**sizes))


FAIRNESS = (
    ("themis", {}),
    ("ftf", {}),
    ("tiresias-l", {}),
    ("tiresias", {}),
    ("sjf", {}),
    ("srsf", {}),
    ("themis", {"lease_s": "120"}),
    ("ftf", {"lease_s": "120"}),
    ("themis", {"rounds": "10"}),
)


def fairness() -> None:
    """The worst rho on testbed-480 and on slices of Philly, and what `f` of `themis` does."""
    seeds = [traces.generate("builtin:testbed-480", seed=seed) for seed in SEEDS]
    cases = [(f"testbed-480 seed {seed}", trace, "15x4") for seed, trace in zip(SEEDS, seeds, strict=True)]
    path = data("philly.csv.gz")
    if path is None:
        print("slices of Philly are left out: TIRESIAS_DATA names no folder with the real traces")
    else:
        whole = traces.load(path)
        for first in (0, 20_000):
            part = replace(whole, jobs=whole.jobs.sort("submitted_at")[first : first + 10_000])
            cases.append((f"10,000 jobs of Philly from {first:,}", part, "64x8"))
    for title, trace, cluster in cases:
        print(f"{title} on {cluster}")
        for policy, options in FAIRNESS:
            found = simulate(trace, cluster, policy, options=options).summary()
            name = " ".join([policy, *(f"{key}={value}" for key, value in options.items())])
            print(f"  {name:18} max rho {found['max_rho']:.3f}, preemptions {found['preemptions']:,}")
    for network, placer in (("none", "packed"), ("consumer-10g", "profile"), ("consumer-10g", "packed")):
        for f in ("0", "0.8", "1"):
            results = [
                simulate(trace, "15x4", "themis", options={"f": f}, network=network, placer=placer)
                for trace in seeds
            ]
            figures = [result.summary() for result in results]
            gpu_s = sum(float(result.jobs["service_gpu_s"].sum()) for result in results)
            print(
                f"testbed-480, network {network}, placer {placer}, f={f}:"
                f" max rho {fmean(each['max_rho'] for each in figures):.2f},"
                f" Jain {fmean(each['jain'] for each in figures):.3f}, {gpu_s / 3600:,.0f} GPU-hours,"
                f" preemptions {sum(each['preemptions'] for each in figures):,}"
            )


def philly() -> None:
    """Every allocator on full Philly, 64x8: JCT, fairness and processor time beside `tiresias-l`."""
    path = data("philly.csv.gz")
    if path is None:
        print("left out: TIRESIAS_DATA names no folder with the real traces")
        return
    trace = traces.load(path)
    base: dict[str, float] = {}
    cases = [("tiresias-l", None), *((each, None) for each in policies.names() if policies.get(each).allots)]
    cases.append(("optimus", "smooth"))
    for policy, losses in cases:
        name = f"{policy} {losses}" if losses else policy
        began = process_time()
        found = simulate(trace, "64x8", policy, losses=losses).summary()
        found["cpu_s"] = process_time() - began
        base = base or found
        print(
            f"  {name:14} average JCT {found['avg_jct_s']:10,.0f} s"
            f" ({found['avg_jct_s'] / base['avg_jct_s']:.2f}x),"
            f" median {found['p50_jct_s']:9,.0f} s ({found['p50_jct_s'] / base['p50_jct_s']:.2f}x),"
            f" max rho {found['max_rho']:.2f}, p99 rho {found['p99_rho']:.2f}, Jain {found['jain']:.3f},"
            f" preemptions {found['preemptions']:,},"
            f" processor {found['cpu_s']:.1f} s ({found['cpu_s'] / base['cpu_s']:.1f}x)"
        )
