"""Groups of GPUs inside a node, for placers that know what a model loses across them.

Rules: groups are `Node.sockets`; a slot in none of them is a group by itself. A gang across more groups than
its size needs is as much slower as runs have shown, or else as the network model predicts for the link
between the groups.
"""

from __future__ import annotations

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes, each, lowest
from tiresias.profiles.links import GB, Link, Links
from tiresias.profiles.measured import GangShape, Measured, shape_word
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network
from tiresias.profiles.packlimit import ACCEPTABLE


def with_node_link(links: Links, gbps: float) -> Links:
    """The same with so many GB/s between the GPUs of a node; 0: as they are."""
    return links._replace(node=Link(gbps * GB, links.node.latency_s)) if gbps else links


class Groups:
    """How much slower a gang on one node is across groups."""

    def __init__(self, near: Links, far: Links, measured: Measured):
        self._near, self._far, self._measured = Network(near), Network(far), measured
        self.matter = bool(measured) or near.node != far.node  # otherwise nothing is lost across them

    def slowdown(self, profile: ModelProfile, gpus: int, groups: int) -> float:
        """How many times as long over so many groups of a node as in one."""
        shown = self._measured.get(GangShape(profile.name, gpus, shape_word(1, groups)))
        return self.predicted(profile, gpus, groups) if shown is None else shown

    def predicted(self, profile: ModelProfile, gpus: int, groups: int) -> float:
        """The same by the network model alone."""
        if groups == 1 or profile.compute_s is None or self._near.links.node == self._far.links.node:
            return 1.0
        shape = ((gpus,),)
        far, near = (each.iteration(profile, shape).seconds for each in (self._far, self._near))
        return max(1.0, far / near)

    def loss(self, profile: ModelProfile, now: Allocation, holes: Holes) -> float:
        """How many times as long on these slots of one node as on the best that this node could offer."""
        node, slots = now[0]
        gpus = slots.bit_count()
        used = touched(slots, holes.sockets[node])
        fewest = _fewest(gpus, holes.offered[node], holes.sockets[node])
        if used <= fewest:
            return 1.0
        return self.slowdown(profile, gpus, used) / self.slowdown(profile, gpus, fewest)

    def claim(self, profile: ModelProfile, gpus: int, holes: Holes) -> Allocation:
        """What is free of the group with most free, of those that can hold the gang; none if it is not slowed
        down across groups.
        """
        if self.slowdown(profile, gpus, 2) <= ACCEPTABLE:
            return ()
        best: tuple[int, int, int] | None = None
        for nodes in holes.layouts.values():
            for node in each(nodes):
                for group in holes.sockets[node]:
                    free = holes.free_slots[node] & group
                    if (holes.offered[node] & group).bit_count() >= gpus and free:
                        best = max(best or (0, 0, 0), (free.bit_count(), -node, free))
        return () if best is None else ((-best[1], lowest(best[2], min(gpus, best[0]))),)


def touched(slots: int, groups: tuple[int, ...]) -> int:
    """Over how many groups of a node these slots lie."""
    used = [group for group in groups if slots & group]
    outside = slots
    for group in used:
        outside &= ~group
    return len(used) + outside.bit_count() if groups else 1


def most_in_one(now: Allocation, holes: Holes) -> int:
    """The most free slots of one group, on the node of an allocation."""
    node = now[0][0]
    return max((holes.free_slots[node] & group).bit_count() for group in holes.sockets[node])


def _fewest(gpus: int, offered: int, groups: tuple[int, ...]) -> int:
    """Over how few groups a gang of this size could lie, were nothing running."""
    count = 0
    for size in sorted(((offered & group).bit_count() for group in groups), reverse=True):
        if gpus <= 0 or not size:
            break
        gpus -= size
        count += 1
    return count + max(0, gpus)
