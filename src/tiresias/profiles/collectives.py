"""The time that a gang needs to exchange its gradients: rings, trees, shards, parameter servers.

All times are in seconds. A ring passes once through all GPUs, node by node and rack by rack, so the link of
each node carries the bytes once in and once out; the slowest link of the ring sets the pace.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from math import ceil, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiresias.profiles.flow import Buckets, Floats, Flow
from tiresias.profiles.links import Link, Links, Shape, Sharing

SMALL_BYTES = 64 * 1024


class Pace(NamedTuple):
    """How fast bytes travel: seconds per byte on the slowest link, and latencies."""

    s_per_byte: float
    hops_s: float  # latency of all hops of a ring
    climb_s: float  # latency from the leaves of a tree to its root


class Exchange(NamedTuple):
    """The cost of an exchange in one iteration.

    `exposed_s` is what it adds to the iteration if everything is hidden behind compute that can be;
    `total_s` is the time in which data is sent.
    """

    exposed_s: float
    total_s: float


NOTHING = Exchange(0.0, 0.0)


def rate(link: Link, jobs: float, gpus: int, efficiency: float) -> float:
    """Bytes per second for a gang with `gpus` GPUs at this end of a link that `jobs` jobs share."""
    return link.bandwidth_Bps * efficiency * min(1.0, gpus / link.ports) / max(1.0, jobs)


def pace_of(shape: Shape, links: Links, sharing: Sharing, efficiency: float) -> Pace:
    nodes = [gpus for rack in shape for gpus in rack]
    count, racks, widest, smallest = sum(nodes), len(shape), max(nodes), min(nodes)
    slowest, hops_s, climb_s = float("inf"), 0.0, 0.0
    if widest > 1:
        slowest = rate(links.node, sharing.node, links.node.ports, efficiency)
        hops_s = (count - len(nodes)) * links.node.latency_s
        climb_s = (widest - 1) * links.node.latency_s
    if any(len(rack) > 1 for rack in shape):
        slowest = min(slowest, rate(links.rack, sharing.rack, smallest, efficiency))
        hops_s += (len(nodes) - racks) * links.rack.latency_s
        climb_s += ceil(log2(max(map(len, shape)))) * links.rack.latency_s
    if racks > 1:
        slowest = min(slowest, rate(links.cross, sharing.cross, smallest, efficiency))
        hops_s += racks * links.cross.latency_s
        climb_s += ceil(log2(racks)) * links.cross.latency_s
    return Pace(1.0 / slowest, hops_s, climb_s)


def ring_or_tree(
    buckets: Buckets, pace: Pace, workers: int, backward_s: float, overlaps: bool, algorithm: str
) -> Exchange:
    """An all-reduce, bucket by bucket, while the backward pass goes on (if it `overlaps`)."""
    around = 2 * (workers - 1) / workers
    ways = []
    if algorithm in ("ring", "auto"):
        ways.append((around * pace.hops_s, around * pace.s_per_byte))
    if algorithm in ("tree", "auto"):
        ways.append((2 * pace.climb_s, 2 * pace.s_per_byte))
    total_s = min(buckets.end_s(0.0, *way) for way in ways)
    if not overlaps:
        return Exchange(total_s, total_s)
    end_s = min(buckets.end_s(backward_s, *way) for way in ways)
    return Exchange(max(0.0, end_s - backward_s), total_s)


def shards(buckets: Buckets, pace: Pace, workers: int, forward_s: float, backward_s: float) -> Exchange:
    """Sharded training: parameters are gathered for both passes and gradients scattered in the second.

    The first gathering of each pass and the last scattering cannot be hidden behind compute.
    """
    if not len(buckets.ready):
        return NOTHING
    once = (workers - 1) / workers
    one_s = once * (float(buckets.bytes_left[0]) * pace.s_per_byte + len(buckets.ready) * pace.hops_s)
    first_s = once * (buckets.largest * pace.s_per_byte + pace.hops_s)
    exposed_s = max(first_s, one_s - forward_s) + max(2 * first_s, 2 * one_s - backward_s)
    return Exchange(exposed_s, 3 * one_s)


class Passes(NamedTuple):
    """Seconds of the forward and of the backward pass."""

    forward_s: float
    backward_s: float


def servers(
    flow: Flow, shape: Shape, links: Links, sharing: Sharing, efficiency: float, passes: Passes
) -> Exchange:
    """Parameter servers, one beside each worker; tensors are assigned in turn, so a huge one overloads one.

    Gradients are pushed as they appear, and parameters are pulled in the order in which they are needed; both
    at the pace of the node that has most to transfer.
    """
    counts = [gpus for rack in shape for gpus in rack]
    local_s = flow.total / rate(links.node, sharing.node, links.node.ports, efficiency)
    if len(counts) == 1:
        exposed_s = _push_and_pull(*_running(flow, 1, 0, 1, True), _waits(flow, passes), local_s, passes)
        return Exchange(exposed_s + 2 * links.node.latency_s, 2 * local_s)
    _, ahead = _dealt(flow, sum(counts))
    begins = [0, *accumulate(counts)]
    stored = [ahead[end] - ahead[begin] for begin, end in pairwise(begins)]  # parameter bytes on each node
    hot_s, hot, inward = _hottest(stored, shape, links, sharing, efficiency)
    running = _running(flow, begins[-1], begins[hot], counts[hot], inward)
    once_s = max(hot_s, local_s)
    exposed_s = _push_and_pull(*running, _waits(flow, passes), once_s, passes)
    latency_s = links.cross.latency_s if len(shape) > 1 else links.rack.latency_s
    return Exchange(exposed_s + 2 * latency_s, 2 * once_s)


@lru_cache(maxsize=4096)
def _running(flow: Flow, servers: int, begin: int, count: int, inward: bool) -> tuple[Floats, float]:
    """The running sum of the tensors' bytes in the order of the forward pass, and the sum of all.

    Only tensors of the `count` servers from `begin` on count; if the limit is outward, only those of others.
    """
    owner, _ = _dealt(flow, servers)
    on_it = (owner >= begin) & (owner < begin + count)
    sizes = flow.sizes * (on_it if inward else ~on_it)
    return np.cumsum(sizes), float(sizes.sum())


@lru_cache(maxsize=4096)
def _waits(flow: Flow, passes: Passes) -> tuple[Floats, Floats]:
    """For each tensor: when its gradient is ready in the backward pass, and how long before the end of the
    forward pass its parameters are needed."""
    return flow.ready * passes.backward_s, (1 - flow.ready) * passes.forward_s


def _push_and_pull(
    before: Floats, total: float, waits: tuple[Floats, Floats], once_s: float, passes: Passes
) -> float:
    """By how much both passes get longer if all bytes take `once_s` each way."""
    if not total:
        return 0.0
    sent_s = before * (once_s / total)
    ready_s, needed_s = waits
    pushed_s = float((ready_s + sent_s).max()) - passes.backward_s
    pulled_s = float((sent_s - needed_s).max())
    return max(0.0, pushed_s) + max(0.0, pulled_s)


def dealt(sizes: Floats, servers: int) -> NDArray[np.int64]:
    """The server of each tensor: large tensors in turn, then small tensors in turn.

    If all took one turn, a network with four tensors per layer (one large) would have all its large tensors
    on two of eight servers, and the paper's measurements of such networks show no such imbalance.
    """
    is_small = sizes < SMALL_BYTES
    large = len(sizes) - np.count_nonzero(is_small)
    owner = np.empty(len(sizes), np.int64)
    owner[~is_small] = np.arange(large) % servers
    owner[is_small] = np.arange(large, len(sizes)) % servers
    return owner


@lru_cache(maxsize=1024)
def _dealt(flow: Flow, servers: int) -> tuple[NDArray[np.int64], list[float]]:
    """The server of each tensor, and the running sum of the servers' bytes, from 0 to the total."""
    owner = dealt(flow.sizes, servers)
    loads = np.bincount(owner, weights=flow.sizes, minlength=servers)
    return owner, [0.0, *accumulate(loads.tolist())]


def _hottest(
    stored: list[float], shape: Shape, links: Links, sharing: Sharing, efficiency: float
) -> tuple[float, int, bool]:
    """Seconds of one push (a pull takes as long), the slowest node, and whether its limit is inward."""
    total, workers = sum(stored), sum(map(sum, shape))
    rates: dict[int, tuple[float, float]] = {}  # by GPUs on a node: within its rack, and across racks
    worst_s, worst, inward = 0.0, 0, True
    begin = 0
    for rack in shape:
        of_rack, in_rack = sum(stored[begin : begin + len(rack)]), sum(rack)
        for node, gpus in enumerate(rack, begin):
            if gpus not in rates:
                near_Bps = rate(links.rack, sharing.rack, gpus, efficiency)
                rates[gpus] = near_Bps, rate(links.cross, sharing.cross, gpus, efficiency)
            near_Bps, far_Bps = rates[gpus]
            own = stored[node]
            come, go = own * (in_rack - gpus), gpus * (of_rack - own)
            near_s = (come if come >= go else go) / near_Bps
            from_far, to_far = own * (workers - in_rack), gpus * (total - of_rack)
            far_s = (from_far if from_far >= to_far else to_far) / far_Bps
            if far_s > near_s:
                near_s, come, go = far_s, from_far, to_far
            if near_s >= worst_s:  # of equal nodes the last
                worst_s, worst, inward = near_s, node, come >= go
        begin += len(rack)
    return worst_s, worst, inward
