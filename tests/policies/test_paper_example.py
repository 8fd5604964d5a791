"""The worked example of the paper (Figs. 7 and 20): three jobs at once on a machine with 2 GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.sim.simulate import simulate

FIGURE_20 = [0.25, 0.28, 0.375, 0.75, 0.20, 0.235, 0.333, 0.667, 0.125, 0.167, 0.25, 0.50]
TABLE = ",".join(f"{service}:{index}" for service, index in enumerate(FIGURE_20))
FIRST_START = {"queues": "100", "order": "first-start"}


def jcts(policy: str, **options: Any) -> list[float]:
    result = simulate("builtin:example", "1x2", policy, options=options, placer="count", preemption_cost_s=0)
    assert result.jobs["id"].to_list() == ["J1", "J2", "J3"]
    return list(result.jobs["jct_s"])


def average(policy: str, **options: Any) -> float:
    return sum(jcts(policy, **options)) / 3


def test_srsf() -> None:
    assert jcts("srsf") == [2, 10, 16]
    assert average("srsf") == pytest.approx(9.33, abs=0.005)


def test_2d_las() -> None:
    assert jcts("las", quantum_s=1) == [5, 14, 16]
    assert average("las", quantum_s=1) == pytest.approx(11.67, abs=0.005)


def test_2d_gittins_with_the_indices_of_the_figure() -> None:
    options = {**FIRST_START, "index": "table", "table": TABLE}
    assert jcts("tiresias-g", **options) == [2, 12, 16]
    assert average("tiresias-g", **options) == 10


@pytest.mark.parametrize("same_within", ["1", "3"])
def test_2d_gittins_with_the_printed_formula(same_within: str) -> None:
    """Which never preempts here: the schedule of SRSF."""
    options = {**FIRST_START, "index": "sup", "distribution": "4,8,12", "same_within": same_within}
    assert jcts("tiresias-g", **options) == [2, 10, 16]


def test_first_come_first_served() -> None:
    assert jcts("fifo") == [2, 10, 16]
