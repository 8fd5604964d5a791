"""The reference says what is there, and nothing that is not."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest
from docs_pages import ROOT, sections, tables

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core import plugins
from tiresias.core.state import JobState
from tiresias.policies.orders import ORDERS
from tiresias.sim import Result, experiment, simulate, traces
from tiresias.sim.failures import Tally
from tiresias.sim.report import JOB_COLUMNS, SWEEP_KEYS, TIMELINE_COLUMNS

REFERENCE = ROOT / "docs/reference"
POLICIES = REFERENCE / "policies.md"
RESULTS = REFERENCE / "results.md"
API = REFERENCE / "python-api.md"


OURS = ("tiresias.policies.", "tiresias.placers.")


def ours(registry: plugins.Registry[Any]) -> dict[str, Any]:
    """What the package registers, without what other tests did."""
    found = {name: registry.get(name) for name in registry.names()}
    return {name: cls for name, cls in found.items() if cls.__module__.startswith(OURS)}


PLUGINS = {**ours(plugins.policies), **ours(plugins.placers)}


def first_cells(text: str) -> list[str]:
    """The names in the first column of a section's tables, without what follows them in parentheses."""
    return [name for cells in tables(text) for name in re.findall(r"`([\w.]+)(?:\(.*?\))?`", cells[0])]


def written(default: Any) -> str:
    """A default as the reference writes it."""
    if default is None:
        return "–"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def test_the_reference_has_a_section_for_every_plugin_and_no_other():
    text = POLICIES.read_text(encoding="utf-8")
    _, policies, placers = re.split("^## Policies$|^## Placers$", text, flags=re.MULTILINE)
    for chapter, registry in ((policies, plugins.policies), (placers, plugins.placers)):
        assert set(re.findall(r"^### (\S+)$", chapter, flags=re.MULTILINE)) == set(ours(registry))


@pytest.mark.parametrize("name", PLUGINS)
def test_every_option_of_a_plugin_is_documented_with_its_default(name):
    section = sections(POLICIES, 3)[name]
    known = {each.name: written(each.default) for each in fields(PLUGINS[name].Options)}
    options = {cells[0].strip("`"): cells[1] for cells in tables(section) if len(cells) == 3}
    assert options == known
    assert ("No options." in section) == (not known)


@pytest.mark.parametrize("name", ours(plugins.policies))
def test_the_table_of_policies_tells_who_preempts(name):
    rows = {cells[0]: cells for cells in tables(POLICIES.read_text(encoding="utf-8")) if len(cells) == 4}
    assert rows[f"[`{name}`](#{name})"][2] == ("yes" if PLUGINS[name].preempts else "no")


def test_every_order_is_explained():
    section = sections(POLICIES, 3)["tiresias-l"]
    assert {cells[0].strip("`") for cells in tables(section) if len(cells) == 2} == set(ORDERS)


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Figures", tuple(simulate("builtin:example", "1x2", "fifo").summary())),
        ("Figures about failures", tuple(Tally().figures())),
        ("jobs.csv", JOB_COLUMNS),
        ("timeline.csv", TIMELINE_COLUMNS),
        ("sweep.csv", SWEEP_KEYS),
    ],
)
def test_every_figure_and_column_is_defined_in_its_order(heading, names):
    assert first_cells(sections(RESULTS, 2)[heading]) == list(names)


def test_the_parameters_of_simulate_are_documented_with_their_defaults():
    rows = {cells[0].strip("`"): cells[1] for cells in tables(sections(API, 2)["simulate"])}
    for name, parameter in inspect.signature(simulate).parameters.items():
        default = parameter.default
        shown = {inspect.Parameter.empty: "", None: "none"}.get(default)
        if shown is None:
            shown = f'`"{default}"`' if isinstance(default, str) else f"`{default}`"
        assert rows.pop(name) == shown, name
    assert rows == {}


def test_every_attribute_of_a_result_is_documented():
    public = {"summary", "rho", "plot"} | {each.name for each in fields(Result)}
    assert set(first_cells(sections(API, 2)["Result"])) == public


@pytest.mark.parametrize("module", [traces, experiment])
def test_functions_are_documented_with_parameters_that_they_have(module):
    prefix = module.__name__.rpartition(".")[2]
    text = API.read_text(encoding="utf-8")
    calls = re.findall(rf"^\| `{prefix}\.(\w+)\((.*)\)` \|", text, flags=re.MULTILINE)
    assert calls
    for name, parameters in calls:
        known = inspect.signature(getattr(module, name)).parameters
        for each in re.split(r", (?![^()]*\))", parameters):
            word, _, default = each.partition("=")
            if word not in ("*", "…"):
                assert word in known, (name, word)
                if default:
                    assert repr(known[word].default).replace("'", '"') == default, (name, each)


def test_every_method_and_attribute_of_a_policy_is_documented():
    public = {name for name in vars(plugins.Policy) if not name.startswith("_")} | {"name"}
    assert set(first_cells(sections(API, 2)["Policy"])) == public


def test_everything_that_a_policy_sees_of_a_job_is_documented():
    section = sections(API, 2)["Jobs as a policy sees them"]
    methods = {name for name in vars(JobState) if name.endswith("_at") and callable(getattr(JobState, name))}
    assert set(first_cells(section)) == set(JobState.__slots__) | {"gpu_run"} | methods


def test_every_fact_that_a_policy_can_learn_from_is_listed_with_its_fields():
    import dataclasses
    import typing

    from tiresias.core import facts

    text = sections(ROOT / "docs/reference/python-api.md", 2)["Facts for learn"]
    listed = {row[0].strip("`"): row[1] for row in tables(text)}
    known = {
        kind.__name__: ", ".join(f"`{each.name}`" for each in dataclasses.fields(kind))
        for kind in typing.get_args(facts.Fact)
    }
    assert listed == known
