"""Bags of messages: how many messages there are of each size, without their order."""

from __future__ import annotations

from collections import Counter

ALIKE = 0.9  # share of the bytes in which two bags must agree to be alike
EQUAL = 0.02  # relative difference up to which two sizes count as equal
HEADER_BYTES = 256  # the largest message that may be a header


def without_headers(counts: Counter[int]) -> Counter[int]:
    """The bag without the small messages of one size that precede each other message."""
    total = sum(counts.values())
    for size, times in counts.items():
        if size <= min(HEADER_BYTES, max(counts) / 10) and 2 * times == total:
            return Counter({other: n for other, n in counts.items() if other != size})
    return counts


def repeated(counts: Counter[int]) -> float:
    """The share of the bytes that is in messages for which there is another of equal size."""
    sizes = sorted(counts.elements())
    near = [
        size
        for index, size in enumerate(sizes)
        if any(
            abs(other - size) <= EQUAL * size
            for other in sizes[max(0, index - 1) : index] + sizes[index + 1 : index + 2]
        )
    ]
    return sum(near) / max(1, sum(sizes))


def is_alike(one: Counter[int], other: Counter[int]) -> bool:
    return bytes_of(one & other) >= ALIKE * max(bytes_of(one), bytes_of(other))


def bytes_of(counts: Counter[int]) -> int:
    return sum(size * times for size, times in counts.items())
