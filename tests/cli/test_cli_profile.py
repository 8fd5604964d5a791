"""`tiresias profile`: a model as a person and as a program see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.profiles import readers, zoo

DATA = Path(__file__).parents[1] / "profiles/data"


def lines(outcome) -> dict[str, str]:
    """What stands behind the first words of a line."""
    split = [line.split("  ", 1) for line in outcome.out.splitlines() if "  " in line]
    return {name.strip(): rest.strip() for name, rest in split}


def test_a_person_sees_sizes_skew_and_the_verdict_with_its_reason(tiresias):
    outcome = tiresias("profile", "VGG16")
    assert outcome.code == 0
    said = lines(outcome)
    assert said["size"] == "528 MiB in 33 tensors, 12 above 1 MiB"
    assert said["largest"] == "fc0.weight, 392 MiB"
    assert said["consolidate"] == "yes"
    assert said["because"] == "fc0.weight is 74.3% of what is sent, above the limit of 37.8%"
    assert said["above 256 MiB"].endswith("1   392 MiB  74.3%")
    assert "8 GPUs on tiresias-testbed: 2 nodes" in said["predicted"]
    assert "worth a wait of" in said


def test_a_model_that_does_not_suffer_is_not_consolidated(tiresias):
    said = lines(tiresias("profile", "resnet50"))
    assert said["consolidate"] == "no"
    assert "worth a wait of" not in said


def test_a_program_gets_the_same_as_json(tiresias):
    printed = tiresias("profile", "vgg16", "--json").json
    assert printed["skew"] == pytest.approx(0.743, abs=0.001)
    assert printed["consolidate"] is True
    assert printed["tensors"] == 33 == sum(each["tensors"] for each in printed["histogram"])
    assert printed["total_bytes"] == sum(each["bytes"] for each in printed["histogram"])
    assert printed["slowdown"] == pytest.approx(printed["spread_s"] / printed["packed_s"])
    assert "layers" not in printed


def test_layers_show_what_placing_them_apart_would_change(tiresias):
    printed = tiresias("profile", "vgg16", "--layers")
    assert "cut ahead of fc0" in printed.out
    assert "472 MiB of parameters become 3.06 MiB of activations" in printed.out
    layers = tiresias("profile", "vgg16", "--layers", "--json").json["layers"]
    assert layers["cut_layer"] == "fc0"
    assert [each["name"] for each in layers["layers"] if each["on"] == "one worker"] == ["fc0", "fc1", "fc2"]
    assert layers["after"]["seconds"] < layers["before"]["seconds"]
    assert layers["after"]["sent_bytes"] < layers["before"]["sent_bytes"] / 5
    assert "no cut makes an iteration shorter" in tiresias("profile", "resnet50", "--layers").out


def test_the_gang_and_the_network_are_arguments(tiresias):
    printed = tiresias("profile", "bert-base", "--gpus", 16, "--network", "pcie-10g", "--json").json
    assert (printed["gpus"], printed["packed_nodes"], printed["network"]) == (16, 2, "pcie-10g")
    fast = tiresias("profile", "bert-base", "--gpus", 16, "--json").json
    assert printed["spread_s"] > 5 * fast["spread_s"]


@pytest.mark.parametrize("name", ["small.safetensors", "small.onnx", "training.pt"])
def test_a_models_file_is_profiled_and_its_time_can_be_given(tiresias, name):
    printed = tiresias("profile", DATA / name)
    assert lines(printed)["iteration"] == "not known; give it with --compute SECONDS"
    timed = tiresias("profile", DATA / name, "--compute", 0.25, "--parallelism", "ps", "--json").json
    assert timed["compute_s"] == 0.25
    assert timed["parallelism"] == "ps"
    assert timed["packed_s"] >= 0.25


def test_a_saved_profile_is_read_back(tiresias, tmp_path):
    printed = tiresias("profile", "vgg16", "--compute", 0.5, "--batch", 64, "--save", "mine.json")
    assert printed.code == 0
    assert "saved the profile of vgg16 to mine.json" in printed.err
    stored = readers.read_stored(tmp_path / "mine.json")
    assert (stored.compute_s, stored.batch) == (0.5, 64)
    assert stored.tensors == zoo.find("vgg16").tensors
    assert tiresias("profile", "mine.json", "--json").json["compute_s"] == 0.5


def test_all_names_are_listed(tiresias):
    said = tiresias("profile", "--list").out
    printed = tiresias("profile", "--list", "--json").json
    assert [each["name"] for each in printed["models"]] == zoo.names()
    for name in (*zoo.names(), *printed["networks"]):
        assert f"\n{name} " in f"\n{said}"


WRONG = {
    "no such model": (["resnet49"], ["no model 'resnet49'", "did you mean 'resnet"]),
    "no such file": (["weights.pt"], ["weights.pt: no such file"]),
    "a truncated file": (["cut.safetensors"], ["cut.safetensors: tensor 'a': truncated: data_offsets"]),
    "a stored profile with an unknown key": (["odd.json"], ["odd.json: unknown key 'colour'", "known keys"]),
    "no such network": (["vgg16", "--network", "token-ring"], ["no network 'token-ring'", "philly"]),
    "no such parallelism": (["vgg16", "--parallelism", "mesh"], ["--parallelism 'mesh'", "allreduce"]),
    "a batch without its time": (["vgg16", "--batch", "64"], ["--batch 64", "--compute"]),
    "layers that are not known": (["small.onnx", "--layers"], ["small: its layers", "--list"]),
    "a place that is not there": (["vgg16", "--save", "no/x.json"], ["--save no/x.json", "no directory no"]),
    "a name that leads nowhere": (["my_models:build"], ["my_models:build: ModuleNotFoundError"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_message_and_exit_2(what, tiresias, tmp_path):
    (tmp_path / "cut.safetensors").write_bytes((DATA / "small.safetensors").read_bytes()[:-5])
    (tmp_path / "small.onnx").write_bytes((DATA / "small.onnx").read_bytes())
    stored = {"format": 1, "name": "m", "parallelism": "ps", "tensors": [], "colour": "red"}
    (tmp_path / "odd.json").write_text(json.dumps(stored))
    args, fragments = WRONG[what]
    outcome = tiresias("profile", *args)
    assert (outcome.code, outcome.out) == (2, "")
    (message,) = outcome.err.splitlines()
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        ([], "MODEL"),
        (["vgg16", "--gpus", "1"], "1: give a whole number from 2 up"),
        (["vgg16", "--compute", "0"], "give a number of seconds above 0"),
        (["vgg16", "--compute", "nan"], "give a number of seconds above 0"),
        (["vgg16", "--batch", "0"], "0: give a whole number"),
    ],
)
def test_wrong_usage_points_to_the_help_of_profile(args, fragment, tiresias):
    outcome = tiresias("profile", *args)
    assert outcome.code == 2
    assert fragment in outcome.err
    assert "Traceback" not in outcome.err
