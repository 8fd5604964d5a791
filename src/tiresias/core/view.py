"""Read-only views of the State, for plug-ins and tests. Jobs without GPUs are not in their lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tiresias.core.entries import JobEntry, Key
from tiresias.core.facts import Allotment
from tiresias.core.ledger import Ledger
from tiresias.core.model import INFINITY, JobId, Node
from tiresias.core.state import JobState, State
from tiresias.core.wish_target import WishTarget


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


class AllotView(View):
    """What an allocator is shown: the jobs among which it shares out `room` GPUs, and what is taken."""

    __slots__ = ("_entries", "_target", "changed")

    def __init__(self, state: State, target: WishTarget, entries: Mapping[JobId, JobEntry]):
        super().__init__(state, target)
        self._target = target
        self._entries = entries
        # The jobs about which anything has changed since this object was last asked, ended ones included;
        # None: anything may have changed.
        self.changed: list[JobState] | None = (
            None if target.changed is None else [entry.job for entry in target.changed.values()]
        )

    @property
    def room(self) -> int:
        """The GPUs that the wish may give: those in service that no taken run holds."""
        return self._target.capacity

    @property
    def ledger(self) -> Ledger:
        """Which slots are free, and which run holds which."""
        return self._state.ledger

    @property
    def wish(self) -> Mapping[JobId, Allotment]:
        """The wish that stands."""
        return {} if self._state.wish is None else self._state.wish.jobs

    @property
    def again_at(self) -> float:
        """The instant at which the allocator wanted to be asked again; there is no wish yet: -INFINITY."""
        return -INFINITY if self._state.wish is None else self._state.wish.again_at

    @property
    def shares(self) -> Mapping[str, float]:
        """The weights of tenants; a tenant that is not named has a weight of 1."""
        return self._state.shares

    def jobs(self) -> Iterator[JobState]:
        """The jobs to which the wish may give GPUs, in rank order: not taken, on hold or deferred."""
        return self.ranked()

    def taken(self) -> Iterator[JobState]:
        """The jobs whose runs may not be stopped now: their GPUs are not in `room`."""
        return (entry.job for entry in self._entries.values() if entry.pinned)

    def is_taken(self, job: JobState) -> bool:
        entry = self._entries.get(job.id)
        return entry is not None and entry.pinned

    def key(self, job: JobState) -> Key | None:
        """What the job is ordered by: (priority class, the rank, submission, id); None: the wish may not
        name it."""
        entry = self._entries.get(job.id)
        return None if entry is None else entry.key
