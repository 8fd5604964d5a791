"""The shares of tenants: how many GPUs of the cluster each of them may count on.

Shares are given as weights, in the command line or in the cluster file, or else follow from the trace: then
each tenant's share is its part of the GPU-time that all jobs ask for. Either way they become whole GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from tiresias.core.plugins import Policy
from tiresias.core.shares import problem_in, weights_in, whole_shares
from tiresias.sim.errors import InputError
from tiresias.sim.trace import Trace

FROM_TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Shares:
    """Whole GPUs by tenant, which together are all GPUs of the cluster; `source` says where they are from."""

    gpus: Mapping[str, int]
    source: str


def parse(text: str, place: str = "--shares") -> dict[str, float]:
    """Weights from text such as `a=3,b=1`."""
    try:
        return weights_in(text)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None


def check(weights: Mapping[str, float], place: str) -> None:
    """Refuse weights that cannot be shares."""
    problem = problem_in(weights)
    if problem or not weights:
        raise InputError(f"{place}: {problem or 'no share is given; write for example a=3,b=1'}")


def shares_of(trace: Trace, gpus: int, weights: Mapping[str, float] | None, source: str) -> Shares:
    """The shares of a cluster with so many GPUs, by `weights` or, if these are None, by the trace."""
    by_tenant = trace.jobs.group_by("tenant").agg(work=(pl.col("gpus") * pl.col("duration_s")).sum())
    asked = dict(by_tenant.sort("tenant").iter_rows())
    if weights is None:
        return Shares(whole_shares(asked, gpus), FROM_TRACE)
    _check_named(dict.fromkeys(weights, "shares"), asked)
    return Shares(whole_shares({name: weights.get(name, 0.0) for name in asked}, gpus), source)


def check_named(policy: Policy, trace: Trace) -> None:
    """Refuse options that name a tenant of whom the trace has no job: nobody would have what they give."""
    named = policy.named_tenants()
    if named:
        _check_named(named, sorted(trace.jobs["tenant"].unique().to_list()))


def _check_named(places: Mapping[str, str], tenants: Iterable[str]) -> None:
    """Refuse the first name that is no tenant; `places` says by name where it stands."""
    known = list(tenants)
    for name, place in places.items():
        if name not in known:
            named = [repr(each) for each in known if each]
            there = f"its tenants are {', '.join(named[:8])}" if named else "its jobs name no tenants"
            more = f" and {len(named) - 8} more" if len(named) > 8 else ""
            raise InputError(f"{place}: no job of the trace has the tenant {name!r}; {there}{more}")
