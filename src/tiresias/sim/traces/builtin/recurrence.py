"""Users and names for the jobs of a generated trace, some of which come again.

A lot is the jobs of one burst that have the same number of GPUs: a user of the tenant submits them together,
under one name. A share of the jobs is in lots that recur. Such a lot repeats, with chance REPEATS, one of the
LATELY lots before it that recur and are of its tenant and size: it has the same user and name. So popular
names become more popular, and names that were not used for long are forgotten. Otherwise it begins a new
name, with a typical duration drawn from all durations of that size. The jobs that recur keep their durations
as a whole, but exchange them within a size so that those of one name are similar: about two thirds of them
are within a factor of 2 of what is typical for the name, except that one in EARLY ends early, after any part
of it. All other jobs keep their durations, and their names occur in one lot only.

So the name and the user of a lot that does not recur tell nothing. Sizes, submissions, tenants and the
durations as a whole are the same for every share. All constants are chosen and not fitted: Philly's reduced
trace has no users and no names.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import numpy.typing as npt

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.builtin import philly_stats as stats
from tiresias.sim.traces.builtin.draw import Draw, Floats, Ints, quantiles, whole

REPEATS = 0.9
LATELY = 50
EARLY = 5
SPREAD = math.log(2)  # standard deviation of the logarithm of the durations of a name
USERS = 12  # of each tenant; the first of them submit the most
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def check(share: float) -> None:
    if not 0 <= share <= 1:  # NaN is refused as well
        raise TraceError(f"recurring {share}: must be a share of the jobs from 0 to 1.")


def recur(
    share: float, gpus: Ints, durations: Ints, tenants: Ints, bursts: Ints, draw: Draw
) -> tuple[Ints, list[str], list[str]]:
    """The durations, users and names of jobs that are given in the order of their submission."""
    lot_of, first = _lots(gpus, bursts)
    sizes = np.bincount(lot_of, minlength=len(first))
    is_recurring = _chosen(share, sizes, draw)
    users = (USERS * draw.uniform(len(first)) ** 2).astype(np.int64)
    names, levels = np.arange(len(first)), draw.uniform(len(first))
    repeats, which = draw.uniform(len(first)) < REPEATS, draw.uniform(len(first))
    lately: dict[tuple[int, int], deque[int]] = {}
    for lot in np.flatnonzero(is_recurring).tolist():
        before = lately.setdefault((int(tenants[first[lot]]), int(gpus[first[lot]])), deque(maxlen=LATELY))
        if before and repeats[lot]:
            again = before[int(which[lot] * len(before))]
            users[lot], names[lot], levels[lot] = users[again], names[again], levels[again]
        before.append(lot)
    made = _exchanged(gpus, durations, is_recurring[lot_of], levels[lot_of], draw)
    labels = [_word(number) for number in range(len(first))]
    return (
        made,
        [
            f"t{tenant}-u{user + 1}"
            for tenant, user in zip(tenants.tolist(), users[lot_of].tolist(), strict=True)
        ],
        [labels[number] for number in names[lot_of].tolist()],
    )


def _lots(gpus: Ints, bursts: Ints) -> tuple[Ints, Ints]:
    """The lot of every job, and the first job of every lot; lots are in the order of submission."""
    _, first, lot_of = np.unique(
        bursts * (int(gpus.max()) + 1) + gpus, return_index=True, return_inverse=True
    )
    order = np.argsort(first, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[lot_of.reshape(-1)], first[order]


def _chosen(share: float, sizes: Ints, draw: Draw) -> npt.NDArray[np.bool_]:
    """Batches at random that have this share of the jobs, as nearly as their sizes allow."""
    order = draw.order(len(sizes))
    shuffled = sizes[order]
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order] = np.cumsum(shuffled) - shuffled / 2 <= share * sizes.sum()
    return chosen


def _exchanged(
    gpus: Ints, durations: Ints, is_recurring: npt.NDArray[np.bool_], levels: Floats, draw: Draw
) -> Ints:
    """The durations of the jobs that recur, exchanged within a size so that they follow their levels."""
    count = len(gpus)
    radius = np.sqrt(-2 * np.log1p(-draw.uniform(count)))
    noise = SPREAD * radius * np.cos(2 * math.pi * draw.uniform(count))  # normal (Box and Muller)
    early, part = draw.uniform(count) < 1 / EARLY, draw.uniform(count)
    made = durations.copy()
    for size in np.unique(gpus).tolist():
        members = np.flatnonzero(is_recurring & (gpus == size))
        typical = np.log(quantiles(levels[members], stats.DURATION_S[size]))
        wished = typical + np.where(early[members], np.log(np.maximum(part[members], 1e-9)), noise[members])
        made[members[np.argsort(whole(wished * 1e6), kind="stable")]] = np.sort(durations[members])
    return made


def _word(number: int) -> str:
    """A name of letters only: names that differ in digits are often taken for the same."""
    word = LETTERS[number % 26]
    while number := number // 26:
        word = LETTERS[number % 26] + word
    return f"train-{word}"
