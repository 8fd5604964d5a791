"""The Gittins index: the printed formula, its quantum form, and tables of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.policies.gittins import IndexTable, quantum_index, queue_table, sup_index, sup_table

SAMPLE = np.array([4.0, 8.0, 12.0])
ONES = np.ones(3)
PRINTED = [0.125, 0.143, 0.167, 0.333, 0.167, 0.200, 0.250, 0.500, 0.250, 0.333, 0.500, 1.0]

SERVICES = st.lists(st.integers(1, 60), min_size=1, max_size=8)


@pytest.mark.parametrize(("attained", "index"), list(enumerate(PRINTED)))
def test_the_printed_formula(attained: int, index: float) -> None:
    assert sup_index(SAMPLE, ONES, float(attained)) == pytest.approx(index, abs=0.0005)


def by_definition(services: list[int], attained: float, quantum: float) -> float:
    """P(S - a <= D | S > a) / E[min(S - a, D) | S > a], over a sample."""
    left = [service - attained for service in services if service > attained]
    chance = sum(each <= quantum for each in left) / len(left)
    return chance / (sum(min(each, quantum) for each in left) / len(left))


@given(services=SERVICES, attained=st.integers(0, 59), quantum=st.integers(1, 60))
def test_a_given_quantum_by_its_definition(services: list[int], attained: int, quantum: int) -> None:
    values, weights = np.unique(np.array(services, dtype=float), return_counts=True)
    found = quantum_index(values, weights.astype(float), attained, quantum)
    if max(services) <= attained:
        assert found == 0, "past all that was seen nothing is known"
    else:
        assert found == pytest.approx(by_definition(services, attained, quantum))


@given(services=SERVICES, attained=st.integers(0, 59))
def test_the_best_quantum_is_the_best_of_all(services: list[int], attained: int) -> None:
    values, weights = np.unique(np.array(services, dtype=float), return_counts=True)
    found = sup_index(values, weights.astype(float), attained)
    if max(services) <= attained:
        assert found == 0
    else:
        best = max(by_definition(services, attained, quantum) for quantum in range(1, 61))
        assert found == pytest.approx(best)


def test_a_table_holds_from_step_to_step() -> None:
    table = IndexTable([0, 10, 30], [3, 1, 2])
    assert table.at(0) == (3, 10)
    assert table.at(9.99) == (3, 10)
    assert table.at(10) == (1, 30)
    assert table.at(1e9) == (2, float("inf"))


def test_the_table_of_a_sample_is_the_index_at_its_steps() -> None:
    table = sup_table(SAMPLE * 1000, ONES)
    for step, index in zip(table.steps, table.indices, strict=True):
        assert index == pytest.approx(sup_index(SAMPLE * 1000, ONES, step))
    ratios = [b / a for a, b in zip(table.steps[1:], table.steps[2:], strict=False)]
    assert ratios == pytest.approx([1.25] * len(ratios))


def test_in_a_table_by_queues_the_quantum_is_the_upper_limit_of_the_queue() -> None:
    ladder = (5000.0, 10000.0)
    table = queue_table(SAMPLE * 1000, ONES, ladder)
    for step, index in zip(table.steps, table.indices, strict=True):
        queue = sum(step >= threshold for threshold in ladder)
        expected = quantum_index(SAMPLE * 1000, ONES, step, ladder[queue]) if queue < 2 else 0
        assert index == pytest.approx(expected), step
    assert set(ladder) <= set(table.steps), "the quantum changes there"


def test_near_indices_count_as_equal() -> None:
    table = IndexTable([0, 1, 2, 3, 4], [9, 8, 1, 1.4, 0]).coarse(3)
    assert table.indices == pytest.approx((9, 1, 0))
    assert table.steps == (0, 2, 4)
