"""Published measurements of scaling and placement, and what the network model predicts for them.

Tests bound the errors, and the documentation shows them. One number of the model was fitted to rows that are
here: `Software.unhidden`, to `tensorflow_ec2`. `philly_fitted` and `philly_interference` each fit one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from tiresias.profiles import zoo
from tiresias.profiles.links import (
    GBIT,
    NVLINK1,
    PCIE3,
    PRESETS,
    Link,
    Links,
    Shape,
    Sharing,
    packed_shape,
    spread_shape,
)
from tiresias.profiles.model import ModelProfile, Parallelism
from tiresias.profiles.network import Network, Software
from tiresias.sim.fabric import PHILLY_INTERFERENCE

PS, ALLREDUCE = Parallelism.PS, Parallelism.ALLREDUCE
SUFFER = {"vgg11", "vgg16", "vgg19", "alexnet"}
"""Of the ten models, those that Tiresias' Fig. 3 shows to be slower when spread."""


class Row(NamedTuple):
    """One measurement, in the unit of its table."""

    what: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1


def tiresias_fig_3() -> dict[str, float]:
    """Four jobs of 8 workers on 8 nodes of 4 GPUs: the slowdown if each is spread over all nodes, relative to
    two nodes for each job."""
    network = Network(PRESETS["tiresias-testbed"])
    spread, packed = spread_shape(8, 4, 8), packed_shape(8, 4)
    slowdowns = {}
    for name in zoo.CNNS:
        profile = zoo.find(name)
        apart = network.together(profile, spread, jobs=4).seconds
        slowdowns[name] = apart / network.iteration(profile, packed).seconds
    return slowdowns


DGX1 = {
    ("inception3", 64): (142, 284, 569, 1131),
    ("resnet50", 64): (219, 422, 852, 1734),
    ("resnet152", 64): (91.8, 181, 356, 716),
    ("alexnet", 512): (2987, 5658, 10509, 17822),
    ("vgg16", 64): (154, 295, 584, 1081),
    ("inception3", 32): (128, 259, 520, 995),
    ("resnet50", 32): (195, 368, 768, 1485),
    ("resnet152", 32): (82.7, 160, 317, 632),
    ("vgg16", 32): (144, 281, 549, 820),
}
"""TensorFlow, May 2017, images per second on 1, 2, 4 and 8 P100 of a DGX-1, by model and batch."""
WITH_NCCL = ("alexnet", "vgg16")  # the others kept their parameters on the CPU, over PCIe


def tensorflow_dgx1() -> Iterator[Row]:
    """Images per second on one node. TensorFlow's NCCL mode of that year sent after the backward pass."""
    for (name, batch), rates in DGX1.items():
        is_ring = name in WITH_NCCL
        node = NVLINK1 if is_ring else PCIE3
        network = Network(Links(node, PCIE3, PCIE3), Software(overlaps=not is_ring))
        profile = replace(
            zoo.find(name), compute_s=batch / rates[0], parallelism=ALLREDUCE if is_ring else PS
        )
        for gpus, rate in zip((2, 4, 8), rates[1:], strict=True):
            predicted = gpus * batch / network.iteration(profile, ((gpus,),)).seconds
            yield Row(f"{name}, batch {batch}, {gpus} GPUs", rate, predicted)


EC2 = {
    ("inception3", 64): (229, 459, 902, 1783),
    ("resnet50", 64): (378, 751, 1388, 2744),
    ("resnet152", 32): (146, 291, 565, 981),
    ("inception3", 32): (219, 427, 820, 1608),
    ("resnet50", 32): (333, 667, 1180, 2315),
}
"""TensorFlow, May 2017, images per second on 1, 2, 4 and 8 nodes of 8 K80 with 10 Gb/s between them."""


def tensorflow_ec2(software: Software | None = None) -> Iterator[Row]:
    """Images per second on several nodes. A node is one worker: gradients were first added up inside it."""
    ethernet = Link(10 * GBIT, 30e-6)
    network = Network(Links(PCIE3, ethernet, ethernet, node_gpus=1), software)
    for (name, batch), rates in EC2.items():
        profile = replace(zoo.find(name), compute_s=8 * batch / rates[0], parallelism=PS)
        for nodes, rate in zip((2, 4, 8), rates[1:], strict=True):
            predicted = nodes * 8 * batch / network.iteration(profile, ((1,) * nodes,)).seconds
            yield Row(f"{name}, batch {batch}, {nodes} nodes", rate, predicted)


PHILLY_RESNET50 = {
    "same node": 1.0,
    "two nodes": 0.854,
    "two shared nodes": 0.659,
    "two shared nodes, shared links": 0.645,
}
"""Relative speed of ResNet-50 on 2 P100: 114.8, 98.0, 75.6 and 74.1 images per second."""
PHILLY_IMAGES_PER_S = 114.8 / 2
PHILLY_BATCH = 32
NEIGHBOURS = 3
"""Jobs on the other GPUs of a node of four; the paper does not state how busy they were."""


def _philly_resnet50() -> ModelProfile:
    return replace(zoo.find("resnet50"), compute_s=PHILLY_BATCH / PHILLY_IMAGES_PER_S)


def _philly_speeds(network: Network) -> list[float]:
    profile = _philly_resnet50()
    best = network.iteration(profile, ((2,),)).seconds
    apart: Shape = ((1, 1),)
    node = network.links.node
    crowded = node._replace(bandwidth_Bps=node.bandwidth_Bps / (1 + NEIGHBOURS))
    full = Network(network.links._replace(node=crowded), network.software)
    iterations = [
        network.iteration(profile, ((2,),)),
        network.iteration(profile, apart),
        network.iteration(profile, apart, Sharing(node=1 + NEIGHBOURS)),
        full.together(profile, apart, 1 + NEIGHBOURS),
    ]
    return [best / each.seconds for each in iterations]


def philly_resnet50(network: Network | None = None) -> list[Row]:
    """Relative speeds, with the links that Philly has."""
    speeds = _philly_speeds(network or Network(PRESETS["philly"]))
    known = PHILLY_RESNET50.items()
    return [Row(what, value, speed) for (what, value), speed in zip(known, speeds, strict=True)]


def philly_fitted() -> tuple[float, list[Row]]:
    """The bandwidth (bytes per second) at which the prediction for two nodes is exact, and its rows."""
    low, high = 1e7, 12.5e9
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        if philly_resnet50(_with_rate(middle))[1].predicted < PHILLY_RESNET50["two nodes"]:
            low = middle
        else:
            high = middle
    return high, philly_resnet50(_with_rate(high))


def _with_rate(bandwidth: float) -> Network:
    slow = Link(bandwidth, 2e-6)
    return Network(Links(PCIE3, slow, slow))


def philly_interference() -> list[Row]:
    """ResNet-50 on two nodes full of other gangs, relative to two nodes of its own; the first row was fitted.

    As in the simulator: one factor for shared nodes, times the effect of shared links between them.
    """
    network, apart = Network(PRESETS["philly"]), ((1, 1),)
    profile = _philly_resnet50()
    alone, crowded = network.iteration(profile, apart), network.together(profile, apart, 1 + NEIGHBOURS)
    shared = 1 / (1 + PHILLY_INTERFERENCE)
    predicted = (shared, shared * alone.seconds / crowded.seconds)
    names = ("two shared nodes", "two shared nodes, shared links")
    two = PHILLY_RESNET50["two nodes"]
    return [Row(name, PHILLY_RESNET50[name] / two, each) for name, each in zip(names, predicted, strict=True)]


PHILLY_16 = {2: 43.66, 4: 40.94, 8: 28.56}
"""GPU utilisation (%) of 16-GPU jobs, by the number of nodes of 8 GPUs that they are on."""


def philly_16_gpus() -> list[Row]:
    """Utilisation relative to two nodes. The prediction is the mean over the ten models, if the rest of each
    node is full of jobs of the same shape."""
    network = Network(PRESETS["philly"])
    base = PHILLY_16[2]
    best = _busy(network, 2)
    return [
        Row(f"{nodes} nodes", value / base, _busy(network, nodes) / best)
        for nodes, value in PHILLY_16.items()
    ]


def _busy(network: Network, nodes: int) -> float:
    """The share of an iteration in which GPUs compute, with 16 GPUs on so many nodes of 8."""
    shape, jobs = spread_shape(16, 8, nodes), Sharing(rack=nodes / 2)

    def share(profile: ModelProfile) -> float:
        iteration = network.iteration(profile, shape, jobs)
        return iteration.compute_s / iteration.seconds

    return fmean(share(zoo.find(name)) for name in zoo.CNNS)
