"""RALP-style placement: which networks are cut, where, and what that changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiresias.profiles import ralp, zoo
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.links import PRESETS
from tiresias.profiles.model import MIB
from tiresias.profiles.network import Network
from tiresias.profiles.normality import normality

TESTBED = Network(PRESETS["tiresias-testbed"])
EIGHT = ((4, 4),)


def test_vgg16_sends_three_megabytes_of_activations_instead_of_470_of_parameters():
    split = ralp.split(zoo.find("vgg16"), TESTBED, EIGHT)
    assert split.hybrid is not None
    assert split.moved_bytes / MIB == pytest.approx(470, rel=0.01)
    assert split.hybrid.cut.activation_bytes == 25088 * 4 * 32  # 3.2 MB
    assert split.profile.layers[split.hybrid.cut.layer].name == "fc0"
    assert split.after_bytes == split.before_bytes - split.moved_bytes + 25088 * 4 * 32
    assert split.after.seconds < 0.7 * split.before.seconds


def test_the_cut_is_where_an_iteration_is_shortest():
    vgg = zoo.find("vgg16")
    split = ralp.split(vgg, TESTBED, EIGHT)
    for layer in range(1, len(vgg.layers)):
        other = TESTBED.iteration(ralp.hybrid_of(vgg, layer), EIGHT)
        assert split.after.seconds <= other.seconds


@pytest.mark.parametrize("name", ["vgg11", "vgg19"])
def test_the_other_vggs_are_cut_at_the_same_place(name):
    split = ralp.split(zoo.find(name), TESTBED, EIGHT)
    assert "cut ahead of fc0" in split.reason


def test_a_network_whose_layers_are_alike_is_left_as_it_is():
    split = ralp.split(zoo.find("inception4"), TESTBED, EIGHT)
    assert split.hybrid is None
    assert "no few layers stand out" in split.reason
    assert split.after == split.before
    assert split.moved_bytes == 0
    assert split.after_bytes == split.before_bytes


def test_a_cut_that_saves_no_time_is_not_made():
    split = ralp.split(zoo.find("resnet50"), TESTBED, EIGHT)
    assert split.hybrid is None
    assert "no cut makes an iteration shorter" in split.reason


def test_a_sharded_model_is_not_put_on_one_worker():
    split = ralp.split(zoo.find("gpt2-xl"), TESTBED, EIGHT)
    assert split.hybrid is None
    assert "sharded" in split.reason


def test_the_more_workers_the_dearer_the_one_behind_the_cut():
    hybrid = ralp.hybrid_of(zoo.find("vgg16"), 13)
    few = TESTBED.iteration(hybrid, ((4, 4),)).compute_s
    many = TESTBED.iteration(hybrid, ((4,) * 8,)).compute_s
    plain = hybrid.compute_s
    assert few - plain == pytest.approx(7 * plain * hybrid.cut.tail_share)
    assert many - plain == pytest.approx(31 * plain * hybrid.cut.tail_share)


@pytest.mark.parametrize("unknown", [{"layers": ()}, {"batch": None}])
def test_without_layers_or_batch_there_is_nothing_to_place(unknown):
    with pytest.raises(ProfileError, match="vgg16: its layers or its batch size are not known"):
        ralp.split(replace(zoo.find("vgg16"), **unknown), TESTBED, EIGHT)


@pytest.mark.parametrize(
    ("numbers", "p"),
    [
        ([2, 8, 0, 4, 1, 9, 9, 0], 0.6554066631275459),
        ([1, 2, 3, 4, 5, 6, 7, 8000], 0.0003545719905823133),
        ([100, 100, 100, 100, 100, 100, 100, 101], 0.000354567720281634),
    ],
)
def test_the_test_of_normality_agrees_with_scipys(numbers, p):
    """The examples of scipy.stats.skewtest."""
    assert normality(numbers).p == pytest.approx(p, rel=1e-9)


def test_too_few_or_equal_numbers_say_nothing():
    assert normality([]).p == 1
    assert normality([5.0] * 20) == (0.0, 1.0)
    assert normality([1, 1, 1, 1, 1, 1, 9]).p == 1
    assert normality([-9, -1, -1, -1]).skewness < 0
