"""`themis`: an auction of GPUs for finish-time fairness (NSDI'20); `ftf`: the min-max form of its goal.

Themis has agents, one per app, and an arbiter. In a round the arbiter asks all agents for their rho, and
offers the GPUs to the 1-f of the apps that are worst off. These bid: a table says what so many GPUs would
make of their rho. The arbiter sells the offer in the partial-allocation auction (auction.py), and what
nobody bought is offered to the next 1-f. Winners keep what they won for a lease, less their payment.

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
        waits = (bidders.elapsed_s + bidders.left_s + self.round_s) / bidders.ideal_s
        runs = (bidders.elapsed_s + bidders.left_s) / bidders.ideal_s
        worst_first = (-waits).argsort(kind="stable").tolist()
        apps: dict[str | JobId, list[int]] = {}
        for nth in worst_first:
            apps.setdefault(app_of(bidders.jobs[nth]), []).append(nth)
        left = list(apps.values())
        at_once = max(1, ceil((1 - self.options.f) * len(left)))
        order: list[int] = []
        kept: dict[int, float] = {}
        if self.options.f > 0 and left and bidders.jobs[left[0][0]].gpus <= room:
            # A gang that has waited for long gains little by each further round, so that others who need
            # fewer GPUs could outbid it for ever.
            nth = left[0].pop(0)
            room -= bidders.jobs[nth].gpus
            order.append(nth)
            kept[nth] = 1.0
            left = left if left[0] else left[1:]
        for first in range(0, len(left), at_once):  # what nobody bought is offered to the next ones
            if room <= 0:
                break
            sold = self._sell(left[first : first + at_once], bidders, room, waits, runs)
            for nth, part in sold.items():
                room -= bidders.jobs[nth].gpus
                order.append(nth)
                kept[nth] = part
        return order + [nth for nth in worst_first if nth not in kept], kept

    def _sell(
        self, invited: list[list[int]], bidders: Bidders, room: int, waits: Any, runs: Any
    ) -> dict[int, float]:
        """Auction GPUs among these apps: the jobs that get theirs, and for which part of a lease."""
        from tiresias.policies.auction import auction  # not before: NumPy delays each start of a manager

        sale = auction([self._bids(members, bidders, waits, runs) for members in invited], room)
        sold: dict[int, float] = {}
        for members, won, part in zip(invited, sale.won, sale.kept, strict=True):
            for nth in members:
                if bidders.jobs[nth].gpus > won:
                    break
                won -= bidders.jobs[nth].gpus
                sold[nth] = part
        return sold

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
    """The least possible worst rho in rounds, without an auction: what later papers use for Themis.

    Those come first that can wait least if all are to have that rho; of equals, those that hold GPUs.
    """

    name = "ftf"

    def expect(self, memory: Any, preemption_cost_s: float) -> None:
        check_lease(self.name, self.options.lease_s, preemption_cost_s)

    def choose(self, bidders: Bidders, room: int) -> tuple[list[int], dict[int, float]]:
        import numpy as np  # not before: it delays each start of a manager

        from tiresias.policies.min_max import least_worst_rho

        elapsed_s, left_s, ideal_s = bidders.elapsed_s, bidders.left_s, bidders.ideal_s
        rho, _ = least_worst_rho(elapsed_s, left_s, ideal_s, bidders.gpus, max(room, 1))
        to_spare = np.floor((rho * ideal_s - elapsed_s - left_s) / self.round_s)  # in rounds
        holds = np.array(bidders.holds, dtype=bool)
        return np.lexsort((~holds, to_spare)).tolist(), {}
