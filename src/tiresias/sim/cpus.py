"""Options of a simulation that concern nodes with CPUs only: whether and how fast jobs run on them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import polars as pl

from tiresias.core.model import Cluster
from tiresias.core.plugins import Policy
from tiresias.sim.errors import InputError
from tiresias.sim.trace import Trace

NO_CPUS = "the cluster has no node with CPUs only; describe one in a cluster file (gpus: 0, cpus: 64)"


def cpu_nodes_of(cluster: Cluster) -> frozenset[int]:
    """The indices of the nodes without GPUs."""
    return frozenset(index for index, node in enumerate(cluster.nodes) if not node.gpus)


def require_cpus(cpu_speed: float | None, use_cpus: bool | None, cluster: Cluster) -> None:
    """Raise InputError if these options cannot be used on this cluster."""
    if cpu_speed is not None and not 0 < cpu_speed <= 1:
        raise InputError(f"speed on CPUs {cpu_speed!r}: give it relative to GPUs, above 0 and up to 1")
    if cpu_speed is not None and not cpu_nodes_of(cluster):
        raise InputError(f"speed on CPUs {cpu_speed!r}: {NO_CPUS}")
    if use_cpus and not cpu_nodes_of(cluster):
        raise InputError(f"asked to use CPUs: {NO_CPUS}")


def with_cpu_speed(trace: Trace, cpu_speed: float | None) -> Trace:
    """The trace, with this speed on CPUs for the jobs that have none of their own."""
    if cpu_speed is None:
        return trace
    return replace(trace, jobs=trace.jobs.with_columns(pl.col("cpu_speed").fill_null(cpu_speed)))


def with_cpu_use(policy: Policy, use_cpus: bool | None) -> Policy:
    """The policy, made to use CPUs or not to use them; None leaves that to the policy."""
    if use_cpus is None:
        return policy
    changed = copy(policy)
    changed.uses_cpus = use_cpus
    return changed
