"""The nouns of the core: jobs, demands, nodes, clusters.

Rules: values only, no behaviour that needs a clock. Instants are epoch seconds and end in `_at`,
durations end in `_s`, attained service is in GPU-seconds and ends in `_gpu_s`.
Classes are slotted, and instances are not mutated after construction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

JobId = NewType("JobId", int)
RunId = NewType("RunId", int)
Rank = tuple[float, ...]
"""A policy's order: smaller ranks go first. Ties are broken by submission, then by id."""

INFINITY = float("inf")


def later(default: Any) -> Any:
    """A field that values of earlier versions lack: it is stored only where it is not the default."""
    return field(default=default, metadata={"later": True})


class Phase(StrEnum):
    """Where a job is in its life; everything finer is a reason."""

    PENDING = "PENDING"
    HELD = "HELD"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Pool(StrEnum):
    """The kind of slots that a run holds."""

    GPUS = "GPUs"
    CPUS = "CPUs"


class Priority(StrEnum):
    """A class above the policy's order: every high job ranks before every normal one."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


PRIORITY_ORDER = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


@dataclass(slots=True)
class Demand:
    """What a gang needs, all of it or nothing; `cpus` and `memory_bytes` are those of the whole gang.

    The target counts `gpus` only. What else is asked for narrows the nodes that a placer may use.
    `cpu_speed` is the job's speed on CPUs as a share of that on GPUs; None: it cannot run on CPUs.
    `gpu_memory_bytes` is what it needs of the memory of each GPU; None: not known, which may be all of it.
    `nodes` is on how many nodes the GPUs must be, shared out evenly; None: the placer chooses.

    A job with `max_gpus` is elastic: an allocator may let it run on any number of GPUs from `least` to that.
    `gpus` is its reference size then: work is counted in seconds at this size, `cpus` and `memory_bytes` are
    those at this size, and policies that do not size jobs run it so.
    """

    gpus: int
    max_gpus: int | None = None
    gpu_type: str | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    cpu_speed: float | None = None
    gpu_memory_bytes: int | None = later(None)
    nodes: int | None = later(None)
    min_gpus: int | None = later(None)  # of an elastic job; None: `gpus`

    @property
    def is_elastic(self) -> bool:
        """Whether an allocator may choose its size."""
        return self.max_gpus is not None

    @property
    def least(self) -> int:
        """The smallest number of GPUs that it runs on."""
        return self.gpus if self.min_gpus is None else self.min_gpus

    @property
    def most(self) -> int:
        """The largest number of GPUs that it runs on."""
        return self.gpus if self.max_gpus is None else self.max_gpus

    @property
    def pieces(self) -> tuple[int, ...]:
        """The GPUs on each of `nodes` nodes, the most first."""
        assert self.nodes is not None, "no number of nodes"
        each, more = divmod(self.gpus, self.nodes)
        return (each + 1,) * more + (each,) * (self.nodes - more)

    @property
    def is_choosy(self) -> bool:
        """Whether it asks for more than a number of GPUs, which some nodes may not have."""
        return (
            self.gpu_type is not None
            or self.cpus is not None
            or self.memory_bytes is not None
            or self.gpu_memory_bytes is not None
            or self.nodes is not None
        )


@dataclass(slots=True)
class Job:
    """What a user submitted.

    `duration_s` is the work of the whole job at full speed. It is known only if a trace states it, and only
    the World and the policies that are oracles may read it. `preemption_cost_s` is the total cost of one
    preemption (saving plus loading), if the trace states it. `saves` is whether its work outlives a stop;
    like the duration, only a trace states it, and only the World may read it. `resumable` is what is known
    about that: what the user has said, or what the job has shown; None means that it is not known.
    """

    id: JobId
    demand: Demand
    submitted_at: float
    user: str = ""
    tenant: str = ""
    name: str = ""
    group: str = ""
    priority: Priority = Priority.NORMAL
    preemptible: bool = True
    model: str = ""
    duration_s: float | None = None
    preemption_cost_s: float | None = None
    saves: bool = True
    resumable: bool | None = None


@dataclass(slots=True)
class Node:
    """A machine with `gpus` slots, indexed from 0. 0 cpus or bytes mean that the number is not known.

    `sockets` are the groups of slots that are near each other (a CPU socket, a PCIe switch). CPU cores and
    memory are given out in proportion to GPUs. `speed` is how fast its GPUs compute; durations of jobs are
    those at a speed of 1. A node without GPUs has slots of CPUs, of `cpus_per_slot` cores each.
    `gpu_memory_bytes` is the memory of each of its GPUs.
    """

    name: str
    gpus: int
    rack: str = ""
    gpu_type: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    sockets: tuple[tuple[int, ...], ...] = ()
    speed: float = 1.0
    cpus_per_slot: int = 8
    gpu_memory_bytes: int = later(0)

    @property
    def cpu_slots(self) -> int:
        """How many GPUs its cores can stand for: none on a node with GPUs, whose cores serve those."""
        return 0 if self.gpus else self.cpus // self.cpus_per_slot

    def suits(self, demand: Demand) -> bool:
        """Whether its GPUs are of the type asked for, enough for a piece of a gang that states on how many
        nodes it must be, and its share of cores and memory is large enough.
        """
        if demand.gpu_type is not None and demand.gpu_type != self.gpu_type:
            return False
        if not self.gpus or (demand.gpu_memory_bytes or 0) > (self.gpu_memory_bytes or INFINITY):
            return False
        if demand.nodes is not None and demand.pieces[-1] > self.gpus:
            return False
        share = demand.gpus / self.gpus
        cores = demand.cpus is None or not self.cpus or demand.cpus <= self.cpus * share
        memory = demand.memory_bytes is None or not self.memory_bytes
        return cores and (memory or (demand.memory_bytes or 0) <= self.memory_bytes * share)


@dataclass(slots=True)
class Cluster:
    """All that one manager schedules."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @classmethod
    def of(cls, nodes: int, gpus: int, racks: int = 1) -> Cluster:
        """`racks` racks of `nodes` nodes of `gpus` GPUs each."""
        return cls(
            [Node(f"n{r * nodes + i}", gpus, rack=f"r{r}") for r in range(racks) for i in range(nodes)]
        )
