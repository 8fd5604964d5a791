"""The target of allocators: the jobs to which the wish gives GPUs, and what has changed since it was made.

It has the methods of Target. Nothing is worked out here: a job is admitted if the wish that stands gives it
the GPUs that it needs. Which jobs were ranked, ranked anew, pinned or dropped since the allocator was last
asked is collected, so that an allocator need not look at all jobs every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from tiresias.core.entries import JobEntry, Key
from tiresias.core.facts import Allocation, Allotment
from tiresias.core.model import JobId
from tiresias.core.state import State
from tiresias.core.wish import slots_of

BY_KEY = attrgetter("key")


class WishTarget:
    """Has the contract of Target. `changed` is None if anything may have changed."""

    def __init__(self, state: State):
        self.capacity = state.ledger.capacity
        self.used = 0  # GPUs of the admitted entries
        self.refused = 0  # how many ranked entries are not admitted
        self.flips: dict[JobId, JobEntry] = {}
        self.changed: dict[JobId, JobEntry] | None = None
        self._state = state
        self._entries: dict[JobId, JobEntry] = {}
        # By slot: the jobs to which it is given or whose taken runs hold it, each with its layer.
        self._sold: dict[tuple[int, int], dict[JobId, int]] = {}
        self._sold_to: dict[JobId, Allocation] = {}
        self._unsettled: dict[JobId, None] | None = None  # jobs for which these are out of date; None: all

    def __iter__(self) -> Iterator[JobEntry]:
        """The ranked entries in order."""
        return iter(sorted(self._entries.values(), key=BY_KEY))

    def add(self, entry: JobEntry, key: Key) -> None:
        entry.key = key
        self._entries[entry.id] = entry
        self.refused += 1
        self.note(entry)
        self.flips[entry.id] = entry
        if self._is_wanted(entry):
            self._admit(entry)

    def gather(self) -> None:
        """Nothing to do: what is admitted does not depend on the order."""

    def fill(self) -> None:
        """Nothing to do."""

    def drop(self, entry: JobEntry) -> None:
        del self._entries[entry.id]
        if entry.admitted:
            self._refuse(entry)
        self.refused -= 1
        self.flips.pop(entry.id, None)
        entry.key = None
        self.note(entry)

    def rerank(self, entry: JobEntry, key: Key) -> None:
        entry.key = key
        self.note(entry)

    def pin(self, entry: JobEntry) -> None:
        self.capacity -= entry.gpus
        self.drop(entry)

    def resize(self, capacity: int) -> None:
        self.capacity = capacity

    def settle(self, at: float) -> None:
        """Nothing to do: the wish was made before."""

    def trial(self, entry: JobEntry, key: Key, at: float) -> tuple[bool, list[JobEntry]]:
        """Whether the GPUs that the wish leaves would be enough; nobody but the allocator knows more."""
        return entry.gpus <= self.capacity - self.used, []

    def follow(self, given: Iterable[Allotment], withdrawn: Iterable[JobId]) -> None:
        """The wish that stands has changed so."""
        given, withdrawn = list(given), list(withdrawn)
        if self._unsettled is not None:
            self._unsettled |= dict.fromkeys(withdrawn) | {each.job_id: None for each in given}
        for id in withdrawn:
            entry = self._entries.get(id)
            if entry is not None and entry.admitted:
                self._refuse(entry)
                self.flips[id] = entry
            if entry is not None:
                entry.gpus = entry.job.gpus  # an elastic job that does not run has its reference size again
        for allotment in given:
            entry = self._entries.get(allotment.job_id)
            if entry is None:
                continue  # it is taken, and only its turns have changed
            if entry.gpus != allotment.gpus:  # it is elastic
                if entry.admitted:
                    self.used += allotment.gpus - entry.gpus
                entry.gpus = allotment.gpus
            if not entry.admitted and self._is_wanted(entry):
                self._admit(entry)
                self.flips[entry.id] = entry

    def _is_wanted(self, entry: JobEntry) -> bool:
        wish = self._state.wish
        allotment = None if wish is None else wish.jobs.get(entry.id)
        return allotment is not None and allotment.gpus == entry.gpus

    def _admit(self, entry: JobEntry) -> None:
        entry.admitted = True
        self.used += entry.gpus
        self.refused -= 1

    def _refuse(self, entry: JobEntry) -> None:
        entry.admitted = False
        self.used -= entry.gpus
        self.refused += 1

    def note(self, entry: JobEntry) -> None:
        """Something about this entry has changed."""
        if self.changed is not None:
            self.changed[entry.id] = entry
        if self._unsettled is not None:
            self._unsettled[entry.id] = None

    def sold(self, entries: Mapping[JobId, JobEntry]) -> Mapping[tuple[int, int], Mapping[JobId, int]]:
        """By slot: the jobs to which the wish that stands gives it or whose taken runs hold it, by layer."""
        if self._unsettled is None:
            self._sold.clear()
            self._sold_to.clear()
        for id in entries if self._unsettled is None else self._unsettled:
            self._settle(id, entries.get(id))
        self._unsettled = {}
        return self._sold

    def _settle(self, id: JobId, entry: JobEntry | None) -> None:
        sold = self._sold
        for slot in slots_of(self._sold_to.pop(id, ())):
            del sold[slot][id]
        if entry is None:
            return
        run, wish = entry.job.gpu_run, self._state.wish
        slots, layer = None, 0
        if entry.pinned and run is not None:
            slots, layer = run.allocation, run.layer
        elif entry.key is not None and wish is not None and (allotment := wish.jobs.get(id)) is not None:
            slots, layer = allotment.slots, allotment.layer
        if slots:
            self._sold_to[id] = slots
            for slot in slots_of(slots):
                sold.setdefault(slot, {})[id] = layer
