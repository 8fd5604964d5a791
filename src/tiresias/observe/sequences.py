"""Finds the iterations of one flow: the number of messages after which sizes and gaps are repeated.

Sizes alone are not enough: a ring sends chunks of one size, and a network of equal layers repeats itself
within an iteration. Gaps alone are not enough either, because they are noisy. So the iteration is the
shortest length that explains both about as well as any other length does.

- Sizes, in order: the share of the messages that have the same size one length later, weighted by how much
  information a size has (rare sizes have more). What is sent only now and then (a checkpoint) costs little.
  If nothing is repeated in order, because several threads send: the share of the stretches of that length
  that have the same bag of sizes as the next one.
- Gaps: the share of the variance of their logarithms that the index in the iteration explains (in which all
  gaps count), and the share of the time that is not explained by the usual gap at that index (in which long
  gaps count, during which a step is computed, but not rare ones, during which a checkpoint is saved).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiresias.observe.records import Flow, Numbers

Floats = npt.NDArray[np.float64]
NEWEST = 8192  # the newest messages, which are analysed
REPEATS = 3  # the fewest iterations that count
BAGS = 6  # the fewest iterations that count if the order is ignored
OFTEN = 10  # a size that occurred less often has no weight, if others occurred more often
SIZES_TOLERANCE = 0.2  # how much worse than the best length a shorter one may be, by sizes
TOLERANCE = 0.1  # and by gaps
STEADY = 0.95  # the share of an iteration that must be equal to the next one
TIME_TOLERANCE = 0.15  # share of the time that a shorter length may leave unexplained beyond the best one
NEAREST = 16  # lengths that are tried if the period is known
LUCK = 2.5  # standard deviations that do not count: of many lengths, one explains gaps by chance
WEAK = 0.3  # the share of the variance that a few stalls may explain
SLIGHT = 0.01  # share of the time that does not count
STALL = 10  # times the median duration
RARE = 0.3  # a size that occurs in a smaller share of the iterations does not belong to them
HEAVY = 0.8  # the share of the bytes by which iterations are found


@dataclass(frozen=True, slots=True)
class Cycle:
    """The iteration of a flow."""

    period_s: float
    bytes: float  # of an iteration
    counts: dict[int, int]  # how many messages of each size an iteration has
    iterations: int  # how many were seen
    first_ns: int  # when the first of those began
    last_ns: int  # when the last of those ended


def cycle(flow: Flow, near_s: float | None = None) -> Cycle | None:
    """The iteration of a flow; None if nothing is repeated often enough.

    With `near_s`, a period that is known from other flows, it is the iteration that takes about that long.
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
    """The lengths that match well enough, and about as well as the best length."""
    chosen = matched >= max(least, float(matched.max(initial=0)) - SIZES_TOLERANCE)
    return lengths[chosen], matched[chosen]


def heavy(sizes: Numbers) -> Numbers:
    """The indices of the largest messages, which together have most of the bytes.

    Smaller messages (headers, acknowledgements) are sent in no fixed order.
    """
    kinds, counts = np.unique(sizes, return_counts=True)
    carried = np.cumsum((kinds * counts)[::-1])
    least = kinds[::-1][np.searchsorted(carried, HEAVY * carried[-1])]
    return np.flatnonzero(sizes >= least)


def matches_in_order(symbols: Numbers) -> tuple[Numbers, Floats]:
    """Lengths, in ascending order, and the weighted share of the sizes that is repeated after each."""
    counts = np.bincount(symbols)
    often = max(REPEATS, min(OFTEN, int(counts.max()) // 4))
    information = np.where(counts >= often, np.log(len(symbols) / np.maximum(counts, 1)) + 1e-9, 0.0)
    weights = information[symbols]
    until = np.cumsum(weights)
    lengths = np.arange(1, len(symbols) // REPEATS + 1)
    if until[-1] == 0:
        return lengths[:0], np.zeros(0)
    same = [float(weights[:-each] @ (symbols[:-each] == symbols[each:])) for each in lengths]
    return lengths, np.array(same) / np.maximum(until[-1 - lengths], 1e-12)


def matches_as_bags(symbols: Numbers) -> tuple[Numbers, Floats]:
    """Lengths, and the share of the stretches that have the sizes of the next one, in any order."""
    lengths = np.arange(1, len(symbols) // BAGS + 1)
    matched = np.zeros(len(lengths))
    for number, length in enumerate(lengths):
        alike = alike_as_bags(symbols, int(length))
        stretches = len(symbols) // length - 1
        matched[number] = np.bincount(alike % length).max(initial=0) / (stretches + 1)
    return lengths, matched


def alike_in_order(symbols: Numbers, length: int) -> Numbers:
    """The indices from which on a stretch has nearly the sizes of the next one, in order."""
    same = np.concatenate([[0], np.cumsum(symbols[:-length] == symbols[length:])])
    return np.flatnonzero(same[length:] - same[:-length] >= STEADY * length)


def alike_as_bags(symbols: Numbers, length: int) -> Numbers:
    """The indices from which on a stretch has exactly the sizes of the next one, in any order."""
    marks = np.random.default_rng(0).integers(1, 2**40, int(symbols.max()) + 1)  # sums identify bags
    until = np.concatenate([[0], np.cumsum(marks[symbols])])
    sums = until[length:] - until[:-length]
    return np.flatnonzero(sums[:-length] == sums[length:])


def usual(counts: Numbers, length: int) -> Numbers:
    """The indices of messages whose size occurs in most iterations of that length.

    `counts` says how often the size of each message occurs. Other messages, such as those of a checkpoint,
    are sent in between and would shift the index in the iteration.
    """
    return np.flatnonzero(counts >= RARE * len(counts) / length)


def choose(lengths: Numbers, matched: Floats, symbols: Numbers, at_ns: Numbers) -> int:
    """The shortest of these lengths that explains the gaps about as well as the best one."""
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
    if not by_all.any():  # no length is certain: the sizes decide
        return int(lengths[np.argmax(matched)])
    left = np.array([unexplained(gaps(each), each) for each in lengths[by_all].tolist()])
    nth = int(np.flatnonzero(left <= left.min() + TIME_TOLERANCE + n**-0.5)[0])
    length, open_part = int(lengths[by_all][nth]), float(left[nth])
    if surely < WEAK:  # a few stalls can look like an iteration: it must explain more of the time, too
        shorter = lengths[lengths < length].tolist()
        return next((each for each in shorter if unexplained(gaps(each), each) <= open_part + SLIGHT), length)
    return length


def nearest(lengths: Numbers, at_ns: Numbers, near_s: float) -> int:
    """The one of these lengths that takes about that long."""
    expected = near_s * 1e9 * len(at_ns) / max(1, int(at_ns[-1] - at_ns[0]))
    few = lengths[np.argsort(np.abs(np.log(lengths / expected)), kind="stable")[:NEAREST]]
    taken_s = np.array([typical_s(at_ns[each:] - at_ns[:-each]) for each in few])
    return int(few[np.argmin(np.abs(np.log(np.maximum(taken_s, 1e-9) / near_s)))])


def typical_s(durations_ns: Numbers) -> float:
    """Their mean without stalls. The median would be unstable if steps are of two kinds, short and long."""
    usual = durations_ns[durations_ns <= STALL * np.median(durations_ns)]
    return float(usual.mean()) / 1e9


def explained(values: Floats, length: int) -> float:
    """The share of the variance that the index in the iteration explains, adjusted for their number."""
    n = len(values)
    whole = float(values.var()) if n > length else 0.0
    if whole == 0:
        return 0.0
    indices = np.arange(n) % length
    means = np.bincount(indices, values) / np.bincount(indices)
    left = float(np.mean((values - means[indices]) ** 2))
    return 1 - (left / whole) * (n - 1) / (n - length)


def unexplained(gaps: Floats, length: int) -> float:
    """The share of the time by which gaps differ from the usual gap at their index in the iteration."""
    rows = len(gaps) // length
    if rows < 2:
        return 1.0
    table = gaps[len(gaps) - rows * length :].reshape(rows, length)
    left = float(np.abs(table - np.median(table, axis=0)).sum() / max(1.0, table.sum()))
    return left * rows / (rows - 1)  # few rows are close to their own median


def boundaries(alike: Numbers, at_ns: Numbers, length: int) -> Numbers:
    """Of the indices from which on an iteration equals the next, those after the typically longest gap."""
    alike = alike[alike > 0]
    if not len(alike):
        return alike
    gaps = at_ns[alike] - at_ns[alike - 1]
    indices = alike % length
    often = np.bincount(indices)
    candidates = np.flatnonzero(often >= (1 - TOLERANCE) * often.max())
    typical = [float(np.median(gaps[indices == each])) for each in candidates]
    begins: Numbers = alike[indices == candidates[int(np.argmax(typical))]]
    return begins


def measured(flow: Flow, carriers: Numbers, begins: Numbers, length: int) -> Cycle:
    """The typical duration and content of an iteration, small messages included."""
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
"""How iterations are searched for, one after the other, and the least share that must be repeated."""
