"""The histogram of the tensor sizes of a model."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from tiresias.profiles.model import MIB, ModelProfile

EDGES = (1024, 16 * 1024, 256 * 1024, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)


class Bin(NamedTuple):
    """Tensors that are larger than the edge before and up to `up_to_bytes`; None: no upper edge."""

    up_to_bytes: int | None
    tensors: int
    bytes: int


def histogram(profile: ModelProfile) -> list[Bin]:
    """The sizes of the tensors, without empty bins at either end."""
    counts = [0] * (len(EDGES) + 1)
    totals = [0] * (len(EDGES) + 1)
    for each in profile.tensors:
        index = bisect_left(EDGES, each.bytes)
        counts[index] += 1
        totals[index] += each.bytes
    used = [index for index, count in enumerate(counts) if count]
    if not used:
        return []
    edges: tuple[int | None, ...] = (*EDGES, None)
    return [Bin(edges[index], counts[index], totals[index]) for index in range(used[0], used[-1] + 1)]
