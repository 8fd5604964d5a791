"""The target of strict policies, under which the first job that does not fit blocks all behind it.

It walks along the ranks at each instant, but only when some job would have to wait: while all demands fit
together, every one is admitted. If ranks drift, those of jobs that hold GPUs are sorted anew; the rank of a
waiting job changes with facts only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, islice

from tiresias.core.entries import JobEntry, Key
from tiresias.core.model import JobId
from tiresias.core.state import JobState, State

Drifting = tuple[int, float, float, float, float, int]
"""(priority class, rank at an instant, that instant, change per second, submission, id)."""


class SortedTarget:
    """Has the same contract as Target, except that admissions and `flips` are complete only after `settle`.

    With `drift`, ranks must be single numbers.
    """

    def __init__(self, state: State, drift: Callable[[JobState], float] | None, *, strict: bool = False):
        self.capacity = state.ledger.capacity
        self._state = state
        self.flips: dict[JobId, JobEntry] = {}
        self._drift = drift
        self._strict = strict
        self._at = 0.0
        self._total = 0  # GPUs of all ranked entries
        self._entries: dict[JobId, JobEntry] = {}
        self._fixed: list[Key] = []  # keys that do not drift, sorted
        self._drifting: dict[JobId, Drifting] = {}  # of jobs that hold GPUs, in the order of the last walk
        self._outside: dict[JobId, JobEntry] = {}  # ranked but not admitted
        self._admitted: set[JobId] = set()

    def __iter__(self) -> Iterator[JobEntry]:
        """The ranked entries in the order of the last walk; their keys are brought up to date."""
        keys = self._drifted_keys()
        for key in keys:
            self._entries[key[-1]].key = key
        for key in sorted([*keys, *self._fixed]):
            yield self._entries[key[-1]]

    @property
    def used(self) -> int:
        return sum(self._entries[id].gpus for id in self._admitted)

    @property
    def refused(self) -> int:
        return len(self._outside)

    def add(self, entry: JobEntry, key: Key) -> None:
        self._entries[entry.id] = entry
        self._total += entry.gpus
        self._outside[entry.id] = entry
        self.flips[entry.id] = entry
        self._insert(entry, key)

    def gather(self) -> None:
        """Nothing to do: entries are sorted when they are walked."""

    def fill(self) -> None:
        """Nothing to do."""

    def drop(self, entry: JobEntry) -> None:
        self._remove(entry)
        del self._entries[entry.id]
        self._total -= entry.gpus
        if entry.admitted:
            self._admitted.discard(entry.id)
        else:
            del self._outside[entry.id]
        self.flips.pop(entry.id, None)
        entry.key = None
        entry.admitted = False

    def rerank(self, entry: JobEntry, key: Key) -> None:
        if entry.id in self._drifting and entry.job.gpu_run is not None:
            self._drifting[entry.id] = self._drifting_key(entry, key)  # in place: it stays nearly sorted
            entry.key = key
            return
        self._remove(entry)
        self._insert(entry, key)

    def pin(self, entry: JobEntry) -> None:
        self.capacity -= entry.gpus
        self.drop(entry)

    def resize(self, capacity: int) -> None:
        self.capacity = capacity

    def settle(self, at: float) -> None:
        """Walk along the ranks as they are at this instant."""
        self._at = at
        if self._total <= self.capacity:
            if self._outside:
                for entry in self._outside.values():
                    self._admit(entry)
                self._outside.clear()
            return
        ranked = sorted(self._drifted_keys())
        drifting = self._drifting  # kept in this order, so that the next sort finds it nearly sorted
        self._drifting = {key[-1]: drifting[key[-1]] for key in ranked}
        self._admit_only(self._walk(ranked))

    def trial(self, entry: JobEntry, key: Key, at: float) -> tuple[bool, list[JobEntry]]:
        """Whether an entry that is not ranked would be admitted so, and which ones it would push out."""
        before, self._at = self._at, at
        insort(self._fixed, key)
        self._entries[entry.id] = entry
        try:
            is_enough = self._total + entry.gpus <= self.capacity
            chosen = set(self._entries) if is_enough else self._walk(sorted(self._drifted_keys()))
        finally:
            self._fixed.remove(key)
            del self._entries[entry.id]
            self._at = before
        return entry.id in chosen, [self._entries[id] for id in sorted(self._admitted - chosen)]

    def _walk(self, ranked: list[Key]) -> set[JobId]:
        """What the room admits, first of `ranked` and the others ahead of its last, then of the rest."""
        entries = self._entries
        behind = bisect_left(self._fixed, ranked[-1]) if ranked else 0
        if behind:
            ranked = sorted(ranked + self._fixed[:behind])
        used = list(accumulate([entries[key[-1]].gpus for key in ranked]))
        fit = bisect_right(used, self.capacity)  # so many fit one after the other: no need to look at each
        room = self.capacity - (used[fit - 1] if fit else 0)
        chosen = {key[-1] for key in ranked[:fit]}
        if not room:
            return chosen
        for key in chain(islice(ranked, fit, None), islice(self._fixed, behind, None)):
            entry = entries[key[-1]]
            if entry.gpus <= room:
                room -= entry.gpus
                chosen.add(entry.id)
                if not room:
                    break
            elif self._strict:
                break
        return chosen

    def _admit_only(self, chosen: set[JobId]) -> None:
        for id in sorted(self._admitted - chosen):
            entry = self._entries[id]
            entry.admitted = False
            entry.key = self._key_now(entry)
            self._admitted.remove(id)
            self._outside[id] = entry
            self.flips[id] = entry
        for id in sorted(chosen - self._admitted):
            self._admit(self._outside.pop(id))

    def _admit(self, entry: JobEntry) -> None:
        entry.admitted = True
        self._admitted.add(entry.id)
        self.flips[entry.id] = entry

    def _drifted_keys(self) -> list[Key]:
        at = self._at
        return [(p, r + d * (at - since), s, i) for p, r, since, d, s, i in self._drifting.values()]

    def _key_now(self, entry: JobEntry) -> Key:
        """The key at the instant of the walk."""
        drifting = self._drifting.get(entry.id)
        if drifting is None:
            assert entry.key is not None
            return entry.key
        p, r, since, d, s, i = drifting
        return (p, r + d * (self._at - since), s, i)

    def _drifting_key(self, entry: JobEntry, key: Key) -> Drifting:
        assert self._drift is not None
        priority, rank, submitted_at, id = key
        return (priority, rank, self._state.at, self._drift(entry.job), submitted_at, id)

    def _insert(self, entry: JobEntry, key: Key) -> None:
        entry.key = key
        if self._drift is not None and entry.job.gpu_run is not None:
            self._drifting[entry.id] = self._drifting_key(entry, key)
        else:
            insort(self._fixed, key)

    def _remove(self, entry: JobEntry) -> None:
        if self._drifting.pop(entry.id, None) is None:
            key = entry.key
            assert key is not None
            index = bisect_left(self._fixed, key)
            assert self._fixed[index] == key, ("not ranked under this key", key)
            del self._fixed[index]
