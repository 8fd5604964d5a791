"""The target of policies whose ranks move with time while a job runs: sorted anew at each instant.

Only jobs that hold slots are ranked anew (a waiting job's rank changes with facts only), and only when
somebody would have to wait: while all demands fit together nobody is ever refused. Also the target of
strict policies, in which the first job that does not fit blocks all behind it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

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
            self._jobs[JobId(key[3])].key = key
        for key in sorted([*keys, *self._still]):
            yield self._jobs[JobId(key[3])]

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
        keys = self._moving_keys()
        if keys:
            keys.sort()
            lines = self._moving
            self._moving = {key[3]: lines[key[3]] for key in keys}  # type: ignore[index,misc]
            ahead = bisect_left(self._still, keys[-1])
            ranked = keys
            if ahead:
                ranked = [*keys, *self._still[:ahead]]
                ranked.sort()
            self._admit_only(self._walk(ranked, self._still, ahead))
        else:
            self._admit_only(self._walk((), self._still, 0))

    def _walk(self, ranked: Iterable[Key], rest: list[Key], start: int) -> dict[JobId, JobState]:
        """Whom the room admits, first from `ranked`, then from `rest[start:]`."""
        room = self.capacity
        jobs = self._jobs
        chosen: dict[JobId, JobState] = {}
        for key in chain(ranked, islice(rest, start, None)):
            job = jobs[key[3]]  # type: ignore[index]
            if job.gpus <= room:
                room -= job.gpus
                chosen[job.id] = job
                if room == 0:
                    break
            elif self._strict:
                break
        return chosen

    def _admit_only(self, chosen: dict[JobId, JobState]) -> None:
        gone = self._admitted - chosen.keys()
        if gone:
            for id in sorted(gone):
                job = self._jobs[id]
                job.admitted = False
                job.key = self._key_now(job)
                self._outside[id] = job
                self.flips[id] = job
            self._admitted -= gone
        for id in chosen.keys() - self._admitted:
            self._admit(self._outside.pop(id))

    def _admit(self, job: JobState) -> None:
        job.admitted = True
        self._admitted.add(job.id)
        self.flips[job.id] = job

    def _moving_keys(self) -> list[Key]:
        at = self._at
        return [(p, (r + d * (at - since),), s, i) for p, r, since, d, s, i in self._moving.values()]

    def _key_now(self, job: JobState) -> Key:
        """The key at the instant of the walk."""
        line = self._moving.get(job.id)
        if line is None:
            assert job.key is not None
            return job.key
        p, r, since, d, s, i = line
        return (p, (r + d * (self._at - since),), s, i)

    def _line(self, job: JobState, key: Key) -> Line:
        assert self._drift is not None
        return (key[0], key[1][0], self._state.at, self._drift(job), key[2], key[3])

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
