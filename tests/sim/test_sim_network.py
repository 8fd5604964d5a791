"""Runs on several nodes are slower, those who share a link more so, and nobody else is touched."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, JobId, RunId
from tiresias.core.plugins import placers
from tiresias.profiles import zoo
from tiresias.profiles.links import GBIT, PRESETS, Sharing
from tiresias.profiles.network import Network
from tiresias.sim import Result, simulate
from tiresias.sim.fabric import FABRICS, Fabric, fabric_of, placer_options
from tiresias.sim.network import STEPS, NetworkSpeeds
from tiresias.sim.simulate import jobs_of
from tiresias.sim.world import WorldRun
from tiresias.testing import a_trace

SLOW = fabric_of("consumer-10g")
assert SLOW is not None


class Scene:
    """Runs that start and end on a cluster with a network."""

    def __init__(self, cluster: Cluster, fabric: Fabric = SLOW):
        self.ledger = Ledger(cluster)
        self.runs: dict[RunId, WorldRun] = {}
        self.model = NetworkSpeeds(fabric, cluster, self.runs)
        self.network = Network(fabric.links._replace(node_gpus=max(n.gpus for n in cluster.nodes)))

    def start(self, id: int, model: str, *parts: tuple[int, int]) -> dict[RunId, float]:
        trace = a_trace([(0.0, sum(slots.bit_count() for _, slots in parts), 10.0)], model=[model])
        (job,) = jobs_of(trace)
        job.id = JobId(id)
        run_id = RunId(id)
        self.ledger.take(run_id, parts)
        self.runs[run_id] = WorldRun(run_id, job, tuple(node for node, _ in parts), 0.0, 0.0, 0.0)
        return self.model.speeds([run_id], self.ledger)

    def end(self, *ids: int) -> dict[RunId, float]:
        for id in ids:
            self.ledger.release(RunId(id))
            del self.runs[RunId(id)]
        return self.model.speeds([RunId(id) for id in ids], self.ledger)

    def alone(self, model: str, *shape: tuple[int, ...], near: float = 1.0, far: float = 1.0) -> float:
        return 1 / self.network.slowdown(zoo.find(model), shape, Sharing(rack=near, cross=far))

    def load(self, model: str, *shape: tuple[int, ...]) -> float:
        return round(STEPS * self.network.iteration(zoo.find(model), shape).busy_share) / STEPS


def test_on_one_node_every_run_goes_at_full_speed():
    scene = Scene(Cluster.of(2, 4))
    assert scene.start(1, "vgg16", (0, 0b1111)) == {}
    assert scene.end(1) == {}


def test_a_spread_run_goes_as_fast_as_the_network_says():
    scene = Scene(Cluster.of(2, 4))
    assert scene.start(1, "vgg16", (0, 0b11), (1, 0b11)) == {1: scene.alone("vgg16", (2, 2))}
    assert scene.alone("vgg16", (2, 2)) < 0.5


def test_two_on_a_link_slow_each_other_down_until_one_ends():
    scene = Scene(Cluster.of(3, 4))
    first = scene.start(1, "vgg16", (0, 0b11), (1, 0b11))
    both = scene.start(2, "resnet50", (1, 0b1100), (2, 0b11))
    vgg, resnet = scene.load("vgg16", (2, 2)), scene.load("resnet50", (2, 2))
    assert both == {
        1: scene.alone("vgg16", (2, 2), near=1 + resnet, far=1 + resnet),
        2: scene.alone("resnet50", (2, 2), near=1 + vgg, far=1 + vgg),
    }
    assert both[RunId(1)] < first[RunId(1)]
    assert scene.end(2) == first


def test_speeds_of_runs_that_share_no_link_are_not_computed_again():
    scene = Scene(Cluster.of(6, 4))
    scene.start(1, "vgg16", (0, 0b11), (1, 0b11))
    assert set(scene.start(2, "vgg16", (2, 0b11), (3, 0b11))) == {2}
    assert set(scene.start(3, "vgg16", (3, 0b1100), (4, 0b11))) == {2, 3}
    assert set(scene.end(3, 1)) == {2}


def test_across_racks_the_slower_link_counts():
    philly = fabric_of("philly")
    assert philly is not None
    scene = Scene(Cluster.of(2, 4, racks=2), philly)
    inside = scene.start(1, "resnet50", (0, 0b11), (1, 0b11))
    across = scene.start(2, "resnet50", (0, 0b1100), (2, 0b11))
    assert across[RunId(2)] < inside[RunId(1)]
    assert across[RunId(1)] <= inside[RunId(1)]  # it shares the link to the rack only


def test_an_uplink_is_shared_by_all_nodes_of_a_rack():
    links = PRESETS["philly"]
    wide, narrow = Fabric("wide", links), Fabric("narrow", links, links.cross.bandwidth_Bps)
    speeds = []
    for fabric in (wide, narrow):
        scene = Scene(Cluster.of(2, 4, racks=2), fabric)
        scene.start(1, "vgg16", (0, 0b11), (2, 0b11))
        speeds.append(scene.start(2, "vgg16", (1, 0b11), (3, 0b11)))
    assert set(speeds[0]) == {2}
    assert set(speeds[1]) == {1, 2}
    assert speeds[1][RunId(2)] < speeds[0][RunId(2)]
    other = scene.load("vgg16", (2,), (2,))
    assert speeds[1][RunId(2)] == scene.alone("vgg16", (2,), (2,), far=1 + other)


def test_after_any_starts_and_exits_speeds_are_those_of_a_new_model():
    rng = Random(3)
    cluster = Cluster.of(3, 4, racks=2)
    scene = Scene(cluster, Fabric("narrow", PRESETS["philly"], 2e9))
    speeds: dict[RunId, float] = {}
    held: dict[int, tuple[str, tuple[tuple[int, int], ...]]] = {}
    for id in range(1, 200):
        free = [(n, s) for n in range(6) for s in range(4) if scene.ledger.free_slots[n] >> s & 1]
        if len(free) < 2 or (held and rng.random() < 0.45):
            gone = rng.choice(list(held))
            del held[gone]
            speeds.pop(RunId(gone), None)
            speeds |= scene.end(gone)
            continue
        parts: dict[int, int] = {}
        for node, slot in rng.sample(free, rng.randint(2, min(6, len(free)))):
            parts[node] = parts.get(node, 0) | 1 << slot
        held[id] = (rng.choice(list(zoo.CNNS)), tuple(parts.items()))
        speeds |= scene.start(id, held[id][0], *held[id][1])
    fresh = Scene(cluster, Fabric("narrow", PRESETS["philly"], 2e9))
    expected: dict[RunId, float] = {}
    for id, (model, allocation) in held.items():
        expected |= fresh.start(id, model, *allocation)
    assert speeds == expected
    scene.end(*held)
    assert not any(scene.model._near.load + scene.model._far.load + scene.model._up.load)


def spread_out(model: str = "vgg16", **more: object) -> Result:
    trace = a_trace([(0.0, 2, 100.0), (0.0, 1, 50.0)], model=[model, model])
    return simulate(trace, "2x2", "fifo", placer="spread", **more)  # type: ignore[arg-type]


def test_the_result_has_the_slowdown_of_spread_jobs():
    result = spread_out(network="consumer-10g")
    assert SLOW is not None
    slowdown = Network(SLOW.links._replace(node_gpus=2)).slowdown(zoo.find("vgg16"), ((1, 1),))
    figures = result.summary()
    assert figures["avg_slowdown"] == figures["work_slowdown"] == pytest.approx(slowdown, rel=1e-5)
    assert result.jobs["jct_s"][0] == pytest.approx(100 * slowdown)
    assert result.jobs["jct_s"][1] == 50
    assert figures["avg_nodes_per_job"] == 1.5
    assert (figures["network"], figures["models"]) == ("consumer-10g", "trace")
    assert spread_out().summary()["avg_slowdown"] == 1.0
    assert spread_out(network="none").summary()["network"] == "none"


@pytest.mark.parametrize(("first_s", "moved"), [(300.0, 2), (50.0, 0)])
def test_a_resume_on_other_nodes_is_not_a_migration(first_s, moved):
    """Two are preempted for a third; the shorter one then takes the first node."""
    trace = a_trace([(0.0, 1, first_s), (1.0, 1, 100.0), (10.0, 2, 5.0)])
    result = simulate(trace, "2x1", "srsf", preemption_cost_s=6.0)
    assert result.summary()["preemptions"] == 2
    assert result.summary()["moved_resumes"] == result.jobs["moved_resumes"].sum() == moved
    assert result.summary()["migrations"] == 0, "the policy preempted them; nobody made them move"


def test_migrations_are_counted():
    """The second one leaves the first and the third alone on a node each; one moves away for the gang."""
    rows = [(0.0, 1, 9000.0), (0.0, 1, 900.0), (0.0, 1, 9000.0), (2000.0, 2, 500.0)]
    placer = placers.make("consolidated", {"migrations": 1})
    result = simulate(a_trace(rows), "2x2", "tiresias-l", placer=placer)
    unmoved = placers.make("consolidated", {"migrations": 0})
    plain = simulate(a_trace(rows), "2x2", "tiresias-l", placer=unmoved)
    assert (plain.summary()["migrations"], result.summary()["migrations"]) == (0, 1)
    assert result.summary()["preemptions"] == 1


def test_the_cluster_names_its_placer_and_its_network():
    trace = a_trace([(0.0, 2, 100.0)])
    figures = simulate(trace, "tiresias-testbed", "fifo").summary()
    assert (figures["placer"], figures["network"]) == ("profile", "tiresias-testbed")
    assert figures["models"] == "drawn (the paper's ten, seed 0)"
    assert simulate(trace, "tiresias-testbed", "fifo", placer="count").summary()["placer"] == "count"
    assert simulate(trace, "2x2", "fifo").summary()["placer"] == "packed"


@pytest.mark.parametrize("name", FABRICS)
def test_every_network_can_be_simulated(name):
    figures = simulate("builtin:testbed-480", "15x4", "fifo", network=name).summary()
    assert figures["jobs"] == 480
    assert figures["avg_slowdown"] >= 1.0


def test_a_placer_gets_the_exact_links():
    """VGG-16 on two nodes of one rack suffers at 1 Gb/s and not at 3,200: neither is a preset's figure."""
    rows = [(0.0, 1, 900.0), (0.0, 1, 50.0), (0.0, 1, 900.0), (60.0, 2, 100.0)]
    trace = a_trace(rows, model=["vgg16"] * 4)
    started = {}
    for gbps in (1.0, 3200.0):
        links = PRESETS["philly"]._replace(rack=PRESETS["philly"].rack._replace(bandwidth_Bps=gbps * GBIT))
        fabric = Fabric("mine", links)
        assert placer_options(fabric) == {"network": links}
        result = simulate(trace, "2x2", "fifo", placer="profile", network=fabric)
        started[gbps] = result.jobs["first_started_at"].to_list()
    assert started[3200.0][3] == 120.0  # after the minute that every gang waits
    assert started[1.0][3] >= 120.0, "for the least time that pays, or longer"
    assert placer_options(None) == {}
