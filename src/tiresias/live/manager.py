"""The live manager: the Controller of the simulator over a journal, an executor and a clock.

One thread calls it. Requests (asking.py), reports and the clock (keeper.py) are applied at once; `flush`
(books.py) makes them durable and carries out what was decided; looking.py answers questions. There is no
scheduling here: who runs and where is decided by the same core as in the simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tiresias.core import facts as f
from tiresias.core.commands import StartRun
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Cluster, JobId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.executors.base import Executor
from tiresias.live.clock import Clock
from tiresias.live.looking import Window
from tiresias.live.machine import MISSING, Machine
from tiresias.live.reports import DryRun, WhyReport
from tiresias.live.settings import Settings
from tiresias.live.submission import Caller, Submission
from tiresias.store import Chosen, Store
from tiresias.store.rows import rebuild


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
        manager.recover(loaded)
        manager._match_machine()
        return manager

    def _match_machine(self) -> None:
        """Take out of service what the journal knows and the machine no longer has; add what is new."""
        known = {node.name: node for node in self.state.ledger.nodes}
        for node in self.machine.nodes:
            if node.name not in known:
                self.apply(f.NodeAdded(self.now(), node))
        for node in list(known.values()):
            for index in range(node.gpus):
                slot = f"{node.name}:{index}"
                gpu = self.machine.gpus.get(slot)
                reason = MISSING if gpu is None else gpu.unhealthy
                if reason and slot not in self.out_of_service:
                    self.withdraw(slot, reason)
                elif not reason and self.out_of_service.get(slot) == MISSING:
                    self.restore(slot)

    def dry_run(self, caller: Caller, submission: Submission) -> DryRun:
        """What would become of it now. Worked out on a copy of the State of the last commit."""
        asked = self._checked(caller, submission)
        rows = self.store.rows()
        policy = policies.make(self.chosen.policy, self.chosen.options)
        memory = policy.restore(policy.save(self.state.memory))
        placer = placers.make(self.chosen.placer, self.chosen.placer_options)
        state = rebuild(rows, memory)
        controller, step = Controller(state, policy, placer), Step()
        at = max(self.now(), state.at)
        controller.handle([f.TimerFired(at)], step)
        step = Step()
        id = JobId(self.next_job_id)
        controller.handle([f.JobSubmitted(at, asked.to_job(id, at))], step)
        displaced = [state.runs[fact.run_id].job_id for fact in step.facts if isinstance(fact, f.RunRevoked)]
        starts = [each for each in step.commands if isinstance(each, StartRun) and each.job_id == id]
        if starts:
            return DryRun(True, list(state.ledger.slot_names(starts[0].allocation)), [], None)
        found = controller.why(id)
        assert found is not None
        reason = WhyReport(
            found.code,
            found.text,
            "",
            found.ahead_jobs,
            found.ahead_gpus,
            found.free_gpus,
            found.best_hole,
        )
        return DryRun(False, [], [int(job) for job in displaced], reason)
