"""Policies are known by their names at once, and loaded when they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from tiresias import policies
from tiresias.core.plugins import policies as registry

NAMES = [(module, name) for module, names in policies.MODULES.items() for name in names]


def in_a_new_process(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_every_class_of_a_module_is_known_by_its_name() -> None:
    for module in policies.MODULES:
        import_module(f"tiresias.policies.{module}")
    found = {(registry.get(name).__module__.rpartition(".")[2], name) for name in registry.names()}
    assert {each for each in found if each[0] in policies.MODULES} == set(NAMES)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_loads_its_module(module: str, name: str) -> None:
    code = (
        f"import tiresias.policies; from tiresias.core.plugins import policies; print(policies.get({name!r}))"
    )
    assert f"'tiresias.policies.{module}." in " ".join(in_a_new_process(code))


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
