"""How many nodes a trace needs so that its jobs wait no longer than wanted.

Bisection over simulations: a size that fails is taken to mean that all smaller ones fail, too. That holds but
for noise: a single smaller size may pass by luck, and is then not found. The answer is always a size that was
simulated and passes, beside one node fewer, which was simulated and fails (or cannot hold the widest job).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiresias.sim.errors import InputError
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace

MOST_NODES = 1_000_000
Value = str | int | float


@dataclass(slots=True, frozen=True)
class Tried:
    """One simulated size."""

    nodes: int
    gpus: int
    p95_wait_s: float
    avg_wait_s: float
    avg_jct_s: float
    gpu_utilization: float


@dataclass(slots=True)
class Sizing:
    """The smallest size that was found to pass, and everything that was tried, by size."""

    policy: str
    gpus_per_node: int
    wait_p95_s: float
    answer: Tried
    tried: list[Tried] = field(default_factory=list)

    def plot(self) -> Any:
        """Waits over sizes as a Matplotlib figure, which a notebook shows."""
        from tiresias.sim.plots import waits_by_size

        return waits_by_size(self)[0]


def size(
    trace: Trace,
    wait_p95_s: float,
    *,
    gpus_per_node: int = 8,
    policy: str,
    options: Mapping[str, Value] | None = None,
    placer: str | None = None,
    preemption_cost_s: float = 60.0,
    on_tried: Callable[[Tried], None] | None = None,
) -> Sizing:
    """The fewest nodes on which 95 % of the jobs wait for no longer than `wait_p95_s` seconds."""
    if not trace.jobs.height:
        raise InputError(f"{trace.name}: there are no jobs to size a cluster for")
    widest = int(trace.jobs["gpus"].max())  # type: ignore[arg-type]
    least = max(1, -(-widest // gpus_per_node))
    tried: dict[int, Tried] = {}

    def passes(nodes: int) -> bool:
        if nodes not in tried:
            result = simulate(
                trace,
                f"{nodes}x{gpus_per_node}",
                policy,
                options=options,
                placer=placer,
                preemption_cost_s=preemption_cost_s,
            )
            tried[nodes] = _tried(nodes, nodes * gpus_per_node, result.summary())
            if on_tried is not None:
                on_tried(tried[nodes])
        return tried[nodes].p95_wait_s <= wait_p95_s

    enough = max(least, -(-_load(trace) // gpus_per_node))  # first a cluster that is as large as the load
    fails = least - 1
    while not passes(enough):
        fails, enough = enough, 2 * enough
        if enough > MOST_NODES:
            raise InputError(f"even {fails:,} nodes are too few for a wait of {wait_p95_s:g} s")
    while enough - fails > 1:
        middle = (fails + enough) // 2
        if passes(middle):
            enough = middle
        else:
            fails = middle
    ordered = [tried[nodes] for nodes in sorted(tried)]
    return Sizing(policy, gpus_per_node, wait_p95_s, tried[enough], ordered)


def _load(trace: Trace) -> int:
    """How many GPUs are busy on average while jobs arrive."""
    jobs = trace.jobs
    all_at_once = max(1, int(jobs["gpus"].sum()))
    service = float((jobs["gpus"] * jobs["duration_s"]).sum())
    span_s = float(jobs["submitted_at"].max()) - float(jobs["submitted_at"].min())  # type: ignore[arg-type]
    return min(all_at_once, max(1, int(service / span_s))) if span_s > 0 else all_at_once


def _tried(nodes: int, gpus: int, figures: Mapping[str, Any]) -> Tried:
    wanted = ("p95_wait_s", "avg_wait_s", "avg_jct_s", "gpu_utilization")
    return Tried(nodes, gpus, *(float(figures[name] or 0.0) for name in wanted))


def draw(sizing: Sizing, path: Path) -> None:
    """Write the plot as a PNG file."""
    from tiresias.sim.plots import finish, waits_by_size

    figure, axes = waits_by_size(sizing)
    finish(figure, [axes], path)
