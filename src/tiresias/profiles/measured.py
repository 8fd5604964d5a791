"""Measured slowdowns by the shape of allocations, and their text form.

In `vgg16:4:1x2=1.45,vgg16:8:2x1=1.7`, gangs of VGG-16 with 4 GPUs on one node, across two of its groups of
GPUs, take 1.45 times as long as in one group; gangs with 8 GPUs on two nodes take 1.7 times as long as on the
fewest. The text is an option of a placer, so that its decisions can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_FORM = re.compile(r"([A-Za-z0-9._@-]+):([1-9]\d{0,6}):([1-9]\d{0,4}x[1-9]\d{0,4})=(\d+(?:\.\d+)?)")


class GangShape(NamedTuple):
    """A gang's model, its number of GPUs and its shape as `NODESxGROUPS`."""

    model: str
    gpus: int
    shape: str


Measured = Mapping[GangShape, float]


def shape_word(nodes: int, groups: int = 1) -> str:
    """The shape as `NODESxGROUPS`; groups count only on a single node."""
    return f"{nodes}x{groups if nodes == 1 else 1}"


def parse(text: str) -> dict[GangShape, float]:
    """The slowdowns in the text; ValueError names the part that is wrong."""
    found: dict[GangShape, float] = {}
    for part in filter(None, text.split(",")):
        matched = _FORM.fullmatch(part.strip())
        if matched is None:
            raise ValueError(f"{part[:60]!r} is not of the form model:gpus:NODESxGROUPS=slowdown")
        model, gpus, shape, slowdown = matched.groups()
        if not 1 <= float(slowdown) <= 1000:
            raise ValueError(f"{part[:60]!r}: a slowdown is from 1 to 1000")
        found[GangShape(model, int(gpus), shape)] = float(slowdown)
    return found


def checked(text: str) -> str:
    """The same text; ValueError names the part that is wrong."""
    parse(text)
    return text


def written(measured: Measured) -> str:
    """The text from which `parse` reads these slowdowns, rounded to two digits."""
    parts = [f"{at.model}:{at.gpus}:{at.shape}={slowdown:.2f}" for at, slowdown in sorted(measured.items())]
    return ",".join(parts)
