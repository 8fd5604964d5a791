"""What an iteration takes: each kind of communication against arithmetic done by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.profiles import ralp, zoo
from tiresias.profiles.collectives import dealt
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.links import (
    PRESETS,
    Link,
    Links,
    Sharing,
    gpus_of,
    packed_shape,
    shape_of,
    spread_shape,
)
from tiresias.profiles.model import Layer, ModelProfile, Parallelism, Tensor
from tiresias.profiles.network import Network, Software

PS, RING, SHARDED = Parallelism.PS, Parallelism.ALLREDUCE, Parallelism.SHARDED
MB = 1_000_000
FAST, SLOW, SLOWER = Link(100e9, 0.0), Link(1e9, 0.0), Link(0.5e9, 0.0)
LINKS = Links(FAST, SLOW, SLOWER, node_gpus=4)
EXACT = Software(efficiency=1.0, unhidden=0.0, algorithm="ring")
AT_ONCE = EXACT._replace(overlaps=False)


def model(*megabytes: float, how: Parallelism, compute_s: float = 0.3) -> ModelProfile:
    tensors = tuple(Tensor(f"t{i}", round(size * MB)) for i, size in enumerate(megabytes))
    return ModelProfile("net", tensors, compute_s=compute_s, parallelism=how)


def exposed(profile: ModelProfile, shape, software=EXACT, sharing=Sharing(), links=LINKS) -> float:
    return Network(links, software).iteration(profile, shape, sharing).exposed_s


@pytest.mark.parametrize("how", list(Parallelism))
def test_one_gpu_only_computes(how):
    found = Network(LINKS).iteration(model(500, how=how), ((1,),))
    assert found == (0.3, 0.3, 0.0, 0.0)


def test_a_ring_sends_everything_nearly_twice_over_the_slowest_link():
    # 4 workers: 2 * 3/4 * 100 MB at 1 GB/s
    assert exposed(model(100, how=RING), ((1, 1, 1, 1),), AT_ONCE) == pytest.approx(0.15)
    assert exposed(model(100, how=RING), ((4,),), AT_ONCE) == pytest.approx(0.0015)


def test_a_ring_over_racks_goes_at_the_pace_of_the_link_between_them():
    assert exposed(model(100, how=RING), ((1, 1), (1, 1)), AT_ONCE) == pytest.approx(0.3)


def test_a_ring_hides_behind_the_backward_pass_but_for_the_last_bucket():
    # Four equal tensors, a bucket each; the backward pass takes 0.2 s and 50 ms a tensor. On two workers each
    # bucket takes 10 ms: only the last, whose gradients come last, shows.
    small = EXACT._replace(bucket_bytes=MB)
    assert exposed(model(10, 10, 10, 10, how=RING), ((1, 1),), small) == pytest.approx(0.010)
    # One bucket for all is sent when all is there.
    large = EXACT._replace(bucket_bytes=100 * MB)
    assert exposed(model(10, 10, 10, 10, how=RING), ((1, 1),), large) == pytest.approx(0.040)


def test_a_part_of_what_could_be_hidden_is_not():
    some = EXACT._replace(bucket_bytes=MB, unhidden=0.2)
    # of 40 ms in all, 10 ms cannot be hidden, and a fifth of the other 30 ms is not
    assert exposed(model(10, 10, 10, 10, how=RING), ((1, 1),), some) == pytest.approx(0.016)


def test_gradients_that_come_first_are_hidden_best():
    """Two layers; the second, first in the backward pass, has nearly all parameters and no arithmetic."""
    tensors = (Tensor("conv", MB), Tensor("fc", 100 * MB))
    layers = (Layer("conv", "conv", 1, 1, 99.0), Layer("fc", "dense", 1, 1, 1.0))
    heavy_last = ModelProfile("last", tensors, compute_s=0.3, layers=layers)
    heavy_first = ModelProfile("first", tensors[::-1], compute_s=0.3, layers=layers[::-1])
    small = EXACT._replace(bucket_bytes=1)
    assert exposed(heavy_last, ((1, 1),), small) == pytest.approx(0.001)
    assert exposed(heavy_first, ((1, 1),), small) == pytest.approx(0.1)


def test_a_tree_beats_a_ring_where_latency_counts():
    links = Links(FAST, Link(1e9, 1e-3), SLOWER, node_gpus=4)
    tiny = model(0.001, how=RING)
    ring = exposed(tiny, ((1,) * 16,), AT_ONCE, links=links)
    tree = exposed(tiny, ((1,) * 16,), AT_ONCE._replace(algorithm="tree"), links=links)
    best = exposed(tiny, ((1,) * 16,), AT_ONCE._replace(algorithm="auto"), links=links)
    assert ring == pytest.approx(2 * 15 / 16 * (15e-3 + 1e-6), rel=1e-3)  # around, twice
    assert tree == pytest.approx(2 * (4e-3 + 1e-6), rel=1e-3)  # four levels up and down
    assert best == tree


def test_a_huge_tensor_makes_a_hot_server():
    balanced, skewed = model(*[50] * 4, how=PS), model(170, 10, 10, 10, how=PS)
    spread = ((1, 1, 1, 1),)
    # every server: 50 MB to and from three others, 150 ms each way; the hot one 510 ms
    assert Network(LINKS, EXACT).iteration(balanced, spread).busy_s == pytest.approx(0.3)
    assert Network(LINKS, EXACT).iteration(skewed, spread).busy_s == pytest.approx(1.02)
    assert exposed(skewed, spread) > 2 * exposed(balanced, spread)


def test_a_hot_server_serves_the_workers_of_its_own_node_for_free():
    skewed = model(170, 10, 10, 10, how=PS)
    together = Network(LINKS, EXACT).iteration(skewed, ((4,),))
    assert together.busy_s == 0.0
    assert together.exposed_s < 0.01
    pairs = Network(LINKS, EXACT).iteration(skewed, ((2, 2),))
    assert pairs.busy_s == pytest.approx(2 * 0.18 * 2)  # 180 MB on the hot node, two workers elsewhere


def test_servers_in_another_rack_are_reached_over_the_link_between_racks():
    balanced = model(*[50] * 4, how=PS)
    found = Network(LINKS, EXACT).iteration(balanced, ((1, 1), (1, 1)))
    assert found.busy_s == pytest.approx(2 * 2 * 0.05 / 0.5)  # 50 MB for two workers there, each way


def test_many_workers_on_a_node_fill_its_link_though_no_server_there_is_hot():
    # Four workers on a node whose servers hold nothing, 100 MB on each of two others: 800 MB each way.
    found = Network(LINKS, EXACT).iteration(model(*[0.1] * 4, 100, 100, how=PS), ((4, 1, 1),))
    assert found.busy_s == pytest.approx(2 * 0.8)


def test_small_tensors_are_dealt_out_evenly_too():
    sizes = np.array([1e6, 10.0, 10.0, 10.0] * 8)
    owner = dealt(sizes, 4)
    for of_a_kind in (sizes >= 1e6, sizes < 1e6):
        assert len(set(np.bincount(owner[of_a_kind], minlength=4))) == 1


def test_four_tensors_a_layer_do_not_all_meet_on_the_same_servers():
    layers = [size for _ in range(16) for size in (10, 0.001, 0.001, 0.001)]
    one_a_layer = [10] * 16
    spread = ((1,) * 8,)
    with_small = exposed(model(*layers, how=PS, compute_s=0.01), spread)
    assert with_small == pytest.approx(exposed(model(*one_a_layer, how=PS, compute_s=0.01), spread), rel=0.1)


def test_shards_are_gathered_twice_and_scattered_once():
    # 2 workers, 1 GB, 0.5 s each of the three times; nothing to hide behind
    found = Network(LINKS, EXACT).iteration(model(1000, how=SHARDED, compute_s=1e-6), ((1, 1),))
    assert found.busy_s == pytest.approx(1.5)
    assert found.exposed_s == pytest.approx(1.5, rel=1e-3)
    # 1 s of gathering and scattering during a backward pass of 0.8 s, 0.5 s during a forward pass of 0.4 s
    pieces = model(*[25] * 40, how=SHARDED, compute_s=1.2)
    assert exposed(pieces, ((1, 1),), EXACT._replace(bucket_bytes=1)) == pytest.approx(0.3)
    # 40 small pieces behind a long computation: only the first of each pass and the last scattering show
    pieces = model(*[25] * 40, how=SHARDED, compute_s=30.0)
    assert exposed(pieces, ((1, 1),), EXACT._replace(bucket_bytes=1)) == pytest.approx(3 * 0.0125)


@pytest.mark.parametrize("how", list(Parallelism))
def test_a_shared_link_is_slower_and_a_half_used_one_counts_half(how):
    profile = model(*[30] * 8, how=how, compute_s=0.01)
    alone, half, two = (exposed(profile, ((1, 1, 1, 1),), sharing=Sharing(rack=jobs)) for jobs in (1, 1.5, 2))
    assert alone < half < two
    assert two == pytest.approx(2 * alone, rel=0.1)
    assert half == pytest.approx(1.5 * alone, rel=0.1)


@pytest.mark.parametrize("how", list(Parallelism))
def test_inside_a_node_nvlink_beats_pcie(how):
    profile = model(*[100] * 8, how=how, compute_s=0.01)
    pcie = replace_node(Link(12e9, 0.0))
    nvlink = replace_node(Link(300e9, 0.0))
    assert exposed(profile, ((4,),), links=pcie) > 10 * exposed(profile, ((4,),), links=nvlink)
    busy = exposed(profile, ((4,),), links=pcie, sharing=Sharing(node=3))
    assert busy == pytest.approx(3 * exposed(profile, ((4,),), links=pcie), rel=0.1)


def replace_node(link: Link) -> Links:
    return LINKS._replace(node=link)


def test_a_gang_with_few_gpus_on_a_node_drives_few_of_its_cards():
    links = LINKS._replace(rack=Link(8e9, 0.0, ports=8), node_gpus=8)
    one = exposed(model(100, how=RING), ((1,) * 8,), AT_ONCE, links=links)
    assert one == pytest.approx(2 * 7 / 8 * 0.1)
    all_eight = exposed(model(100, how=RING), ((8, 8),), AT_ONCE, links=links)
    assert all_eight == pytest.approx(2 * 15 / 16 * 0.1 / 8)


def test_jobs_that_send_little_hardly_feel_each_other():
    network = Network(PRESETS["tiresias-testbed"])
    spread = spread_shape(8, 4, 8)
    for name, feels in (("resnet50", False), ("vgg16", True)):
        profile = zoo.find(name)
        alone = network.iteration(profile, spread)
        four = network.together(profile, spread, 4)
        assert (four.seconds > 1.5 * alone.seconds) == feels
        assert network.together(profile, spread, 1).seconds == alone.seconds


def test_a_hybrid_job_sends_activations_and_waits_for_one_worker():
    whole = zoo.find("vgg16")
    hybrid = ralp.hybrid_of(whole, 13)
    found = Network(PRESETS["tiresias-testbed"]).iteration(hybrid, ((4, 4),))
    assert found.compute_s == pytest.approx(whole.compute_s * (1 + 7 * hybrid.cut.tail_share))
    activations_s = 2 * 4 * 25088 * 4 * 32 / (12.5e9 * 0.8)  # four workers elsewhere, there and back
    assert found.exposed_s >= activations_s
    assert found.busy_s < Network(PRESETS["tiresias-testbed"]).iteration(whole, ((4, 4),)).busy_s / 4


def test_activations_inside_a_node_take_its_own_links():
    hybrid = ralp.hybrid_of(zoo.find("vgg16"), 13)
    without = replace(hybrid, cut=replace(hybrid.cut, activation_bytes=0))
    links = replace_node(Link(1e9, 0.0))
    more_s = exposed(hybrid, ((4,),), links=links) - exposed(without, ((4,),), links=links)
    assert more_s == pytest.approx(2 * 3 * 25088 * 4 * 32 / 1e9)


def test_the_slowdown_is_against_the_fewest_nodes():
    network = Network(PRESETS["tiresias-testbed"])
    vgg = zoo.find("vgg16")
    assert network.slowdown(vgg, ((4, 4),)) == 1.0
    spread = network.slowdown(vgg, ((1,) * 8,))
    expected = network.iteration(vgg, ((1,) * 8,)).seconds / network.iteration(vgg, ((4, 4),)).seconds
    assert spread == pytest.approx(expected)
    assert network.slowdown(vgg, ((1,) * 8,), Sharing(rack=2)) > spread


def test_answers_are_remembered_and_equal_profiles_share_them():
    network = Network(LINKS)
    first = network.iteration(model(10, 20, how=RING), ((2, 2),))
    assert network.iteration(model(10, 20, how=RING), ((2, 2),)) is first
    assert network.iteration(model(10, 20, how=PS), ((2, 2),)) is not first


def test_a_profile_without_a_compute_time_has_no_speed():
    unknown = replace(model(10, how=RING), compute_s=None)
    with pytest.raises(ProfileError, match="net: its compute time is not known"):
        Network(LINKS).iteration(unknown, ((2,),))


@pytest.mark.parametrize("shape", [(), ((0,),), ((2, -1),)])
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises(ProfileError, match="is not a shape"):
        Network(LINKS).iteration(model(10, how=RING), shape)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (LINKS._replace(rack=Link(-1.0, 0.0)), "links: rack: bandwidth -1.0 B/s must be above 0"),
        (LINKS._replace(cross=Link(1e9, float("nan"))), "links: cross: latency nan s must be 0 or more"),
        (LINKS._replace(node=Link(1e9, 0.0, ports=0)), "links: node: 0 ports"),
    ],
)
def test_links_that_cannot_be_are_refused_by_level(links, message):
    with pytest.raises(ProfileError, match=message):
        Network(links)


def test_an_allocation_has_a_shape_without_names():
    placement = [("r1", "n7", 1), ("r0", "n1", 2), ("r1", "n9", 4), ("r0", "n1", 1)]
    assert shape_of(placement) == ((4, 1), (3,))
    assert packed_shape(11, 4) == ((4, 4, 3),)
    assert spread_shape(11, 4, 4) == ((3, 3, 3, 2),)
    assert spread_shape(2, 4, 8) == ((1, 1),)
    with pytest.raises(ProfileError, match="9 GPUs do not fit on 2 nodes of 4"):
        spread_shape(9, 4, 2)


shapes = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=3)


@given(shapes, st.sampled_from(list(Parallelism)), st.lists(st.integers(0, 400), min_size=1, max_size=20))
def test_more_jobs_on_a_link_never_make_an_iteration_shorter(racks, how, sizes):
    shape = tuple(sorted((tuple(sorted(rack, reverse=True)) for rack in racks), reverse=True))
    profile = model(*sizes, how=how)
    network = Network(LINKS)
    alone = network.iteration(profile, shape)
    crowded = network.iteration(profile, shape, Sharing(2, 3, 4))
    assert alone.seconds >= alone.compute_s == profile.compute_s
    assert crowded.seconds >= alone.seconds - 1e-12
    assert alone.seconds == pytest.approx(alone.compute_s + alone.exposed_s)
    assert 0 <= alone.busy_share <= 1
    assert gpus_of(shape) == sum(map(sum, racks))
