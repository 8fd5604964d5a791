"""What all processes of a gang sent to each other, in one iteration.

Each flow is looked at by itself; the iteration is what most of the bytes agree on. A flow that does not come
again in that time counts with its bytes a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tiresias.observe.records import Address, Flow, Process
from tiresias.observe.rhythm import rhythm
from tiresias.observe.sequences import Cycle, cycle

ASKED = 8
LOOKED_AT = 256  # flows that are fitted to it
SAME = 1.3  # how many times as long a period may be and still be the same one
LEAST_BYTES = 1024  # an iteration, from all processes together
AGREED = 0.5  # the part of the bytes that must agree on a period

Node = int | str
"""A process that was observed, by its number, or the address of one that was not."""


@dataclass(slots=True)
class Link:
    """What one node sends to another in an iteration."""

    bytes: float = 0.0
    counts: Counter[int] = field(default_factory=Counter)  # messages by size, as far as they come again
    flows: list[Flow] = field(default_factory=list)


@dataclass(frozen=True)
class Gang:
    """An iteration of the gang, and how often it was seen."""

    period_s: float
    iterations: int
    first_ns: int
    last_ns: int
    has_sequence: bool  # whether messages come again, and not only bytes
    links: dict[tuple[Node, Node], Link]
    accepting: frozenset[Node]  # nodes to which others connected

    @cached_property
    def bytes(self) -> float:
        return sum(link.bytes for link in self.links.values())


def gang(processes: Sequence[Process], asked: int = ASKED) -> Gang | None:
    """None if nothing comes again, or so little that it is only talk: processes that wait for each other.

    The `asked` heaviest flows decide on the period.
    """
    found = _gang(processes, asked)
    return found if found is not None and found.bytes >= LEAST_BYTES else None


def _gang(processes: Sequence[Process], asked: int) -> Gang | None:
    flows = sorted((flow for each in processes for flow in each.flows), key=lambda flow: -flow.bytes)
    cycles = [(flow, found) for flow in flows[:asked] if (found := cycle(flow)) is not None]
    agreed = _agreed(cycles)
    if agreed is not None and _weight(agreed) >= AGREED * sum(flow.bytes for flow in flows[:asked]):
        _, leading = agreed[0]
        period_s = _middle(agreed)
        cycles_of = {id(flow): found for flow, found in agreed}  # a flow holds arrays: it cannot be a key
        for flow in flows[:LOOKED_AT]:
            again = cycle(flow, period_s) if id(flow) not in cycles_of else None
            if again is not None and is_same_period(again.period_s, period_s):
                cycles_of[id(flow)] = again
        return Gang(
            period_s=period_s,
            iterations=max(found.iterations for _, found in agreed),
            first_ns=leading.first_ns,
            last_ns=leading.last_ns,
            has_sequence=True,
            links=_links(flows, cycles_of, period_s, leading.first_ns, leading.last_ns),
            accepting=_accepting(flows),
        )
    return _by_time(flows)


def _by_time(flows: list[Flow]) -> Gang | None:
    if not flows:
        return None
    at_ns = np.concatenate([flow.at_ns for flow in flows])
    sizes = np.concatenate([flow.sizes for flow in flows])
    period_s = rhythm(at_ns, sizes)
    if period_s is None:
        return None
    last = int(at_ns.max())
    iterations = int((last - int(at_ns.min())) * 0.8 / 1e9 / period_s)
    first = last - int(iterations * period_s * 1e9)  # whole iterations, without the beginning
    return Gang(
        period_s=period_s,
        iterations=iterations,
        first_ns=first,
        last_ns=last,
        has_sequence=False,
        links=_links(flows, {}, period_s, first, last),
        accepting=_accepting(flows),
    )


def _agreed(cycles: list[tuple[Flow, Cycle]]) -> list[tuple[Flow, Cycle]] | None:
    """The flows of that period which carries most bytes, the heaviest first."""
    groups = [
        [(flow, found) for flow, found in cycles if is_same_period(found.period_s, each.period_s)]
        for _, each in cycles
    ]
    return max(groups, key=_weight, default=None)


def is_same(one: Gang, other: Gang) -> bool:
    """Whether the two tell of the same iteration; what is seen of a training's beginning changes."""
    low, high = sorted((one.bytes, other.bytes))
    return high <= low * SAME and is_same_period(one.period_s, other.period_s)


def is_same_period(period_s: float, other_s: float) -> bool:
    return max(period_s / other_s, other_s / period_s) <= SAME


def _weight(cycles: list[tuple[Flow, Cycle]]) -> float:
    return sum(flow.bytes for flow, _ in cycles)


def _middle(cycles: list[tuple[Flow, Cycle]]) -> float:
    """The median period by bytes."""
    ordered = sorted(cycles, key=lambda each: each[1].period_s)
    until = np.cumsum([flow.bytes for flow, _ in ordered])
    return ordered[int(np.searchsorted(until, until[-1] / 2))][1].period_s


def _links(
    flows: list[Flow], cycles: dict[int, Cycle], period_s: float, first_ns: int, last_ns: int
) -> dict[tuple[Node, Node], Link]:
    owners = _owners(flows)
    links: dict[tuple[Node, Node], Link] = {}
    for flow in flows:
        to: Node = "unknown" if flow.peer is None else owners.get(flow.peer, str(flow.peer))
        link = links.setdefault((flow.process, to), Link())
        link.flows.append(flow)
        found = cycles.get(id(flow))
        if found is not None:
            link.bytes += found.bytes
            link.counts.update(found.counts)
        else:
            inside = (flow.at_ns >= first_ns) & (flow.at_ns < last_ns)
            link.bytes += float(flow.sizes[inside].sum()) * period_s * 1e9 / max(1, last_ns - first_ns)
    return {nodes: link for nodes, link in links.items() if link.bytes > 0}


def _owners(flows: list[Flow]) -> dict[Address, int]:
    """Which process has which end of a connection; of two that share one, the one that sends more."""
    return {flow.local: flow.process for flow in reversed(flows) if flow.local is not None}


def _accepting(flows: list[Flow]) -> frozenset[Node]:
    """Whoever accepted a connection, or has several at one port, which was listened at."""
    ends = Counter((flow.process, flow.local) for flow in flows if flow.local is not None)
    shared = {process for (process, _), times in ends.items() if times > 1}
    return frozenset(shared | {flow.process for flow in flows if flow.was_accepted})
