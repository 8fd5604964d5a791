"""Nodes that differ in speed: a run goes as fast as its slowest node."""

from __future__ import annotations

from random import Random

import pytest

from tiresias.core.ledger import Ledger
from tiresias.core.model import Cluster, Node
from tiresias.placers.fits import fewest_now
from tiresias.sim import simulate
from tiresias.sim.clusters import ClusterError, parse
from tiresias.testing import a_trace, random_trace, story_of
from tiresias.testing.checkers import no_job_is_lost, slots_are_held_once, time_never_goes_back

FAST, SLOW = Node("f", 4, gpu_type="V100", speed=2.0), Node("s", 4, gpu_type="K80", speed=0.5)


def finish_times(cluster, rows, policy="fifo-skip", **settings):
    columns = settings.pop("columns", {})
    return simulate(a_trace(rows, **columns), cluster, policy, **settings).jobs["finished_at"].to_list()


def test_each_goes_at_the_speed_of_its_node():
    rows = [(0.0, 4, 100.0), (0.0, 4, 100.0)]
    types = {"gpu_type": ["V100", "K80"]}
    assert finish_times(Cluster([FAST, SLOW]), rows, columns=types) == [50, 200]


def test_a_gang_over_both_goes_at_the_speed_of_the_slower():
    assert finish_times(Cluster([FAST, SLOW]), [(0.0, 8, 100.0)]) == [200]


def test_a_preempted_job_goes_on_at_the_speed_of_its_new_node():
    rows = [(0.0, 4, 100.0), (10.0, 4, 10.0)]
    types = {"gpu_type": ["", "V100"]}
    cluster = Cluster([FAST])
    times = finish_times(cluster, rows, "srtf", columns=types, preemption_cost_s=12.0)
    # 20 of 100 s done in 10 s; 2 s to save, 5 s for the other, 10 s to load, 80 s of work in 40 s.
    assert times == [10 + 2 + 5 + 10 + 40, 10 + 2 + 5]


def test_the_network_slows_down_on_top():
    nodes = [Node(f"n{i}", 1, rack="r0", speed=0.5) for i in range(2)]
    rows, model = [(0.0, 2, 100.0)], {"model": ["vgg16"]}
    plain = [Node(f"n{i}", 1, rack="r0") for i in range(2)]
    wide = Node("wide", 2, rack="r0")  # so that being on two nodes is a slowdown
    free = finish_times(Cluster([*plain, wide]), rows, placer="spread", network="themis", columns=model)
    halved = finish_times(
        Cluster([*nodes, Node("wide", 2, rack="r0", speed=0.5)]),
        rows,
        placer="spread",
        network="themis",
        columns=model,
    )
    assert free[0] > 100
    assert halved[0] == pytest.approx(2 * free[0])


def test_utilisation_is_of_what_the_nodes_can_do():
    fast = Cluster([FAST])
    assert simulate(a_trace([(0.0, 4, 100.0)]), fast, "fifo").summary()["gpu_utilization"] == 1.0
    both = simulate(a_trace([(0.0, 8, 100.0)]), Cluster([FAST, SLOW]), "fifo").summary()
    assert both["gpu_utilization"] == pytest.approx(8 * 100 / (200 * (4 * 2.0 + 4 * 0.5)))


def test_a_gang_keeps_to_one_type_where_that_costs_no_node():
    nodes = [Node("a", 4, gpu_type="K80"), Node("b", 4, gpu_type="V100", speed=2.0)]
    nodes += [Node("c", 4, gpu_type="K80"), Node("d", 4, gpu_type="V100", speed=2.0)]
    ledger = Ledger(Cluster(nodes))
    assert {node for node, _ in fewest_now(8, ledger)} == {1, 3}  # the fastest two
    ledger.take(1, ((1, 0b1),))
    assert {node for node, _ in fewest_now(8, ledger)} == {0, 2}  # the fast ones would not do
    assert {node for node, _ in fewest_now(7, ledger)} == {1, 3}
    ledger.take(2, ((0, 0b1),))
    assert {node for node, _ in fewest_now(8, ledger)} == {2, 3}  # two of any type, rather than three of one
    assert sum(slots.bit_count() for _, slots in fewest_now(8, ledger)) == 8


@pytest.mark.parametrize("policy", ["tiresias-l", "srtf", "las"])
def test_nothing_is_lost_where_nodes_differ(policy):
    for seed in range(3):
        rng = Random(seed)
        nodes = [
            Node(f"n{i}", 4, rack=f"r{i % 2}", gpu_type=t, speed=v)
            for i, (t, v) in enumerate([("a", 1.0), ("b", 3.0), ("a", 1.0), ("c", 0.3)])
        ]
        rows = random_trace(rng, 40, sizes=(1, 2, 4, 8, 16), whole=False)
        types = [rng.choice(["", "", "a"]) if gpus <= 8 else "" for _, gpus, _ in rows]
        story = story_of(a_trace(rows, gpu_type=types), Cluster(nodes), policy)
        time_never_goes_back(story)
        slots_are_held_once(story)
        no_job_is_lost(story)


def test_the_key_of_the_cluster_file(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text("nodes: [{gpus: 4, speed: 2.5}, {gpus: 2}]\n")
    assert [node.speed for node in parse(str(path)).nodes] == [2.5, 1.0]
    for value, expected in (("0", "must be above 0"), ("-1", "is not a number"), ("fast", "is not a number")):
        path.write_text(f"nodes: [{{gpus: 4, speed: {value}}}]\n")
        with pytest.raises(ClusterError, match=r"nodes\[0\].speed: .*" + expected):
            parse(str(path))
