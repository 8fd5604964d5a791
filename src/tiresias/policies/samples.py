"""Numbers handed in as text: a sample of GPU-times, or an index table."""

from __future__ import annotations

import re
from itertools import pairwise
from math import isfinite
from typing import Any

from tiresias.policies.gittins import IndexTable


def _numbers(text: str) -> list[float]:
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    if words and not _is_number(words[0]):
        words = words[1:]  # a header
    return [float(word) for word in words]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def parse_distribution(given: Any) -> str | tuple[float, ...]:
    """`online`, or positive GPU-times."""
    if given == "online":
        return "online"
    values = tuple(_numbers(given) if isinstance(given, str) else (float(value) for value in given))
    if not values:
        raise ValueError("no numbers in it")
    if not all(0 < value < float("inf") for value in values):
        raise ValueError("GPU-times must be positive numbers")
    return values


def parse_table(given: Any) -> IndexTable:
    """service:index pairs, the first at service 0, services rising."""
    if isinstance(given, str):
        pairs = [word.split(":") for word in re.split(r"[\s,;]+", given) if word]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("write service:index pairs")
        items = [(float(service), float(index)) for service, index in pairs]
    else:
        items = [(float(service), float(index)) for service, index in dict(given).items()]
    if not all(isfinite(number) for pair in items for number in pair):
        raise ValueError("services and indices must be numbers")
    services = [service for service, _ in items]
    if not items or services[0] != 0 or any(a >= b for a, b in pairwise(services)):
        raise ValueError("the services must rise from 0")
    return IndexTable(services, [index for _, index in items])
