"""The queue as people see it: its levels, what the policy has learned, and who would be displaced next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tiresias.core.entries import JobEntry
from tiresias.core.model import INFINITY, Phase
from tiresias.core.state import JobState
from tiresias.core.wish import Wish
from tiresias.live.answers import JobSummary, QueueInfo, QueueLevel
from tiresias.live.journal import Journal

SHOWN = 5  # runs that would be displaced next
LEVELS, ORDER, STRICT, ALLOCATOR = "levels", "order", "strict", "allocator"
FRESH_S = 1.0  # for so long the same answer is given


class QueueOrder:
    """Answers are kept for a second: however many pages ask, the jobs are counted once in that time."""

    def __init__(self, journal: Journal, summarise: Callable[[Sequence[JobState]], list[JobSummary]]):
        self._journal = journal
        self._summarise = summarise
        self._kept: tuple[float, QueueInfo] | None = None

    def info(self) -> QueueInfo:
        now = self._journal.now()
        if self._kept is None or not 0.0 <= now - self._kept[0] < FRESH_S:
            self._kept = now, self._info(now)
        return self._kept[1]

    def _info(self, now: float) -> QueueInfo:
        journal, policy = self._journal, self._journal.controller.policy
        memory = journal.state.memory
        ladder = policy.thresholds(memory)
        counted = [job for job in journal.state.jobs.values() if job.gpus]
        if ladder is not None:
            levels = _empty(ladder)
            for job in counted:
                queue = policy.queue(job, memory, now)
                if queue is not None:
                    _count(levels[min(queue, len(levels) - 1)], job)  # they may just have changed
            kind = LEVELS
        else:
            levels = [QueueLevel(1, 0.0, None)]
            for job in counted:
                _count(levels[0], job)
            kind = ALLOCATOR if policy.allots else STRICT if policy.strict else ORDER
        victims = [entry.job for entry, _ in zip(self._next_displaced(), range(SHOWN), strict=False)]
        return QueueInfo(
            policy=journal.chosen.policy,
            kind=kind,
            preempts=policy.preempts,
            levels=levels,
            next_displaced=self._summarise(victims),
            not_preemptible=sum(1 for entry in journal.controller.pinned() if entry.job.run is not None),
            learned=policy.learned(memory),
            **(_dates(journal.state.wish, now) if policy.allots else {}),
        )

    def _next_displaced(self) -> Iterator[JobEntry]:
        """Running jobs that may be preempted, the one with the worst rank first."""
        policy = self._journal.controller.policy
        if not policy.preempts or policy.allots:
            return
        for entry in reversed(list(self._journal.controller.target)):
            job = entry.job
            if job.gpu_run is not None and not entry.pinned and job.phase is not Phase.STOPPING:
                yield entry


def _dates(wish: Wish | None, now: float) -> dict[str, Any]:
    """When the allocator decides again, and the leases that have not ended."""
    if wish is None:
        return {}
    leases = {id: each.until for id, each in wish.jobs.items() if each.until is not None and each.until > now}
    return {"again_at": None if wish.again_at == INFINITY else wish.again_at, "leases": leases}


def _empty(ladder: Sequence[float]) -> list[QueueLevel]:
    bounds = [0.0, *ladder]
    inner = [QueueLevel(number, low, high) for number, (low, high) in enumerate(pairwise(bounds), 1)]
    return [*inner, QueueLevel(len(bounds), bounds[-1], None)]


def _count(level: QueueLevel, job: JobState) -> None:
    level.jobs += 1
    if job.gpu_run is not None:
        level.running_jobs += 1
        level.running_gpus += job.gpus
    else:
        level.waiting_jobs += 1
        level.wanted_gpus += job.gpus
