"""`themis`: an auction of GPUs for finish-time fairness (NSDI'20); `ftf`: the min-max form of its goal.

Themis has agents, one per app, and an arbiter. In a round the arbiter asks all agents for their rho, and
offers the GPUs to the 1-f of the apps that are worst off. These bid: a table says what so many GPUs would
make of their rho. The arbiter sells the offer in the partial-allocation auction (auction.py), and what
nobody bought, or was withheld as a payment, goes to the others. Winners keep what they won for a lease.

An app is a job, or all jobs of one `group`; its rho is the worst of its jobs. The exact formulas of the
payment are taken from the literature on the mechanism, not from the paper. See the page on Themis for what
differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from tiresias.core.model import JobId
from tiresias.core.plugins import option, policies
from tiresias.policies.finish_time import Bidders, LeaseAllocator, LeaseOptions, app_of, check_lease
from tiresias.policies.options import share

MOST_ROWS = 8  # of a table of bids


@dataclass(slots=True)
class ThemisOptions(LeaseOptions):
    f: float = option(0.8, "fairness: offers go to the 1-f of the apps that are worst off, 0 to 1", share)


@policies.register
class Themis(LeaseAllocator):
    """An auction among the apps that are worst off by finish time, with leases (NSDI'20)."""

    name = "themis"
    Options = ThemisOptions

    def expect(self, memory: Any, preemption_cost_s: float) -> None:
        check_lease(self.name, self.options.lease_s, preemption_cost_s)

    def choose(self, bidders: Bidders, room: int) -> tuple[list[int], dict[int, float]]:
        from tiresias.policies.auction import auction  # not before: NumPy delays each start of a manager

        waits = (bidders.elapsed_s + bidders.left_s + self.options.lease_s) / bidders.ideal_s
        runs = (bidders.elapsed_s + bidders.left_s) / bidders.ideal_s
        worst_first = (-waits).argsort(kind="stable").tolist()
        apps: dict[str | JobId, list[int]] = {}
        for nth in worst_first:
            apps.setdefault(app_of(bidders.jobs[nth]), []).append(nth)
        invited = list(apps.values())[: max(1, ceil((1 - self.options.f) * len(apps)))]
        tables = [self._bids(members, bidders, waits, runs) for members in invited]
        sale = auction(tables, room)
        order: list[int] = []
        kept: dict[int, float] = {}
        for members, won, part in zip(invited, sale.won, sale.kept, strict=True):
            for nth in members:
                if bidders.jobs[nth].gpus > won:
                    break
                won -= bidders.jobs[nth].gpus
                order.append(nth)
                kept[nth] = part
        return order, kept

    def _bids(self, members: list[int], bidders: Bidders, waits: Any, runs: Any) -> dict[int, float]:
        """An agent's table: with so many GPUs the worst of its jobs run, and 1 / rho is worth so much."""
        table = {0: 1.0 / float(waits[members[0]])}
        gpus, running = 0, 0.0
        for place, nth in enumerate(members[:MOST_ROWS]):
            gpus += bidders.jobs[nth].gpus
            running = max(running, float(runs[nth]))
            behind = float(waits[members[place + 1]]) if place + 1 < len(members) else 0.0
            table[gpus] = 1.0 / max(running, behind)
        return table


@policies.register
class Ftf(LeaseAllocator):
    """The least possible worst rho in rounds, without an auction: what later papers use for Themis."""

    name = "ftf"

    def expect(self, memory: Any, preemption_cost_s: float) -> None:
        check_lease(self.name, self.options.lease_s, preemption_cost_s)

    def choose(self, bidders: Bidders, room: int) -> tuple[list[int], dict[int, float]]:
        import numpy as np  # not before: it delays each start of a manager

        from tiresias.policies.min_max import least_worst_rho

        _, parts = least_worst_rho(
            bidders.elapsed_s, bidders.left_s, bidders.ideal_s, bidders.gpus, max(room, 1)
        )
        holds = np.array(bidders.holds, dtype=bool)
        order = np.lexsort((~holds, -np.round(parts, 2)))
        return order.tolist(), {}
