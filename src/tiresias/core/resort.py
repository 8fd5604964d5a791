"""The target of policies whose ranks move with time while a job runs: sorted anew at each instant.

Only jobs that hold slots are ranked anew (a waiting job's rank changes with facts only), and only when
somebody would have to wait: while all demands fit together nobody is ever refused. Also the target of
strict policies, in which the first job that does not fit blocks all behind it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import merge

from tiresias.core.model import JobId
from tiresias.core.state import JobState, Key


class SortedTarget:
    """Same contract as Target; `flips` is complete after `settle`."""

    def __init__(self, capacity: int, rekey: Callable[[JobState, float], Key], *, strict: bool = False):
        self.capacity = capacity
        self.flips: dict[JobId, JobState] = {}
        self._rekey = rekey
        self._strict = strict
        self._total = 0  # GPUs of all ranked jobs
        self._jobs: dict[JobId, JobState] = {}
        self._still: list[Key] = []  # jobs without a run, sorted
        self._moving: dict[JobId, JobState] = {}  # jobs with a run
        self._outside: dict[JobId, JobState] = {}  # ranked but not admitted
        self._admitted: set[JobId] = set()

    def __iter__(self) -> Iterator[JobState]:
        moving = sorted(self._key_of(job) for job in self._moving.values())
        for key in merge(moving, self._still):
            yield self._jobs[JobId(key[3])]

    @property
    def used(self) -> int:
        return sum(self._jobs[id].gpus for id in self._admitted)

    @property
    def refused(self) -> int:
        return len(self._outside)

    def add(self, job: JobState, key: Key) -> None:
        job.key = key
        self._jobs[job.id] = job
        self._total += job.gpus
        self._outside[job.id] = job
        self.flips[job.id] = job
        self._file(job)

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
        self._unfile(job)
        job.key = key
        self._file(job)

    def pin(self, job: JobState) -> None:
        self.capacity -= job.gpus
        self.drop(job)

    def resize(self, capacity: int) -> None:
        self.capacity = capacity

    def settle(self, at: float) -> None:
        """Walk the ranks as they are at this instant."""
        if not self._outside and self._total <= self.capacity:
            return
        if self._total <= self.capacity:
            for job in self._outside.values():
                self._admit(job)
            self._outside.clear()
            return
        if self._moving:
            moving = []
            for job in self._moving.values():
                job.key = self._rekey(job, at)
                moving.append(job.key)
            moving.sort()
            ranked = merge(moving, self._still) if self._still else iter(moving)
        else:
            ranked = iter(self._still)
        self._admit_only(self._walk(ranked))

    def _walk(self, ranked: Iterator[Key]) -> dict[JobId, JobState]:
        room = self.capacity
        chosen: dict[JobId, JobState] = {}
        for key in ranked:
            job = self._jobs[JobId(key[3])]
            if job.gpus <= room:
                room -= job.gpus
                chosen[job.id] = job
                if room == 0:
                    break
            elif self._strict:
                break
        return chosen

    def _admit_only(self, chosen: dict[JobId, JobState]) -> None:
        for id in self._admitted - chosen.keys():
            job = self._jobs[id]
            job.admitted = False
            self._admitted.discard(id)
            self._outside[id] = job
            self.flips[id] = job
        for id, job in chosen.items():
            if not job.admitted:
                self._admit(job)
                del self._outside[id]

    def _admit(self, job: JobState) -> None:
        job.admitted = True
        self._admitted.add(job.id)
        self.flips[job.id] = job

    def _key_of(self, job: JobState) -> Key:
        assert job.key is not None
        return job.key

    def _file(self, job: JobState) -> None:
        if job.run is not None:
            self._moving[job.id] = job
        else:
            insort(self._still, self._key_of(job))

    def _unfile(self, job: JobState) -> None:
        if self._moving.pop(job.id, None) is None:
            key = self._key_of(job)
            place = bisect_left(self._still, key)
            assert self._still[place] == key, ("not ranked under this key", key)
            del self._still[place]
