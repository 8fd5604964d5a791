"""A read-only view of the State, for plug-ins and tests. Jobs without GPUs are not in its lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiresias.core.entries import JobEntry
from tiresias.core.model import JobId, Node
from tiresias.core.state import JobState, State


class View:
    """What is known now, to be read only; `ranked` are the jobs in the order of the last plan."""

    __slots__ = ("_ranked", "_state")

    def __init__(self, state: State, ranked: Iterable[JobEntry]):
        self._state = state
        self._ranked = ranked

    @property
    def at(self) -> float:
        return self._state.at

    @property
    def gpus(self) -> int:
        return self._state.ledger.gpus

    @property
    def free_gpus(self) -> int:
        return self._state.ledger.free

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._state.ledger.nodes)

    def job(self, id: JobId) -> JobState | None:
        """The active job of this id."""
        return self._state.jobs.get(id)

    def running(self) -> Iterator[JobState]:
        """The jobs that hold GPUs."""
        return (job for job in self._state.jobs.values() if job.gpus and job.gpu_run is not None)

    def waiting(self) -> Iterator[JobState]:
        """The jobs that hold no GPUs; some of them may run on CPUs."""
        return (job for job in self._state.jobs.values() if job.gpus and job.gpu_run is None)

    def ranked(self) -> Iterator[JobState]:
        """Every job that is neither pinned, on hold nor deferred, best first."""
        return (entry.job for entry in self._ranked)
