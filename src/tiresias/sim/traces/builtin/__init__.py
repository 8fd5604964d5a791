"""Traces that need no file: the paper's example, its testbed, and a stand-in for the Philly trace.

The same arguments and seed give the same trace on every machine: all randomness comes from the raw
stream of PCG64, and every draw is rounded to whole seconds or milliseconds before it is used further.
The generators and NumPy are imported when a trace is generated.
"""

from __future__ import annotations

from tiresias.sim.errors import TraceError
from tiresias.sim.trace import Trace
from tiresias.sim.traces.builtin import example

PREFIX = "builtin:"
BUILTINS: dict[str, str] = {
    "example": "the three jobs of the paper's worked example",
    "testbed-480": "the paper's testbed: 480 jobs of 1 to 32 GPUs",
    "philly-like": "any number of jobs at any load, fitted to the Philly trace",
}


def generate(
    name: str,
    *,
    jobs: int | None = None,
    load: float | None = None,
    cluster_gpus: int | None = None,
    recurring: float | None = None,
    seed: int = 0,
) -> Trace:
    """The generated trace of that name, with or without `builtin:`; only philly-like takes options.

    `load` is the demanded GPU-seconds / (`cluster_gpus` x seconds from the first to the last submission).
    With `recurring` the jobs have users and names, and this share of the jobs is of users and names that come
    again; without it they have none.
    """
    short = name.removeprefix(PREFIX)
    if short not in BUILTINS:
        known = ", ".join(PREFIX + each for each in BUILTINS)
        raise TraceError(f"{name!r}: there is no such builtin trace. Known ones: {known}.")
    if seed < 0:
        raise TraceError(f"seed {seed}: a seed is a whole number from 0 up.")
    given = {"jobs": jobs, "load": load, "cluster_gpus": cluster_gpus, "recurring": recurring}
    options = {key: value for key, value in given.items() if value is not None}
    if short != "philly-like" and options:
        names = ", ".join(options)
        raise TraceError(f"{PREFIX}{short} is fixed: it takes no {names}. Use builtin:philly-like.")
    if short == "example":
        return Trace(short, example.jobs(), "builtin")
    from tiresias.sim.traces.builtin import philly_like, recurrence, testbed
    from tiresias.sim.traces.builtin.draw import Draw

    if short == "testbed-480":
        return Trace(short, testbed.jobs(Draw(seed)), "builtin", notes=[f"generated with seed {seed}"])
    size = philly_like.Size(
        philly_like.JOBS if jobs is None else jobs,
        philly_like.LOAD if load is None else load,
        philly_like.CLUSTER_GPUS if cluster_gpus is None else cluster_gpus,
    )
    note = f"generated with seed {seed}: {size.jobs:,} jobs, load {size.load:g} of {size.cluster_gpus:,} GPUs"
    if recurring is not None:
        recurrence.check(recurring)
        note += f", a share of {recurring:g} of the jobs recurs"
    return Trace(short, philly_like.jobs(size, Draw(seed), recurring), "builtin", notes=[note])
