"""The speed of the network model, which the simulator uses whenever a run starts or ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.common import yardstick_s
from tiresias.profiles import zoo
from tiresias.profiles.links import PRESETS, Sharing, shape_of
from tiresias.profiles.network import Network

CALLS = 100_000
FRESH = 300


def network() -> None:
    """Cached and new results, for models with few and with many tensors."""
    store_s = yardstick_s() / 1e6
    answers = Network(PRESETS["philly"])
    shape = ((4, 4, 2), (2,))
    profile = zoo.find("resnet152")
    placement = [("r0", "n1", 4), ("r0", "n7", 4), ("r0", "n9", 2), ("r1", "n30", 2)]
    for what, call in (
        ("cached", lambda: answers.slowdown(profile, shape)),
        ("cached, from names of nodes", lambda: answers.slowdown(profile, shape_of(placement))),
    ):
        seconds = _each_s(call)
        print(f"{what}: {seconds * 1e6:.2f} µs, {seconds / store_s:.0f} dictionary stores")
    for name in ("resnet152", "vgg16", "bert-large", "llama3-70b"):
        seconds = _fresh_s(name)
        print(f"new, {name}: {seconds * 1e6:.0f} µs (at most 200 wanted), {seconds / store_s:.0f} stores")


def _each_s(call: Callable[[], object]) -> float:
    call()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS


def _fresh_s(name: str) -> float:
    """The median time of results that are not cached."""
    answers, profile = Network(PRESETS["philly"]), zoo.find(name)
    took = []
    for number in range(FRESH):
        begin = time.perf_counter()
        answers.iteration(profile, ((4,) * 8,), Sharing(rack=1 + number / FRESH))
        took.append(time.perf_counter() - begin)
    return median(took)
