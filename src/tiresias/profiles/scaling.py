"""How fast a training goes on more or fewer GPUs: the speed of elastic jobs by their size.

Rules: speed is in samples per second, each GPU computes a batch of the same size, and the allocation is the
best one of that size. With the network model it follows from the time of an iteration. Without one, and for a
training of which nothing is known, it grows with the power 0.9 of the number of GPUs: twice as many GPUs are
1.87 times as fast. That is an assumption, and no measurement.
"""

from __future__ import annotations

from tiresias.profiles.links import packed_shape
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network

ASSUMED_POWER = 0.9


def assumed_speedup(gpus: int, reference: int) -> float:
    """How many times as fast as on `reference` GPUs a training goes of which nothing is known."""
    return float((gpus / reference) ** ASSUMED_POWER)


def speedup(network: Network, profile: ModelProfile, gpus: int, reference: int) -> float:
    """How many times as fast as on `reference` GPUs a training goes, by the network model."""
    return _throughput(network, profile, gpus) / _throughput(network, profile, reference)


def _throughput(network: Network, profile: ModelProfile, gpus: int) -> float:
    shape = packed_shape(gpus, network.links.node_gpus)
    return gpus / network.iteration(profile, shape).seconds
