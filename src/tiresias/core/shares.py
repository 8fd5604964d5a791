"""Shares in whole GPUs: how many of so many GPUs each of several parties may count on, by weight."""

from __future__ import annotations

import math
from collections.abc import Mapping


def whole_shares(weights: Mapping[str, float], gpus: int) -> dict[str, int]:
    """All GPUs by weight, in whole numbers: those with the largest remainders get one more, ties by name."""
    total = math.fsum(weights.values())
    exact = {name: gpus * weight / total for name, weight in weights.items()} if total else {}
    found = {name: math.floor(part) for name, part in exact.items()}
    rest = gpus - sum(found.values())
    for name in sorted(found, key=lambda each: (found[each] - exact[each], each))[:rest]:
        found[name] += 1
    return found


def weights_in(text: str) -> dict[str, float]:
    """Weights from text such as `a=3,b=1`; a ValueError says what is wrong with the text."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not name:
            raise ValueError(f"{part.strip()!r} is not TENANT=WEIGHT; write for example a=3,b=1")
        if name in weights:
            raise ValueError(f"{name} is given twice; give each tenant one weight")
        try:
            weights[name] = float(value)
        except ValueError:
            problem = f"{name}={value!r} is not a number; write for example {name}=3"
            raise ValueError(problem) from None
    if problem := problem_in(weights):
        raise ValueError(problem)
    return weights


def problem_in(weights: Mapping[str, float]) -> str:
    """Why these weights cannot be shares; empty if they can."""
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            return f"{name}={weight:g} must be a number, 0 or more"
    if weights and not any(weights.values()):
        return "all shares are 0; give at least one tenant more"
    return ""
