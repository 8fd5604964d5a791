"""The speed of runs that are spread over nodes: the network model of `profiles`, with links that runs share.

Rules: a run on one node goes at full speed. A run on several nodes loads the links out of each of its nodes
from its grant to its exit, with the share of the time in which it would send if it were alone. So the start
or the end of a run changes only the speeds of runs that share a link with it, and only those are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tiresias.core.facts import Allocation
from tiresias.core.ledger import Ledger
from tiresias.core.model import INFINITY, Cluster, Job, RunId
from tiresias.profiles import zoo
from tiresias.profiles.links import Shape, Sharing, shape_of
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network
from tiresias.sim.fabric import Fabric
from tiresias.sim.world import WorldRun

STEPS = 16
"""Loads are counted in whole parts of a link: sums are exact, and few different loads occur, which lets the
network model reuse its results."""


ProfileOf = Callable[[Job], ModelProfile]


def _named(job: Job) -> ModelProfile:
    return zoo.find(job.model)


class Spread:
    """A run on several nodes."""

    __slots__ = ("crosses", "load", "nodes", "profile", "racks", "shape")

    def __init__(self, profile: ModelProfile, shape: Shape, nodes: tuple[int, ...], racks: dict[int, int]):
        self.profile = profile
        self.shape = shape
        self.nodes = nodes
        self.racks = racks  # how many nodes it has in each rack
        self.crosses = len(racks) > 1
        self.load = 0  # on each of its links, in STEPS


class Loads:
    """Which runs use which links of one level, and how much of each link is in use."""

    __slots__ = ("load", "users")

    def __init__(self, links: int):
        self.users: list[set[RunId]] = [set() for _ in range(links)]
        self.load = [0] * links

    def add(self, run_id: RunId, link: int, load: int) -> None:
        self.users[link].add(run_id)
        self.load[link] += load

    def remove(self, run_id: RunId, link: int, load: int) -> None:
        self.users[link].remove(run_id)
        self.load[link] -= load


class NetworkSpeeds:
    """The SpeedModel of a cluster with this network; `runs` are the World's.

    `profile_of` says what each job trains; by default it is the profile of the model that the job names.
    """

    def __init__(
        self,
        fabric: Fabric,
        cluster: Cluster,
        runs: Mapping[RunId, WorldRun],
        profile_of: ProfileOf | None = None,
    ):
        largest = max(node.gpus for node in cluster.nodes)
        links = fabric.links._replace(node_gpus=largest)
        self.network = Network(links)
        self._runs = runs
        self.profile_of = profile_of or _named
        self._cluster = cluster
        names = {rack: number for number, rack in enumerate(dict.fromkeys(n.rack for n in cluster.nodes))}
        self._rack_of = [names[node.rack] for node in cluster.nodes]
        self._near = Loads(len(cluster.nodes))  # from nodes to their racks
        self._far = Loads(len(cluster.nodes))  # from nodes to other racks
        self._up = Loads(len(names))  # from racks to other racks
        self._nodes_up = fabric.uplink_Bps / links.cross.bandwidth_Bps  # nodes that fill an uplink
        # A node that is as fast to other racks as to its own is taken to have one card for both.
        self._one_card = links.rack.bandwidth_Bps == links.cross.bandwidth_Bps
        self._spread: dict[RunId, Spread] = {}

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> dict[RunId, float]:
        touched: set[RunId] = set()
        spreads, held = self._spread, ledger.allocations
        for run_id in changed:
            allocation = held.get(run_id)
            if allocation is None:
                if run_id in spreads:
                    self._leave(run_id, touched)
            elif len(allocation) > 1 and run_id not in spreads:
                self._join(run_id, allocation, touched)
        return {run_id: self._speed(run_id) for run_id in sorted(touched)} if touched else {}

    def _leave(self, run_id: RunId, touched: set[RunId]) -> None:
        touched.discard(run_id)
        for loads, link, load in self._links(self._spread.pop(run_id)):
            loads.remove(run_id, link, load)
            touched |= loads.users[link]

    def _join(self, run_id: RunId, allocation: Allocation, touched: set[RunId]) -> None:
        self._spread[run_id] = spread = self._spread_of(run_id, allocation)
        touched.add(run_id)
        for loads, link, load in self._links(spread):
            if load:
                touched |= loads.users[link]
            loads.add(run_id, link, load)

    def _spread_of(self, run_id: RunId, allocation: Allocation) -> Spread:
        nodes, rack_of = self._cluster.nodes, self._rack_of
        where = ((nodes[node].rack, nodes[node].name, slots.bit_count()) for node, slots in allocation)
        shape = shape_of(where)
        racks: dict[int, int] = {}
        for node, _ in allocation:
            racks[rack_of[node]] = racks.get(rack_of[node], 0) + 1
        profile = self.profile_of(self._runs[run_id].job)
        spread = Spread(profile, shape, tuple(node for node, _ in allocation), racks)
        spread.load = round(STEPS * self.network.iteration(profile, shape).busy_share)
        return spread

    def _links(self, spread: Spread) -> Iterator[tuple[Loads, int, int]]:
        """(level, link, load) of all links that the run uses."""
        load = spread.load
        for node in spread.nodes:
            yield self._near, node, load
        if spread.crosses:
            for node in spread.nodes:
                yield self._far, node, load
            if self._nodes_up != INFINITY:
                for rack, nodes in spread.racks.items():
                    yield self._up, rack, load * nodes

    def _speed(self, run_id: RunId) -> float:
        spread = self._spread[run_id]
        near = self._fullest(self._near, spread)
        far = near if self._one_card else self._fullest(self._far, spread) if spread.crosses else 1.0
        if spread.crosses and self._nodes_up != INFINITY:
            load, own = self._up.load, STEPS - spread.load
            for rack, nodes in spread.racks.items():  # while it sends, its own load is full
                far = max(far, (load[rack] + own * nodes) / STEPS / self._nodes_up)
        sharing = Sharing(rack=near, cross=far)
        return 1.0 / self.network.slowdown(spread.profile, spread.shape, sharing)

    def _fullest(self, loads: Loads, spread: Spread) -> float:
        """How many runs, itself included, send on the fullest of its links while it sends."""
        load = loads.load
        return 1.0 + (max([load[node] for node in spread.nodes]) - spread.load) / STEPS
