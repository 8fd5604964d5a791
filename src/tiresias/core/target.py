"""Who should hold GPUs now: the plan's target, kept exact while ranks change one at a time.

The target is what a walk over the ranked jobs admits: each takes its GPUs if they fit into the room left
by those ahead, and is skipped otherwise. Pinned runs are not ranked; their GPUs are off the capacity.
The walk is never repeated from the start. Three facts carry the incremental version:

1. Room never grows along the ranks; a change at rank r leaves everything ahead of r as it was.
2. Behind a change, each job sees its old room shifted by the same `new - old` until the first job whose
   admission flips. With less room only admitted jobs can flip, with more room only refused ones.
3. Where `new == old` behind the last change, nothing further can differ.

Jobs are kept in rank order in chunks. A chunk knows the GPUs of its admitted jobs (`sums`) and a lower
bound on the extra room that would admit any of its refused ones (`needs`), so that a shift passes a whole
chunk in constant time unless something in it really flips (or the bound is out of date, which a pass over
that chunk mends). Moving an admitted job forward, or a refused one back, flips nobody.
"""

from __future__ import annotations

from bisect import bisect_left

from tiresias.core.model import JobId
from tiresias.core.state import JobState, Key

CHUNK = 24  # jobs; a chunk splits at twice this
NEVER = 1 << 60


class Target:
    """The admitted jobs among the ranked ones, for `capacity` GPUs. `flips` gathers whom a change touched."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.used = 0  # GPUs of the admitted jobs
        self.refused = 0  # how many ranked jobs are not admitted
        self.flips: dict[JobId, JobState] = {}
        self._last: list[Key] = []  # by chunk: its last key
        self._keys: list[list[Key]] = []
        self._jobs: list[list[JobState]] = []
        self._sums: list[int] = []
        self._needs: list[int] = []

    def __iter__(self):  # type: ignore[no-untyped-def]
        """The ranked jobs in order."""
        for jobs in self._jobs:
            yield from jobs

    # --- changes ---------------------------------------------------------------------------------------

    def add(self, job: JobState, key: Key) -> None:
        """Rank a job that was not ranked."""
        assert not job.admitted, ("admitted but not ranked", job.id)
        chunk, place = self._insert(job, key)
        gpus = job.gpus
        self.flips[job.id] = job
        if self.used + gpus <= self.capacity:  # fits behind everyone: nobody is displaced
            job.admitted = True
            self._sums[chunk] += gpus
            self.used += gpus
            return
        behind = self.capacity - sum(self._sums[: chunk + 1])  # room at the end of its chunk
        if gpus > behind:
            room = behind + sum([other.gpus for other in self._jobs[chunk][place + 1 :] if other.admitted])
            if gpus > room:
                self.refused += 1
                if gpus - room < self._needs[chunk]:
                    self._needs[chunk] = gpus - room
                return
        job.admitted = True
        self._sums[chunk] += gpus
        self.used += gpus
        if gpus > behind:
            self._walk_from(chunk, place + 1, -gpus)
        else:  # the rest of its chunk still fits
            self._walk(chunk + 1, behind - gpus, behind)

    def drop(self, job: JobState) -> None:
        """Forget a ranked job."""
        assert job.key is not None, ("dropped but not ranked", job.id)
        chunk, place = self._remove(job.key)
        job.key = None
        self.flips.pop(job.id, None)
        if not job.admitted:
            self.refused -= 1
            return
        job.admitted = False
        self._vacate(job, chunk, place)

    def move(self, job: JobState, key: Key) -> None:
        """Give a ranked job a new key."""
        old_key = job.key
        assert old_key is not None, ("moved but not ranked", job.id)
        if key == old_key:
            return
        forward = key < old_key
        if not self.refused or job.admitted is forward:
            self._relocate(job, key)
        elif forward:
            self._remove(old_key)
            self.refused -= 1
            self.add(job, key)
        else:
            self._demote(job, key)

    def pin(self, job: JobState) -> None:
        """An admitted job's run may not be stopped: its GPUs leave the capacity, nobody's room changes."""
        assert job.admitted, ("pinned but not admitted", job.id)
        assert job.key is not None
        chunk, _ = self._remove(job.key)
        job.key = None
        job.admitted = False
        if chunk >= 0:
            self._sums[chunk] -= job.gpus
        self.used -= job.gpus
        self.capacity -= job.gpus
        self.flips.pop(job.id, None)

    def resize(self, capacity: int) -> None:
        """The GPUs to share are now so many."""
        old, self.capacity = self.capacity, capacity
        if (capacity > old and self.refused) or capacity < self.used:
            self._walk(0, capacity, old)

    def settle(self, at: float) -> None:
        """Nothing to do: the target is exact after every change."""

    def trial(self, job: JobState, key: Key, at: float) -> tuple[bool, list[JobState]]:
        """Whether a job that is not ranked would be admitted under this key, and who would not be any more.

        Everything is as before then: the target is a function of who is ranked.
        """
        assert not self.flips, ("a trial in the middle of a plan", list(self.flips))
        self.add(job, key)
        is_admitted = job.admitted
        out = [other for other in self.flips.values() if not other.admitted and other is not job]
        self.drop(job)
        self.flips.clear()
        return is_admitted, out

    # --- the walk --------------------------------------------------------------------------------------

    def _walk(self, chunk: int, new: int, old: int, through: int = -1) -> None:
        """From a chunk on, admit and refuse anew: the room there was `old` and is `new`.

        Up to chunk `through` the walk does not stop early, and that chunk is looked at job by job.
        """
        sums, needs = self._sums, self._needs
        for c in range(chunk, len(sums)):
            shift = new - old
            if c != through:
                if shift == 0:
                    if c > through:
                        return
                    new -= sums[c]
                    old = new
                    continue
                if (needs[c] > shift) if shift > 0 else (sums[c] <= new):
                    needs[c] -= shift
                    new -= sums[c]
                    old = new - shift
                    continue
            new, old = self._walk_chunk(c, self._jobs[c], new, old, NEVER, c <= through)

    def _walk_from(self, chunk: int, place: int, shift: int, through: int = -1) -> None:
        """The same from inside a chunk on, where the room is now `shift` more than it was."""
        room = self.capacity - sum(self._sums[:chunk])
        jobs = self._jobs[chunk]
        need = NEVER
        for job in jobs[:place]:
            if job.admitted:
                room -= job.gpus
            elif job.gpus - room < need:
                need = job.gpus - room
        new, old = self._walk_chunk(chunk, jobs[place:], room, room - shift, need, chunk <= through)
        if new != old or chunk < through:
            self._walk(chunk + 1, new, old, through)

    def _walk_chunk(
        self, chunk: int, jobs: list[JobState], new: int, old: int, need: int, to_the_end: bool
    ) -> tuple[int, int]:
        """The rooms behind these last jobs of a chunk; each is looked at until the two rooms agree."""
        total = 0
        for job in jobs:
            gpus = job.gpus
            if job.admitted:
                old -= gpus
                if gpus <= new:
                    new -= gpus
                    continue
                job.admitted = False
                self.refused += 1
                total -= gpus
                if gpus - new < need:
                    need = gpus - new
            elif gpus <= new:
                new -= gpus
                job.admitted = True
                self.refused -= 1
                total += gpus
            else:
                if gpus - new < need:
                    need = gpus - new
                continue
            self.flips[job.id] = job
            if new == old and not to_the_end:
                need = min(need, self._needs[chunk])  # still a bound for those not looked at
                break
        self._needs[chunk] = need
        self._sums[chunk] += total
        self.used += total
        return new, old

    def _vacate(self, job: JobState, chunk: int, place: int) -> None:
        """An admitted job has left this place: those behind have its GPUs to share."""
        gpus = job.gpus
        self.used -= gpus
        if chunk < 0:  # it was alone in its chunk, which is gone: -1 - the chunk now in its place
            chunk, place = -1 - chunk, 0
        else:
            self._sums[chunk] -= gpus
        if not self.refused:
            return
        needs = self._needs
        if place:
            if needs[chunk] <= gpus:
                self._walk_from(chunk, place, gpus)
                return
            needs[chunk] -= gpus
            chunk += 1
        for c in range(chunk, len(needs)):
            if needs[c] <= gpus:
                room = self.capacity - sum(self._sums[:c])
                self._walk(c, room, room - gpus)
                return
            needs[c] -= gpus

    def _demote(self, job: JobState, key: Key) -> None:
        """An admitted job moves back: those in between see its GPUs, then it takes what is left."""
        gpus = job.gpus
        old_key = job.key
        assert old_key is not None
        chunk, place = self._remove(old_key)
        if chunk < 0:
            chunk, place = -1 - chunk, 0
        else:
            self._sums[chunk] -= gpus
        self.used -= gpus
        job.admitted = False
        chunks = len(self._sums)
        to_chunk, _ = self._insert(job, key)
        if len(self._sums) != chunks or to_chunk < chunk:  # chunks have moved: look for the place it left
            chunk = bisect_left(self._last, old_key)
            place = bisect_left(self._keys[chunk], old_key)
        needs = self._needs
        if min(needs[chunk : to_chunk + 1]) > gpus:  # nobody in between can use what it leaves: it fits again
            for c in range(chunk, to_chunk + 1):
                needs[c] -= gpus
            job.admitted = True
            self._sums[to_chunk] += gpus
            self.used += gpus
            return
        self.refused += 1
        self.flips[job.id] = job
        self._walk_from(chunk, place, gpus, through=to_chunk)

    # --- chunks ----------------------------------------------------------------------------------------

    def _insert(self, job: JobState, key: Key) -> tuple[int, int]:
        """Put the job in its place; (chunk, place). The chunk's sums and needs are the caller's."""
        job.key = key
        last = self._last
        if not last:
            last.append(key)
            self._keys.append([key])
            self._jobs.append([job])
            self._sums.append(0)
            self._needs.append(NEVER)
            return 0, 0
        chunk = bisect_left(last, key)
        if chunk == len(last):
            chunk -= 1
            last[chunk] = key
        keys = self._keys[chunk]
        place = bisect_left(keys, key)
        keys.insert(place, key)
        self._jobs[chunk].insert(place, job)
        if len(keys) <= 2 * CHUNK:
            return chunk, place
        self._split(chunk)
        return (chunk, place) if place < CHUNK else (chunk + 1, place - CHUNK)

    def _split(self, chunk: int) -> None:
        keys, jobs = self._keys[chunk], self._jobs[chunk]
        self._keys.insert(chunk + 1, keys[CHUNK:])
        self._jobs.insert(chunk + 1, jobs[CHUNK:])
        del keys[CHUNK:], jobs[CHUNK:]
        self._last.insert(chunk, keys[-1])
        behind = sum(job.gpus for job in self._jobs[chunk + 1] if job.admitted)
        self._sums[chunk] -= behind
        self._sums.insert(chunk + 1, behind)
        self._needs.insert(chunk + 1, self._needs[chunk])  # still a bound for either half

    def _remove(self, key: Key) -> tuple[int, int]:
        """Take out what has this key; (chunk, place), or -1 - chunk where that chunk went with it."""
        chunk = bisect_left(self._last, key)
        keys = self._keys[chunk]
        place = bisect_left(keys, key)
        assert keys[place] == key, ("not ranked under this key", key)
        if len(keys) == 1:
            for column in (self._last, self._keys, self._jobs, self._sums, self._needs):
                del column[chunk]
            return -1 - chunk, 0
        del keys[place], self._jobs[chunk][place]
        if place == len(keys):
            self._last[chunk] = keys[-1]
        return chunk, place

    def _relocate(self, job: JobState, key: Key) -> None:
        """Move a job where that flips nobody."""
        assert job.key is not None
        chunk, _ = self._remove(job.key)
        if job.admitted and chunk >= 0:
            self._sums[chunk] -= job.gpus
        admitted, job.admitted = job.admitted, False  # not yet in any chunk's sum, should one split
        to_chunk, _ = self._insert(job, key)
        job.admitted = admitted
        if admitted:
            self._sums[to_chunk] += job.gpus
        else:
            self._needs[to_chunk] = min(self._needs[to_chunk], 1)
