"""The partial-allocation auction: proportional fairness, and a hidden payment that makes honesty pay.

After Cole, Gkatzelis and Goel (EC'13), on which Themis (NSDI'20) builds. The auction finds the
proportionally fair allocation: the one with the largest product of the bidders' values. Each bidder then
keeps only a fraction of what it won: the product of the others' values, divided by what that product would be
without this bidder. So a bidder pays for what it takes from the others, in what it wins itself.

What holds, and is tested:
- Divisible parts and values that are homogeneous of degree one (here: linear): nobody gains by misreporting
  how much the parts are worth to it relative to each other, and everybody keeps at least 1/e of the value of
  its proportionally fair part.
- Whole GPUs, exact (`auction`, up to SMALL): the product is the largest that tables of bids allow, nothing is
  sold twice, and no more is kept than was won. What is kept is a fraction of the time of the win, so that
  gangs stay whole.
- Whole GPUs, greedy (`auction`, larger offers): nothing is sold twice, and the sum of the gains in log value
  is at least half of the best one. No claim about honesty: nothing is paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

SMALL = 4096  # bidders x rows of bids x GPUs up to which the auction is exact
ROUNDS = 20_000  # of the iteration for divisible parts, at most
CLOSE = 1e-12  # relative change of a value at which it ends

Floats = NDArray[np.float64]
Bids = Mapping[int, float]
"""A table of bids: the value of so many GPUs, of 0 as well. All values are positive."""


# --- divisible parts -----------------------------------------------------------------------------------


def proportionally_fair(values: Floats) -> Floats:
    """Shares (bidder, part) with the largest product of linear values; `values` are those of whole parts.

    By proportional response: each bidder spends one unit on the parts, in proportion to the value that each
    part gave it in the last round. This converges to the equilibrium, which is proportionally fair.
    """
    spent = values / values.sum(axis=1, keepdims=True)
    before: Floats = np.zeros(len(values))
    shares: Floats = np.zeros_like(values)
    for _ in range(ROUNDS):
        prices = spent.sum(axis=0)
        shares = np.divide(spent, prices, out=np.zeros_like(spent), where=prices > 0)
        gained = values * shares
        worth = gained.sum(axis=1)
        if np.all(np.abs(worth - before) <= CLOSE * worth):
            break
        before = worth
        spent = gained / worth[:, None]
    return shares


def kept_fractions(values: Floats, shares: Floats) -> Floats:
    """The fraction of its part that each bidder keeps; the rest is its hidden payment."""
    worth = (values * shares).sum(axis=1)
    kept = np.ones(len(values))
    for bidder in range(len(values)):
        others = [other for other in range(len(values)) if other != bidder]
        if others:
            alone = values[others]
            without = (alone * proportionally_fair(alone)).sum(axis=1)
            kept[bidder] = exp(min(0.0, float(np.log(worth[others]).sum() - np.log(without).sum())))
    return kept


def partial_allocation(values: Floats) -> Floats:
    """What each bidder keeps of each part, after its payment."""
    shares = proportionally_fair(values)
    return shares * kept_fractions(values, shares)[:, None]


# --- whole GPUs ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sale:
    """By bidder: the GPUs that it won, and the fraction of the time for which it keeps them."""

    won: list[int]
    kept: list[float]


def auction(bids: Sequence[Bids], gpus: int) -> Sale:
    """Sell so many equal GPUs: exactly and with payments if the offer is small, greedily otherwise."""
    wanted = [-max((value, -count) for count, value in table.items())[1] for table in bids]
    if sum(wanted) <= gpus:  # nobody takes anything from anybody
        return Sale(wanted, [1.0] * len(bids))
    rows = sum(len(table) for table in bids)
    if len(bids) * rows * (gpus + 1) > SMALL:
        return Sale(greedy(bids, gpus), [1.0] * len(bids))
    won = best(bids, gpus)
    kept = []
    for bidder in range(len(bids)):
        others = [table for other, table in enumerate(bids) if other != bidder]
        now = sum(log(table[won[other]]) for other, table in enumerate(bids) if other != bidder)
        without = sum(log(table[count]) for table, count in zip(others, best(others, gpus), strict=True))
        kept.append(exp(min(0.0, now - without)))
    return Sale(won, kept)


def best(bids: Sequence[Bids], gpus: int) -> list[int]:
    """The rows with the largest product of values, of at most so many GPUs; of equals the smaller ones."""
    reached: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] * (gpus + 1)  # by GPUs at most
    for table in bids:
        rows = sorted(table.items())
        reached = [_better(reached, rows, room) for room in range(gpus + 1)]
    return list(reached[gpus][1])


def _better(
    reached: list[tuple[float, tuple[int, ...]]], rows: list[tuple[int, float]], room: int
) -> tuple[float, tuple[int, ...]]:
    """The best that one more bidder makes of what the others reach with the rest of the room."""
    found = [
        (reached[room - count][0] + log(value), (*reached[room - count][1], count))
        for count, value in rows
        if count <= room
    ]
    return max(found, key=lambda each: (each[0], tuple(-count for count in each[1])))


def greedy(bids: Sequence[Bids], gpus: int) -> list[int]:
    """Rows by their gain in log value per GPU, the largest first; or the best single row if that is more."""
    steps: list[tuple[float, int, int, int]] = []
    for bidder, table in enumerate(bids):
        base, rows = log(table[0]), sorted(table.items())
        at, value = 0, base
        while rows := [row for row in rows if row[0] > at]:  # the upper hull: the steepest step each time
            steepest, count = max(((log(worth) - value) / (many - at), -many) for many, worth in rows)
            if steepest <= 0:
                break
            steps.append((-steepest, bidder, at, -count))
            at, value = -count, log(table[-count])
    won = [0] * len(bids)
    room = gpus
    for _, bidder, before, count in sorted(steps):
        if won[bidder] == before and count - before <= room:
            room -= count - before
            won[bidder] = count
    total = sum(log(bids[bidder][count] / bids[bidder][0]) for bidder, count in enumerate(won))
    singles = [
        (log(value / table[0]), -bidder, count)
        for bidder, table in enumerate(bids)
        for count, value in table.items()
        if count <= gpus
    ]
    single = max(singles, default=(0.0, 0, 0))
    if single[0] > total:
        won = [0] * len(bids)
        won[-single[1]] = single[2]
    return won
