"""Iterations in one flow: the length after which its messages come again, in size and in time.

Sizes alone do not tell: a ring sends chunks of one size, and a network of equal layers repeats itself within
an iteration. Gaps alone do not tell either: they are noisy. So the iteration is the shortest length that
explains both about as well as any other does.

- Sizes, in order: of the messages, each weighed by how much its size tells (rare sizes more than common
  ones), which part has the same size one length later. What is sent now and then only (a checkpoint) costs
  little. Where nothing comes again in order, since several threads send: of the stretches of that length, as
  bags, which part is as the next one.
- Gaps: which part of the variance of their logarithms is explained by the place in the iteration (so that
  all gaps count), and which part of the time is not explained by what is usual at that place (so that the
  long ones count, between which a step is computed, but not the rare ones, in which a checkpoint is saved).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiresias.observe.records import Flow, Numbers

Floats = npt.NDArray[np.float64]
NEWEST = 8192  # messages looked at
REPEATS = 3  # fewer iterations than this are none
BAGS = 6  # and fewer than this are none where the order tells nothing
OFTEN = 10  # a size that came less often tells nothing, where others came more often
SIZES_TOLERANCE = 0.2  # how much worse than the best length a shorter one may be, by sizes
TOLERANCE = 0.1  # and by gaps
STEADY = 0.95  # the part of an iteration that is as the next one
TIME_TOLERANCE = 0.15  # of the time, how much more than the best length a shorter one may leave open
NEAREST = 16  # lengths that are tried where the period is known
LUCK = 2.5  # of several lengths one explains gaps by chance: so many standard deviations do not count
WEAK = 0.3  # the part of the variance that a few stalls may explain
SLIGHT = 0.01  # of the time, what does not count
STALL = 10  # times the median
RARE = 0.3  # a size that comes in a smaller part of the iterations is not of them
HEAVY = 0.8  # the part of the bytes by which iterations are found


@dataclass(frozen=True, slots=True)
class Cycle:
    """What comes again in a flow."""

    period_s: float
    bytes: float  # of an iteration
    counts: dict[int, int]  # how many messages of each size an iteration has
    iterations: int  # that were like this
    first_ns: int  # when the first of those began, and when the last one ended
    last_ns: int


def cycle(flow: Flow, near_s: float | None = None) -> Cycle | None:
    """The iteration of a flow; None if nothing comes again often enough.

    With `near_s`, known from other flows, it is the one that takes that long.
    """
    if len(flow.sizes) < 2 * REPEATS:
        return None
    carriers = heavy(flow.sizes)[-NEWEST:]
    if len(carriers) < 2 * REPEATS:
        return None
    _, symbols = np.unique(flow.sizes[carriers], return_inverse=True)
    at_ns = flow.at_ns[carriers]
    for matches, alike, least in TRIES:
        lengths, matched = good(*matches(symbols), least)
        if not len(lengths):
            continue
        if near_s is None:
            length = choose(lengths, matched, symbols, at_ns)
        else:
            length = nearest(lengths, at_ns, near_s)
        kept = usual(np.bincount(symbols)[symbols], length)
        begins = boundaries(alike(symbols[kept], length), at_ns[kept], length)
        if len(begins) >= REPEATS:
            return measured(flow, carriers[kept], begins, length)
    return None


def good(lengths: Numbers, matched: Floats, least: float) -> tuple[Numbers, Floats]:
    """The lengths that match well enough, and about as well as the best one."""
    chosen = matched >= max(least, float(matched.max(initial=0)) - SIZES_TOLERANCE)
    return lengths[chosen], matched[chosen]


def heavy(sizes: Numbers) -> Numbers:
    """The places of the largest messages that together carry most of the bytes.

    What is small beside them (headers, acknowledgements) comes in no fixed order.
    """
    kinds, counts = np.unique(sizes, return_counts=True)
    carried = np.cumsum((kinds * counts)[::-1])
    least = kinds[::-1][np.searchsorted(carried, HEAVY * carried[-1])]
    return np.flatnonzero(sizes >= least)


def matches_in_order(symbols: Numbers) -> tuple[Numbers, Floats]:
    """Lengths, rising, and which part of the sizes comes again after each."""
    counts = np.bincount(symbols)
    often = max(REPEATS, min(OFTEN, int(counts.max()) // 4))
    tells = np.where(counts >= often, np.log(len(symbols) / np.maximum(counts, 1)) + 1e-9, 0.0)
    weights = tells[symbols]
    until = np.cumsum(weights)
    lengths = np.arange(1, len(symbols) // REPEATS + 1)
    if until[-1] == 0:
        return lengths[:0], np.zeros(0)
    same = [float(weights[:-each] @ (symbols[:-each] == symbols[each:])) for each in lengths]
    return lengths, np.array(same) / np.maximum(until[-1 - lengths], 1e-12)


def matches_as_bags(symbols: Numbers) -> tuple[Numbers, Floats]:
    """The same, if order is ignored: which part of the stretches has the next one's sizes."""
    lengths = np.arange(1, len(symbols) // BAGS + 1)
    matched = np.zeros(len(lengths))
    for number, length in enumerate(lengths):
        alike = alike_as_bags(symbols, int(length))
        stretches = len(symbols) // length - 1
        matched[number] = np.bincount(alike % length).max(initial=0) / (stretches + 1)
    return lengths, matched


def alike_in_order(symbols: Numbers, length: int) -> Numbers:
    """The places from which a stretch has nearly the sizes of the next one, in order."""
    same = np.concatenate([[0], np.cumsum(symbols[:-length] == symbols[length:])])
    return np.flatnonzero(same[length:] - same[:-length] >= STEADY * length)


def alike_as_bags(symbols: Numbers, length: int) -> Numbers:
    """The places from which a stretch has exactly the sizes of the next one, in any order."""
    marks = np.random.default_rng(0).integers(1, 2**40, int(symbols.max()) + 1)  # sums tell bags apart
    until = np.concatenate([[0], np.cumsum(marks[symbols])])
    sums = until[length:] - until[:-length]
    return np.flatnonzero(sums[:-length] == sums[length:])


def usual(counts: Numbers, length: int) -> Numbers:
    """Of messages whose sizes come so often, the places of those that come in most iterations of that length.

    The others, of a checkpoint say, come in between and would shift the place in the iteration.
    """
    return np.flatnonzero(counts >= RARE * len(counts) / length)


def choose(lengths: Numbers, matched: Floats, symbols: Numbers, at_ns: Numbers) -> int:
    """The shortest of them that explains the gaps about as well as the best one does."""
    n = len(at_ns) - 1
    counts = np.bincount(symbols)[symbols]
    rarest, every_gap = int(counts.min()), np.diff(at_ns).astype(np.float64)

    def gaps(length: int) -> Floats:
        if rarest >= RARE * len(counts) / length:
            return every_gap
        return np.diff(at_ns[usual(counts, length)]).astype(np.float64)

    part = np.array([explained(np.log(gaps(each) + 1e3), each) for each in lengths.tolist()])
    doubt = LUCK * np.sqrt(2 * (lengths - 1) / ((n - 1) * np.maximum(1, n - lengths)))
    surely = float((part - doubt).max())
    by_all = part >= surely - TOLERANCE
    if not by_all.any():  # none is sure: the sizes decide
        return int(lengths[np.argmax(matched)])
    left = np.array([unexplained(gaps(each), each) for each in lengths[by_all].tolist()])
    nth = int(np.flatnonzero(left <= left.min() + TIME_TOLERANCE + n**-0.5)[0])
    length, open_part = int(lengths[by_all][nth]), float(left[nth])
    if surely < WEAK:  # a few stalls can look like a place: it must explain more of the time, too
        shorter = lengths[lengths < length].tolist()
        return next((each for each in shorter if unexplained(gaps(each), each) <= open_part + SLIGHT), length)
    return length


def nearest(lengths: Numbers, at_ns: Numbers, near_s: float) -> int:
    """The one of them that takes about that long."""
    expected = near_s * 1e9 * len(at_ns) / max(1, int(at_ns[-1] - at_ns[0]))
    few = lengths[np.argsort(np.abs(np.log(lengths / expected)), kind="stable")[:NEAREST]]
    taken_s = np.array([typical_s(at_ns[each:] - at_ns[:-each]) for each in few])
    return int(few[np.argmin(np.abs(np.log(np.maximum(taken_s, 1e-9) / near_s)))])


def typical_s(durations_ns: Numbers) -> float:
    """Their mean without stalls. The median would jump where steps are of two kinds, short and long."""
    usual = durations_ns[durations_ns <= STALL * np.median(durations_ns)]
    return float(usual.mean()) / 1e9


def explained(values: Floats, length: int) -> float:
    """The part of the variance that the place in the iteration explains, corrected for how many there are."""
    n = len(values)
    whole = float(values.var()) if n > length else 0.0
    if whole == 0:
        return 0.0
    places = np.arange(n) % length
    means = np.bincount(places, values) / np.bincount(places)
    left = float(np.mean((values - means[places]) ** 2))
    return 1 - (left / whole) * (n - 1) / (n - length)


def unexplained(gaps: Floats, length: int) -> float:
    """The part of the time by which gaps differ from what is usual at their place in the iteration."""
    rows = len(gaps) // length
    if rows < 2:
        return 1.0
    table = gaps[len(gaps) - rows * length :].reshape(rows, length)
    left = float(np.abs(table - np.median(table, axis=0)).sum() / max(1.0, table.sum()))
    return left * rows / (rows - 1)  # few rows lie close to their own median


def boundaries(alike: Numbers, at_ns: Numbers, length: int) -> Numbers:
    """Of the places from which an iteration is as the next one, those after the typically longest gap."""
    alike = alike[alike > 0]
    if not len(alike):
        return alike
    gaps = at_ns[alike] - at_ns[alike - 1]
    places = alike % length
    often = np.bincount(places)
    candidates = np.flatnonzero(often >= (1 - TOLERANCE) * often.max())
    typical = [float(np.median(gaps[places == each])) for each in candidates]
    begins: Numbers = alike[places == candidates[int(np.argmax(typical))]]
    return begins


def measured(flow: Flow, carriers: Numbers, begins: Numbers, length: int) -> Cycle:
    """What an iteration typically takes and carries, small messages included."""
    starts, ends = carriers[begins], carriers[begins + length]
    durations = flow.at_ns[ends] - flow.at_ns[starts]
    until = np.concatenate([[0], np.cumsum(flow.sizes)])
    counts = {}
    for size in np.unique(flow.sizes[starts[0] : ends[-1]]):
        seen = np.concatenate([[0], np.cumsum(flow.sizes == size)])
        typical = round(float(np.median(seen[ends] - seen[starts])))
        if typical:
            counts[int(size)] = typical
    return Cycle(
        period_s=typical_s(durations),
        bytes=float(np.median(until[ends] - until[starts])),
        counts=counts,
        iterations=len(begins) + 1,
        first_ns=int(flow.at_ns[starts[0]]),
        last_ns=int(flow.at_ns[ends[-1]]),
    )


TRIES = (
    (matches_in_order, alike_in_order, 0.9),
    (matches_as_bags, alike_as_bags, 0.7),
    (matches_in_order, alike_in_order, 0.7),
)
"""How iterations are looked for, and the least part that must come again."""
