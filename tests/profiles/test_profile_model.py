"""A profile's figures, and how it is stored and read back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tiresias.profiles import ralp, zoo
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.histogram import histogram
from tiresias.profiles.model import Layer, ModelProfile, Parallelism, Tensor
from tiresias.profiles.stored import from_json, to_json


def model(*sizes: int, **more) -> ModelProfile:
    return ModelProfile("net", tuple(Tensor(f"t{i}", size) for i, size in enumerate(sizes)), **more)


def test_the_skew_is_the_largest_tensors_share():
    made = model(10, 30, 60)
    assert made.total_bytes == 100
    assert made.largest.name == "t2"
    assert made.skew == made.largest_share == pytest.approx(0.6)


def test_what_is_not_sent_does_not_count_in_the_skew():
    tensors = (Tensor("weight", 60), Tensor("mean", 900, sent=0), Tensor("table", 1000, sent=40))
    made = ModelProfile("net", tensors)
    assert made.total_bytes == 1960
    assert made.sent_bytes == 100
    assert made.skew == pytest.approx(0.6)


def test_the_skew_of_unseen_tensors_is_not_known():
    observed = ModelProfile("observed", unseen_bytes=1000)
    assert observed.total_bytes == 1000
    assert observed.skew is None


def test_equal_profiles_are_equal_and_find_each_other():
    assert model(1, 2, compute_s=0.5) == model(1, 2, compute_s=0.5)
    assert {model(1, 2): "here"}[model(1, 2)] == "here"
    assert model(1, 2) != model(2, 1)


def test_a_preemption_costs_saving_and_loading_where_both_are_known():
    assert model(1, checkpoint_s=2.0, resume_s=40.0).preemption_cost_s == 42.0
    assert model(1, checkpoint_s=2.0).preemption_cost_s is None


def test_a_measured_time_replaces_an_estimated_one():
    timed = zoo.find("bert-base").timed(0.5, gpu="V100", batch=4)
    assert (timed.compute_s, timed.gpu, timed.batch) == (0.5, "V100", 4)
    assert "estimated" not in timed.source


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"tensors": ()}, "net: a model without tensors"),
        ({"tensors": (Tensor("w", -1),)}, "net: tensor w: -1 bytes is below 0"),
        ({"compute_s": 0.0}, "net: compute_s is 0"),
        ({"compute_s": float("nan")}, "net: compute_s nan must be a number of seconds"),
        ({"batch": 0}, "net: batch 0 must be 1 or more"),
        ({"unseen_bytes": -5}, "net: unseen_bytes -5 is below 0"),
        ({"layers": (Layer("a", "conv", 3, 1, 1.0),)}, "net: its layers have more tensors than the model"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(broken, message):
    with pytest.raises(ProfileError, match=message):
        replace(model(1, 2), **broken)


def test_the_histogram_counts_every_tensor_once():
    bins = histogram(model(1024, 1025, 2_000_000, 500_000_000))
    assert [(each.up_to_bytes, each.tensors) for each in bins if each.tensors] == [
        (1024, 1),
        (16 * 1024, 1),
        (4 * 1024 * 1024, 1),
        (None, 1),
    ]
    assert sum(each.bytes for each in bins) == 1024 + 1025 + 2_000_000 + 500_000_000
    assert histogram(ModelProfile("observed", unseen_bytes=9)) == []


@pytest.mark.parametrize("name", ["vgg16", "llama2-7b", "dlrm"])
def test_a_stored_profile_is_read_back_the_same(name):
    before = zoo.find(name)
    assert from_json(to_json(before), "file.json") == before


def test_a_hybrid_profile_and_an_observed_one_are_stored_too():
    observed = ModelProfile("seen", unseen_bytes=7, source="observed")
    for before in (ralp.hybrid_of(zoo.find("vgg16"), 13), observed):
        assert from_json(to_json(before), "file.json") == before


def test_a_stored_profile_has_the_skew_and_leaves_out_what_is_not_known():
    stored = json.loads(to_json(model(25, 75)))
    assert stored["skew"] == 0.75
    assert stored["total_bytes"] == 100
    assert "compute_s" not in stored
    assert stored["tensors"][1] == {"name": "t1", "bytes": 75}


def stored(**changes) -> str:
    stored = json.loads(to_json(model(25, 75, compute_s=0.1, parallelism=Parallelism.PS)))
    stored |= changes
    return json.dumps({key: value for key, value in stored.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "p.json: not JSON: "),
        ("[" * 100_000, "p.json: not "),
        ("[]", "p.json: must be an object with the keys format, name"),
        (stored(colour="red"), "p.json: unknown key 'colour'; known keys: format, name"),
        (stored(format=2), "p.json: format 2 is not known; this version reads 1"),
        (stored(name=...), "p.json: missing key 'name'"),
        (stored(name=5), "p.json: name: 5 is not a text"),
        (stored(compute_s="fast"), "p.json: compute_s: 'fast' is not a number from 0 up"),
        (stored(compute_s=-1), "p.json: compute_s: -1 is not a number from 0 up"),
        (stored(compute_s=float("nan")), "p.json: compute_s: nan is not a number"),
        (stored(compute_s=10**400), "p.json: compute_s: 1000"),
        (stored(compute_s=0), "p.json: net: compute_s is 0"),
        (stored(batch=1.5), "p.json: batch: 1.5 is not a whole number"),
        (stored(batch=True), "p.json: batch: True is not a whole number"),
        (stored(parallelism="mesh"), "p.json: parallelism: 'mesh' is not known; it is one of ps, allreduce"),
        (stored(tensors={}), "p.json: tensors: must be a list"),
        (stored(tensors=[{"name": "a"}]), r"p.json: tensors\[0\]: missing key 'bytes'"),
        (stored(tensors=[{"name": "a", "bytes": -3}]), r"p.json: tensors\[0\].bytes: -3 is not a whole"),
        (stored(tensors=[{"name": "a", "bytes": 3, "size": 1}]), r"p.json: tensors\[0\]: unknown key 'size'"),
        (stored(total_bytes=99), "p.json: total_bytes is 99, but the sum of its tensors is 100"),
        (stored(cut={"layer": 1}), "p.json: cut: missing key 'tail_share'"),
        (
            stored(cut={"layer": 1, "tensors": 1, "activation_bytes": 1, "tail_share": 0.1}),
            "p.json: cut: layer 1 and 1 tensors are not in the model",
        ),
    ],
)
def test_an_error_in_a_stored_profile_names_file_and_key(text, message):
    with pytest.raises(ProfileError, match=message):
        from_json(text, "p.json")
