"""`tiresias demo --simulate`: the default policy and others compared in seconds, without any file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiresias.cli.console import bars, console, show
from tiresias.cli.units import common_unit, significant
from tiresias.core.defaults import BASELINES, DEFAULT_POLICY, ORACLE

TRACE, SEED, CLUSTER = "builtin:testbed-480", 1, "15x4"
OURS = tuple(dict.fromkeys((DEFAULT_POLICY, "tiresias-l", "tiresias-g")))
POLICIES = (*BASELINES, "srtf", ORACLE, *OURS)
PLOT_WIDTH = 88


def simulated() -> None:
    """Compare the policies of the paper and the default one in a few seconds.

    Replays 480 jobs on 60 GPUs and draws how long the jobs take under each policy.
    """
    from tiresias.cli.inputs import began_at
    from tiresias.cli.tables import comparison
    from tiresias.sim import experiment, terminal, traces

    trace = traces.load(TRACE, seed=SEED)
    with bars(POLICIES, began_at(trace)) as watch:
        compared = experiment.compare(trace, CLUSTER, POLICIES, progress=watch)
    if compared.unfinished:
        raise KeyboardInterrupt
    screen = console()
    show(f"{len(trace)} jobs of {TRACE} (seed {SEED}) on {CLUSTER}: 60 GPUs\n")
    summaries = [result.summary() for result in compared.results]
    show(comparison(summaries, screen.width))
    show("\nshare of jobs completed within a time (log scale)\n")
    show(
        terminal.cdf(
            {result.policy: result.jobs["jct_s"].to_numpy() for result in compared.results},
            width=min(screen.width, PLOT_WIDTH),
            unicode=screen.encoding.lower().startswith("utf"),
            colour=screen.color_system is not None and not screen.no_color,
        )
    )
    show("\n" + meaning(summaries))


def meaning(summaries: Sequence[Mapping[str, Any]]) -> str:
    """One sentence that says what the figures mean."""
    average = {each["policy"]: float(each["avg_jct_s"]) for each in summaries}
    best = min((name for name in OURS if name in average), key=lambda name: (average[name], name))
    ours_s, oracle_s = average[best], average[ORACLE]
    size, unit = common_unit(average.values())
    ours, oracle = (f"{significant(each / size)} {unit}" for each in (ours_s, oracle_s))
    against = " and ".join(
        f"{_than(average[name] / ours_s)} {name} ({significant(average[name] / size)} {unit})"
        for name in BASELINES
    )
    saving = 1 - oracle_s / ours_s
    worth = f"would save {saving:.0%} more" if saving >= 0.005 else "would save nothing more here"
    return (
        f"Without knowing how long any job runs, {best} completes a job in {ours} on average, "
        f"{against}; {ORACLE}, which knows every duration in advance, takes {oracle}: knowing them {worth}."
    )


def _than(gain: float) -> str:
    return f"{gain:.2f} times as fast as" if gain > 1 else "no faster than"
