"""Bags of messages: how many there are of each size."""

from __future__ import annotations

from collections import Counter

ALIKE = 0.9  # the part of the bytes in which two bags agree
EQUAL = 0.02  # how much two sizes may differ and be equal
HEADER_BYTES = 256  # the most that a header is taken to have


def without_headers(counts: Counter[int]) -> Counter[int]:
    """Without the small message of fixed size that goes ahead of each other one."""
    total = sum(counts.values())
    for size, times in counts.items():
        if size <= min(HEADER_BYTES, max(counts) / 10) and 2 * times == total:
            return Counter({other: n for other, n in counts.items() if other != size})
    return counts


def repeated(counts: Counter[int]) -> float:
    """The part of the bytes in messages that have an equal beside them."""
    sizes = sorted(counts.elements())
    near = [
        size
        for place, size in enumerate(sizes)
        if any(
            abs(other - size) <= EQUAL * size
            for other in sizes[max(0, place - 1) : place] + sizes[place + 1 : place + 2]
        )
    ]
    return sum(near) / max(1, sum(sizes))


def is_alike(one: Counter[int], other: Counter[int]) -> bool:
    return bytes_of(one & other) >= ALIKE * max(bytes_of(one), bytes_of(other))


def bytes_of(counts: Counter[int]) -> int:
    return sum(size * times for size, times in counts.items())
