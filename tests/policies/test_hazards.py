"""Hazards and the index that follows from them."""

from __future__ import annotations

from itertools import pairwise
from math import exp, isclose, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.policies.hazards import (
    ALPHA,
    EDGES,
    FINEST,
    FIRST_S,
    PRIOR,
    STEPS,
    TAIL_S,
    WIDTHS,
    Counts,
    end_step_of,
    fineness,
    grid,
    grid_of,
    shrunk,
    step_of,
    survival,
    work_in_steps,
)
from tiresias.policies.switching import log_index

works = st.floats(0, 1e8, allow_nan=False)
rates = st.lists(st.floats(1e-9, 1.0), min_size=STEPS, max_size=STEPS).map(tuple)


def test_the_prior_is_a_formula_and_not_fitted_to_any_trace() -> None:
    assert [round(ALPHA / rate, 6) for rate in PRIOR[1:3]] == [round(edge * 2**0.5, 6) for edge in EDGES[1:3]]
    assert PRIOR[0] == ALPHA / FIRST_S
    assert PRIOR[-1] == ALPHA / TAIL_S


def test_under_the_prior_the_job_with_the_least_work_done_has_the_highest_index() -> None:
    assert all(a >= b for a, b in pairwise(log_index(PRIOR, 0.0)))


@given(works, works)
def test_no_second_of_work_is_lost_or_counted_twice(a: float, b: float) -> None:
    counts = Counts()
    counts.add_work(work_in_steps(min(a, b), max(a, b)))
    assert isclose(sum(counts.seconds), abs(a - b), abs_tol=1e-2)
    assert min(counts.seconds) >= 0


@given(works, works, works)
def test_work_in_two_parts_counts_like_work_in_one(a: float, b: float, c: float) -> None:
    a, b, c = sorted((a, b, c))
    whole, parts = Counts(), Counts()
    whole.add_work(work_in_steps(a, c))
    parts.add_work(work_in_steps(a, b))
    parts.add_work(work_in_steps(b, c))
    assert all(
        isclose(x, y, rel_tol=1e-9, abs_tol=5e-3) for x, y in zip(whole.seconds, parts.seconds, strict=True)
    )


def test_an_end_at_the_edge_of_a_step_belongs_to_the_step_before() -> None:
    counts = Counts()
    counts.add_end(end_step_of(120.0))
    assert counts.ends[step_of(119.0)] == 1


@given(rates, st.floats(0.01, 10))
def test_where_nothing_was_counted_the_parents_hazards_hold(parent: tuple[float, ...], lean: float) -> None:
    assert shrunk(Counts(), None, parent, lean) == pytest.approx(parent)


def test_with_many_ends_the_parent_no_longer_matters() -> None:
    counts = Counts()
    for _ in range(1000):
        counts.add_work(work_in_steps(0, 50.0))
        counts.add_end(end_step_of(50.0))
    assert shrunk(counts, None, PRIOR, 1.0)[0] == pytest.approx(1 / 50, rel=0.01)


def test_unfinished_work_lowers_a_hazard() -> None:
    ended, unfinished = Counts(), Counts()
    ended.add_work(work_in_steps(0, 60.0))
    ended.add_end(end_step_of(60.0))
    unfinished.add_work(work_in_steps(0, 6000.0))
    alone, both = (shrunk(ended, more, PRIOR, 0.3) for more in (None, unfinished))
    assert all(x >= y for x, y in zip(alone, both, strict=True))
    assert both[3] < alone[3]


def test_hope_fades_where_much_was_seen() -> None:
    few, many = Counts(), Counts()
    for counts, number in ((few, 1), (many, 10_000)):
        for _ in range(number):
            counts.add_work(work_in_steps(0, 50.0))
            counts.add_end(end_step_of(50.0))
    assert shrunk(few, None, PRIOR, 0.3, 0.5)[0] > 1.3 * shrunk(few, None, PRIOR, 0.3)[0]
    assert shrunk(many, None, PRIOR, 0.3, 0.5)[0] < 1.01 * shrunk(many, None, PRIOR, 0.3)[0]


def test_counts_are_kept_as_the_steps_that_have_any() -> None:
    counts = Counts()
    counts.add_work(work_in_steps(0, 100.0))
    counts.add_end(end_step_of(100.0))
    assert counts.sparse() == [[0, 0.0, 60.0], [1, 1.0, 40.0]]
    assert Counts.of(counts.sparse()).seconds == counts.seconds


@given(st.floats(1e-7, 0.5))
def test_without_cost_the_index_of_a_constant_hazard_is_that_hazard(rate: float) -> None:
    assert log_index((rate,) * STEPS, 0.0) == pytest.approx([log(rate)] * STEPS)


@given(rates, st.floats(0, 1e4), st.floats(0, 1e4))
def test_a_dearer_switch_never_raises_the_index(some: tuple[float, ...], a: float, b: float) -> None:
    cheap, dear = log_index(some, min(a, b)), log_index(some, max(a, b))
    assert all(x >= y - 1e-9 for x, y in zip(cheap, dear, strict=True))


@given(rates, st.floats(0, 1e4), st.integers(0, STEPS - 1))
def test_no_quantum_offers_more_than_the_index(some: tuple[float, ...], cost_s: float, first: int) -> None:
    """Worked out once more: the expected time is the integral of survival, which is exponential in a step."""
    index = exp(log_index(some, cost_s)[first])
    ratios, expected_s = [], 0.0
    for step in range(first, STEPS):
        reaches = survival(some, EDGES[first], EDGES[step])
        goes_on = exp(-some[step] * WIDTHS[step])
        expected_s += reaches * (1 - goes_on) / some[step]
        ratios.append((1 - reaches * goes_on) / (cost_s + expected_s))
    assert index == pytest.approx(max(ratios), rel=1e-6)


@given(rates, st.floats(0, 1e4), st.floats(0.01, 0.99))
def test_a_quantum_that_ends_inside_of_a_step_offers_no_more(
    some: tuple[float, ...], cost_s: float, part: float
) -> None:
    index = exp(log_index(some, cost_s)[0])
    until = part * EDGES[1]
    chance = 1 - survival(some, 0, until)
    assert chance / (cost_s + chance / some[0]) <= index * (1 + 1e-9)


@given(st.integers(0, FINEST))
def test_halving_the_first_step_cuts_it_and_leaves_the_others(finer: int) -> None:
    steps = grid(finer)
    assert steps.edges[finer + 1 :] == EDGES[1:]
    assert steps.edges[1] == FIRST_S / 2**finer
    assert steps.prior[finer + 1 :] == PRIOR[1:]
    assert grid_of(steps.prior) is steps


counted = st.lists(st.tuples(works, works, st.booleans()), max_size=20)


@given(counted, st.integers(0, FINEST), st.integers(0, FINEST))
def test_nothing_that_was_counted_is_lost_when_the_first_step_changes(
    jobs: list[tuple[float, float, bool]], before: int, after: int
) -> None:
    counts, expected = Counts(before), Counts(after)
    for a, b, has_ended in jobs:
        for each, finer in ((counts, before), (expected, after)):
            edges = grid(finer).edges
            each.add_work(work_in_steps(min(a, b), max(a, b), edges))
            if has_ended:
                each.add_end(end_step_of(max(a, b), edges))
    counts.regrid(after)
    assert sum(counts.ends) == pytest.approx(sum(expected.ends))
    assert sum(counts.seconds) == pytest.approx(sum(expected.seconds))
    cut = max(after - before, 0) + 1  # the steps that one became
    assert counts.ends[cut:] == pytest.approx(expected.ends[cut:])
    assert counts.seconds[cut:] == pytest.approx(expected.seconds[cut:], abs=5e-3)


def test_steps_that_are_cut_have_the_hazards_of_the_prior() -> None:
    """What is not known about the inside of a step is as under the prior, as far as its size goes."""
    counts = Counts()
    counts.ends[0], counts.seconds[0] = 12.0, 600.0
    counts.regrid(3)
    rates = [ends / seconds for ends, seconds in zip(counts.ends[:4], counts.seconds[:4], strict=True)]
    assert [rate / rates[3] for rate in rates] == pytest.approx(
        [each / grid(3).prior[3] for each in grid(3).prior[:4]]
    )


@pytest.mark.parametrize(
    ("finer", "least_s", "wanted"),
    [
        (0, 300.0, 0),  # never longer than 60 s
        (0, 60.0, 0),
        (0, 15.0, 0),  # four times as long as it should be: kept
        (0, 14.0, 2),
        (0, 0.3, 7),
        (7, 0.6, 7),  # a bit shorter than it should be: kept
        (7, 1.0, 5),
        (0, 0.0, FINEST),
        (FINEST, 60.0, 0),
    ],
)
def test_the_first_step_follows_what_it_should_be_and_not_every_small_change(
    finer: int, least_s: float, wanted: int
) -> None:
    assert fineness(finer, least_s) == wanted
