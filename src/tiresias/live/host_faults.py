"""Faults of the machine at the start of a run: no inodes, no processes, no descriptors, no memory.

They are not the fault of the job: it queues again without using a retry. Other jobs would meet the same
fault, so all nodes are drained for a while, and the pause doubles as long as no run starts.
"""

from __future__ import annotations

import logging

from tiresias.core import facts as f
from tiresias.core.model import INFINITY
from tiresias.live.dispatcher import HOST_FAULT, Dispatcher
from tiresias.live.gpu_health import GpuHealth
from tiresias.live.journal import Input, Journal, Taken
from tiresias.live.outcome import backoff_s
from tiresias.live.settings import Settings

log = logging.getLogger("tiresias")

RETRY_S = 1.0  # between two tries to carry out a command that has failed


class HostFaults:
    """The part that pauses starting after such a fault, and goes on with it."""

    def __init__(self, journal: Journal, gpu_health: GpuHealth, dispatcher: Dispatcher, settings: Settings):
        self._journal, self._gpu_health, self._settings = journal, gpu_health, settings
        self._dispatcher = dispatcher
        self._times = 0  # pauses since a run was last started
        self._until = journal.now() if self._paused() else INFINITY  # after a restart it is tried at once

    def _paused(self) -> list[str]:
        """The nodes that are drained for this; an administrator may have restored some."""
        reasons = self._gpu_health.out_of_service
        return [name for name, reason in reasons.items() if reason.startswith(HOST_FAULT)]

    @property
    def problem(self) -> str:
        """Why no run can be started at present; empty if nothing is wrong."""
        paused = self._paused()
        return self._gpu_health.out_of_service[paused[0]] if paused else self._dispatcher.problem

    def pause(self, sentence: str, at: float) -> list[f.Fact]:
        """Start nothing for a while, because of what this sentence says; the facts that bring it about."""
        if not self._paused():
            self._times += 1
            self._until = at + backoff_s(self._times, self._settings)
            log.error("%s%s It is tried again in %.0f s.", HOST_FAULT, sentence, self._until - at)
        facts: list[f.Fact] = []
        for node in self._journal.state.ledger.nodes:
            if node.name not in self._gpu_health.out_of_service:
                self._gpu_health.drain_node(node.name, HOST_FAULT + sentence)
                facts.append(f.NodeDrained(at, node.name))
        return facts

    def on(self, taken: Taken) -> list[Input]:
        if self._times and any(isinstance(fact, f.RunStarted) for fact in taken.facts):
            self._times = 0
        return []

    @property
    def next_due_at(self) -> float:
        return min(self._until, self._dispatcher.failed_at + RETRY_S)

    def due(self, at: float) -> list[Input]:
        """Go on after the pause."""
        if at < self._until:
            return []
        self._until = INFINITY
        return [self._gpu_health.restore_node(name) for name in self._paused()]
