"""Jobs on CPUs while the GPUs are full.

A node without GPUs offers its cores in slots, each of which stands for one GPU of a gang. Rules:
- The target knows nothing of these slots.
- A job that is ranked but not admitted, waits, can run on CPUs and may be stopped starts there, best ranks
  first, as far as slots are free. No run on CPUs is stopped for another one there.
- Such a run attains no service, and to its policy the job waits (`JobState.gpu_run`).
- It is stopped when its job is admitted and its GPUs are free.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiresias.core.entries import JobEntry
from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, first
from tiresias.core.model import Phase
from tiresias.core.state import JobState, State

WAITING = (Phase.PENDING, Phase.SUSPENDED)


def overflow(ranked: Iterable[JobEntry], room: int) -> list[JobEntry]:
    """The jobs that start on so many free slots of CPUs, in the order of the ranks."""
    chosen = []
    for entry in ranked:
        if entry.gpus <= room and not entry.admitted and can_use_cpus(entry.job):
            chosen.append(entry)
            room -= entry.gpus
            if not room:
                break
    return chosen


def can_use_cpus(job: JobState) -> bool:
    """Whether it waits and can run on CPUs.

    One that may not be stopped could never change to GPUs, and one that does not save would lose its work.
    """
    if job.job.demand.cpu_speed is None or not job.preemptible or job.resumable is False:
        return False
    return job.phase in WAITING


def place(gpus: int, holes: Holes) -> Allocation:
    """The fewest nodes that hold so many slots now, of which enough are free; the rest where it fits best."""
    parts: list[tuple[int, int]] = []
    used = 0
    while gpus:
        fitting = [nodes & ~used for nodes in holes.buckets[gpus:] if nodes & ~used]
        emptiest = [nodes & ~used for nodes in holes.buckets[1:gpus] if nodes & ~used]
        node = first(fitting[0] if fitting else emptiest[-1])
        slots = holes.pick(node, min(gpus, holes.free_counts[node]))
        parts.append((node, slots))
        used |= 1 << node
        gpus -= slots.bit_count()
    return tuple(parts)


def where(job: JobState, state: State) -> str:
    """Where and how fast it runs on CPUs, as a clause for users."""
    assert job.run is not None
    names = [state.ledger.nodes[node].name for node, _ in job.run.allocation]
    nodes = f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)}"
    return f"on {nodes}, at {job.job.demand.cpu_speed:g} of the speed"
