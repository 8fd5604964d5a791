"""How much of a GPU a training of each model keeps busy, and how much slower trainings that share one become.

The figures are those of the Gandiva paper (OSDI 2018), for one training alone. A model that is not listed is
taken to keep the whole GPU busy, so that packing it never pays.

The model of interference is ours. Trainings that keep a GPU busy for the parts u1, u2, … of the time need
U = u1 + u2 + … of it. While U is at most 1, each becomes 1 + FRICTION x U times as slow, because kernels wait
for each other; beyond that the GPU is full, and each becomes U x (1 + FRICTION) times as slow.
"""

from __future__ import annotations

from collections.abc import Iterable

FRICTION = 0.176
"""Chosen so that a full GPU does 0.85 of the work of one training after the other: it gives the sign of the
gain of all eight models that the paper lists."""

BUSY: dict[str, float] = {
    "vae": 0.087,
    "superres": 0.141,
    "rhn": 0.616,
    "scrnn": 0.668,
    "mi-lstm": 0.762,
    "lstm": 0.872,
    "resnet50": 0.94,
    "resnext50": 0.989,
}


def busy(model: str) -> float:
    """The part of the time for which a training of this model keeps its GPU busy."""
    return BUSY.get(model.lower().replace("resnet-", "resnet").replace("resnext-", "resnext"), 1.0)


def slowdown(parts: Iterable[float]) -> float:
    """How many times as long each of these trainings takes when they share one GPU at the same time."""
    parts = list(parts)
    if len(parts) < 2:
        return 1.0
    total = sum(parts)
    return 1 + FRICTION * total if total <= 1 else total * (1 + FRICTION)
