"""Simulations from a notebook: policies of its own, results to look at, and policies that raise."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tiresias.sim import experiment, simulate

NOTEBOOK = '''
from tiresias.core.plugins import Policy, policies
from tiresias.sim import experiment

@policies.register
class Smallest(Policy):
    """Smallest gang first."""
    name = "smallest"
    def rank(self, job, memory, at):
        return (job.gpus,)

@policies.register
class Raising(Policy):
    """Raises at the third job."""
    name = "raising"
    def rank(self, job, memory, at):
        if job.id == 2:
            raise KeyError("no such thing")
        return (job.id,)

compared = experiment.compare("builtin:example", "1x2", ["fifo", "smallest", "raising", "srsf"], workers=1)
print([result.policy for result in compared.results])
print(compared.unfinished, compared.failed)
'''


def test_policies_defined_in_a_notebook_are_compared_and_one_that_raises_loses_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    policies, rest = done.stdout.splitlines()
    assert policies == "['fifo', 'smallest', 'srsf']"
    assert rest.startswith("[] {'raising': ")
    assert "no such thing" in rest


@pytest.fixture(scope="module")
def result():
    return simulate("builtin:example", "1x2", "fifo")


def test_a_result_has_a_short_repr(result) -> None:
    assert repr(result).startswith("<Result: fifo on 2 GPUs, packed, ")
    assert re.search(r": 3 jobs, average JCT \d+ s>$", repr(result))
    assert "\n" not in repr(result)


def test_a_notebook_shows_a_table_and_a_plot(result) -> None:
    assert "<td>fifo</td>" in result._repr_html_()
    assert "average JCT" in result._repr_html_()
    assert result.plot().axes[0].get_ylabel() == "share of jobs"
    compared = experiment.Comparison([result, result], failed={"mine": "it raised <KeyError>"})
    assert compared._repr_html_().count("<td>fifo</td>") == 2
    assert "mine: it raised &lt;KeyError&gt;" in compared._repr_html_()
    assert len(compared.plot().axes[0].lines) == 2
