"""Policies are known by their names at once, and loaded when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tiresias import policies
from tiresias.core.plugins import policies as registry


def in_a_new_process(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_every_class_of_a_module_is_known_by_its_name() -> None:
    own = {
        name for name in registry.names() if registry.get(name).__module__.startswith("tiresias.policies.")
    }
    assert own == policies.CLASSES.keys()
    for name in own:
        cls = registry.get(name)
        assert (cls.__module__.rpartition(".")[2], cls.__name__) == policies.CLASSES[name]


@pytest.mark.parametrize("name", policies.CLASSES)
def test_a_name_loads_its_module(name: str) -> None:
    code = "import tiresias.policies; from tiresias.core.plugins import policies; "
    code += f"print(policies.get({name!r}))"
    assert f"'tiresias.policies.{policies.CLASSES[name][0]}." in " ".join(in_a_new_process(code))


def test_a_start_loads_only_what_it_needs() -> None:
    code = "import sys, tiresias.api.serve; print(*sys.modules)"
    loaded = in_a_new_process(code)
    assert "tiresias.policies" in loaded
    needless = ("tiresias.policies.", "tiresias.live.start_ray", "tiresias.executors.gang", "http.client")
    assert [each for each in loaded if each.startswith(needless)] == []


def test_a_second_class_of_a_name_is_refused_though_the_first_was_not_loaded() -> None:
    code = """
import tiresias.policies
from tiresias.core.plugins import OptionError, Policy, policies
try:
    @policies.register
    class Mine(Policy):
        name = "gandiva"
except OptionError as error:
    print(str(error).split(":")[0])
print(policies.get("gandiva").__module__)
"""
    said = "two policy classes are named 'gandiva' tiresias.policies.gandiva"
    assert " ".join(in_a_new_process(code)) == said
