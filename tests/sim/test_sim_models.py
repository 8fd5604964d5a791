"""Models of jobs whose trace does not tell them."""

from __future__ import annotations

import pytest

from tiresias.profiles import zoo
from tiresias.sim.errors import InputError
from tiresias.sim.models import Mix, mix_of, with_models
from tiresias.testing import a_trace

ROWS = [(float(n), 2, 10.0) for n in range(200)]


def test_a_trace_with_models_for_all_jobs_keeps_them():
    trace, models_from = with_models(a_trace(ROWS[:2], model=["VGG-16", "ResNet50"]), Mix())
    assert trace.jobs["model"].to_list() == ["vgg16", "resnet50"]
    assert models_from == "trace"


def test_others_are_drawn_by_a_seed():
    trace, models_from = with_models(a_trace(ROWS), Mix(7))
    again, _ = with_models(a_trace(ROWS), Mix(7))
    other, _ = with_models(a_trace(ROWS), Mix(8))
    assert trace.jobs.equals(again.jobs)
    assert not trace.jobs.equals(other.jobs)
    assert set(trace.jobs["model"]) == set(zoo.CNNS)
    assert models_from == "drawn (the paper's ten, seed 7)"


def test_a_draw_does_not_depend_on_what_others_tell():
    models = ["vgg16" if n % 3 else "something else" for n in range(200)]
    some, models_from = with_models(a_trace(ROWS, model=models), Mix(7))
    every, _ = with_models(a_trace(ROWS), Mix(7))
    assert models_from == "drawn for 67 of 200 jobs (the paper's ten, seed 7)"
    for n in range(200):
        assert some.jobs["model"][n] == ("vgg16" if n % 3 else every.jobs["model"][n])


def test_a_mix_from_a_file(tmp_path):
    path = tmp_path / "mix.yaml"
    path.write_text("seed: 3\nmodels: {ResNet-50: 3, bert-base: 1, vgg16: 0}\n")
    mix = mix_of(str(path))
    assert (mix.seed, mix.weights) == (3, {"resnet50": 3.0, "bert-base": 1.0, "vgg16": 0.0})
    trace, _ = with_models(a_trace(ROWS), mix)
    assert set(trace.jobs["model"]) == {"resnet50", "bert-base"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models: {}\n", "needs the key models"),
        ("- 1\n", "needs the key models"),
        ("models: {vgg17: 1}\n", "no model 'vgg17'; did you mean"),
        ("models: {vgg16: -1}\n", "models.vgg16: -1 is not a weight"),
        ("models: {vgg16: yes}\n", "models.vgg16: True is not a weight"),
        ("models: {vgg16: 0}\n", "all weights are 0"),
        ("models: {vgg16: 1}\nsize: 3\n", "unknown key 'size'; known keys: seed, models"),
        ("models: {vgg16: 1}\nseed: x\n", "seed: 'x' is not a whole number"),
        ("models: [\n", "cannot be read"),
    ],
)
def test_a_mix_that_is_wrong_names_file_and_key(tmp_path, text, expected):
    path = tmp_path / "mix.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        mix_of(str(path))
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_a_mix_that_is_not_there():
    with pytest.raises(InputError, match="no such file; give a seed or a YAML file"):
        mix_of("nowhere.yaml")
