"""Iterations are found in what a gang sends, whatever it sends besides."""

from __future__ import annotations

import numpy as np
import pytest
from observe_scenes import HEADER, VGG, Scene, ring, servers

from tiresias.observe.gang import gang
from tiresias.observe.records import Flow
from tiresias.observe.rhythm import rhythm
from tiresias.observe.sequences import cycle

SEEDS = range(5)
TRANSFORMER = (20_000_000, *(1_000_000, 1_000, 4_000_000, 4_000, 4_000_000, 1_000) * 24, 9_000)


def period_s(scene: Scene, iterations: int) -> float:
    """What an iteration took on average."""
    times = [at for messages in scene.sent.values() for at, _ in messages]
    return (max(times) - min(times)) / iterations


@pytest.mark.parametrize("seed", SEEDS)
def test_what_all_send_in_an_iteration_is_counted_once(seed):
    scene = servers(Scene(seed), workers=2, servers=3)
    found = gang(scene.processes())
    assert found.has_sequence
    assert found.bytes == 2 * 2 * (sum(VGG) + HEADER * len(VGG))
    assert found.period_s == pytest.approx(period_s(scene, 30), rel=0.1)
    assert 28 <= found.iterations <= 30


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_of_equal_layers_is_one_iteration_and_not_one_for_each_layer(seed):
    found = gang(servers(Scene(seed), TRANSFORMER, workers=1, servers=1, iterations=20).processes())
    assert found.bytes == 2 * (sum(TRANSFORMER) + HEADER * len(TRANSFORMER))


def test_many_equal_layers_and_much_noise_are_one_iteration():
    """Of 600 gaps one is long, and that one is a tenth of the time: only the time tells."""
    layers = (100_000, *(100_000, 400_000, 400_000) * 200, 9_000)
    scene = servers(Scene(jitter=0.9), layers, workers=1, servers=1, iterations=12, compute_s=0.1, header=0)
    assert gang(scene.processes()).bytes == 2 * sum(layers)


@pytest.mark.parametrize("compute_s", [0.0005, 0.03])
@pytest.mark.parametrize("seed", SEEDS)
def test_chunks_of_one_size_are_distinguished_by_the_time_between_them(seed, compute_s):
    """Three nodes, two segments each: eight chunks of one size an iteration, even if it is mostly sending."""
    scene = ring(Scene(seed), buckets=(6_000_000,), compute_s=compute_s)
    found = gang(scene.processes())
    assert found.bytes == pytest.approx(4 * 6_000_000, rel=0.01)
    assert found.period_s == pytest.approx(period_s(scene, 30), rel=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_iteration_is_found_though_its_messages_come_in_any_order(seed):
    found = gang(ring(Scene(seed), shuffled=True, iterations=40).processes())
    assert found.has_sequence
    assert found.bytes == pytest.approx(4 * (2_142_252 + 714_084), rel=0.01)


@pytest.mark.parametrize("save_every", [20, 50])
def test_checkpoints_between_iterations_are_not_of_them(save_every):
    scene = servers(Scene(), workers=1, servers=1, iterations=120, save_every=save_every)
    found = gang(scene.processes())
    assert found.bytes == 2 * (sum(VGG) + HEADER * len(VGG))
    assert found.iterations > 90


def test_the_beginning_does_not_hide_what_follows():
    """Workers get the model, agree on it in many small steps, and only then train."""
    scene = Scene()
    at = 0.0
    for size in (*VGG, *range(100, 160)):
        at = scene.send(at + 0.01, 2, 0, size)
    later = servers(scene, workers=2, servers=1)
    found = gang(later.processes())
    assert found.bytes == pytest.approx(2 * 2 * (sum(VGG) + HEADER * len(VGG)), rel=0.001)


def test_processes_that_only_wait_for_each_other_do_not_train():
    scene = Scene(jitter=0.01)
    for number in range(300):
        scene.send(0.01 * number, 0, 1, 22)
        scene.send(0.01 * number + 0.001, 1, 0, 9)
    assert gang(scene.processes()) is None


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_a_few_messages_are_no_iterations(count):
    flow = Flow(0, None, None, np.arange(count) * 10**7, np.full(count, 5000))
    assert cycle(flow) is None


def test_sizes_that_never_come_again_are_no_iterations():
    sizes = np.random.default_rng(0).permutation(np.arange(1000, 3000))
    assert cycle(Flow(0, None, None, np.arange(2000) * 10**6, sizes)) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_if_messages_are_cut_at_random_the_period_is_found_from_bytes_over_time(seed):
    rng = np.random.default_rng(seed)
    at, sizes, now = [], [], 0.0
    for _ in range(60):
        now += 0.08 * rng.uniform(0.9, 1.1)
        left = 5_000_000
        while left > 0:
            part = int(min(left, rng.integers(1, 200_000)))
            at.append(now)
            sizes.append(part)
            now += part / 1e9
            left -= part
    flow_at, flow_sizes = (np.array(at) * 1e9).astype(np.int64), np.array(sizes)
    assert rhythm(flow_at, flow_sizes) == pytest.approx(0.085, rel=0.05)
    scene = Scene()
    scene.sent[0, 1] = list(zip(at, sizes, strict=True))
    found = gang(scene.processes())
    assert not found.has_sequence
    assert found.bytes == pytest.approx(5_000_000, rel=0.1)


def test_a_steady_stream_has_no_period():
    rng = np.random.default_rng(0)
    at = np.cumsum(rng.integers(10**5, 10**6, 5000))
    assert rhythm(at, rng.integers(1, 10**5, 5000)) is None


def test_stalls_of_a_busy_machine_make_no_longer_iteration():
    """Steps of one message each; now and then one takes up to half as long again."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        stalls = np.where(rng.random(79) < 0.25, rng.uniform(1.1, 1.7, 79), 1.0)
        gaps = 10.6e6 * (1 + rng.normal(0, 0.01, 79)) * stalls
        at_ns = np.concatenate([[0], np.cumsum(gaps)]).astype(np.int64)
        found = cycle(Flow(0, None, None, at_ns, np.full(80, 500_000)))
        assert found is not None
        assert found.period_s == pytest.approx(gaps.mean() / 1e9, rel=0.05)
