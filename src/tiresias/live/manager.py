"""The live manager: the Controller of the simulator over a journal, an executor and a clock.

One thread calls it. Requests (asking.py), reports and the clock (keeper.py) are applied at once; `flush`
(books.py) makes them durable and carries out what was decided; looking.py answers questions. There is no
scheduling here: who runs and where is decided by the same core as in the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import Cluster, JobId, Node
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.executors.base import Executor
from tiresias.live import gates
from tiresias.live.clock import Clock
from tiresias.live.keeper import UNHEALTHY
from tiresias.live.learning import GIVEN, learned
from tiresias.live.looking import Window
from tiresias.live.machine import MISSING, Machine
from tiresias.live.preview import preview
from tiresias.live.reports import DryRun, WhyReport
from tiresias.live.settings import Settings
from tiresias.live.submission import Caller, Submission
from tiresias.store import Chosen, Store

BARRED = {  # what a job that is not submitted yet would wait for
    gates.DEPENDENCY: "it would come after jobs that have not ended",
    gates.BEGIN: "it would begin no sooner than asked",
    gates.QUOTA: "its user's limit of GPUs at once is used up by jobs that come first",
}


class Manager(Window):
    """See the module. Made by `open`; `recover` has been called then."""

    @classmethod
    def open(
        cls,
        home: Path,
        store: Store,
        executor: Executor,
        machine: Machine,
        chosen: Chosen,
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Begin a new journal under `chosen`, or go on with the one there is, under what it says."""
        clock = clock or Clock()
        if store.is_new:
            given = dict(chosen.placer_options)
            store.set_setting(GIVEN, given)
            chosen = replace(chosen, placer_options={**learned(chosen.placer, machine, ""), **given})
            state = State(Cluster(list(machine.nodes)))
            policy = policies.make(chosen.policy, chosen.options)
            controller = Controller(state, policy, placers.make(chosen.placer, chosen.placer_options))
            store.begin(controller, chosen)
        loaded = store.load()
        chosen = loaded.chosen
        clock.at_least(loaded.state.at)
        placer = placers.make(chosen.placer, chosen.placer_options)
        controller = Controller(loaded.state, loaded.policy, placer)
        manager = cls(
            home, store, executor, machine, controller, chosen, clock=clock, settings=settings
        )
        manager.relearn()  # the machine may be wired otherwise now
        manager.recover(loaded)
        return manager

    def machine_facts(self, at: float) -> list[f.Fact]:
        """Out of service goes what the journal knows and the machine no longer has; what is new is added."""
        known = {node.name: node for node in self.state.ledger.nodes}
        facts: list[f.Fact] = [f.NodeAdded(at, node) for node in self.machine.nodes if node.name not in known]
        for node in (known | {node.name: node for node in self.machine.nodes}).values():
            for index in range(node.gpus):
                slot = f"{node.name}:{index}"
                gpu = self.machine.gpus.get(slot)
                reason = MISSING if gpu is None else gpu.unhealthy and UNHEALTHY + gpu.unhealthy
                if reason and slot not in self.out_of_service:
                    self.out_of_service[slot] = reason
                    facts.append(f.SlotDrained(at, node.name, index))
                elif not reason and self.out_of_service.get(slot, "").startswith((MISSING, UNHEALTHY)):
                    del self.out_of_service[slot]
                    facts.append(f.SlotRestored(at, node.name, index))
        if facts:
            self._keep_reasons()
        return [*facts, *self._regrouped(at, known)]

    def _regrouped(self, at: float, known: Mapping[str, Node]) -> list[f.Fact]:
        """Groups that differ from those known; a node of which GPUs are missing keeps the ones it has."""
        found: list[f.Fact] = []
        for node in self.machine.nodes:
            slots = [self.machine.gpus.get(f"{node.name}:{index}") for index in range(node.gpus)]
            is_whole = all(gpu is not None and (gpu.uuid or self.machine.watch is None) for gpu in slots)
            if node.name in known and is_whole and known[node.name].sockets != node.sockets:
                found.append(f.NodeRegrouped(at, node.name, node.sockets))
        return found

    def dry_run(self, caller: Caller, submission: Submission) -> DryRun:
        """What would become of it now; nothing changes."""
        with self.models.trying():
            asked = self._checked(caller, submission)
            at = self.now()
            barred = self.gates.would_bar(asked, at)
            if asked.hold:
                return DryRun(False, [], [], WhyReport("Held", "it would be on hold", "leave out --hold"))
            if barred:
                return DryRun(False, [], [], WhyReport(barred, BARRED[barred], ""))
            return preview(self.controller, asked.to_job(JobId(self.next_job_id), at), at)
