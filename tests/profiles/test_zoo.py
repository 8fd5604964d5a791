"""The zoo's models are those that were published: sizes, skews, numbers of parameters."""

from __future__ import annotations

import pytest

from tiresias.profiles import zoo
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import MIB, Parallelism
from tiresias.profiles.verdict import SkewRule
from tiresias.profiles.zoo import classic, inception

TABLE_6 = {
    "vgg19": (548.1, 39, 15, 392, 71.5),
    "vgg16": (527.8, 33, 12, 392, 74.3),
    "vgg11": (506.8, 23, 9, 392, 77.3),
    "alexnet": (235.9, 17, 7, 144, 61.0),
    "resnet152": (230.2, 778, 48, 9.0, 3.9),
    "resnet101": (170.4, 523, 35, 9.0, 5.3),
    "resnet50": (97.7, 268, 18, 9.0, 9.2),
    "inception4": (162.9, 599, 81, 5.9, 3.6),
    "inception3": (91.0, 397, 21, 7.8, 8.6),
    "googlenet": (26.7, 117, 7, 3.9, 14.6),
}
"""The paper's: MiB, tensors, tensors above 1 MiB, MiB of the largest, its share in percent."""
TENSORS_BEFORE_A_SLIP = {"inception3": 379}
"""94 convolutions with 4 tensors each, a layer with 2, and a step counter: 397 has two digits swapped."""

PUBLISHED = {
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704,
    "vit-b": 86_567_656,
    "vit-l": 304_326_632,
    "whisper-tiny": 37_184_640,
    "whisper-base": 71_825_920,
    "whisper-small": 240_582_912,
    "whisper-medium": 762_321_920,
    "whisper-large": 1_541_384_960,
}
"""Trained parameters of the public models. Whisper's positions of sound are not trained, and not counted."""
IMAGENET = {
    "alexnet": (classic.alexnet(1000), 61_838_248),
    "vgg11": (classic.vgg(11, 1000), 132_863_336),
    "vgg16": (classic.vgg(16, 1000), 138_357_544),
    "vgg19": (classic.vgg(19, 1000), 143_667_240),
    "resnet50": (classic.resnet(50, 1000), 25_557_032),
    "resnet101": (classic.resnet(101, 1000), 44_549_160),
    "resnet152": (classic.resnet(152, 1000), 60_192_808),
    "inception3": (inception.inception3(1000, norm="full"), 23_834_568),
    "inception4": (inception.inception4(1000, norm="full"), 42_679_816),
    "googlenet": (inception.googlenet(1000), 6_998_552),
}
"""With the usual 1,000 classes and a scale in every batch norm."""
GIGA_MULTIPLY_ADDS = {
    "vgg16": 15.5,
    "resnet50": 3.86,
    "inception3": 5.7,
    "inception4": 12.3,
    "googlenet": 1.6,
}


@pytest.mark.parametrize("name", TABLE_6)
def test_the_papers_ten_models_have_the_sizes_of_its_table(name):
    model = zoo.find(name)
    size, tensors, large, largest, share = TABLE_6[name]
    assert model.total_bytes / MIB == pytest.approx(size, abs=0.05)
    assert len(model.tensors) == TENSORS_BEFORE_A_SLIP.get(name, tensors)
    assert sum(each.bytes > MIB for each in model.tensors) == large
    assert model.largest is not None
    assert model.largest.bytes / MIB == pytest.approx(largest, abs=0.05)
    assert 100 * model.skew == pytest.approx(share, abs=0.1)


def test_exactly_vgg_and_alexnet_are_consolidated():
    rule = SkewRule()
    consolidated = {name for name in zoo.CNNS if rule.verdict(zoo.find(name)).consolidate}
    assert consolidated == {"vgg11", "vgg16", "vgg19", "alexnet"}


@pytest.mark.parametrize("name", IMAGENET)
def test_networks_for_images_have_the_published_number_of_parameters(name):
    sheet, parameters = IMAGENET[name]
    assert sheet.parameters == parameters


@pytest.mark.parametrize("name", PUBLISHED)
def test_transformers_have_the_published_number_of_parameters(name):
    assert zoo.MODELS[name].build().parameters == PUBLISHED[name]


def test_dlrm_is_nearly_all_tables_and_sends_only_the_rows_it_touches():
    model = zoo.find("dlrm")
    assert model.total_bytes / 4 == pytest.approx(540e6, rel=0.01)
    tables = [each for each in model.tensors if each.name.startswith("table")]
    assert sum(each.bytes for each in tables) / model.total_bytes > 0.99
    assert model.sent_bytes < model.total_bytes / 100
    largest = max(tables, key=lambda each: each.bytes)
    assert largest.sent_bytes == model.batch * 16 * 4


@pytest.mark.parametrize("name", GIGA_MULTIPLY_ADDS)
def test_the_arithmetic_is_what_is_known_of_the_architecture(name):
    done = sum(layer.flops for layer in zoo.find(name).layers) / 2e9
    assert done == pytest.approx(GIGA_MULTIPLY_ADDS[name], rel=0.02)


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_is_complete(name):
    model = zoo.find(name)
    assert model.name == name
    assert model.compute_s is not None
    assert model.compute_s > 0
    assert model.preemption_cost_s is not None
    assert model.batch
    assert model.gpu in ("P100", "A100")
    assert model.source
    assert len({each.name for each in model.tensors}) == len(model.tensors)
    in_layers = sum(layer.tensors for layer in model.layers)
    assert len(model.tensors) - in_layers == (1 if name in zoo.CNNS else 0)  # the counter of steps
    assert sum(model.layer_bytes()) == model.sent_bytes


def test_compute_times_with_a_published_rate_follow_it_and_the_others_their_arithmetic():
    assert zoo.find("vgg16").compute_s == pytest.approx(32 / 144)
    assert zoo.find("alexnet").compute_s == pytest.approx(512 / 2987)
    ratio = zoo.find("vgg19").compute_s / zoo.find("vgg16").compute_s
    assert ratio == pytest.approx(19.63 / 15.47, rel=0.01)


def test_large_models_are_sharded_and_those_of_the_paper_have_parameter_servers():
    assert zoo.find("llama3-70b").parallelism is Parallelism.SHARDED
    assert zoo.find("bert-base").parallelism is Parallelism.ALLREDUCE
    assert {zoo.find(name).parallelism for name in zoo.CNNS} == {Parallelism.PS}


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("ResNet50", "resnet50"),
        ("resnet-50", "resnet50"),
        ("VGG-16", "vgg16"),
        ("Inception4", "inception4"),
        ("inception_v3", "inception3"),
        ("GoogLeNet", "googlenet"),
        ("GPT-2", "gpt2"),
        ("ViT-B/16", "vit-b"),
    ],
)
def test_a_model_is_found_by_any_usual_spelling(spelling, name):
    assert zoo.find(spelling) is zoo.find(name)


def test_an_unknown_name_is_an_error_that_names_a_similar_one():
    with pytest.raises(ProfileError, match=r"'resnet51'; did you mean 'resnet50'\? \(known: vgg19, "):
        zoo.find("resnet51")
