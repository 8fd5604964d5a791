"""Finds the iteration of a gang, and what its processes send to each other in one iteration.

Each flow is analysed by itself; the period is the one on which most of the bytes agree. A flow that does not
repeat itself with that period counts with its bytes per second.
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

DECIDING = 8  # the heaviest flows, which decide on the period
FITTED = 256  # flows that are then fitted to the period
SAME = 1.3  # factor up to which two periods count as the same
LEAST_BYTES = 1024  # per iteration, from all processes together
AGREED = 0.5  # share of the bytes that must agree on a period

Node = int | str
"""The number of a process that was observed, or the address of one that was not."""


@dataclass(slots=True)
class Link:
    """What one node sends to another in an iteration."""

    bytes: float = 0.0
    counts: Counter[int] = field(default_factory=Counter)  # messages by size, as far as they are repeated
    flows: list[Flow] = field(default_factory=list)


@dataclass(frozen=True)
class Gang:
    """An iteration of the gang, and how many were seen."""

    period_s: float
    iterations: int
    first_ns: int
    last_ns: int
    has_sequence: bool  # whether messages are repeated, and not only amounts of bytes over time
    links: dict[tuple[Node, Node], Link]
    accepting: frozenset[Node]  # nodes to which others connected

    @cached_property
    def bytes(self) -> float:
        return sum(link.bytes for link in self.links.values())


def gang(processes: Sequence[Process], deciding: int = DECIDING) -> Gang | None:
    """The iteration of the gang; the `deciding` heaviest flows decide on its period.

    None if nothing is repeated, or only a few bytes, such as those of processes that wait for each other.
    """
    found = _gang(processes, deciding)
    return found if found is not None and found.bytes >= LEAST_BYTES else None


def _gang(processes: Sequence[Process], deciding: int) -> Gang | None:
    flows = sorted((flow for each in processes for flow in each.flows), key=lambda flow: -flow.bytes)
    accepted = _accepted(processes)
    owners = _owners(flows, accepted)
    cycles = [(flow, found) for flow in flows[:deciding] if (found := cycle(flow)) is not None]
    agreed = _agreed(cycles)
    if agreed is not None and _weight(agreed) >= AGREED * sum(flow.bytes for flow in flows[:deciding]):
        _, leading = agreed[0]
        period_s = _median_period(agreed)
        cycles_of = {id(flow): found for flow, found in agreed}  # a flow has arrays, so it cannot be a key
        for flow in flows[:FITTED]:
            again = cycle(flow, period_s) if id(flow) not in cycles_of else None
            if again is not None and is_same_period(again.period_s, period_s):
                cycles_of[id(flow)] = again
        return Gang(
            period_s=period_s,
            iterations=max(found.iterations for _, found in agreed),
            first_ns=leading.first_ns,
            last_ns=leading.last_ns,
            has_sequence=True,
            links=_links(flows, owners, cycles_of, period_s, leading.first_ns, leading.last_ns),
            accepting=_accepting(flows, accepted),
        )
    return _by_time(flows, owners, accepted)


def _by_time(flows: list[Flow], owners: dict[Address, int], accepted: dict[Address, int]) -> Gang | None:
    if not flows:
        return None
    at_ns = np.concatenate([flow.at_ns for flow in flows])
    sizes = np.concatenate([flow.sizes for flow in flows])
    period_s = rhythm(at_ns, sizes)
    if period_s is None:
        return None
    last = int(at_ns.max())
    iterations = int((last - int(at_ns.min())) * 0.8 / 1e9 / period_s)
    first = last - int(iterations * period_s * 1e9)  # whole iterations, without the warm-up
    return Gang(
        period_s=period_s,
        iterations=iterations,
        first_ns=first,
        last_ns=last,
        has_sequence=False,
        links=_links(flows, owners, {}, period_s, first, last),
        accepting=_accepting(flows, accepted),
    )


def _agreed(cycles: list[tuple[Flow, Cycle]]) -> list[tuple[Flow, Cycle]] | None:
    """The flows of the period on which most bytes agree, the heaviest first."""
    groups = [
        [(flow, found) for flow, found in cycles if is_same_period(found.period_s, each.period_s)]
        for _, each in cycles
    ]
    return max(groups, key=_weight, default=None)


def is_same(one: Gang, other: Gang) -> bool:
    """Whether two observations found the same iteration, which is not so while a training warms up."""
    low, high = sorted((one.bytes, other.bytes))
    return high <= low * SAME and is_same_period(one.period_s, other.period_s)


def is_same_period(period_s: float, other_s: float) -> bool:
    return max(period_s / other_s, other_s / period_s) <= SAME


def _weight(cycles: list[tuple[Flow, Cycle]]) -> float:
    return sum(flow.bytes for flow, _ in cycles)


def _median_period(cycles: list[tuple[Flow, Cycle]]) -> float:
    """The median period, weighted by bytes."""
    ordered = sorted(cycles, key=lambda each: each[1].period_s)
    until = np.cumsum([flow.bytes for flow, _ in ordered])
    return ordered[int(np.searchsorted(until, until[-1] / 2))][1].period_s


def _links(
    flows: list[Flow],
    owners: dict[Address, int],
    cycles: dict[int, Cycle],
    period_s: float,
    first_ns: int,
    last_ns: int,
) -> dict[tuple[Node, Node], Link]:
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


def _owners(flows: list[Flow], accepted: dict[Address, int]) -> dict[Address, int]:
    """The process at each end of a connection; if two share one, the one that sends more.

    A process that sends nothing over a connection is known by having accepted it.
    """
    return accepted | {flow.local: flow.process for flow in reversed(flows) if flow.local is not None}


def _accepted(processes: Sequence[Process]) -> dict[Address, int]:
    return {end: each.number for each in processes for end in each.accepted}


def _accepting(flows: list[Flow], accepted: dict[Address, int]) -> frozenset[Node]:
    """The processes that accepted a connection, or have several at one port, at which they must listen."""
    ends = Counter((flow.process, flow.local) for flow in flows if flow.local is not None)
    shared = {process for (process, _), times in ends.items() if times > 1}
    took = {flow.process for flow in flows if flow.was_accepted}
    return frozenset(shared | took | set(accepted.values()))
