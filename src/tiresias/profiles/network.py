"""The network model: how long an iteration takes for a model on an allocation of some shape.

It is the compute time plus the communication that is not hidden behind compute. Rules: pure, and fast enough
for the simulator's inner loop; results are cached by profile, shape and sharing. NumPy is imported with the
first computation, so that programs that need none start faster.
How well the model fits measurements: docs/explanation/models-and-networks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.links import ALONE, Links, Shape, Sharing, checked, gpus_of, packed_shape
from tiresias.profiles.model import MIB, ModelProfile, Parallelism

if TYPE_CHECKING:
    from tiresias.profiles.collectives import Exchange

FORWARD_SHARE = 1 / 3
"""The share of the forward pass in the compute time; the backward pass is the rest."""
MOST_CACHED = 1 << 17
MOST_ROUNDS = 50


class Software(NamedTuple):
    """How training software uses the links."""

    efficiency: float = 0.8  # achieved share of the nominal bandwidth
    bucket_bytes: int = 25 * MIB  # gradients are sent when this much has gathered
    overlaps: bool = True  # all-reduce goes on during the backward pass
    unhidden: float = 0.2  # share of what could be hidden but is not; fitted to TensorFlow on several nodes
    algorithm: str = "auto"  # ring, tree, or the faster of the two


class Iteration(NamedTuple):
    """One iteration of a gang, in seconds."""

    seconds: float
    compute_s: float
    exposed_s: float
    busy_s: float  # for which links out of the node are in use, hidden or not, if they were not shared

    @property
    def busy_share(self) -> float:
        """The share of the time for which links out of the node are in use: the load on other jobs' links."""
        return min(1.0, self.busy_s / self.seconds)


class Network:
    """The network model of a cluster: its links and the software that uses them."""

    def __init__(self, links: Links, software: Software | None = None):
        self.links = checked(links, "links")
        self.software = software or Software()
        self._iterations: dict[tuple[ModelProfile, Shape, Sharing], Iteration] = {}
        self._slowdowns: dict[tuple[ModelProfile, Shape, Sharing], float] = {}

    def iteration(self, profile: ModelProfile, shape: Shape, sharing: Sharing = ALONE) -> Iteration:
        """The iteration of the model on this shape; ProfileError if the profile has no compute time."""
        key = (profile, shape, sharing)
        known = self._iterations.get(key)
        if known is None:
            if len(self._iterations) >= MOST_CACHED:
                self._iterations.clear()
            known = self._iterations[key] = self._compute(profile, shape, sharing)
        return known

    def slowdown(self, profile: ModelProfile, shape: Shape, sharing: Sharing = ALONE) -> float:
        """How many times as long an iteration takes as alone on the fewest nodes; never below 1."""
        key = (profile, shape, sharing)
        known = self._slowdowns.get(key)
        if known is None:
            if len(self._slowdowns) >= MOST_CACHED:
                self._slowdowns.clear()
            best = packed_shape(gpus_of(shape), max(self.links.node_gpus, max(map(max, shape))))
            here = self.iteration(profile, shape, sharing).seconds
            known = self._slowdowns[key] = max(1.0, here / self.iteration(profile, best).seconds)
        return known

    def together(self, profile: ModelProfile, shape: Shape, jobs: int) -> Iteration:
        """The iteration if `jobs` jobs like this one share all links out of the node.

        Each slows the others only while it sends; the longer an iteration, the smaller that share.
        """
        found = self._compute(profile, shape, ALONE)
        for _ in range(MOST_ROUNDS):
            others = 1 + (jobs - 1) * found.busy_share
            before, found = found, self._compute(profile, shape, Sharing(rack=others, cross=others))
            if abs(found.seconds - before.seconds) < 1e-6 * before.seconds:
                break
        return found

    def _compute(self, profile: ModelProfile, shape: Shape, sharing: Sharing) -> Iteration:
        if profile.compute_s is None:
            raise ProfileError(
                f"{profile.name}: its compute time is not known, so neither is its speed; "
                f"give the seconds per iteration (compute_s in the profile)"
            )
        if not shape or min(map(min, shape)) < 1:
            raise ProfileError(f"{profile.name}: {shape} is not a shape; a node has 1 GPU or more")
        workers = gpus_of(shape)
        compute_s = profile.compute_s
        if workers == 1:
            return Iteration(compute_s, compute_s, 0.0, 0.0)
        from tiresias.profiles.collectives import NOTHING

        crossed = NOTHING
        if profile.cut is not None:
            compute_s *= 1 + profile.cut.tail_share * (workers - 1)
            crossed = self._activations(profile.cut.activation_bytes, shape, sharing)
        head_s = profile.compute_s * (1 - profile.cut.tail_share) if profile.cut else profile.compute_s
        sent = self._exchange(profile, shape, sharing, workers, head_s)
        hidden_s = max(0.0, sent.total_s - sent.exposed_s)
        exposed_s = sent.exposed_s + self.software.unhidden * hidden_s + crossed.exposed_s
        jobs = max(1.0, sharing.cross if len(shape) > 1 else sharing.rack)
        is_out = len(shape) > 1 or len(shape[0]) > 1
        busy_s = (sent.total_s + crossed.total_s) / jobs if is_out else 0.0
        return Iteration(compute_s + exposed_s, compute_s, exposed_s, busy_s)

    def _exchange(
        self, profile: ModelProfile, shape: Shape, sharing: Sharing, workers: int, compute_s: float
    ) -> Exchange:
        from tiresias.profiles.collectives import Passes, pace_of, ring_or_tree, servers, shards
        from tiresias.profiles.flow import buckets_of, flow_of

        links, software = self.links, self.software
        forward_s = compute_s * FORWARD_SHARE
        backward_s = compute_s - forward_s
        if profile.parallelism is Parallelism.PS:
            flow = flow_of(profile)
            passes = Passes(forward_s, backward_s)
            return servers(flow, shape, links, sharing, software.efficiency, passes)
        pace = pace_of(shape, links, sharing, software.efficiency)
        buckets = buckets_of(profile, software.bucket_bytes)
        if profile.parallelism is Parallelism.SHARDED:
            return shards(buckets, pace, workers, forward_s, backward_s)
        return ring_or_tree(buckets, pace, workers, backward_s, software.overlaps, software.algorithm)

    def _activations(self, activation_bytes: int, shape: Shape, sharing: Sharing) -> Exchange:
        """Activations to and from the one worker behind the cut, on the largest node; nothing hides them."""
        from tiresias.profiles.collectives import Exchange, rate

        links, share = self.links, self.software.efficiency
        node = shape[0][0]
        near = sum(shape[0]) - node
        far = gpus_of(shape) - sum(shape[0])
        inside_s = (node - 1) * activation_bytes / rate(links.node, sharing.node, links.node.ports, share)
        near_s = near * activation_bytes / rate(links.rack, sharing.rack, node, share)
        far_s = far * activation_bytes / rate(links.cross, sharing.cross, node, share)
        way_s = max(inside_s, near_s, far_s)
        return Exchange(2 * way_s, 2 * way_s)
