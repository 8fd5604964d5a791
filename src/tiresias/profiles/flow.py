"""Computes when, in the backward pass, which gradients are ready to be sent.

Gradients appear from the last layer to the first. If a profile has layers, each takes time in proportion to
its arithmetic; otherwise every tensor takes the same time. A hybrid job sends only what is ahead of its cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tiresias.profiles.model import ModelProfile

Floats = NDArray[np.float64]
UNSEEN_PARTS = 64
"""Bytes whose tensors are not known count as this many equal ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """The tensors of a model in the order of the forward pass."""

    sizes: Floats  # bytes sent of each
    ready: Floats  # when in the backward pass each is ready, from 0 to 1
    total: float  # bytes of all


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Gradients that are sent together, in the order of the backward pass."""

    ready: Floats  # when in the backward pass each bucket is ready, from 0 to 1
    bytes_left: Floats  # of a bucket and all after it
    count_left: Floats  # a bucket and all after it

    @property
    def largest(self) -> float:
        after = np.append(self.bytes_left[1:], 0.0)
        return float((self.bytes_left - after).max(initial=0.0))

    def end_s(self, backward_s: float, latency_s: float, s_per_byte: float) -> float:
        """When the last bucket has arrived, if each has `latency_s` and is sent after the one before it."""
        if not len(self.ready):
            return 0.0
        ends = self.ready * backward_s + self.count_left * latency_s + self.bytes_left * s_per_byte
        return float(ends.max())


@lru_cache(maxsize=4096)
def flow_of(profile: ModelProfile) -> Flow:
    count = len(profile.tensors) if profile.cut is None else profile.cut.tensors
    sizes = np.fromiter((each.sent_bytes for each in profile.tensors[:count]), float, count)
    ready = _ready(profile, count)
    if profile.unseen_bytes:
        parts = np.full(UNSEEN_PARTS, profile.unseen_bytes / UNSEEN_PARTS)
        sizes = np.concatenate([sizes, parts])
        ready = np.linspace(1.0, 1.0 / len(sizes), len(sizes))
    is_sent = sizes > 0
    return Flow(sizes[is_sent], ready[is_sent], float(sizes.sum()))


def _ready(profile: ModelProfile, count: int) -> Floats:
    layers = profile.layers if profile.cut is None else profile.layers[: profile.cut.layer]
    work = np.array([layer.flops for layer in layers])
    if not work.sum():
        return np.linspace(1.0, 1.0 / count, count) if count else np.zeros(0)
    ends = np.cumsum(work[::-1])[::-1] / work.sum()
    each = np.repeat(ends, [layer.tensors for layer in layers])
    return np.concatenate([each, np.ones(count - len(each))])  # tensors without a layer are ready last


@lru_cache(maxsize=4096)
def buckets_of(profile: ModelProfile, bucket_bytes: int) -> Buckets:
    """Buckets of at least `bucket_bytes` (the last may be smaller), filled from the last tensor on."""
    flow = flow_of(profile)
    sizes: list[float] = []
    ready: list[float] = []
    for size, at in zip(flow.sizes[::-1].tolist(), flow.ready[::-1].tolist(), strict=True):
        if sizes and sizes[-1] < bucket_bytes:
            sizes[-1] += size
            ready[-1] = max(ready[-1], at)
        else:
            sizes.append(size)
            ready.append(at)
    left = np.cumsum(np.array(sizes)[::-1])[::-1]
    return Buckets(np.array(ready), left, np.arange(len(sizes), 0, -1.0))
