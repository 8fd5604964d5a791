"""What runs have shown: how many times as long a model takes in a place as in its best, in one line of text.

`vgg16:4:1x2=1.45,vgg16:8:2x1=1.7` says of gangs of 4 GPUs that on one node, across two of its groups of GPUs,
they take 1.45 times as long as in one group, and of gangs of 8 the same of two nodes. An option of a placer
holds it, so that what was decided by it can be decided again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_FORM = re.compile(r"([A-Za-z0-9._@-]+):([1-9]\d{0,6}):([1-9]\d{0,4}x[1-9]\d{0,4})=(\d+(?:\.\d+)?)")


class Place(NamedTuple):
    """A model's gang of so many GPUs, in a shape: nodes, and groups where it is one node."""

    model: str
    gpus: int
    shape: str


Measured = Mapping[Place, float]


def shape_word(nodes: int, groups: int = 1) -> str:
    return f"{nodes}x{groups if nodes == 1 else 1}"


def parse(text: str) -> dict[Place, float]:
    found: dict[Place, float] = {}
    for part in filter(None, text.split(",")):
        matched = _FORM.fullmatch(part.strip())
        if matched is None:
            raise ValueError(f"{part[:60]!r} is not of the form model:gpus:NODESxGROUPS=slowdown")
        model, gpus, shape, slowdown = matched.groups()
        if not 1 <= float(slowdown) <= 1000:
            raise ValueError(f"{part[:60]!r}: a slowdown is from 1 to 1000")
        found[Place(model, int(gpus), shape)] = float(slowdown)
    return found


def checked(text: str) -> str:
    """The same text; ValueError says what is wrong with it."""
    parse(text)
    return text


def written(measured: Measured) -> str:
    parts = [f"{at.model}:{at.gpus}:{at.shape}={slowdown:.2f}" for at, slowdown in sorted(measured.items())]
    return ",".join(parts)
