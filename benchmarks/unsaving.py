"""Jobs that do not save among jobs that save: what they cost the others, protected and not.

Each line is about the testbed mix (480 jobs on 15 nodes of 4 GPUs, packed, a preemption costs 60 s), in which
some jobs lose all their work when they are preempted. All figures are average JCTs, relative to the same jobs
without protection (`protect=0`), and to the same jobs where all of them save.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

import polars as pl

from tiresias.sim import simulate, traces
from tiresias.sim.trace import Trace

CLUSTER = "15x4"
ONE_IN = 20  # every 20th job, in the second part
SEEDS = range(5)
POLICIES = ("tiresias", "tiresias-l")
MOST = 0.05


def unsaving() -> None:
    """One script in turn, then every 20th job."""
    mixes = {seed: traces.generate("builtin:testbed-480", seed=seed) for seed in SEEDS}
    single = [(seed, [number]) for seed in (0, 1) for number in range(0, 480, 24)]
    many = [(seed, range(first, 480, ONE_IN)) for seed in SEEDS for first in range(0, ONE_IN, 5)]
    for policy in POLICIES:
        all_save = {seed: _jct_s(mix, policy) for seed, mix in mixes.items()}
        for what, cases in (("one script", single), (f"every {ONE_IN}th job", many)):
            rows = [_case(mixes[seed], all_save[seed], policy, who) for seed, who in cases]
            _show(f"{policy}: {what}", rows)


Ratios = tuple[float, float, float, float]


def _case(mix: Trace, all_save: pl.Series, policy: str, who: Iterable[int]) -> Ratios:
    """The others' JCT over that without protection, and over that where all save; then the scripts'."""
    script = pl.Series([False] * len(mix)).scatter(list(who), True)
    trace = replace(mix, jobs=mix.jobs.with_columns(resumable=~script))
    loose, held = _jct_s(trace, policy, protect=0.0), _jct_s(trace, policy)
    return (
        _mean(held, ~script) / _mean(loose, ~script),
        _mean(held, ~script) / _mean(all_save, ~script),
        _mean(held, script) / _mean(loose, script),
        _mean(held, script) / _mean(all_save, script),
    )


def _jct_s(trace: Trace, policy: str, **options: float) -> pl.Series:
    """The JCT of each job, in the order of the trace."""
    done = simulate(trace, CLUSTER, policy, placer="packed", preemption_cost_s=60.0, options=options)
    return done.jobs["jct_s"]


def _mean(jct_s: pl.Series, chosen: pl.Series) -> float:
    return fmean(jct_s.filter(chosen))


def _show(name: str, rows: list[Ratios]) -> None:
    print(f"unsaving: {name}, {len(rows)} cases")
    what = (
        f"the others, over no protection (within {MOST:.0%} wanted)",
        "the others, over a cluster where all save",
        "the scripts, over no protection",
        "the scripts, over a cluster where all save",
    )
    for words, values in zip(what, zip(*rows, strict=True), strict=True):
        outside = sum(abs(value - 1) > MOST for value in values)
        print(
            f"  {words}: {fmean(values) - 1:+.1%} in the mean, {min(values) - 1:+.1%} to"
            f" {max(values) - 1:+.1%}; {outside} of {len(values)} beyond {MOST:.0%}"
        )
