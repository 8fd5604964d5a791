"""The auction of Themis: honesty pays, nobody keeps less than 1/e, and nothing is sold twice."""

from __future__ import annotations

from math import e, log, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.policies import auction as a
from tiresias.policies.auction import auction, best, greedy, partial_allocation, proportionally_fair
from tiresias.policies.min_max import fractions, least_worst_rho

WORTH = st.floats(0.05, 1.0)
CLOSE = 1e-3


@st.composite
def valuations(draw: st.DrawFn) -> np.ndarray:
    bidders, parts = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    return np.array([[draw(WORTH) for _ in range(parts)] for _ in range(bidders)])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[dict[int, float]], int]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        counts = draw(st.sets(st.integers(1, 6), max_size=3))
        value, table = draw(WORTH), {}
        for count in [0, *sorted(counts)]:
            table[count] = value
            value += draw(WORTH)
        found.append(table)
    return found, draw(st.integers(0, 8))


def gain_by_lying(values: np.ndarray, lie: np.ndarray, kept) -> float:
    """How much more the first bidder has, by its true values, if it reports a lie."""
    told = values.copy()
    told[0] = lie
    honest, dishonest = (values[0] * kept(each)[0] for each in (values, told))
    return float(dishonest.sum() / honest.sum())


@settings(max_examples=25, deadline=None)
@given(valuations(), st.data())
def test_nobody_gains_by_misreporting_the_relative_values_of_parts(
    values: np.ndarray, data: st.DataObject
) -> None:
    lie = np.array([data.draw(WORTH) for _ in values[0]])
    assert gain_by_lying(values, lie, partial_allocation) <= 1 + CLOSE


def test_without_the_payment_lying_pays() -> None:
    """The property above fails if the payment is removed: one case is enough."""
    values = np.array([[0.6, 0.4], [0.1, 0.9]])
    lie = np.array([0.2, 0.8])
    assert gain_by_lying(values, lie, proportionally_fair) > 1 + 10 * CLOSE
    assert gain_by_lying(values, lie, partial_allocation) <= 1 + CLOSE


@settings(max_examples=25, deadline=None)
@given(valuations())
def test_every_winner_keeps_at_least_1_over_e_of_its_fair_value(values: np.ndarray) -> None:
    fair = (values * proportionally_fair(values)).sum(axis=1)
    kept = (values * partial_allocation(values)).sum(axis=1)
    assert np.all(kept >= fair / e * (1 - CLOSE))
    assert np.all(kept <= fair * (1 + CLOSE))


@settings(max_examples=25, deadline=None)
@given(valuations())
def test_no_part_is_sold_twice(values: np.ndarray) -> None:
    assert np.all(proportionally_fair(values).sum(axis=0) <= 1 + CLOSE)
    assert np.all(partial_allocation(values).sum(axis=0) <= 1 + CLOSE)


def test_equal_bidders_get_equal_parts_and_pay() -> None:
    values = np.ones((3, 1))
    assert proportionally_fair(values)[:, 0] == pytest.approx([1 / 3] * 3)
    assert partial_allocation(values)[:, 0] == pytest.approx([(2 / 3) ** 2 / 3] * 3)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_exact_auction_finds_the_largest_product_and_sells_nothing_twice(offer) -> None:
    bids, gpus = offer
    won = best(bids, gpus)
    assert sum(won) <= gpus
    assert all(count in table for count, table in zip(won, bids, strict=True))

    def every(left: list[dict[int, float]], room: int):
        if not left:
            yield 1.0
            return
        for count, value in left[0].items():
            if count <= room:
                for rest in every(left[1:], room - count):
                    yield value * rest

    found = prod(table[count] for table, count in zip(bids, won, strict=True))
    assert found == pytest.approx(max(every(bids, gpus)))


@settings(max_examples=100, deadline=None)
@given(tables())
def test_a_sale_of_whole_gpus_keeps_a_fraction_of_what_was_won(offer) -> None:
    bids, gpus = offer
    sale = auction(bids, gpus)
    assert sum(sale.won) <= gpus
    assert all(0 < fraction <= 1 for fraction in sale.kept)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_a_small_sale_is_the_exact_one_and_who_takes_from_nobody_pays_nothing(offer) -> None:
    bids, gpus = offer
    sale = auction(bids, gpus)
    assert sale.won == best(bids, gpus)
    if gpus >= sum(max(table) for table in bids):
        assert sale.kept == [1.0] * len(bids)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORTH, min_size=2, max_size=4), st.integers(1, 12))
def test_with_whole_gpus_a_winner_keeps_at_most_one_gpu_less_than_with_divisible_ones(
    worth: list[float], gpus: int
) -> None:
    """Each GPU is worth the same to a bidder. What it keeps is GPUs x the part of the time that is left to
    it; of divisible GPUs it keeps at least 1/e of its proportionally fair part."""
    nothing = 1e-9  # values must be positive
    bids = [{count: value * max(count, nothing) for count in range(gpus + 1)} for value in worth]
    sale = auction(bids, gpus)
    whole = np.array([won * part for won, part in zip(sale.won, sale.kept, strict=True)])
    divisible = partial_allocation(np.array(worth)[:, None])[:, 0] * gpus
    assert np.all(whole >= divisible - 1)
    assert np.all(whole >= gpus / len(worth) / e - 1)


def test_a_bidder_that_takes_from_nobody_keeps_all() -> None:
    assert auction([{0: 1.0, 2: 4.0}, {0: 1.0, 2: 4.0}], 4).kept == [1.0, 1.0]


def test_a_bidder_that_takes_from_another_pays_for_it() -> None:
    sale = auction([{0: 1.0, 2: 4.0}, {0: 1.0, 2: 2.0}], 2)
    assert sale.won == [2, 0]
    assert sale.kept == [0.5, 1.0], "the other would have had twice its value"


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_greedy_auction_gains_at_least_half_of_the_best_and_sells_nothing_twice(offer) -> None:
    bids, gpus = offer
    won = greedy(bids, gpus)
    assert sum(won) <= gpus

    def gain(counts: list[int]) -> float:
        return sum(log(table[count] / table[0]) for table, count in zip(bids, counts, strict=True))

    assert gain(won) >= gain(best(bids, gpus)) / 2 - 1e-9


def test_large_offers_are_sold_greedily_without_payments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a, "SMALL", 0)
    assert auction([{0: 1.0, 2: 4.0}, {0: 1.0, 2: 2.0}], 2).kept == [1.0, 1.0]


def test_the_least_worst_rho_of_two_equal_jobs_that_share_one_gpu() -> None:
    one = np.ones(2)
    rho, parts = least_worst_rho(0 * one, 100 * one, 100 * one, one, 1)
    assert rho == pytest.approx(2.0, rel=1e-6)
    assert parts == pytest.approx([0.5, 0.5], rel=1e-6)


def test_with_enough_gpus_everybody_runs_all_the_time() -> None:
    rho, parts = least_worst_rho(
        np.array([0.0, 50.0]), np.array([100.0, 50.0]), 100 * np.ones(2), np.ones(2), 2
    )
    assert rho == pytest.approx(1.0)
    assert parts.sum() <= 2 + 1e-9


def test_a_rho_that_is_over_already_is_out_of_reach() -> None:
    assert fractions(1.0, np.array([200.0]), np.array([1.0]), np.array([100.0]))[0] == np.inf
