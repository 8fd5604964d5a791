"""Nodes on which different jobs keep failing are taken out of service; `tir undrain` pardons them.

Rules, for managers of many nodes only:
- A failure counts if its reason can be the node's: a program or file that is missing there, a full disk, a
  run that was lost or could not be started. An error in the code of a training does not.
- It counts for the node of the worker that failed first. A run that finishes on a node clears it.
- The last node in service stays.
"""

from __future__ import annotations

from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY
from tiresias.core.reasons import ReasonCode
from tiresias.live.gpu_health import GpuHealth
from tiresias.live.journal import Input, Journal, Taken
from tiresias.live.machine import Machine
from tiresias.live.settings import Settings

FAILURES = "node_failures"  # the setting: by node, the jobs that failed there since a run last finished
OF_THE_NODE = frozenset(
    {
        ReasonCode.NOT_STARTED,
        ReasonCode.LOST,
        ReasonCode.HOST_MEMORY,
        ReasonCode.KILLED,
        ReasonCode.DISK_FULL,
        ReasonCode.IMPORT_ERROR,
        ReasonCode.FILE_ERROR,
        ReasonCode.NETWORK,
        ReasonCode.GPU_OR_DRIVER,
    }
)


class BadNodes:
    """The part that counts failures by node."""

    next_due_at = INFINITY

    def __init__(self, journal: Journal, machine: Machine, gpu_health: GpuHealth, settings: Settings):
        self._journal, self._machine, self._gpu_health = journal, machine, gpu_health
        self._settings = settings
        self._failures: dict[str, list[int]] = journal.store.setting(FAILURES, {})

    def due(self, at: float) -> list[Input]:
        return []

    def pardon(self, node: str) -> None:
        if self._failures.pop(node, None) is not None:
            self._keep()

    def on(self, taken: Taken) -> list[Input]:
        exit = taken.exit
        if exit is None or self._machine.source is None:
            return []
        if exit.outcome.exit is ExitCause.FINISHED:
            for node in {slot.rpartition(":")[0] for slot in exit.slots}:
                self.pardon(node)
            return []
        node = exit.failed_on
        if not node or exit.outcome.code not in OF_THE_NODE:
            return []
        failed = self._failures.setdefault(node, [])
        if exit.job.id not in failed:
            failed.append(exit.job.id)
            self._keep()
        if len(failed) < self._settings.withdraw_after or not self._others_serve(node):
            return []
        jobs = ", ".join(map(str, failed))
        self.pardon(node)
        return [self._gpu_health.drain_node(node, f"jobs {jobs} failed there: {exit.outcome.sentence}")]

    def _others_serve(self, node: str) -> bool:
        ledger = self._journal.state.ledger
        there = ledger.position(node) if ledger.has_node(node) else None
        if there is None or not ledger.is_usable(there):
            return False
        return any(ledger.is_usable(other) for other in range(len(ledger.nodes)) if other != there)

    def _keep(self) -> None:
        self._journal.keep_setting(FAILURES, dict(self._failures))
