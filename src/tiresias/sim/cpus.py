"""Nodes of CPUs only, and which jobs may run there: what a simulation is told of them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import polars as pl

from tiresias.core.model import Cluster
from tiresias.core.plugins import Policy
from tiresias.sim.errors import InputError
from tiresias.sim.trace import Trace

NO_CPUS = "the cluster has no node of CPUs only; describe one in a cluster file (gpus: 0, cpus: 64)"


def cpu_nodes_of(cluster: Cluster) -> frozenset[int]:
    """The positions of the nodes without GPUs."""
    return frozenset(position for position, node in enumerate(cluster.nodes) if not node.gpus)


def require_cpus(cpu_speed: float | None, use_cpus: bool | None, cluster: Cluster) -> None:
    """Raise where what is asked for of CPUs cannot be."""
    if cpu_speed is not None and not 0 < cpu_speed <= 1:
        raise InputError(f"speed on CPUs {cpu_speed!r}: give a part of that on GPUs, above 0 and up to 1")
    if cpu_speed is not None and not cpu_nodes_of(cluster):
        raise InputError(f"speed on CPUs {cpu_speed!r}: {NO_CPUS}")
    if use_cpus and not cpu_nodes_of(cluster):
        raise InputError(f"asked to use CPUs: {NO_CPUS}")


def with_cpu_speed(trace: Trace, cpu_speed: float | None) -> Trace:
    """The trace, in which jobs that do not tell their speed on CPUs have this one."""
    if cpu_speed is None:
        return trace
    return replace(trace, jobs=trace.jobs.with_columns(pl.col("cpu_speed").fill_null(cpu_speed)))


def told_of_cpus(policy: Policy, use_cpus: bool | None) -> Policy:
    """The policy, told whether to use CPUs; None: as it says itself."""
    if use_cpus is None:
        return policy
    told = copy(policy)
    told.uses_cpus = use_cpus
    return told
