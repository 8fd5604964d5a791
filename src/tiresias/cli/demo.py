"""`tiresias demo`: what the program is about, in some seconds and without any file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiresias.cli.console import bars, console, show
from tiresias.cli.units import duration

TRACE, SEED, CLUSTER = "builtin:testbed-480", 1, "15x4"
POLICIES = ("fifo", "srtf", "srsf", "tiresias-l", "tiresias-g")
OURS = ("tiresias-l", "tiresias-g")
PLOT_WIDTH = 88


def demo() -> None:
    """See five policies at work, in seconds.

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
    show(comparison(summaries))
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
    """One sentence that says what the figures say."""
    average = {each["policy"]: float(each["avg_jct_s"]) for each in summaries}
    best = min(OURS, key=lambda name: (average[name], name))
    ours_s, fifo_s, oracle_s = average[best], average["fifo"], average["srsf"]
    gain = fifo_s / ours_s
    if gain >= 1:
        against = f"{gain:.1f} times as fast as fifo ({duration(fifo_s)})"
    else:
        against = f"slower than fifo ({duration(fifo_s)})"
    excess = ours_s / oracle_s - 1
    if excess >= 0.005:
        distance = f"only {duration(oracle_s)}: knowing them all would save {1 - oracle_s / ours_s:.0%} more"
    else:
        distance = f"{duration(oracle_s)}: here, knowing them would save nothing more"
    if excess > 1:
        distance = distance.removeprefix("only ")
    return (
        f"Without knowing how long any job runs, {best} completes a job in {duration(ours_s)} on average, "
        f"{against}; srsf, which is told every duration, takes {distance}."
    )
