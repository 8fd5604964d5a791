"""The target of policies whose ranks move with time while a job runs: sorted anew at each instant.

Only jobs that hold slots are ranked anew (a waiting job's rank changes with facts only), and only when
somebody would have to wait: while all demands fit together nobody is ever refused. Also the target of
strict policies, in which the first job that does not fit blocks all behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, islice

from tiresias.core.model import JobId
from tiresias.core.state import JobState, Key, State

Line = tuple[int, float, float, float, float, int]
"""(priority class, rank at an instant, that instant, change a second, submission, id)."""


class SortedTarget:
    """Same contract as Target; `flips` is complete after `settle`."""

    def __init__(self, state: State, drift: Callable[[JobState], float] | None, *, strict: bool = False):
        self.capacity = state.ledger.capacity
        self._state = state
        self.flips: dict[JobId, JobState] = {}
        self._drift = drift
        self._strict = strict
        self._at = 0.0
        self._total = 0  # GPUs of all ranked jobs
        self._jobs: dict[JobId, JobState] = {}
        self._still: list[Key] = []  # jobs without a run, sorted
        self._moving: dict[JobId, Line] = {}  # jobs with a run, in the order of the last walk
        self._outside: dict[JobId, JobState] = {}  # ranked but not admitted
        self._admitted: set[JobId] = set()

    def __iter__(self) -> Iterator[JobState]:
        """The ranked jobs in the order of the last walk; their keys are brought up to date."""
        keys = self._moving_keys()
        for key in keys:
            self._jobs[key[-1]].key = key
        for key in sorted([*keys, *self._still]):
            yield self._jobs[key[-1]]

    @property
    def used(self) -> int:
        return sum(self._jobs[id].gpus for id in self._admitted)

    @property
    def refused(self) -> int:
        return len(self._outside)

    def add(self, job: JobState, key: Key) -> None:
        self._jobs[job.id] = job
        self._total += job.gpus
        self._outside[job.id] = job
        self.flips[job.id] = job
        self._file(job, key)

    def drop(self, job: JobState) -> None:
        self._unfile(job)
        del self._jobs[job.id]
        self._total -= job.gpus
        if job.admitted:
            self._admitted.discard(job.id)
        else:
            del self._outside[job.id]
        self.flips.pop(job.id, None)
        job.key = None
        job.admitted = False

    def move(self, job: JobState, key: Key) -> None:
        if job.run is not None and job.id in self._moving:
            self._moving[job.id] = self._line(job, key)  # in place, so that the order stays nearly sorted
            job.key = key
            return
        self._unfile(job)
        self._file(job, key)

    def pin(self, job: JobState) -> None:
        self.capacity -= job.gpus
        self.drop(job)

    def resize(self, capacity: int) -> None:
        self.capacity = capacity

    def settle(self, at: float) -> None:
        """Walk the ranks as they are at this instant."""
        self._at = at
        if self._total <= self.capacity:
            if self._outside:
                for job in self._outside.values():
                    self._admit(job)
                self._outside.clear()
            return
        ranked = sorted(self._moving_keys())
        lines = self._moving  # kept in this order, so that the next sort finds it nearly done
        self._moving = {key[-1]: lines[key[-1]] for key in ranked}
        self._admit_only(self._walk(ranked))

    def trial(self, job: JobState, key: Key, at: float) -> tuple[bool, list[JobState]]:
        """Whether a job that is not ranked would be admitted so, and who would not be any more."""
        before, self._at = self._at, at
        self._jobs[job.id] = job
        insort(self._still, key)
        is_enough = self._total + job.gpus <= self.capacity
        chosen = set(self._jobs) if is_enough else self._walk(sorted(self._moving_keys()))
        self._still.remove(key)
        del self._jobs[job.id]
        self._at = before
        return job.id in chosen, [self._jobs[id] for id in sorted(self._admitted - chosen)]

    def _walk(self, ranked: list[Key]) -> set[JobId]:
        """Whom the room admits, first of `ranked` and the others ahead of its last, then of the rest."""
        jobs = self._jobs
        behind = bisect_left(self._still, ranked[-1]) if ranked else 0
        if behind:
            ranked = sorted(ranked + self._still[:behind])
        used = list(accumulate([jobs[key[-1]].gpus for key in ranked]))
        fit = bisect_right(used, self.capacity)  # so many fit one after the other: no need to look at each
        room = self.capacity - (used[fit - 1] if fit else 0)
        chosen = {key[-1] for key in ranked[:fit]}
        if not room:
            return chosen
        for key in chain(islice(ranked, fit, None), islice(self._still, behind, None)):
            job = jobs[key[-1]]
            if job.gpus <= room:
                room -= job.gpus
                chosen.add(job.id)
                if not room:
                    break
            elif self._strict:
                break
        return chosen

    def _admit_only(self, chosen: set[JobId]) -> None:
        for id in sorted(self._admitted - chosen):
            job = self._jobs[id]
            job.admitted = False
            job.key = self._key_now(job)
            self._admitted.remove(id)
            self._outside[id] = job
            self.flips[id] = job
        for id in sorted(chosen - self._admitted):
            self._admit(self._outside.pop(id))

    def _admit(self, job: JobState) -> None:
        job.admitted = True
        self._admitted.add(job.id)
        self.flips[job.id] = job

    def _moving_keys(self) -> list[Key]:
        at = self._at
        return [(p, r + d * (at - since), s, i) for p, r, since, d, s, i in self._moving.values()]

    def _key_now(self, job: JobState) -> Key:
        """The key at the instant of the walk."""
        line = self._moving.get(job.id)
        if line is None:
            assert job.key is not None
            return job.key
        p, r, since, d, s, i = line
        return (p, r + d * (self._at - since), s, i)

    def _line(self, job: JobState, key: Key) -> Line:
        assert self._drift is not None
        return (key[0], key[1], self._state.at, self._drift(job), key[-2], key[-1])

    def _file(self, job: JobState, key: Key) -> None:
        job.key = key
        if job.run is not None and self._drift is not None:
            self._moving[job.id] = self._line(job, key)
        else:
            insort(self._still, key)

    def _unfile(self, job: JobState) -> None:
        if self._moving.pop(job.id, None) is None:
            key = job.key
            assert key is not None
            place = bisect_left(self._still, key)
            assert self._still[place] == key, ("not ranked under this key", key)
            del self._still[place]
