"""Bugs that managers and agents of many nodes could have. The simulation of nodes must find each of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiresias.executors.agent import Adopt, Order, Start
from tiresias.executors.base import RunGone, RunSpec, RunUpdate
from tiresias.executors.gang_nodes import GangNode, GangNodes
from tiresias.executors.gang_runs import GangPart, GangRun, GangRuns
from tiresias.executors.gang_silent import SilentParts
from tiresias.live.nodes import Nodes
from tiresias.testing.faults.campaign import Failure
from tiresias.testing.faults.nodes.agents import SimulatedAgent
from tiresias.testing.faults.nodes.campaign import campaign
from tiresias.testing.faults.nodes.simulation import NodeParts

WITHIN_SEEDS = 300
TELLING = (0, 5, 24, 42, 50, 73)  # seeds that have found one of these: tried first, for they are quick


class GivesUpBeforeTheLease(SilentParts):
    def __init__(self, loop: Any, runs: Any, given_up: Any, lease_s: float):
        super().__init__(loop, runs, given_up, -lease_s / 2)


class JudgesAnotherBoot(SimulatedAgent):
    def is_of_this_boot(self, boot_id: str) -> bool:
        return boot_id == next(iter(self.node.world.nodes.values())).boot_id


class NumbersNodesBackwards(GangRuns):
    """On every node but the first, the ranks are counted from the last node."""

    def _orders(self, run: GangRun, part: GangPart) -> list[Order]:
        orders = super()._orders(run, part)
        if part.spec.node == run.spec.parts[0].node:
            return orders
        return [replace(o, spec=self._turned(o.spec)) if isinstance(o, Start) else o for o in orders]

    def _turned(self, spec: RunSpec) -> RunSpec:
        return replace(spec, slots=tuple(slot for part in reversed(spec.parts) for slot in part.slots))


class UsesReturnedNodesAtOnce(GangNodes):
    def _tell(self, node: GangNode) -> None:
        old, node.old_runs = node.old_runs, set()
        super()._tell(node)
        node.old_runs = old


class LeavesTheOthersAlone(GangRuns):
    """A part that fails does not end the others."""

    def part_gone(self, run: GangRun, part: GangPart, gone: RunGone) -> None:
        part.gone = gone
        if all(each.gone is not None for each in run.parts.values()):
            self._loop.spawn(self._finish(run))


class NamesNoRunsToANewAgent(GangNodes):
    async def _introduce(self, node: GangNode) -> None:
        if not node.life:
            await super()._introduce(node)


class ForgetsWhatItGaveUp(GangNodes):
    """The end of a run that was given up is told to nobody, though it may not have been stored."""

    def _on_update(self, node: GangNode, update: RunUpdate) -> None:
        if update.run_id not in node.old_runs:
            self._runs.on_update(node.name, update)
        elif isinstance(update, RunGone):
            self._loop.spawn(self._cleared(node, update.run_id))


class BeginsWhatMustStop(GangRuns):
    """A run that was stopped before it began begins on those nodes that were not asked yet."""

    def _orders(self, run: GangRun, part: GangPart) -> list[Order]:
        return [Start(o.spec) if isinstance(o, Adopt) else o for o in super()._orders(run, part)][:1]


def uses_silent_nodes(self: Nodes, name: str, at: float) -> list[Any]:
    return []


BUGS = {
    "a gang is given up before the lease is over": NodeParts(silent=GivesUpBeforeTheLease),
    "an agent judges records by the boot id of another machine": NodeParts(agent=JudgesAnotherBoot),
    "ranks do not follow the nodes": NodeParts(runs=NumbersNodesBackwards),
    "a returned node is used before its old runs are over": NodeParts(nodes=UsesReturnedNodesAtOnce),
    "a part that fails leaves the others alone": NodeParts(runs=LeavesTheOthersAlone),
    "an agent that was started again is told of no run": NodeParts(nodes=NamesNoRunsToANewAgent),
    "what was given up and not stored is forgotten": NodeParts(nodes=ForgetsWhatItGaveUp),
    "a run that is to stop is begun": NodeParts(runs=BeginsWhatMustStop),
}
BROKEN_CALLS: dict[str, tuple[Any, str, Any]] = {
    "slots of a silent node are used again": (Nodes, "_fell_silent", uses_silent_nodes),
}


@pytest.mark.parametrize("bug", [*BUGS, *BROKEN_CALLS])
def test_a_seeded_bug_of_nodes_is_found(bug: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug in BROKEN_CALLS:
        monkeypatch.setattr(*BROKEN_CALLS[bug])
    with pytest.raises(Failure) as found:
        campaign(sorted(range(WITHIN_SEEDS), key=lambda seed: seed not in TELLING), folder, BUGS.get(bug))
    # A bug that no longer fits the code would prove nothing.
    assert not isinstance(found.value.__cause__, AttributeError | TypeError | NameError), found.value
