"""Tensors are recognised if messages are tensors, and only then."""

from __future__ import annotations

import pytest
from observe_scenes import HEADER, VGG, Scene, ring, servers

from tiresias.observe.gang import gang
from tiresias.observe.observed import observed
from tiresias.observe.patterns import Pattern, Seen, look
from tiresias.profiles import zoo
from tiresias.profiles.model import Parallelism

GANGS = [(1, 1), (1, 2), (2, 1), (2, 3), (4, 2)]


def seen(scene: Scene, **without) -> Seen:
    found = gang(scene.processes(**without))
    assert found is not None
    return look(found)


def largest_first(sizes) -> tuple[int, ...]:
    return tuple(sorted(sizes, reverse=True))


@pytest.mark.parametrize(("workers", "homes"), GANGS)
@pytest.mark.parametrize("header", [0, HEADER])
def test_with_parameter_servers_every_tensor_is_seen_once(workers, homes, header):
    found = seen(servers(Scene(), workers=workers, servers=homes, header=header))
    assert found.pattern is Pattern.SERVERS
    assert (found.workers, found.servers) == (workers, homes)
    assert found.tensor_bytes == largest_first(VGG)
    assert found.model_bytes == sum(VGG)


@pytest.mark.parametrize("name", ["vgg16", "alexnet", "resnet50", "inception3", "googlenet"])
def test_the_skew_of_the_papers_models_is_recovered(name):
    model = zoo.find(name)
    sizes = tuple(each.sent_bytes for each in model.tensors if each.sent_bytes)
    found = seen(servers(Scene(), sizes, workers=2, servers=4, iterations=12))
    assert found.tensor_bytes[0] / sum(found.tensor_bytes) == pytest.approx(model.skew, rel=0.05)
    assert len(found.tensor_bytes) == len(sizes)


def test_equal_shards_are_added_up_and_equal_workers_are_not():
    """A star with alike arms: whoever accepted the connections is the server, in the middle or not."""
    two_servers = seen(servers(Scene(), (900_000, 900_000, 50_000, 50_000), workers=1, servers=2))
    assert two_servers.model_bytes == 1_900_000
    assert (two_servers.workers, two_servers.servers) == (1, 2)
    two_workers = seen(servers(Scene(), (900_000, 50_000), workers=2, servers=1))
    assert two_workers.model_bytes == 950_000
    assert (two_workers.workers, two_workers.servers) == (2, 1)


def test_servers_that_were_not_observed_are_known_by_their_addresses():
    found = seen(servers(Scene(), workers=2, servers=3), without=frozenset({2, 3, 4}))
    assert found.tensor_bytes == largest_first(VGG)
    assert (found.workers, found.servers) == (2, 3)


def test_requests_are_no_tensors():
    """A worker asks for the parameters: that goes up only, and does not come back."""
    scene = servers(Scene(), workers=1, servers=1, header=0)
    for at, size in list(scene.sent[0, 1]):
        if size == VGG[0]:
            scene.send(at - 0.001, 0, 1, 333)
    assert seen(scene).tensor_bytes == largest_first(VGG)


@pytest.mark.parametrize("nodes", [2, 3, 4])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_ring_shows_how_large_the_model_is_but_no_tensors(nodes, shuffled):
    buckets = (2_142_252, 714_084)
    found = seen(ring(Scene(), buckets, nodes=nodes, shuffled=shuffled))
    assert found.pattern is Pattern.RING
    assert found.workers == nodes
    assert found.tensor_bytes == ()
    assert "chunks" in found.why
    assert found.model_bytes == pytest.approx(sum(buckets), rel=0.01)


def test_all_to_all_shows_nothing():
    scene = Scene()
    for step in range(30):
        for node in range(3):
            at = 0.1 * step
            for other in {0, 1, 2} - {node}:
                at = scene.send(at, node, other, 400_000 + 1000 * node)
                at = scene.send(at, node, other, 100_000)
    found = seen(scene)
    assert found.pattern is Pattern.EXCHANGE
    assert found.tensor_bytes == ()


def test_tensors_cut_into_pieces_by_the_program_are_not_taken_for_tensors():
    pieces = (65_536,) * 48 + (1_024, 333)
    found = seen(servers(Scene(), pieces, workers=2, servers=1))
    assert found.tensor_bytes == ()
    assert "48 messages of an iteration have the largest size, 65,536 bytes" in found.why
    assert found.model_bytes == sum(pieces)


def test_messages_of_a_pipeline_are_no_model():
    """Three stages hand activations on and gradients back: one in the middle looks like a server."""
    scene = Scene()
    for step in range(30):
        at = 0.1 * step
        for sender, to in ((0, 1), (1, 2), (2, 1), (1, 0)):
            at = scene.send(at + 0.01, sender, to, 800_000)
    assert seen(scene).tensor_bytes == ()


def test_what_was_observed_becomes_a_profile():
    processes = servers(Scene(), workers=2, servers=2).processes()
    found = observed(gang(processes), ("python", "train.py"), 3.0, len(processes), ())
    profile = found.profile("mine")
    assert profile.skew == pytest.approx(VGG[0] / sum(VGG)) == found.skew
    assert profile.total_bytes == sum(VGG)
    assert profile.parallelism is Parallelism.PS
    assert profile.compute_s is None
    assert "`python train.py`" in profile.source


def test_a_ring_becomes_a_profile_without_skew():
    processes = ring(Scene()).processes()
    found = observed(gang(processes), ("python", "train.py"), 3.0, len(processes), ())
    profile = found.profile("mine")
    assert found.skew is None
    assert not found.is_skew_visible
    assert profile.skew is None
    assert profile.parallelism is Parallelism.ALLREDUCE
    assert profile.total_bytes == pytest.approx(2_142_252 + 714_084, rel=0.01)


@pytest.mark.parametrize("nodes", [3, 4, 5])
def test_a_ring_in_which_nothing_goes_back_is_no_set_of_servers(nodes):
    """Nobody sends over the connections that it has accepted; each end is known by its accept."""
    scene = Scene(accepting=set(range(nodes)))
    buckets = (2_142_252, 714_084)
    found = seen(ring(scene, buckets, nodes=nodes, acknowledged=False))
    assert (found.pattern, found.workers, found.servers) == (Pattern.RING, nodes, 0)
    assert found.model_bytes == pytest.approx(sum(buckets), rel=0.01)


def data_for(scene: Scene, workers: list[int], reader: int, size: int, requests: int = 200) -> Scene:
    """A process that sends each worker a batch whenever the worker asks for one with a small message."""
    scene.accepting.add(reader)
    for worker in workers:
        for number in range(30):
            scene.send(number * 0.06, worker, reader, requests)
            scene.send(number * 0.06 + 0.001, reader, worker, size)
    return scene


def test_a_process_that_only_sends_data_is_no_parameter_server():
    found = seen(data_for(Scene(), [0, 1], 2, 5_000_000))
    assert (found.pattern, found.servers, found.model_bytes) == (Pattern.UNKNOWN, 0, None)
    assert "data" in found.why


def test_workers_of_a_ring_may_read_from_a_data_server():
    scene = Scene(accepting={0, 1, 2})
    buckets = (2_142_252, 714_084)
    found = seen(data_for(ring(scene, buckets, nodes=3, acknowledged=False), [0, 1, 2], 7, 40_000))
    assert (found.pattern, found.workers) == (Pattern.RING, 3)
    assert found.model_bytes == pytest.approx(sum(buckets), rel=0.01)


def test_workers_of_parameter_servers_may_read_from_a_data_server():
    found = seen(data_for(servers(Scene(), workers=2, servers=2), [0, 1], 9, 9_000_000))
    assert (found.pattern, found.workers, found.servers) == (Pattern.SERVERS, 2, 2)
    assert found.tensor_bytes == largest_first(VGG)
