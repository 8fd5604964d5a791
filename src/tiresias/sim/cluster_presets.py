"""Clusters by name: the clusters of papers, and some that are common today.

What a paper does not state is assumed, and `about` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.core.model import Node
from tiresias.sim.cluster_yaml import GIB, Described, Racks, sockets_of
from tiresias.sim.fabric import FABRICS


@dataclass(frozen=True, slots=True)
class Preset:
    """A cluster that can be named on the command line; its network has the same name."""

    about: str
    racks: tuple[Racks, ...]
    placer: str = ""

    def described(self, name: str) -> Described:
        return Described(list(self.racks), FABRICS[name], self.placer)


def _node(gpus: int, gpu_type: str, cpus: int, memory_gib: int, sockets: int = 1) -> Node:
    groups = sockets_of(sockets, gpus, gpu_type)
    return Node("", gpus, gpu_type=gpu_type, cpus=cpus, memory_bytes=memory_gib * GIB, sockets=groups)


PRESETS: dict[str, Preset] = {
    "tiresias-testbed": Preset(
        "15 nodes of 4 P100, NVLink, 100 Gb/s InfiniBand (Tiresias' testbed)",
        ((1, [(_node(4, "P100", 20, 256, sockets=2), 15)]),),
        placer="profile",
    ),
    "philly": Preset(
        "4 racks of 14 nodes of 8 GPUs and 8 of 2, 100 Gb/s InfiniBand inside a rack, Ethernet across "
        "(Philly; its sizes and the Ethernet's 10 Gb/s are assumed)",
        ((4, [(_node(8, "P100", 64, 512, sockets=2), 14), (_node(2, "P100", 16, 128), 8)]),),
    ),
    "gandiva": Preset(
        "45 nodes of 4 P100 or P40, 2 x 40 Gb/s (Gandiva's testbed; how many of each is assumed, "
        "and that both are equally fast)",
        ((1, [(_node(4, "P100", 24, 448, sockets=2), 23), (_node(4, "P40", 24, 448, sockets=2), 22)]),),
    ),
    "themis": Preset(
        "20 nodes with 50 K80 and M60 in all, 10 Gb/s (Themis' testbed; sizes of nodes and network are "
        "assumed, and that both types are equally fast)",
        ((1, [(_node(4, "K80", 24, 224, sockets=2), 10), (_node(1, "M60", 12, 112), 10)]),),
    ),
    "a100-nvlink": Preset(
        "2 racks of 8 nodes of 8 A100, NVLink, 8 x 200 Gb/s",
        ((2, [(_node(8, "A100", 128, 2048, sockets=2), 8)]),),
    ),
    "h100-nvlink": Preset(
        "2 racks of 8 nodes of 8 H100, NVLink, 8 x 400 Gb/s",
        ((2, [(_node(8, "H100", 192, 2048, sockets=2), 8)]),),
    ),
    "consumer-25g": Preset(
        "16 nodes of 8 consumer GPUs on PCIe, 25 Gb/s Ethernet",
        ((1, [(_node(8, "RTX 4090", 64, 512, sockets=2), 16)]),),
    ),
    "consumer-10g": Preset(
        "16 nodes of 8 consumer GPUs on PCIe, 10 Gb/s Ethernet",
        ((1, [(_node(8, "RTX 3090", 32, 256, sockets=2), 16)]),),
    ),
}
