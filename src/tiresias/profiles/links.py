"""The links of a cluster, and the shape of an allocation on it.

Rules: bandwidths are bytes per second, one way (links are full duplex); latencies are seconds. The level
`node` joins the GPUs of a node, `rack` is a node's link to its rack, `cross` a node's link to other racks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tiresias.profiles.errors import ProfileError

GBIT = 1e9 / 8
GB = 1e9

Shape = tuple[tuple[int, ...], ...]
"""An allocation without names: for each rack, the number of GPUs on each node; largest first."""
Placement = Iterable[tuple[str, str, int]]
"""An allocation with names: (rack, node, GPUs)."""


class Link(NamedTuple):
    """A link. `ports` cards make up the bandwidth: a gang with fewer GPUs on a node uses fewer of them."""

    bandwidth_Bps: float
    latency_s: float
    ports: int = 1


class Links(NamedTuple):
    """The links of the three levels of a cluster, and how many GPUs its nodes have."""

    node: Link
    rack: Link
    cross: Link
    node_gpus: int = 8


class Sharing(NamedTuple):
    """How many jobs use each link, this one included; a job that sends half of the time counts as half."""

    node: float = 1.0
    rack: float = 1.0
    cross: float = 1.0


ALONE = Sharing()


def shape_of(placement: Placement) -> Shape:
    """The shape of an allocation; parts of it on one node are added up."""
    racks: dict[str, dict[str, int]] = {}
    for rack, node, gpus in placement:
        nodes = racks.setdefault(rack, {})
        nodes[node] = nodes.get(node, 0) + gpus
    counts = [tuple(sorted(nodes.values(), reverse=True)) for nodes in racks.values()]
    return tuple(sorted(counts, reverse=True))


def packed_shape(gpus: int, node_gpus: int) -> Shape:
    """The best shape: whole nodes of one rack, and the rest on one more node."""
    full, rest = divmod(gpus, node_gpus)
    return ((node_gpus,) * full + ((rest,) if rest else ()),)


def spread_shape(gpus: int, node_gpus: int, nodes: int) -> Shape:
    """GPUs spread evenly over up to `nodes` nodes of one rack."""
    used = min(nodes, gpus)
    few, more = divmod(gpus, used)
    if few + bool(more) > node_gpus:
        raise ProfileError(f"{gpus} GPUs do not fit on {nodes} nodes of {node_gpus}")
    return ((few + 1,) * more + (few,) * (used - more),)


def gpus_of(shape: Shape) -> int:
    return sum(map(sum, shape))


def checked(links: Links, place: str) -> Links:
    """The same links; ProfileError names the level and the number that is impossible."""
    for name in ("node", "rack", "cross"):
        link: Link = getattr(links, name)
        if not 0 < link.bandwidth_Bps < float("inf"):
            raise ProfileError(f"{place}: {name}: bandwidth {link.bandwidth_Bps} B/s must be above 0")
        if not 0 <= link.latency_s < float("inf"):
            raise ProfileError(f"{place}: {name}: latency {link.latency_s} s must be 0 or more")
        if link.ports < 1:
            raise ProfileError(f"{place}: {name}: {link.ports} ports; a link has 1 or more")
    return links


NVLINK1 = Link(40 * GB, 5e-6)
NVLINK3 = Link(300 * GB, 3e-6)
NVLINK4 = Link(450 * GB, 3e-6)
PCIE3 = Link(12 * GB, 5e-6)
PCIE4 = Link(24 * GB, 5e-6)

PRESETS: dict[str, Links] = {
    "tiresias-testbed": Links(NVLINK1, Link(100 * GBIT, 2e-6), Link(100 * GBIT, 3e-6), node_gpus=4),
    "philly": Links(PCIE3, Link(100 * GBIT, 2e-6), Link(10 * GBIT, 30e-6), node_gpus=8),
    "gandiva": Links(PCIE3, Link(80 * GBIT, 5e-6, ports=2), Link(80 * GBIT, 10e-6, ports=2), node_gpus=4),
    "themis": Links(PCIE3, Link(10 * GBIT, 30e-6), Link(10 * GBIT, 50e-6), node_gpus=4),
    "a100-nvlink": Links(NVLINK3, Link(1600 * GBIT, 3e-6, 8), Link(1600 * GBIT, 5e-6, 8), node_gpus=8),
    "h100-nvlink": Links(NVLINK4, Link(3200 * GBIT, 3e-6, 8), Link(3200 * GBIT, 5e-6, 8), node_gpus=8),
    "pcie-25g": Links(PCIE4, Link(25 * GBIT, 20e-6), Link(25 * GBIT, 40e-6), node_gpus=8),
    "pcie-10g": Links(PCIE3, Link(10 * GBIT, 30e-6), Link(10 * GBIT, 50e-6), node_gpus=8),
}
"""Nominal bandwidths; how much of them software achieves is in `network.Software`.

The papers state the network of Tiresias' testbed, that inside a rack of Philly, and Gandiva's. Across racks
of Philly (Ethernet) and for Themis' nodes 10 Gb/s are assumed. Latencies are typical ones.
"""
