"""Gangs that share a node disturb each other; singles and gangs alone on their nodes are left in peace."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, JobId, RunId
from tiresias.sim import simulate
from tiresias.sim.clusters import ClusterError, read
from tiresias.sim.fabric import FABRICS, PHILLY_INTERFERENCE
from tiresias.sim.interference import Interference
from tiresias.sim.world import WorldRun
from tiresias.testing import a_job, a_trace, published


class Still:
    """All runs go at full speed, except those in `slower`."""

    def __init__(self):
        self.slower = {}

    def speeds(self, changed, ledger):
        return {run_id: self.slower[run_id] for run_id in changed if run_id in self.slower}


class Scene:
    def __init__(self, cluster, interference=0.5):
        self.ledger = Ledger(cluster)
        self.runs = {}
        self.others = Still()
        self.model = Interference(interference, cluster, self.runs, self.others)

    def start(self, id, *parts):
        gpus = sum(slots.bit_count() for _, slots in parts)
        self.ledger.take(RunId(id), parts)
        nodes = tuple(node for node, _ in parts)
        self.runs[RunId(id)] = WorldRun(RunId(id), a_job(JobId(id), gpus), nodes, 0.0, 0.0, 0.0)
        return self.model.speeds([RunId(id)], self.ledger)

    def end(self, id):
        self.ledger.release(RunId(id))
        del self.runs[RunId(id)]
        return self.model.speeds([RunId(id)], self.ledger)


def test_a_gang_alone_on_its_node_and_singles_beside_it_are_at_full_speed():
    scene = Scene(Cluster.of(1, 8))
    assert scene.start(1, (0, 0b1111)) == {1: 1.0}
    assert scene.start(2, (0, 0b10000)) == {}


def test_two_gangs_on_a_node_slow_each_other_down_until_one_ends():
    scene = Scene(Cluster.of(1, 8))
    scene.start(1, (0, 0b1111))
    assert scene.start(2, (0, 0b110000)) == {1: 1 / (1 + 0.5 * 2 / 4), 2: 1 / (1 + 0.5 * 4 / 6)}
    assert scene.start(3, (0, 0b11000000)) == {1: 1 / 1.5, 2: 1 / 1.5, 3: 1 / 1.5}  # the node is full
    assert scene.end(2) == {1: 1 / (1 + 0.5 * 2 / 4), 3: 1 / (1 + 0.5 * 4 / 6)}


def test_the_worst_node_counts_and_what_the_links_do_comes_on_top():
    scene = Scene(Cluster.of(3, 4))
    scene.start(1, (0, 0b111))
    scene.others.slower[RunId(2)] = 0.8
    assert scene.start(2, (0, 0b1000), (1, 0b1)) == {1: 1 / 1.5, 2: 0.8 / 1.5}
    assert scene.start(3, (1, 0b1110)) == {2: 0.8 / 1.5, 3: 1 / 1.5}
    assert scene.end(1) == {2: 0.8 / 1.5}
    assert scene.end(3) == {2: 0.8}


def test_after_any_starts_and_exits_speeds_are_those_of_a_new_model():
    rng = Random(5)
    scene, speeds, held = Scene(Cluster.of(4, 4)), {}, {}
    for id in range(1, 200):
        free = [(n, s) for n in range(4) for s in range(4) if scene.ledger.free_slots[n] >> s & 1]
        if len(free) < 2 or (held and rng.random() < 0.45):
            gone = rng.choice(list(held))
            del held[gone]
            speeds.pop(gone, None)
            speeds |= scene.end(gone)
            continue
        parts = {}
        for node, slot in rng.sample(free, rng.randint(1, min(5, len(free)))):
            parts[node] = parts.get(node, 0) | 1 << slot
        held[id] = tuple(parts.items())
        speeds |= scene.start(id, *held[id])
    fresh, expected = Scene(Cluster.of(4, 4)), {}
    for id, allocation in held.items():
        expected |= fresh.start(id, *allocation)
    assert speeds == expected


def test_a_simulation_feels_it():
    rows = [(0.0, 4, 100.0), (0.0, 4, 100.0)]
    models = {"model": ["resnet50", "resnet50"]}
    alone = simulate(a_trace(rows, **models), "2x4", "fifo", network="philly-contended")
    assert alone.jobs["finished_at"].to_list() == [100, 100]
    both = simulate(a_trace(rows, **models), "1x8", "fifo", network="philly-contended")
    assert both.jobs["finished_at"].to_list() == pytest.approx([100 * (1 + PHILLY_INTERFERENCE)] * 2)
    before = simulate(a_trace(rows, **models), "1x8", "fifo", network="philly")
    assert before.jobs["finished_at"].to_list() == [100, 100]


def test_the_key_of_the_cluster_file(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text("network: {like: philly, interference: 0.4}\nnodes: [{gpus: 8}]\n")
    assert read(str(path)).fabric.interference == 0.4
    path.write_text("network: {like: philly-contended}\nnodes: [{gpus: 8}]\n")
    assert read(str(path)).fabric.interference == FABRICS["philly-contended"].interference
    path.write_text("network: {like: philly, interference: -1}\nnodes: [{gpus: 8}]\n")
    with pytest.raises(ClusterError, match="interference: -1 is not a number"):
        read(str(path))


def test_the_published_figures():
    """The first was fitted; the second follows within three percent."""
    shared, crowded = published.philly_interference()
    assert shared.error == pytest.approx(0.0, abs=0.001)
    assert 0.0 < crowded.error < 0.03
