"""The network of a cluster as the simulator sees it: links by level, and the uplinks of the racks.

Networks have the names of the clusters to which they belong. Bandwidths are bytes per second, one way.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from tiresias.core.model import INFINITY
from tiresias.profiles.links import PRESETS, Links
from tiresias.sim.errors import InputError

OFF = "none"


class Fabric(NamedTuple):
    """A network.

    `uplink_Bps` is the bandwidth that all nodes of a rack share towards other racks; infinite: no limit.
    `interference` is how much gangs that share a node slow each other down (see interference.py).
    """

    name: str
    links: Links
    uplink_Bps: float = INFINITY
    interference: float = 0.0


PHILLY_INTERFERENCE = 0.296
"""ResNet-50 on two shared nodes of Philly made 75.6 images per second, and 98.0 with the nodes to itself."""


FABRICS: dict[str, Fabric] = {
    **{name: Fabric(name, links) for name, links in PRESETS.items()},
    "philly-contended": Fabric("philly-contended", PRESETS["philly"], interference=PHILLY_INTERFERENCE),
    "consumer-10g": Fabric("consumer-10g", PRESETS["pcie-10g"]),
    "consumer-25g": Fabric("consumer-25g", PRESETS["pcie-25g"]),
}


def fabric_of(name: str) -> Fabric | None:
    """The network of that name; None for `none`. InputError lists the names."""
    if name == OFF:
        return None
    known = FABRICS.get(name)
    if known is None:
        close = get_close_matches(name, FABRICS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"no network {name!r}{hint} (known: {', '.join(FABRICS)}, and {OFF} for no network)")
    return known


def placer_options(fabric: Fabric | None) -> dict[str, Links]:
    """Options for a placer that has an option `network`: exactly the links of this network."""
    return {} if fabric is None else {"network": fabric.links}
