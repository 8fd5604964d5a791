"""`module:function`: a model built on the meta device, in a process of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tiresias.profiles import readers
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.readers import function

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (make test-torch installs it)"
)

MODELS = """
import os
import time

import torch
from torch import nn


def small():
    print("built")
    return nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20))


def larger_than_any_memory():
    return nn.Linear(1_000_000, 1_000_000)


def weights():
    return small().state_dict()


def broken():
    raise RuntimeError("no layers\\nfor this width")


def leaves():
    os._exit(7)


def sleeps():
    time.sleep(600)


def number():
    return 3


class Zoo:
    @staticmethod
    def tiny():
        frozen = nn.Linear(2, 2)
        frozen.weight.requires_grad_(False)
        return frozen
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_torch
def test_a_model_is_built_and_its_buffers_are_not_sent(here):
    profile = readers.load("my_models:small")
    assert {each.name: each.sent_bytes for each in profile.tensors} == {
        "0.weight": 800,
        "0.bias": 80,
        "1.weight": 80,
        "1.bias": 80,
        "1.running_mean": 0,
        "1.running_var": 0,
        "1.num_batches_tracked": 0,
    }
    assert profile.total_bytes == 1208


@needs_torch
def test_nothing_is_allocated(here):
    assert readers.load("my_models:larger_than_any_memory").total_bytes > 4e12


@needs_torch
def test_a_state_dict_and_a_name_inside_a_class_are_fine_too(here):
    assert readers.load("my_models:weights").sent_bytes == 1040
    assert readers.load("my_models:Zoo.tiny").sent_bytes == 8  # the weight is frozen


WRONG = {
    "my_models:broken": r"RuntimeError: no layers for this width \(.*my_models\.py:\d+\)",
    "my_models:number": "TypeError: it returned int; return a torch.nn.Module or a state_dict",
    "my_models:missing": "AttributeError: module 'my_models' has no attribute 'missing'",
    "no_such_module:f": "ModuleNotFoundError: No module named 'no_such_module'",
    "my_models:leaves": "its process ended with exit code 7 and no model",
}


@needs_torch
@pytest.mark.parametrize("source", WRONG)
def test_an_exception_of_the_function_is_reported(source, here):
    with pytest.raises(ProfileError, match=f"{source}: {WRONG[source]}"):
        readers.load(source)


@needs_torch
def test_a_function_that_does_not_return_is_ended(here):
    with pytest.raises(ProfileError, match=r"my_models:sleeps: it did not return within 0\.5 s"):
        function.read("my_models:sleeps", limit_s=0.5)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_that_is_said(here):
    with pytest.raises(ProfileError, match="my_models:small: ModuleNotFoundError: PyTorch is not installed"):
        readers.load("my_models:small")


@pytest.mark.parametrize("source", ["a:b", "package.module:Class.method", "_a:_b"])
def test_what_looks_like_a_function(source):
    assert function.is_function(source)


@pytest.mark.parametrize("source", ["a", "a:b:c", "a/b:c", "a:", ":b", "a.pt", "a:b c", "1a:b"])
def test_what_does_not(source):
    assert not function.is_function(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("weights.pt", "weights.pt: no such file"),
        ("some/where", "some/where: no such file"),
        ("vgg61", "no model 'vgg61'; did you mean 'vgg1"),
        ("my_models.py", "my_models.py: its name does not say what it is; known endings: .safe"),
    ],
)
def test_a_missing_module_or_function_is_reported(source, message, here):
    with pytest.raises(ProfileError, match=message):
        readers.load(source)


def test_a_name_of_the_zoo_goes_before_a_file_of_that_name(here):
    (here / "vgg16").mkdir()
    assert readers.load("vgg16").name == "vgg16"
    with pytest.raises(ProfileError, match=r"no \.safetensors file in this folder"):
        readers.load("./vgg16/")
